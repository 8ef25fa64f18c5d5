//! Gather and scatter of short blocks: a node's blocks are sent as one packed message, along a
//! binomial tree of leaders with the root at its top.
//!
//! Packed blocks lie in the order of the tree: nodes from the root's on, and in each node the
//! members from its leader on.

use mica_algorithms::BinomialTree;
use mica_memory::{Region, View};

use super::super::flat;
use super::super::place::Blocks;
use super::super::schedule::Schedule;
use super::super::thresholds::{NodeTreatment, TwoLevel};
use super::{FlatGroup, RanksByNode, leader, offsets, piece, place};
use crate::absent::temporary;
use mica_objects::error::Result;

impl FlatGroup {
    /// The position that is `v`th when the group is counted from position `top`.
    fn counted_from(&self, top: usize, v: usize) -> usize {
        (v + top) % self.me.size
    }

    /// Gathers packed data at position `top`; position `p` has `sizes[p]` bytes, `own` is this
    /// rank's. Returns the memory with all data, counted from `top`; `None` at other positions.
    pub(super) fn gather_packed(
        &self,
        schedule: &mut Schedule,
        sizes: &[usize],
        own: View,
        top: usize,
    ) -> Result<Option<Region>> {
        let v = self.me.relative(top);
        let tree = BinomialTree::binomial(v, self.me.size);
        let starts = offsets((v..v + tree.span).map(|w| sizes[self.counted_from(top, w)]));
        let all = starts[tree.span];
        let actual = |w: usize| self.ranks[self.counted_from(top, w)];
        if tree.span == 1 && tree.parent.is_some() {
            if all > 0 {
                schedule.round().send(actual(tree.parent.unwrap_or(0)), own);
            }
            return Ok(None);
        }
        let staging = temporary(all);
        let round = schedule.round();
        for (child, span) in tree.children {
            let range = starts[child - v]..starts[child - v + span];
            if !range.is_empty() {
                round.receive(actual(child), piece(&staging, range));
            }
        }
        round.copy(own, piece(&staging, 0..starts[1]));
        match tree.parent {
            None => Ok(Some(staging)),
            Some(parent) => {
                if all > 0 {
                    schedule.round().send(actual(parent), piece(&staging, 0..all));
                }
                Ok(None)
            }
        }
    }

    /// The inverse: `all` (at `top`) has the data counted from `top`; returns this rank's bytes.
    fn scatter_packed(
        &self,
        schedule: &mut Schedule,
        sizes: &[usize],
        all: Option<Region>,
        top: usize,
    ) -> Result<View> {
        let v = self.me.relative(top);
        let tree = BinomialTree::binomial(v, self.me.size);
        let starts = offsets((v..v + tree.span).map(|w| sizes[self.counted_from(top, w)]));
        let actual = |w: usize| self.ranks[self.counted_from(top, w)];
        let data = match all {
            Some(all) => all,
            None => temporary(starts[tree.span]),
        };
        if let Some(parent) = tree.parent
            && starts[tree.span] > 0
        {
            schedule.round().receive(actual(parent), piece(&data, 0..starts[tree.span]));
        }
        let round = schedule.round();
        for (child, span) in tree.children {
            let range = starts[child - v]..starts[child - v + span];
            if !range.is_empty() {
                round.send(actual(child), piece(&data, range));
            }
        }
        Ok(piece(&data, 0..starts[1]))
    }
}

/// All ranks in the order of their packed blocks.
fn travel_order(layout: &RanksByNode, root: usize) -> Vec<usize> {
    let first = layout.node_of(root);
    let nodes = (0..layout.nodes()).map(|n| (first + n) % layout.nodes());
    nodes
        .flat_map(|node| {
            let members = layout.members(node);
            let top = layout.index_of(leader(layout, Some(root), node));
            members[top..].iter().chain(&members[..top]).copied()
        })
        .collect()
}

/// Runs of consecutive ranks in `order`: the first rank, and how many.
fn runs(order: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    order.chunk_by(|a, b| a + 1 == *b).map(|run| (run[0], run.len()))
}

fn bytes_of_nodes(layout: &RanksByNode, block: usize) -> Vec<usize> {
    (0..layout.nodes()).map(|node| layout.members(node).len() * block).collect()
}

/// Gather to `root`; arguments are those of the flat algorithm.
pub fn gather(
    layout: &RanksByNode,
    limits: &TwoLevel,
    send: Option<View>,
    receive: Option<&Blocks>,
    root: usize,
) -> Result<Schedule> {
    let block = flat::block_bytes(send.as_ref(), receive)?;
    if limits.gather(layout, block) == NodeTreatment::Flat {
        return flat::gather(place(layout), &limits.across, send, receive, root);
    }
    let mut schedule = Schedule::new();
    if block == 0 {
        return Ok(schedule);
    }
    let own = match (&send, receive) {
        (Some(own), _) => own.clone(),
        (None, receive) => receive.expect("in place, the root receives").view(root, 1)?,
    };
    let node = FlatGroup::node(layout);
    let top = layout.index_of(leader(layout, Some(root), layout.here()));
    let sizes = vec![block; node.me.size];
    let Some(of_node) = node.gather_packed(&mut schedule, &sizes, own, top)? else {
        return Ok(schedule);
    };
    let leaders =
        FlatGroup::leaders(layout, Some(root)).expect("what a node gathers, its leader has");
    let sizes = bytes_of_nodes(layout, block);
    let own = piece(&of_node, 0..sizes[leaders.me.rank]);
    let top = layout.node_of(root);
    let Some(all) = leaders.gather_packed(&mut schedule, &sizes, own, top)? else {
        return Ok(schedule);
    };
    let receive = receive.expect("the root receives");
    let mut at = 0;
    for (first, ranks) in runs(&travel_order(layout, root)) {
        let end = at + ranks * block;
        let to = receive.view(first, ranks)?;
        schedule.last().copy(piece(&all, at..end), to);
        at = end;
    }
    Ok(schedule)
}

/// Scatter from `root`; arguments are those of the flat algorithm.
pub fn scatter(
    layout: &RanksByNode,
    limits: &TwoLevel,
    send: Option<&Blocks>,
    receive: Option<View>,
    root: usize,
) -> Result<Schedule> {
    let block = flat::block_bytes(receive.as_ref(), send)?;
    if limits.gather(layout, block) == NodeTreatment::Flat {
        return flat::scatter(place(layout), &limits.across, send, receive, root);
    }
    let mut schedule = Schedule::new();
    if block == 0 {
        return Ok(schedule);
    }
    let mut of_node = None;
    if let Some(leaders) = FlatGroup::leaders(layout, Some(root)) {
        let sizes = bytes_of_nodes(layout, block);
        let mut all = None;
        if layout.rank() == root {
            let send = send.expect("the root sends");
            let packed = temporary(layout.size() * block);
            let mut at = 0;
            for (first, ranks) in runs(&travel_order(layout, root)) {
                let end = at + ranks * block;
                let from = send.view(first, ranks)?;
                schedule.last().copy(from, piece(&packed, at..end));
                at = end;
            }
            all = Some(packed);
        }
        let top = layout.node_of(root);
        let mine = leaders.scatter_packed(&mut schedule, &sizes, all, top)?;
        of_node = Some(mine.region().clone());
    }
    let node = FlatGroup::node(layout);
    let top = layout.index_of(leader(layout, Some(root), layout.here()));
    let sizes = vec![block; node.me.size];
    let mine = node.scatter_packed(&mut schedule, &sizes, of_node, top)?;
    if let Some(receive) = receive {
        schedule.last().copy(mine, receive);
    }
    Ok(schedule)
}
