//! Collectives on several nodes, in two levels: as little data as possible goes between nodes, the
//! rest stays within them (Chai 2009, 6.4.1; Thakur and others 2005).
//!
//! An algorithm is composed of flat ones, each among a [`FlatGroup`] of ranks: those of a node, one
//! for each node, or those of the same number on each node (a column). [`TwoLevel`] chooses from
//! what all ranks know alike. Where two levels do not pay or cannot keep the order of operands, the
//! functions here call the flat algorithm. `docs/design/collectives.md` describes what is sent and
//! when which algorithm pays.

mod allgather;
mod alltoall;
mod gather;
mod reduce;

pub use allgather::{allgather, allgather_blocks};
pub use alltoall::{alltoall, exchange};
pub use gather::{gather, scatter};
pub use reduce::{allreduce, reduce, reduce_scatter};

use mica_algorithms::BinomialTree;
use mica_memory::{Region, View};

use super::flat;
use super::intranode::choice::plan::node_step;
use super::intranode::{CollectiveOperation, Parts};
use super::layout::RanksByNode;
use super::place::{RankPlace, bytes_at};
use super::schedule::Schedule;
use super::thresholds::{MessageThresholds, NodeTreatment, TwoLevel};
use mica_objects::error::Result;

/// The schedule of a collective; `None` if there is none in two levels.
///
/// # Errors
/// When there is no memory; when a buffer extends past the largest address.
pub fn schedule(
    layout: &RanksByNode,
    limits: &TwoLevel,
    operation: &CollectiveOperation,
) -> Result<Option<Schedule>> {
    use CollectiveOperation as Op;
    let schedule = match operation {
        Op::Barrier | Op::Finalize => barrier(layout, limits),
        Op::Bcast { view, root } => bcast(layout, limits, view.clone(), *root),
        Op::Gather { send, parts, root, bytes: Some(_) } => {
            let blocks = parts.as_ref().and_then(Parts::blocks);
            gather(layout, limits, send.clone(), blocks, *root)
        }
        Op::Scatter { parts, receive, root, bytes: Some(_) } => {
            let blocks = parts.as_ref().and_then(Parts::blocks);
            scatter(layout, limits, blocks, receive.clone(), *root)
        }
        Op::Allgather { send, parts: Parts::Even(blocks, _) } => {
            allgather_blocks(layout, limits, send.clone(), blocks)
        }
        Op::Allgather { send, parts: Parts::Each(views) } => {
            allgather(layout, limits, send.clone(), views)
        }
        Op::Alltoall { send, receive: Parts::Even(receive, _) } => {
            let send = send.as_ref().and_then(Parts::blocks);
            alltoall(layout, limits, send, receive)
        }
        Op::Alltoall { send: Some(Parts::Each(send)), receive: Parts::Each(receive) } => {
            Ok(exchange(layout, limits, send, receive))
        }
        Op::Reduce { reduction, send, result, root: Some(root) } => {
            reduce(layout, limits, reduction, send.as_ref(), result.as_ref(), *root)
        }
        Op::Reduce { reduction, send, result: Some(result), root: None } => {
            allreduce(layout, limits, reduction, send.as_ref(), result)
        }
        Op::ReduceScatter { reduction, send, counts, result } => {
            reduce_scatter(layout, limits, reduction, counts, send.as_ref(), result)
        }
        Op::Gather { .. }
        | Op::Scatter { .. }
        | Op::Alltoall { .. }
        | Op::Reduce { .. }
        | Op::Scan { .. } => return Ok(None),
    };
    schedule.map(|schedule| Some(schedule.rooted(operation.root())))
}

/// Some ranks of the communicator that run a flat collective of their own, this rank among them.
struct FlatGroup {
    ranks: Vec<usize>,
    me: RankPlace,
}

impl FlatGroup {
    fn new(ranks: Vec<usize>, rank: usize) -> Option<FlatGroup> {
        let me = RankPlace { rank: ranks.iter().position(|&r| r == rank)?, size: ranks.len() };
        Some(FlatGroup { ranks, me })
    }

    /// The ranks of this node.
    fn node(layout: &RanksByNode) -> FlatGroup {
        FlatGroup {
            ranks: layout.neighbours().to_vec(),
            me: RankPlace { rank: layout.index_of(layout.rank()), size: layout.neighbours().len() },
        }
    }

    /// The leaders of all nodes; `root`, if there is one, leads its own node. `None` on other
    /// ranks.
    fn leaders(layout: &RanksByNode, root: Option<usize>) -> Option<FlatGroup> {
        let leaders = (0..layout.nodes()).map(|node| leader(layout, root, node));
        FlatGroup::new(leaders.collect(), layout.rank())
    }

