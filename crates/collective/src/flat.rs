//! Collectives by messages among ranks that are all alike: each call's choice by length and number
//! of ranks ([`MessageThresholds`]; the table is in the head of the crate), and the binding of this
//! rank's buffers to the algorithm's description (`mica_algorithms`).

use mica_algorithms::{
    self as algorithms, BlockLengths, Halves, OwnData, ReduceBuffers,
    reduce_scatter::ScatteredBlocks,
};
use mica_memory::View;

use super::absent::temporary;
use super::bind::{
    BlockMemory, BoundBlocks, PackedBytes, ScheduleBinder, VectorMemory, WholeMessage, bind,
    own_data,
};
use super::place::{Blocks, Elements, RankPlace, bytes_at};
use super::reduction::{Reduction, ScanKind};
use super::schedule::Schedule;
use super::thresholds::MessageThresholds;
use mica_objects::error::Result;

/// The schedule of a barrier.
pub fn barrier(me: RankPlace) -> Schedule {
    let schedule =
        bind(WholeMessage(View::empty()), |out| algorithms::barrier::dissemination(me, out));
    schedule.expect("no memory is bound")
}

/// The schedule of a broadcast of `message` from `root`.
pub fn bcast(
    me: RankPlace,
    thresholds: &MessageThresholds,
    message: View,
    root: usize,
) -> Result<Schedule> {
    let bytes = message.len();
    if me.size == 1 || message.is_empty() {
        Ok(Schedule::new())
    } else if bytes < thresholds.bcast_scatter || me.size == 2 {
        bind(WholeMessage(message), |out| algorithms::bcast::binomial(me, root, bytes, out))
    } else {
        bcast_scatter_ring(me, message, root)
    }
}

/// The pieces are ranges of packed bytes; data with gaps is packed once and unpacked once.
fn bcast_scatter_ring(me: RankPlace, message: View, root: usize) -> Result<Schedule> {
    let bytes = message.len();
    let describe = |out: &mut ScheduleBinder<PackedBytes>| {
        algorithms::bcast::scatter_ring(me, root, bytes, out)
    };
    if let Some((address, _)) = message.as_contiguous() {
        let shift = address.wrapping_sub(message.region().address()) as isize;
        return bind(PackedBytes(message.region().offset(shift)), describe);
    }
    let staging = temporary(bytes);
    let packed = bytes_at(&staging, 0, bytes);
    bind(PackedBytes(staging), |out| {
        if me.rank == root {
            out.schedule.round().copy(message, packed);
            describe(out);
        } else {
            describe(out);
            out.schedule.last().copy(packed, message);
        }
    })
}

/// The schedule of a gather. `send` is absent in place (at the root), `receive` away from the root.
pub fn gather(
    me: RankPlace,
    thresholds: &MessageThresholds,
    send: Option<View>,
    receive: Option<&Blocks>,
    root: usize,
) -> Result<Schedule> {
    let block = block_bytes(send.as_ref(), receive)?;
    if block == 0 {
        return Ok(Schedule::new());
    }
    if block >= thresholds.gather_linear || me.size <= 2 {
        let blocks = receive.map(|b| b.each(me.size)).transpose()?;
        return Ok(gather_linear(me, send, blocks, root));
    }
    let own = own_data(send.as_ref());
    let all = receive.map_or(BoundBlocks::Absent, BoundBlocks::Even);
    let memory = BlockMemory::new(BoundBlocks::own(send), all, block);
    bind(memory, |out| algorithms::gather::gather_binomial(me, root, own, out))
}

/// The schedule of a gather in which the root receives from each rank into `blocks` (including its
/// own; v-forms too).
pub fn gather_linear(
    me: RankPlace,
    send: Option<View>,
    blocks: Option<Vec<View>>,
    root: usize,
) -> Schedule {
    let blocks = blocks.unwrap_or_default();
    let (own, length) = linear(me, root, &send, &blocks);
    let memory = BlockMemory::new(BoundBlocks::own(send), BoundBlocks::Each(&blocks), 0);
    memory.bind_each(|out| {
        algorithms::gather::gather_linear(me, root, own, BlockLengths::Each(&length), out);
    })
}

