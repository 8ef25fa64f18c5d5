//! All-to-all by messages: Bruck's algorithm for many ranks with short blocks, otherwise a direct
//! exchange with a window of peers at a time. In place, pairs of ranks swap.

use mica_algorithms::{BlockLengths, alltoall as described};
use mica_memory::View;

use super::bind::{BlockMemory, BoundBlocks, bind};
use super::place::{Blocks, RankPlace};
use super::schedule::Schedule;
use super::thresholds::MessageThresholds;
use mica_objects::error::Result;

/// The schedule of an all-to-all. In place, `send` is absent and `receive` holds what is sent.
pub fn build(
    me: RankPlace,
    thresholds: &MessageThresholds,
    send: Option<&Blocks>,
    receive: &Blocks,
) -> Result<Schedule> {
    let block = receive.view(0, 1)?.len();
    let Some(send) = send else {
        return Ok(swap(me, &receive.each(me.size)?));
    };
    if block == 0 {
        Ok(Schedule::new())
    } else if thresholds.bruck(me.size, block) {
        let (send, receive) = (BoundBlocks::Even(send), BoundBlocks::Even(receive));
        bind(BlockMemory::new(send, receive, block), |out| described::bruck(me, out))
    } else {
        Ok(exchange(me, thresholds, &send.each(me.size)?, &receive.each(me.size)?))
    }
}

/// The schedule of a direct exchange: `send[i]` goes to rank `i`, `receive[i]` comes from it.
/// Blocks may differ in length.
pub fn exchange(
    me: RankPlace,
    thresholds: &MessageThresholds,
    send: &[View],
    receive: &[View],
) -> Schedule {
    let (sent, received) = (|rank: usize| send[rank].len(), |rank: usize| receive[rank].len());
    let (sent, received) = (BlockLengths::Each(&sent), BlockLengths::Each(&received));
    let memory = BlockMemory::new(BoundBlocks::Each(send), BoundBlocks::Each(receive), 0);
    memory.bind_each(|out| {
        described::exchange(me, thresholds.alltoall_window, sent, received, out);
    })
}

/// The schedule of an exchange in place: `blocks[i]` is sent to rank `i` and replaced by what comes
/// from there.
pub fn swap(me: RankPlace, blocks: &[View]) -> Schedule {
    // Units of the temporary memory are bytes.
    let memory = BlockMemory::new(BoundBlocks::Absent, BoundBlocks::Each(blocks), 1);
    memory.bind_each(|out| described::swap(me, |rank| blocks[rank].len(), out))
}
