//! All-to-all. Short blocks: a node's leader exchanges all blocks between two nodes as one message
//! each way; or each rank collects the blocks that its node has for its column, and exchanges them
//! there. Long blocks: direct exchange, other nodes first, in an order in which the ranks of a node
//! do not all send to the same rank at once.

use mica_memory::View;

use super::super::flat;
use super::super::intranode::{CollectiveOperation, Parts};
use super::super::place::{Blocks, Packed};
use super::super::schedule::{Round, Schedule};
use super::super::thresholds::{NodeTreatment, TwoLevel};
use super::{FlatGroup, RanksByNode, offsets, place};
use mica_objects::error::Result;

/// All-to-all; arguments are those of the flat algorithm. In place, pairs swap as they do there.
pub fn alltoall(
    layout: &RanksByNode,
    limits: &TwoLevel,
    send: Option<&Blocks>,
    receive: &Blocks,
) -> Result<Schedule> {
    let block = receive.view(0, 1)?.len();
    let Some(send) = send else {
        return flat::alltoall(place(layout), &limits.across, None, receive);
    };
    if block == 0 {
        return Ok(Schedule::new());
    }
    match limits.alltoall(layout, block) {
        NodeTreatment::Leaders => leaders(layout, send, receive, block),
        NodeTreatment::Columns => columns(layout, limits, send, receive, block),
        NodeTreatment::Flat if layout.is_flat() || limits.across.bruck(layout.size(), block) => {
            flat::alltoall(place(layout), &limits.across, Some(send), receive)
        }
        NodeTreatment::Flat => {
            let (send, receive) = (send.each(layout.size())?, receive.each(layout.size())?);
            Ok(exchange(layout, limits, &send, &receive))
        }
    }
}

/// A direct exchange like the flat one, but scheduled by nodes: in each slot, a node sends to one
/// other node, and each of its ranks to another rank there. Slots are the same for sender and
/// receiver; several slots are in flight together.
pub fn exchange(
    layout: &RanksByNode,
    limits: &TwoLevel,
    send: &[View],
    receive: &[View],
) -> Schedule {
    let me = layout.rank();
    let (nodes, here, index) = (layout.nodes(), layout.here(), layout.index_of(me));
    let most = (0..nodes).map(|n| layout.members(n).len()).max();
    let most = most.unwrap_or(1);
    let window = limits.across.alltoall_window.max(1);
    let mut schedule = Schedule::new();
    let first = schedule.round();
    first.copy(send[me].clone(), receive[me].clone());
    let mut open = 0;
    // Other nodes first, this one last, without the slot in which a rank would send to itself.
    for slot in 0..nodes * most - 1 {
        let node = (slot / most + 1) % nodes;
        let turn = slot % most + usize::from(node == 0);
        let peer = |node: usize, index: usize| layout.members(node).get(index).copied();
        let to = peer((here + node) % nodes, (index + turn) % most);
        let from = peer((here + nodes - node) % nodes, (index + most - turn) % most);
        if slot / window != open {
            open = slot / window;
            schedule.round();
        }
        let round = schedule.last();
        if let Some(from) = from.filter(|&from| !receive[from].is_empty()) {
            round.receive(from, receive[from].clone());
        }
        if let Some(to) = to.filter(|&to| !send[to].is_empty()) {
            round.send(to, send[to].clone());
        }
    }
    schedule
}

/// Through the leaders: each member sends all blocks that leave the node to its leader, leaders
/// exchange all blocks between two nodes, and each leader sends its members the blocks for them.
fn leaders(
    layout: &RanksByNode,
    send: &Blocks,
    receive: &Blocks,
    block: usize,
) -> Result<Schedule> {
    let (node, here, me) = (FlatGroup::node(layout), layout.here(), layout.rank());
    let others: Vec<usize> = (0..layout.nodes()).filter(|&n| n != here).collect();
    // Where the ranks of each other node start among all others, and their number.
    let starts = offsets(others.iter().map(|&n| layout.members(n).len()));
    let spans: Vec<(usize, usize)> = starts.windows(2).map(|w| (w[0], w[1] - w[0])).collect();
    let away: Vec<usize> = others.iter().flat_map(|&n| layout.members(n).iter().copied()).collect();
    let (members, remote) = (node.me.size, away.len());
    let mut schedule = Schedule::new();
    let local = |round: &mut Round| -> Result<()> {
        for &rank in node.ranks.iter().filter(|&&rank| rank != me) {
            round.receive(rank, receive.view(rank, 1)?);
            round.send(rank, send.view(rank, 1)?);
        }
        Ok(())
    };
    schedule.round().copy(send.view(me, 1)?, receive.view(me, 1)?);
    if node.me.rank > 0 {
        let row = Packed::temporary(remote, block);
        let column = Packed::temporary(remote, block);
        pack(schedule.last(), send, &away, &row)?;
        let round = schedule.round();
        round.send(node.ranks[0], row.view(0, remote));
        local(round)?;
        round.receive(node.ranks[0], column.view(0, remote));
        unpack(round, &column, receive, &away)?;
        return Ok(schedule);
    }

    // A row is what a member sends, a column what it receives, both indexed by source or
    // destination as in `away`.
    let rows = Packed::temporary(members * remote, block);
    let out = Packed::temporary(members * remote, block);
    pack(schedule.last(), send, &away, &rows)?;
    let round = schedule.round();
    for i in 1..members {
        round.receive(node.ranks[i], rows.view(i * remote, remote));
    }
    // Between two nodes, blocks are ordered by source, then by destination.
    for &(first, theirs) in &spans {
        for i in 0..members {
            let to = out.view(members * first + i * theirs, theirs);
            schedule.last().copy(rows.view(i * remote + first, theirs), to);
        }
    }
    let incoming = Packed::temporary(members * remote, block);
    let columns = Packed::temporary(members * remote, block);
    let round = schedule.round();
    for (&other, &(first, theirs)) in others.iter().zip(&spans) {
        let (leader, at) = (layout.members(other)[0], members * first);
        round.receive(leader, incoming.view(at, members * theirs));
        round.send(leader, out.view(at, members * theirs));
    }
    local(round)?;
    for &(first, theirs) in &spans {
        for (s, d) in (first..first + theirs).flat_map(|s| (0..members).map(move |d| (s, d))) {
            let to = columns.view(d * remote + s, 1);
            round.copy(incoming.view(s * members + d, 1), to);
        }
    }
    unpack(round, &columns, receive, &away)?;
    let round = schedule.round();
    for d in 1..members {
        round.send(node.ranks[d], columns.view(d * remote, remote));
    }
    Ok(schedule)
}

