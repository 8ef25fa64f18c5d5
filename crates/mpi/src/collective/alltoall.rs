//! All-to-all: Bruck's algorithm for many ranks with short blocks, otherwise a direct exchange with
//! a window of peers at a time (a window of one is the pairwise exchange). In place, pairs of ranks
//! swap through a temporary block.

use mica_memory::View;

use super::place::{Blocks, Packed, RankPlace};
use super::schedule::Schedule;
use super::thresholds::MessageThresholds;
use crate::error::Result;

/// The schedule of an all-to-all. In place, `send` is absent and `receive` holds what is sent.
pub fn build(
    me: RankPlace,
    thresholds: &MessageThresholds,
    send: Option<&Blocks>,
    receive: &Blocks,
) -> Result<Schedule> {
    let block = receive.view(0, 1)?.len();
    let Some(send) = send else {
        return swap(me, &receive.each(me.size)?);
    };
    if block == 0 {
        Ok(Schedule::new())
    } else if thresholds.bruck(me.size, block) {
        bruck(me, send, receive, block)
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
    let mut schedule = Schedule::new();
    schedule.round().copy(send[me.rank].clone(), receive[me.rank].clone());
    let window = thresholds.alltoall_window.max(1);
    for distance in 1..me.size {
        let round = if (distance - 1) % window == 0 && distance > 1 {
            schedule.round()
        } else {
            schedule.last()
        };
        let (to, from) = (me.after(distance), me.before(distance));
        if !receive[from].is_empty() {
            round.receive(from, receive[from].clone());
        }
        if !send[to].is_empty() {
            round.send(to, send[to].clone());
        }
    }
    schedule
}

/// The schedule of an exchange in place: `blocks[i]` is sent to rank `i` and replaced by what comes
/// from there. In round `r`, partners are ranks that add up to `r` modulo the number of ranks, so
/// each pair exchanges once.
pub fn swap(me: RankPlace, blocks: &[View]) -> Result<Schedule> {
    let mut schedule = Schedule::new();
    let longest = blocks.iter().map(View::len).max().unwrap_or(0);
    if longest == 0 {
        return Ok(schedule);
    }
    let staging = Packed::temporary(longest, 1);
    for round in 0..me.size {
        let partner = (round + me.size - me.rank) % me.size;
        let block = &blocks[partner];
        if partner == me.rank || block.is_empty() {
            continue;
        }
        let incoming = staging.view(0, block.len());
        schedule
            .round()
            .receive(partner, incoming.clone())
            .send(partner, block.clone())
            .copy(incoming, block.clone());
    }
    Ok(schedule)
}

/// Block `i` of the staging memory is on its way to the `i`th rank after the one where it started.
/// In round `k`, all blocks whose `i` has bit `k` set move on by `2^k` ranks, so each arrives when
/// all bits of its distance are processed.
fn bruck(me: RankPlace, send: &Blocks, receive: &Blocks, block: usize) -> Result<Schedule> {
    let moving = Packed::temporary(me.size, block);
    let outgoing = Packed::temporary(me.size, block);
    let incoming = Packed::temporary(me.size, block);
    let mut schedule = Schedule::new();
    let before_wrap = me.size - me.rank;
    let start = schedule.round();
    start.copy(send.view(me.rank, before_wrap)?, moving.view(0, before_wrap));
    if me.rank > 0 {
        start.copy(send.view(0, me.rank)?, moving.view(before_wrap, me.rank));
    }
    let mut distance = 1;
    while distance < me.size {
        let travelling: Vec<usize> = (0..me.size).filter(|i| i & distance != 0).collect();
        for (slot, &i) in travelling.iter().enumerate() {
            schedule.last().copy(moving.view(i, 1), outgoing.view(slot, 1));
        }
        let round = schedule.round();
        round
            .receive(me.before(distance), incoming.view(0, travelling.len()))
            .send(me.after(distance), outgoing.view(0, travelling.len()));
        for (slot, &i) in travelling.iter().enumerate() {
            round.copy(incoming.view(slot, 1), moving.view(i, 1));
        }
        distance *= 2;
    }
    // What is now at distance `i` started at the `i`th rank before this one.
    for i in 0..me.size {
        schedule.last().copy(moving.view(i, 1), receive.view(me.before(i), 1)?);
    }
    Ok(schedule)
}