/// The schedule of a scatter. `receive` is absent in place (at the root), `send` away from the
/// root.
pub fn scatter(
    me: RankPlace,
    thresholds: &MessageThresholds,
    send: Option<&Blocks>,
    receive: Option<View>,
    root: usize,
) -> Result<Schedule> {
    let block = block_bytes(receive.as_ref(), send)?;
    if block == 0 {
        return Ok(Schedule::new());
    }
    if block >= thresholds.gather_linear || me.size <= 2 {
        let blocks = send.map(|b| b.each(me.size)).transpose()?;
        return Ok(scatter_linear(me, blocks, receive, root));
    }
    let own = own_data(receive.as_ref());
    let all = send.map_or(BoundBlocks::Absent, BoundBlocks::Even);
    let memory = BlockMemory::new(all, BoundBlocks::own(receive), block);
    bind(memory, |out| algorithms::gather::scatter_binomial(me, root, own, out))
}

/// The schedule of a scatter in which the root sends to each rank from `blocks` (including its own;
/// v-forms too).
pub fn scatter_linear(
    me: RankPlace,
    blocks: Option<Vec<View>>,
    receive: Option<View>,
    root: usize,
) -> Schedule {
    let blocks = blocks.unwrap_or_default();
    let (own, length) = linear(me, root, &receive, &blocks);
    let memory = BlockMemory::new(BoundBlocks::Each(&blocks), BoundBlocks::own(receive), 0);
    memory.bind_each(|out| {
        algorithms::gather::scatter_linear(me, root, own, BlockLengths::Each(&length), out);
    })
}

/// Where a rank's own block is, and the lengths that it knows: at the root those of all blocks,
/// elsewhere that of its own.
fn linear<'a>(
    me: RankPlace,
    root: usize,
    own: &Option<View>,
    blocks: &'a [View],
) -> (OwnData, impl Fn(usize) -> usize + 'a) {
    let bytes = own.as_ref().map_or(0, View::len);
    let length = move |rank: usize| match me.rank == root {
        true => blocks.get(rank).map_or(0, View::len),
        false => bytes,
    };
    (own_data(own.as_ref().filter(|_| me.rank != root || !blocks.is_empty())), length)
}

/// Bytes of one rank's block: the same whether a rank sees it as its own message or as one of the
/// root's blocks.
pub(super) fn block_bytes(own: Option<&View>, blocks: Option<&Blocks>) -> Result<usize> {
    match (own, blocks) {
        (_, Some(blocks)) => Ok(blocks.view(0, 1)?.len()),
        (Some(own), None) => Ok(own.len()),
        (None, None) => Ok(0),
    }
}

/// The schedule of an allgather into `receive`. In place, `send` is absent and each rank's block is
/// already there.
pub fn allgather(
    me: RankPlace,
    thresholds: &MessageThresholds,
    send: Option<View>,
    receive: &Blocks,
) -> Result<Schedule> {
    let block = receive.view(0, 1)?.len();
    if block == 0 {
        return Ok(Schedule::new());
    }
    if block.saturating_mul(me.size) >= thresholds.allgather_ring {
        return Ok(allgather_ring(me, send, &receive.each(me.size)?));
    }
    let own = own_data(send.as_ref());
    let memory = BlockMemory::new(BoundBlocks::own(send), BoundBlocks::Even(receive), block);
    bind(memory, |out| match me.size.is_power_of_two() {
        true => algorithms::allgather::recursive_doubling(me, own, out),
        false => algorithms::allgather::bruck(me, own, out),
    })
}

/// The schedule of an allgather around a ring, with a block of any length for each rank.
pub fn allgather_ring(me: RankPlace, send: Option<View>, blocks: &[View]) -> Schedule {
    let own = own_data(send.as_ref());
    let memory = BlockMemory::new(BoundBlocks::own(send), BoundBlocks::Each(blocks), 0);
    memory.bind_each(|out| {
        algorithms::allgather::ring(me, own, BlockLengths::Each(&|rank| blocks[rank].len()), out);
    })
}

/// The schedule of an all-to-all. In place, `send` is absent and `receive` holds what is sent.
pub fn alltoall(
    me: RankPlace,
    thresholds: &MessageThresholds,
    send: Option<&Blocks>,
    receive: &Blocks,
) -> Result<Schedule> {
    let block = receive.view(0, 1)?.len();
    let Some(send) = send else {
        return Ok(alltoall_swap(me, &receive.each(me.size)?));
    };
    if block == 0 {
        Ok(Schedule::new())
    } else if thresholds.bruck(me.size, block) {
        let (send, receive) = (BoundBlocks::Even(send), BoundBlocks::Even(receive));
        bind(BlockMemory::new(send, receive, block), |out| algorithms::alltoall::bruck(me, out))
    } else {
        Ok(alltoall_exchange(me, thresholds, &send.each(me.size)?, &receive.each(me.size)?))
    }
}

