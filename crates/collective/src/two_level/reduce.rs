//! The reductions: each node combines its ranks' operands, so that one vector per node is sent to
//! other nodes.
//!
//! Nodes and their members are taken in rank order, so operators that do not commute keep their
//! order if ranks are in blocks; otherwise they use the flat algorithms.

use mica_memory::View;

use super::super::flat;
use super::super::intranode::{CollectiveOperation, Parts};
use super::super::place::{Elements, RankPlace};
use super::super::reduction::Reduction;
use super::super::schedule::Schedule;
use super::super::thresholds::{MessageThresholds, NodeTreatment, TwoLevel};
use super::{FlatGroup, RanksByNode, leader, offsets, place};
use mica_objects::error::Result;

/// Reduce to `root`: in each node to its leader, then among leaders. Arguments are those of the
/// flat algorithm.
pub fn reduce(
    layout: &RanksByNode,
    limits: &TwoLevel,
    reduction: &Reduction,
    send: Option<&Elements>,
    receive: Option<&Elements>,
    root: usize,
) -> Result<Schedule> {
    if limits.reduce(layout, reduction.op.order()) == NodeTreatment::Flat {
        let me = place(layout);
        return flat::reduce(me, &limits.across, reduction, send, receive, root);
    }
    if reduction.count == 0 {
        return Ok(Schedule::new());
    }
    let node = FlatGroup::node(layout);
    let Some(leaders) = FlatGroup::leaders(layout, Some(root)) else {
        let top = layout.index_of(leader(layout, Some(root), layout.here()));
        let mut schedule = Schedule::new();
        let operation = reduce_to(reduction, send, None, top);
        node.perform(&mut schedule, layout, &limits.inside, operation)?;
        return Ok(schedule);
    };
    let mut schedule = Schedule::new();
    let top = layout.node_of(root);
    let mut operand = send.cloned();
    if !node.alone() {
        // The node's partial result. At the root, the receive buffer holds it, and the reduction
        // among leaders continues in place.
        let partial = match receive {
            Some(receive) => receive.clone(),
            None => reduction.temporary(reduction.count)?,
        };
        let operation = reduce_to(reduction, send, Some(&partial), node.me.rank);
        node.perform(&mut schedule, layout, &limits.inside, operation)?;
        operand = receive.is_none().then_some(partial);
    }
    let (across, me) = (&limits.across, leaders.me);
    let part = flat::reduce(me, across, reduction, operand.as_ref(), receive, top)?;
    leaders.join(&mut schedule, part);
    Ok(schedule)
}

/// Allreduce; arguments are those of the flat algorithm.
pub fn allreduce(
    layout: &RanksByNode,
    limits: &TwoLevel,
    reduction: &Reduction,
    send: Option<&Elements>,
    receive: &Elements,
) -> Result<Schedule> {
    match limits.allreduce(layout, reduction.op.order(), reduction.bytes()) {
        NodeTreatment::Flat => {
            flat::allreduce(place(layout), &limits.across, reduction, send, receive)
        }
        _ if reduction.count == 0 => Ok(Schedule::new()),
        NodeTreatment::Leaders => allreduce_leaders(layout, limits, reduction, send, receive),
        NodeTreatment::Columns => allreduce_columns(layout, limits, reduction, send, receive),
    }
}

/// Reduce to the leader, allreduce among leaders, broadcast from the leader.
fn allreduce_leaders(
    layout: &RanksByNode,
    limits: &TwoLevel,
    reduction: &Reduction,
    send: Option<&Elements>,
    receive: &Elements,
) -> Result<Schedule> {
    let (node, inside) = (FlatGroup::node(layout), &limits.inside);
    let mut schedule = Schedule::new();
    if let Some(leaders) = FlatGroup::leaders(layout, None) {
        let mut partial = None;
        if !node.alone() {
            let of_node = match send {
                Some(_) if starts_from_right(leaders.me) => reduction.temporary(reduction.count)?,
                _ => receive.clone(),
            };
            let operation = reduce_to(reduction, send, Some(&of_node), 0);
            node.perform(&mut schedule, layout, inside, operation)?;
            partial = Some(of_node);
        }
        let operand = match &partial {
            None => send,
            Some(partial) => Some(partial).filter(|partial| !partial.same_place(receive)),
        };
        let part = flat::allreduce(leaders.me, &limits.across, reduction, operand, receive)?;
        leaders.join(&mut schedule, part);
    } else {
        let operand = send.unwrap_or(receive);
        let operation = reduce_to(reduction, Some(operand), None, 0);
        node.perform(&mut schedule, layout, inside, operation)?;
    }
    let view = receive.view(0, reduction.count)?;
    let operation = CollectiveOperation::Bcast { view, root: 0 };
    node.perform(&mut schedule, layout, inside, operation)?;
    Ok(schedule)
}

