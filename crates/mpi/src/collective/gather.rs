//! Gather and scatter: binomial trees for short blocks (an inner node handles its whole subtree as
//! one message), direct exchange with the root for long ones and for the v-forms, where only the
//! root knows the sizes.

use mica_memory::View;

use super::place::{BinomialTree, Blocks, Packed, RankPlace};
use super::schedule::Schedule;
use super::thresholds::MessageThresholds;
use crate::error::Result;

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
    let v = me.relative(root);
    let actual = |v: usize| (v + root) % me.size;
    let tree = BinomialTree::binomial(v, me.size);
    let mut schedule = Schedule::new();
    let Some(parent) = tree.parent else {
        let receive = receive.expect("the root receives");
        if let Some(own) = send {
            schedule.round().copy(own, receive.view(root, 1)?);
        }
        let mut wrapped = Vec::new();
        let round = schedule.last();
        for (child, span) in tree.children {
            let first = actual(child);
            if first + span <= me.size {
                round.receive(first, receive.view(first, span)?);
            } else {
                // The subtree's ranks wrap around from the last rank to 0: two places in the
                // buffer.
                let staging = Packed::temporary(span, block);
                round.receive(first, staging.view(0, span));
                let before = me.size - first;
                wrapped.push((staging.view(0, before), receive.view(first, before)?));
                wrapped
                    .push((staging.view(before, span - before), receive.view(0, span - before)?));
            }
        }
        for (from, to) in wrapped {
            round.copy(from, to);
        }
        return Ok(schedule);
    };
    let own = send.expect("only the root gathers in place");
    if tree.span == 1 {
        schedule.round().send(actual(parent), own);
        return Ok(schedule);
    }
    let staging = Packed::temporary(tree.span, block);
    let round = schedule.round();
    for (child, span) in tree.children {
        round.receive(actual(child), staging.view(child - v, span));
    }
    round.copy(own, staging.view(0, 1));
    schedule.round().send(actual(parent), staging.view(0, tree.span));
    Ok(schedule)
}

/// The schedule of a gather in which the root receives from each rank into `blocks` (including its
/// own; v-forms too).
pub fn gather_linear(
    me: RankPlace,
    send: Option<View>,
    blocks: Option<Vec<View>>,
    root: usize,
) -> Schedule {
    let mut schedule = Schedule::new();
    let round = schedule.round();
    if me.rank == root {
        for (rank, block) in blocks.into_iter().flatten().enumerate() {
            if rank != root {
                if !block.is_empty() {
                    round.receive(rank, block);
                }
            } else if let Some(own) = &send {
                round.copy(own.clone(), block);
            }
        }
    } else if let Some(own) = send.filter(|own| !own.is_empty()) {
        round.send(root, own);
    }
    schedule
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
    let v = me.relative(root);
    let actual = |v: usize| (v + root) % me.size;
    let tree = BinomialTree::binomial(v, me.size);
    let mut schedule = Schedule::new();
    let Some(parent) = tree.parent else {
        let send = send.expect("the root sends");
        let mut messages = Vec::new();
        for (child, span) in tree.children {
            let first = actual(child);
            if first + span <= me.size {
                messages.push((first, send.view(first, span)?));
            } else {
                let staging = Packed::temporary(span, block);
                let before = me.size - first;
                schedule
                    .last()
                    .copy(send.view(first, before)?, staging.view(0, before))
                    .copy(send.view(0, span - before)?, staging.view(before, span - before));
                messages.push((first, staging.view(0, span)));
            }
        }
        let round = schedule.round();
        for (to, message) in messages {
            round.send(to, message);
        }
        if let Some(own) = receive {
            round.copy(send.view(root, 1)?, own);
        }
        return Ok(schedule);
    };
    let own = receive.expect("only the root scatters in place");
    if tree.span == 1 {
        schedule.round().receive(actual(parent), own);
        return Ok(schedule);
    }
    let staging = Packed::temporary(tree.span, block);
    schedule.round().receive(actual(parent), staging.view(0, tree.span));
    let round = schedule.round();
    for (child, span) in tree.children {
        round.send(actual(child), staging.view(child - v, span));
    }
    round.copy(staging.view(0, 1), own);
    Ok(schedule)
}

/// The schedule of a scatter in which the root sends to each rank from `blocks` (including its own;
/// v-forms too).
pub fn scatter_linear(
    me: RankPlace,
    blocks: Option<Vec<View>>,
    receive: Option<View>,
    root: usize,
) -> Schedule {
    let mut schedule = Schedule::new();
    let round = schedule.round();
    if me.rank == root {
        for (rank, block) in blocks.into_iter().flatten().enumerate() {
            if rank != root {
                if !block.is_empty() {
                    round.send(rank, block);
                }
            } else if let Some(own) = &receive {
                round.copy(block, own.clone());
            }
        }
    } else if let Some(own) = receive.filter(|own| !own.is_empty()) {
        round.receive(root, own);
    }
    schedule
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