/// The schedule of a direct exchange: `send[i]` goes to rank `i`, `receive[i]` comes from it.
/// Blocks may differ in length.
pub fn alltoall_exchange(
    me: RankPlace,
    thresholds: &MessageThresholds,
    send: &[View],
    receive: &[View],
) -> Schedule {
    let (sent, received) = (|rank: usize| send[rank].len(), |rank: usize| receive[rank].len());
    let (sent, received) = (BlockLengths::Each(&sent), BlockLengths::Each(&received));
    let memory = BlockMemory::new(BoundBlocks::Each(send), BoundBlocks::Each(receive), 0);
    memory.bind_each(|out| {
        algorithms::alltoall::exchange(me, thresholds.alltoall_window, sent, received, out);
    })
}

/// The schedule of an exchange in place: `blocks[i]` is sent to rank `i` and replaced by what comes
/// from there.
pub fn alltoall_swap(me: RankPlace, blocks: &[View]) -> Schedule {
    // Units of the temporary memory are bytes.
    let memory = BlockMemory::new(BoundBlocks::Absent, BoundBlocks::Each(blocks), 1);
    memory.bind_each(|out| algorithms::alltoall::swap(me, |rank| blocks[rank].len(), out))
}

/// The schedule of a reduce. `send` is absent in place (at the root), `receive` away from the root.
pub fn reduce(
    me: RankPlace,
    thresholds: &MessageThresholds,
    reduction: &Reduction,
    send: Option<&Elements>,
    receive: Option<&Elements>,
    root: usize,
) -> Result<Schedule> {
    if reduction.count == 0 {
        return Ok(Schedule::new());
    }
    let halves =
        reduction.bytes() >= thresholds.reduce_split && reduction.count >= me.size && me.size > 2;
    let operands = ReduceBuffers { own: own_data(send), has_output: receive.is_some() };
    bind(VectorMemory::new(reduction, send, receive), |out| match halves {
        true => algorithms::reduce::halving(me, root, reduction.shape(), operands, out),
        false => algorithms::reduce::binomial(me, root, reduction.shape(), operands, out),
    })
}

/// The schedule of an allreduce. In place, `send` is absent and `receive` holds the operand.
pub fn allreduce(
    me: RankPlace,
    thresholds: &MessageThresholds,
    reduction: &Reduction,
    send: Option<&Elements>,
    receive: &Elements,
) -> Result<Schedule> {
    if reduction.count == 0 {
        return Ok(Schedule::new());
    }
    let halves = reduction.bytes() >= thresholds.reduce_split
        && reduction.count >= Halves::of(me.size, None).active
        && me.size > 2;
    bind(VectorMemory::new(reduction, send, Some(receive)), |out| match halves {
        true => algorithms::allreduce::halving(me, reduction.shape(), own_data(send), out),
        false => algorithms::allreduce::doubling(me, reduction.shape(), own_data(send), out),
    })
}

/// The schedule of a reduce-scatter: rank `i` gets the `counts[i]` elements after those of the
/// ranks before it. In place, `send` is absent, `receive` holds the whole operand and gets the
/// block at its start.
pub fn reduce_scatter(
    me: RankPlace,
    thresholds: &MessageThresholds,
    reduction: &Reduction,
    counts: &[usize],
    send: Option<&Elements>,
    receive: &Elements,
) -> Result<Schedule> {
    if reduction.count == 0 {
        return Ok(Schedule::new());
    }
    let mut first = vec![0];
    for count in counts {
        first.push(first[first.len() - 1] + count);
    }
    let blocks = ScatteredBlocks { first: &|rank| first[rank], own: own_data(send) };
    let commutes = reduction.op.is_commutative();
    let is_long = reduction.bytes() >= thresholds.reduce_scatter_pairwise;
    bind(VectorMemory::new(reduction, send, Some(receive)), |out| match (commutes, is_long) {
        (false, _) => algorithms::reduce_scatter::in_order(me, blocks, out),
        (true, true) => algorithms::reduce_scatter::pairwise(me, blocks, out),
        (true, false) => algorithms::reduce_scatter::halving(me, blocks, out),
    })
}

/// The schedule of a scan. In place, `send` is absent and `receive` holds the operand.
pub fn scan(
    me: RankPlace,
    kind: ScanKind,
    reduction: &Reduction,
    send: Option<&Elements>,
    receive: &Elements,
) -> Result<Schedule> {
    if reduction.count == 0 {
        return Ok(Schedule::new());
    }
    bind(VectorMemory::new(reduction, send, Some(receive)), |out| {
        algorithms::scan::doubling(me, kind, reduction.shape(), own_data(send), out);
    })
}