    /// The ranks with this one's number on each node.
    fn column(layout: &RanksByNode) -> FlatGroup {
        let index = layout.index_of(layout.rank());
        let ranks = (0..layout.nodes()).map(|node| layout.members(node)[index]);
        FlatGroup {
            ranks: ranks.collect(),
            me: RankPlace { rank: layout.here(), size: layout.nodes() },
        }
    }

    fn alone(&self) -> bool {
        self.me.size == 1
    }

    /// Appends this rank's part of a collective of this node's ranks, which are the group: in the
    /// memory that they share, or by messages with the thresholds `limits`.
    fn perform(
        &self,
        schedule: &mut Schedule,
        layout: &RanksByNode,
        limits: &MessageThresholds,
        operation: CollectiveOperation,
    ) -> Result<()> {
        match layout.local().and_then(|local| node_step(local, &operation, &self.ranks)) {
            Some(call) => schedule.call(call),
            None => self.join(schedule, operation.messages(self.me, limits)?),
        }
        Ok(())
    }

    /// Appends this rank's part of a collective of the group.
    fn join(&self, schedule: &mut Schedule, part: Schedule) {
        schedule.join(part, &self.ranks);
    }
}

/// The leader of `node`: `root`, if it is on the node, else the node's first rank.
fn leader(layout: &RanksByNode, root: Option<usize>, node: usize) -> usize {
    match root {
        Some(root) if layout.node_of(root) == node => root,
        _ => layout.members(node)[0],
    }
}

/// All ranks, for the flat algorithms.
fn place(layout: &RanksByNode) -> RankPlace {
    RankPlace { rank: layout.rank(), size: layout.size() }
}

/// Offsets of consecutive pieces of `sizes` bytes: the start of each, and the end.
fn offsets(sizes: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut offsets = vec![0];
    let mut end = 0;
    for size in sizes {
        end += size;
        offsets.push(end);
    }
    offsets
}

/// The bytes in `range` of packed data.
fn piece(data: &Region, range: std::ops::Range<usize>) -> View {
    bytes_at(data, range.start, range.len())
}

/// Barrier: the ranks of a node report to their leader, leaders synchronize with each other, and
/// release their nodes.
pub fn barrier(layout: &RanksByNode, limits: &TwoLevel) -> Result<Schedule> {
    if limits.always(layout) == NodeTreatment::Flat {
        return Ok(flat::barrier(place(layout)));
    }
    let arrive = |schedule: &mut Schedule, node: &FlatGroup| {
        let local = layout.local().filter(|_| !node.alone());
        let call =
            local.and_then(|local| node_step(local, &CollectiveOperation::Barrier, &node.ranks));
        call.map(|call| schedule.call(call)).is_some()
    };
    let nothing = || bytes_at(&Region::null(), 0, 0);
    let node = FlatGroup::node(layout);
    let tree = BinomialTree::binomial(node.me.rank, node.me.size);
    let mut schedule = Schedule::new();
    if arrive(&mut schedule, &node) {
        // The leader enters the second barrier when it has heard from the other nodes.
        if let Some(leaders) = FlatGroup::leaders(layout, None) {
            leaders.join(&mut schedule, flat::barrier(leaders.me));
        }
        arrive(&mut schedule, &node);
        return Ok(schedule);
    }
    let round = schedule.round();
    for &(child, _) in &tree.children {
        round.receive(node.ranks[child], nothing());
    }
    if let Some(parent) = tree.parent {
        schedule.round().send(node.ranks[parent], nothing());
        schedule.round().receive(node.ranks[parent], nothing());
    }
    if let Some(leaders) = FlatGroup::leaders(layout, None) {
        leaders.join(&mut schedule, flat::barrier(leaders.me));
    }
    let round = schedule.round();
    for &(child, _) in &tree.children {
        round.send(node.ranks[child], nothing());
    }
    Ok(schedule)
}

/// Broadcast of `message` from `root`: among leaders, then in each node.
pub fn bcast(
    layout: &RanksByNode,
    limits: &TwoLevel,
    message: View,
    root: usize,
) -> Result<Schedule> {
    if limits.always(layout) == NodeTreatment::Flat {
        return flat::bcast(place(layout), &limits.across, message, root);
    }
    let mut schedule = Schedule::new();
    if let Some(leaders) = FlatGroup::leaders(layout, Some(root)) {
        let top = layout.node_of(root);
        let part = flat::bcast(leaders.me, &limits.across, message.clone(), top)?;
        leaders.join(&mut schedule, part);
    }
    let node = FlatGroup::node(layout);
    let top = layout.index_of(leader(layout, Some(root), layout.here()));
    let operation = CollectiveOperation::Bcast { view: message, root: top };
    node.perform(&mut schedule, layout, &limits.inside, operation)?;
    Ok(schedule)
}
