//! Gather and scatter by messages: binomial trees for short blocks, direct exchange with the root
//! for long ones and for the v-forms, where only the root knows the sizes.

use mica_algorithms::{BlockLengths, OwnData, gather as described};
use mica_memory::View;

use super::bind::{BlockMemory, BoundBlocks, bind, own_data};
use super::place::{Blocks, RankPlace};
use super::schedule::Schedule;
use super::thresholds::MessageThresholds;
use mica_objects::error::Result;

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
    bind(memory, |out| described::gather_binomial(me, root, own, out))
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
        described::gather_linear(me, root, own, BlockLengths::Each(&length), out);
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
    bind(memory, |out| described::scatter_binomial(me, root, own, out))
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
        described::scatter_linear(me, root, own, BlockLengths::Each(&length), out);
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
