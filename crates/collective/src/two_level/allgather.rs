//! Allgather, with blocks of equal or different lengths. Short: to the leaders, among the leaders
//! (Bruck), and to all ranks of the node. Long: each rank gets the blocks of its column, then the
//! ranks of a node exchange their columns.

use mica_memory::{Region, View};

use super::super::flat;
use super::super::intranode::CollectiveOperation;
use super::super::place::Blocks;
use super::super::schedule::Schedule;
use super::super::thresholds::{NodeTreatment, TwoLevel};
use super::{FlatGroup, RanksByNode, offsets, piece, place};
use crate::absent::temporary;
use mica_objects::error::Result;

/// Allgather into `blocks`; in place, `send` is absent and this rank's block is there.
pub fn allgather(
    layout: &RanksByNode,
    limits: &TwoLevel,
    send: Option<View>,
    blocks: &[View],
) -> Result<Schedule> {
    let bytes: usize = blocks.iter().map(View::len).sum();
    match limits.allgather(layout, bytes) {
        _ if bytes == 0 => Ok(Schedule::new()),
        NodeTreatment::Leaders => leaders(layout, limits, send, blocks),
        NodeTreatment::Columns => Ok(columns(layout, send, blocks)),
        NodeTreatment::Flat => Ok(ring(layout, send, blocks)),
    }
}

/// As [`allgather`], with blocks of equal length.
pub fn allgather_blocks(
    layout: &RanksByNode,
    limits: &TwoLevel,
    send: Option<View>,
    receive: &Blocks,
) -> Result<Schedule> {
    if layout.is_flat() {
        return flat::allgather(place(layout), &limits.across, send, receive);
    }
    allgather(layout, limits, send, &receive.each(layout.size())?)
}

/// The ring in the order of nodes: on each node, only one rank receives from another node.
fn ring(layout: &RanksByNode, send: Option<View>, blocks: &[View]) -> Schedule {
    let order = by_nodes(layout, 0);
    let sorted: Vec<View> = order.iter().map(|&rank| blocks[rank].clone()).collect();
    let group = FlatGroup::new(order, layout.rank()).expect("all ranks take part");
    let mut schedule = Schedule::new();
    group.join(&mut schedule, flat::allgather_ring(group.me, send, &sorted));
    schedule
}

/// All ranks, node by node from node `first` on.
fn by_nodes(layout: &RanksByNode, first: usize) -> Vec<usize> {
    let nodes = (0..layout.nodes()).map(|n| (first + n) % layout.nodes());
    nodes.flat_map(|node| layout.members(node).iter().copied()).collect()
}

fn leaders(
    layout: &RanksByNode,
    limits: &TwoLevel,
    send: Option<View>,
    blocks: &[View],
) -> Result<Schedule> {
    let node = FlatGroup::node(layout);
    let mut schedule = Schedule::new();
    // Packed, node by node from this one on.
    let order = by_nodes(layout, layout.here());
    let starts = offsets(order.iter().map(|&rank| blocks[rank].len()));
    let bytes = starts[order.len()];
    let own = send.unwrap_or_else(|| blocks[layout.rank()].clone());
    let sizes: Vec<usize> = node.ranks.iter().map(|&rank| blocks[rank].len()).collect();
    let all = temporary(bytes);
    let gathered = node.gather_packed(&mut schedule, &sizes, own, 0)?;
    if let (Some(of_node), Some(group)) = (gathered, FlatGroup::leaders(layout, None)) {
        let range = 0..starts[node.me.size];
        let last = schedule.last();
        last.copy(piece(&of_node, range.clone()), piece(&all, range));
        bruck(layout, &group, &mut schedule, &starts, &all);
    }
    let operation = CollectiveOperation::Bcast { view: piece(&all, 0..bytes), root: 0 };
    node.perform(&mut schedule, layout, &limits.inside, operation)?;
    for (i, &rank) in order.iter().enumerate() {
        if !blocks[rank].is_empty() {
            let from = piece(&all, starts[i]..starts[i + 1]);
            schedule.last().copy(from, blocks[rank].clone());
        }
    }
    Ok(schedule)
}

/// Bruck's algorithm among leaders: the number of known nodes, from this one on, doubles in each
/// round.
fn bruck(
    layout: &RanksByNode,
    group: &FlatGroup,
    schedule: &mut Schedule,
    starts: &[usize],
    all: &Region,
) {
    let nodes = layout.nodes();
    let members = (0..nodes).map(|n| layout.members((layout.here() + n) % nodes).len());
    let ranks = offsets(members);
    let end = |n: usize| starts[ranks[n]];
    let mut have = 1;
    while have < nodes {
        let n = have.min(nodes - have);
        let round = schedule.round();
        let (incoming, outgoing) = (end(have)..end(have + n), 0..end(n));
        if !incoming.is_empty() {
            round.receive(group.ranks[group.me.after(have)], piece(all, incoming));
        }
        if !outgoing.is_empty() {
            round.send(group.ranks[group.me.before(have)], piece(all, outgoing));
        }
        have *= 2;
    }
}

fn columns(layout: &RanksByNode, send: Option<View>, blocks: &[View]) -> Schedule {
    let (node, column) = (FlatGroup::node(layout), FlatGroup::column(layout));
    let of = |group: &[usize]| -> Vec<View> { group.iter().map(|&r| blocks[r].clone()).collect() };
    let mut schedule = Schedule::new();
    let around = flat::allgather_ring(column.me, send, &of(&column.ranks));
    column.join(&mut schedule, around);
    // A ring in which each message is a column; the blocks of a column are not contiguous, so they
    // are sent one by one.
    let of_column = |index: usize| -> Vec<View> {
        let ranks = (0..layout.nodes()).map(|n| blocks[layout.members(n)[index]].clone());
        ranks.filter(|block| !block.is_empty()).collect()
    };
    for step in 0..node.me.size - 1 {
        let round = schedule.round();
        for block in of_column(node.me.before(step + 1)) {
            round.receive(node.ranks[node.me.before(1)], block);
        }
        for block in of_column(node.me.before(step)) {
            round.send(node.ranks[node.me.after(1)], block);
        }
    }
    schedule
}
