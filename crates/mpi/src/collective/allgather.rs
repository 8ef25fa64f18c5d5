//! Allgather: short ones by recursive doubling (a power of two of ranks) or Bruck's algorithm (any
//! number), long ones and the v-form around a ring.

use mica_memory::View;

use super::place::{Blocks, Packed, RankPlace};
use super::schedule::Schedule;
use super::thresholds::MessageThresholds;
use crate::error::Result;

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
        Ok(Schedule::new())
    } else if block.saturating_mul(me.size) >= thresholds.allgather_ring {
        Ok(ring(me, send, &receive.each(me.size)?))
    } else if me.size.is_power_of_two() {
        recursive_doubling(me, send, receive)
    } else {
        bruck(me, send, receive, block)
    }
}

/// The schedule of an allgather around a ring, with a block of any length for each rank: each rank
/// passes on what it received last.
pub fn ring(me: RankPlace, send: Option<View>, blocks: &[View]) -> Schedule {
    let mut schedule = Schedule::new();
    if let Some(own) = send {
        schedule.round().copy(own, blocks[me.rank].clone());
    }
    for step in 0..me.size - 1 {
        let round = schedule.round();
        let (incoming, outgoing) = (&blocks[me.before(step + 1)], &blocks[me.before(step)]);
        if !incoming.is_empty() {
            round.receive(me.before(1), incoming.clone());
        }
        if !outgoing.is_empty() {
            round.send(me.after(1), outgoing.clone());
        }
    }
    schedule
}

fn recursive_doubling(me: RankPlace, send: Option<View>, receive: &Blocks) -> Result<Schedule> {
    let mut schedule = Schedule::new();
    if let Some(own) = send {
        schedule.round().copy(own, receive.view(me.rank, 1)?);
    }
    let mut have = 1;
    while have < me.size {
        let partner = me.rank ^ have;
        let first = |rank: usize| rank & !(have - 1);
        schedule
            .round()
            .receive(partner, receive.view(first(partner), have)?)
            .send(partner, receive.view(first(me.rank), have)?);
        have *= 2;
    }
    Ok(schedule)
}

/// Block `i` of the staging memory is that of the `i`th rank after this one; its known prefix
/// doubles in each round.
fn bruck(me: RankPlace, send: Option<View>, receive: &Blocks, block: usize) -> Result<Schedule> {
    let staging = Packed::temporary(me.size, block);
    let mut schedule = Schedule::new();
    let own = send.map_or_else(|| receive.view(me.rank, 1), Ok)?;
    schedule.round().copy(own, staging.view(0, 1));
    let mut have = 1;
    while have < me.size {
        let n = have.min(me.size - have);
        schedule
            .round()
            .receive(me.after(have), staging.view(have, n))
            .send(me.before(have), staging.view(0, n));
        have *= 2;
    }
    let before_wrap = me.size - me.rank;
    let last = schedule.last();
    last.copy(staging.view(0, before_wrap), receive.view(me.rank, before_wrap)?);
    if me.rank > 0 {
        last.copy(staging.view(before_wrap, me.rank), receive.view(0, me.rank)?);
    }
    Ok(schedule)
}