/// Each rank of a node gets the node's partial result for one part of the vector, reduces it with
/// its column, and shares the result with its node.
fn allreduce_columns(
    layout: &RanksByNode,
    limits: &TwoLevel,
    reduction: &Reduction,
    send: Option<&Elements>,
    receive: &Elements,
) -> Result<Schedule> {
    let (node, column) = (FlatGroup::node(layout), FlatGroup::column(layout));
    let (count, ranks) = (reduction.count, node.me.size);
    let first: Vec<usize> = (0..=ranks).map(|i| part_start(count, ranks, i)).collect();
    let counts: Vec<usize> = first.windows(2).map(|w| w[1] - w[0]).collect();
    let (start, own) = (first[node.me.rank], counts[node.me.rank]);
    let target = receive.from(start);
    let mut schedule = Schedule::new();

    // In place, the block must not be received where operands lie. Parts are long enough for the
    // pairwise exchange, which copies nothing.
    let block = match send {
        Some(_) if !starts_from_right(column.me) => target.clone(),
        _ => reduction.temporary(own)?,
    };
    let pairwise = MessageThresholds { reduce_scatter_pairwise: 0, ..limits.inside };
    let operation = CollectiveOperation::ReduceScatter {
        reduction: reduction.clone(),
        send: Some(send.unwrap_or(receive).clone()),
        counts: counts.as_slice().into(),
        result: block.clone(),
    };
    node.perform(&mut schedule, layout, &pairwise, operation)?;

    let mine = Reduction { count: own, ..reduction.clone() };
    let operand = Some(&block).filter(|block| !block.same_place(&target));
    let part = flat::allreduce(column.me, &limits.across, &mine, operand, &target)?;
    column.join(&mut schedule, part);

    let parts: Result<Vec<_>> = (0..ranks).map(|i| receive.view(first[i], counts[i])).collect();
    let operation = CollectiveOperation::Allgather { send: None, parts: Parts::Each(parts?) };
    node.perform(&mut schedule, layout, &limits.inside, operation)?;
    Ok(schedule)
}

/// A reduction to member `root` of the node.
fn reduce_to(
    reduction: &Reduction,
    send: Option<&Elements>,
    result: Option<&Elements>,
    root: usize,
) -> CollectiveOperation {
    CollectiveOperation::Reduce {
        reduction: reduction.clone(),
        send: send.cloned(),
        result: result.cloned(),
        root: Some(root),
    }
}

/// A scatter of `blocks` from the node's first member.
fn deal(blocks: Option<Vec<View>>, own: View) -> CollectiveOperation {
    CollectiveOperation::Scatter {
        parts: blocks.map(Parts::Each),
        receive: Some(own),
        root: 0,
        bytes: None,
    }
}

/// Whether the first operand of a recursive doubling comes from the right: it becomes the result
/// where it is received, so nothing is copied if that is the receive buffer and this rank's operand
/// lies elsewhere.
fn starts_from_right(me: RankPlace) -> bool {
    me.rank.is_multiple_of(2) && me.rank + 1 < me.size
}

/// Where part `i` of `parts` starts.
fn part_start(count: usize, parts: usize, i: usize) -> usize {
    // The first parts take the remainder; the product could overflow.
    count / parts * i + (count % parts).min(i)
}

/// Reduce-scatter; arguments are those of the flat algorithm. Reduce to the leader, reduce-scatter
/// among leaders by nodes' blocks, and scatter within nodes.
pub fn reduce_scatter(
    layout: &RanksByNode,
    limits: &TwoLevel,
    reduction: &Reduction,
    counts: &[usize],
    send: Option<&Elements>,
    receive: &Elements,
) -> Result<Schedule> {
    if limits.reduce(layout, reduction.op.order()) == NodeTreatment::Flat {
        let me = place(layout);
        return flat::reduce_scatter(me, &limits.across, reduction, counts, send, receive);
    }
    if reduction.count == 0 {
        return Ok(Schedule::new());
    }
    let count = reduction.count;
    let (node, inside) = (FlatGroup::node(layout), &limits.inside);
    let operand = send.unwrap_or(receive);
    let own = receive.view(0, counts[layout.rank()])?;
    let mut schedule = Schedule::new();
    let Some(leaders) = FlatGroup::leaders(layout, None) else {
        let operation = reduce_to(reduction, Some(operand), None, 0);
        node.perform(&mut schedule, layout, inside, operation)?;
        let operation = deal(None, own);
        node.perform(&mut schedule, layout, inside, operation)?;
        return Ok(schedule);
    };
    let mut whole = operand.clone();
    if !node.alone() {
        whole = reduction.temporary(count)?;
        let operation = reduce_to(reduction, Some(operand), Some(&whole), 0);
        node.perform(&mut schedule, layout, inside, operation)?;
    }
    if !layout.in_blocks() {
        whole = by_nodes(layout, &mut schedule, reduction, counts, &whole)?;
    }
    let of_node = |n: usize| layout.members(n).iter().map(|&r| counts[r]).sum();
    let of_nodes: Vec<usize> = (0..layout.nodes()).map(of_node).collect();
    let dealt = reduction.temporary(of_nodes[leaders.me.rank])?;
    let (across, me) = (&limits.across, leaders.me);
    let part = flat::reduce_scatter(me, across, reduction, &of_nodes, Some(&whole), &dealt)?;
    leaders.join(&mut schedule, part);

    let starts = offsets(node.ranks.iter().map(|&r| counts[r]));
    let blocks: Result<Vec<_>> = starts.windows(2).map(|w| dealt.view(w[0], w[1] - w[0])).collect();
    node.perform(&mut schedule, layout, inside, deal(Some(blocks?), own))?;
    Ok(schedule)
}

/// A copy of `vector` in which the blocks of each node's ranks lie together.
fn by_nodes(
    layout: &RanksByNode,
    schedule: &mut Schedule,
    reduction: &Reduction,
    counts: &[usize],
    vector: &Elements,
) -> Result<Elements> {
    let sorted = reduction.temporary(reduction.count)?;
    let first = offsets(counts.iter().copied());
    let mut at = 0;
    for rank in (0..layout.nodes()).flat_map(|node| layout.members(node)) {
        let count = counts[*rank];
        if count > 0 {
            let (from, to) = (vector.view(first[*rank], count)?, sorted.view(at, count)?);
            schedule.last().copy(from, to);
        }
        at += count;
    }
    Ok(sorted)
}