/// Within the node, rank `i` gets what all have for column `i`; then the column exchanges it.
fn columns(
    layout: &RanksByNode,
    limits: &TwoLevel,
    send: &Blocks,
    receive: &Blocks,
    block: usize,
) -> Result<Schedule> {
    let (node, column) = (FlatGroup::node(layout), FlatGroup::column(layout));
    let (members, nodes, here) = (node.me.size, layout.nodes(), layout.here());
    let memory = || Packed::temporary(members * nodes, block);
    let (out, collected, across) = (memory(), memory(), memory());
    let mut schedule = Schedule::new();
    for i in 0..members {
        for n in 0..nodes {
            let from = send.view(layout.members(n)[i], 1)?;
            schedule.last().copy(from, out.view(i * nodes + n, 1));
        }
    }
    let each = |packed: &Packed| -> Vec<View> {
        let view = |i| packed.view(i * nodes, nodes);
        (0..members).map(view).collect()
    };
    let operation = CollectiveOperation::Alltoall {
        send: Some(Parts::Each(each(&out))),
        receive: Parts::Each(each(&collected)),
    };
    node.perform(&mut schedule, layout, &limits.inside, operation)?;
    for i in 0..members {
        for n in 0..nodes {
            let from = collected.view(i * nodes + n, 1);
            let to = if n == here {
                receive.view(node.ranks[i], 1)?
            } else {
                across.view(n * members + i, 1)
            };
            schedule.last().copy(from, to);
        }
    }

    // Data of a node arrives in the order of its members: directly in the receive buffer, if their
    // ranks are consecutive.
    let arrived = memory();
    let mut unpacked = Vec::new();
    let (mut outgoing, mut incoming) = (Vec::new(), Vec::new());
    for n in 0..nodes {
        let (at, ranks) = (n * members, layout.members(n));
        let blocks = if n == here { 0 } else { members };
        outgoing.push(across.view(at, blocks));
        if n == here || ranks[members - 1] - ranks[0] == members - 1 {
            incoming.push(receive.view(ranks[0], blocks)?);
        } else {
            incoming.push(arrived.view(at, blocks));
            unpacked.extend(ranks.iter().enumerate().map(|(i, &rank)| (at + i, rank)));
        }
    }
    let part = flat::alltoall_exchange(column.me, &limits.across, &outgoing, &incoming);
    column.join(&mut schedule, part);
    for (slot, rank) in unpacked {
        let to = receive.view(rank, 1)?;
        schedule.last().copy(arrived.view(slot, 1), to);
    }
    Ok(schedule)
}

/// Packs the blocks of `ranks` one after the other.
fn pack(round: &mut Round, from: &Blocks, ranks: &[usize], to: &Packed) -> Result<()> {
    let mut at = 0;
    for run in ranks.chunk_by(|a, b| a + 1 == *b) {
        round.copy(from.view(run[0], run.len())?, to.view(at, run.len()));
        at += run.len();
    }
    Ok(())
}

/// Unpacks the blocks of `ranks`, which lie one after the other.
fn unpack(round: &mut Round, from: &Packed, to: &Blocks, ranks: &[usize]) -> Result<()> {
    let mut at = 0;
    for run in ranks.chunk_by(|a, b| a + 1 == *b) {
        round.copy(from.view(at, run.len()), to.view(run[0], run.len())?);
        at += run.len();
    }
    Ok(())
}
