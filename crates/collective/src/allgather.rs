//! Allgather by messages: short ones by recursive doubling (a power of two of ranks) or Bruck's
//! algorithm (any number), long ones and the v-form around a ring.

use mica_algorithms::{BlockLengths, allgather as described};
use mica_memory::View;

use super::bind::{BlockMemory, BoundBlocks, bind, own_data};
use super::place::{Blocks, RankPlace};
use super::schedule::Schedule;
use super::thresholds::MessageThresholds;
use mica_objects::error::Result;

/// The schedule of an allgather into `receive`. In place, `send` is absent and each rank's block is
/// already there.
pub fn build(
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
        return Ok(ring(me, send, &receive.each(me.size)?));
    }
    let own = own_data(send.as_ref());
    let memory = BlockMemory::new(BoundBlocks::own(send), BoundBlocks::Even(receive), block);
    bind(memory, |out| match me.size.is_power_of_two() {
        true => described::recursive_doubling(me, own, out),
        false => described::bruck(me, own, out),
    })
}

/// The schedule of an allgather around a ring, with a block of any length for each rank.
pub fn ring(me: RankPlace, send: Option<View>, blocks: &[View]) -> Schedule {
    let own = own_data(send.as_ref());
    let memory = BlockMemory::new(BoundBlocks::own(send), BoundBlocks::Each(blocks), 0);
    memory.bind_each(|out| {
        described::ring(me, own, BlockLengths::Each(&|rank| blocks[rank].len()), out);
    })
}
