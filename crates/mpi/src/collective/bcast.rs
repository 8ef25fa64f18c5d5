//! Broadcast: a binomial tree for short messages; for long ones the root's data is scattered over a
//! binomial tree and collected again around a ring (van de Geijn), so that every rank sends about
//! as much as the root.

use mica_memory::{Region, View};

use super::place::{BinomialTree, RankPlace, bytes_at};
use super::schedule::Schedule;
use super::thresholds::MessageThresholds;
use crate::collective::absent::temporary;
use crate::error::Result;

/// The schedule of a broadcast of `message` from `root`.
pub fn build(
    me: RankPlace,
    thresholds: &MessageThresholds,
    message: View,
    root: usize,
) -> Result<Schedule> {
    if me.size == 1 || message.is_empty() {
        Ok(Schedule::new())
    } else if message.len() < thresholds.bcast_scatter || me.size == 2 {
        Ok(binomial(me, message, root))
    } else {
        scatter_ring(me, message, root)
    }
}

fn binomial(me: RankPlace, message: View, root: usize) -> Schedule {
    let actual = |v: usize| (v + root) % me.size;
    let tree = BinomialTree::binomial(me.relative(root), me.size);
    let mut schedule = Schedule::new();
    if let Some(parent) = tree.parent {
        schedule.round().receive(actual(parent), message.clone());
    }
    let round = schedule.round();
    for (child, _) in tree.children {
        round.send(actual(child), message.clone());
    }
    schedule
}

fn scatter_ring(me: RankPlace, message: View, root: usize) -> Result<Schedule> {
    let mut schedule = Schedule::new();
    // The pieces are ranges of packed bytes; data with gaps is packed once and unpacked once.
    match message.as_contiguous() {
        Some((address, _)) => {
            let shift = address.wrapping_sub(message.region().address()) as isize;
            pieces(me, &mut schedule, &message.region().offset(shift), message.len(), root);
        }
        None => {
            let staging = temporary(message.len());
            let packed = bytes_at(&staging, 0, message.len());
            if me.rank == root {
                schedule.round().copy(message.clone(), packed);
                pieces(me, &mut schedule, &staging, message.len(), root);
            } else {
                pieces(me, &mut schedule, &staging, message.len(), root);
                schedule.last().copy(packed, message);
            }
        }
    }
    Ok(schedule)
}

fn pieces(me: RankPlace, schedule: &mut Schedule, data: &Region, bytes: usize, root: usize) {
    let (v, size) = (me.relative(root), me.size);
    let actual = |v: usize| (v + root) % size;
    let piece = bytes.div_ceil(size);
    let range = |first: usize, n: usize| {
        let start = (first * piece).min(bytes);
        bytes_at(data, start, ((first + n) * piece).min(bytes) - start)
    };

    let tree = BinomialTree::binomial(v, size);
    if let Some(parent) = tree.parent {
        let part = range(v, tree.span);
        if !part.is_empty() {
            schedule.round().receive(actual(parent), part);
        }
    }
    let round = schedule.round();
    for &(child, span) in &tree.children {
        let part = range(child, span);
        if !part.is_empty() {
            round.send(actual(child), part);
        }
    }

    // Around the ring, except for the pieces that the tree already brought.
    let next = (v + 1) % size;
    let next_span = BinomialTree::binomial(next, size).span;
    let holds = |v: usize, span: usize, i: usize| i >= v && i < v + span;
    for step in 0..size - 1 {
        let round = schedule.round();
        let (incoming, outgoing) = ((v + 2 * size - step - 1) % size, (v + size - step) % size);
        let part = range(incoming, 1);
        if !holds(v, tree.span, incoming) && !part.is_empty() {
            round.receive(me.before(1), part);
        }
        let part = range(outgoing, 1);
        if !holds(next, next_span, outgoing) && !part.is_empty() {
            round.send(me.after(1), part);
        }
    }
}
