//! What two-level algorithms send between nodes, in messages and bytes, is what
//! docs/design/collectives.md promises; and never more than flat ones send.

use crate::common::*;
use mica_collective::schedule::Schedule;
use mica_collective::*;

/// Nodes and ranks on each of them.
const SHAPES: [(usize, usize); 9] =
    [(2, 2), (2, 3), (2, 4), (3, 2), (3, 3), (4, 2), (4, 4), (5, 2), (8, 2)];

const COUNT: usize = 240;

/// Numbers of nodes in powers of two, as recursive doubling meets them: messages of all nodes.
fn doubling(nodes: usize) -> usize {
    let active = 1_usize << nodes.ilog2();
    active * active.ilog2() as usize + 2 * (nodes - active)
}

/// Rounds in which what is known doubles.
fn rounds(nodes: usize) -> usize {
    nodes.next_power_of_two().ilog2() as usize
}

/// Two-level algorithms of one kind.
fn limits(columns: bool) -> TwoLevel {
    two_levels()[usize::from(columns)]
}

/// The short forms at both levels.
fn short(columns: bool) -> TwoLevel {
    let short = thresholds()[0];
    TwoLevel { inside: short, across: short, ..limits(columns) }
}

type Build<'a> = &'a dyn Fn(&RanksByNode) -> mica_objects::Result<Schedule>;

/// Expects a schedule to send so much between nodes, and a flat one, where there is one, at least
/// as much.
fn expect(
    what: &str,
    (nodes, ranks): (usize, usize),
    wanted: (usize, usize),
    two_level: Build<'_>,
    flat: Option<&dyn Fn(RankPlace) -> mica_objects::Result<Schedule>>,
) {
    let blocks: Vec<u32> = (0..nodes * ranks).map(|r| (r / ranks) as u32).collect();
    let dealt: Vec<u32> = (0..nodes * ranks).map(|r| (r % nodes) as u32).collect();
    for names in [&blocks, &dealt] {
        let found = network(names, &run_on(names, 0, two_level));
        assert_eq!(found, wanted, "{what} on {nodes} nodes of {ranks} ranks");
        let Some(flat) = flat else { continue };
        let size = nodes * ranks;
        let schedules: Vec<Schedule> =
            (0..size).map(|rank| flat(RankPlace { rank, size }).unwrap()).collect();
        let least = network(names, &schedules);
        assert!(
            least.0 >= wanted.0 && least.1 >= wanted.1,
            "{what} on {nodes} nodes of {ranks} ranks: flat sends {least:?}, two levels {wanted:?}"
        );
    }
}

#[test]
fn rooted_operations_send_one_message_to_or_from_each_other_node() {
    let kind = Kind::plain();
    for (nodes, ranks) in SHAPES {
        let (shape, bytes) = ((nodes, ranks), 8 * COUNT);
        let memory = Memory::new(&kind, &vec![0; COUNT]);
        let all = Memory::new(&kind, &vec![0; COUNT * nodes * ranks]);
        let operator = Operator::commuting(&kind);
        let reduction = operator.reduction(&kind, COUNT);
        let root = nodes * ranks / 2;
        // A node's data passes as many nodes as its number in the tree has bits.
        let hops: usize = (0..nodes).map(|node| node.count_ones() as usize).sum();
        let wanted = (nodes - 1, (nodes - 1) * bytes);
        let (limits, flat) = (short(false), thresholds()[0]);
        expect(
            "bcast",
            shape,
            wanted,
            &|layout| two_level::bcast(layout, &limits, memory.view(), root),
            Some(&|me| flat::bcast(me, &flat, memory.view(), root)),
        );
        let result = Memory::new(&kind, &vec![0; COUNT]);
        expect(
            "reduce",
            shape,
            wanted,
            &|layout| {
                let own = memory.elements();
                let to = (layout.rank() == root).then(|| result.elements());
                two_level::reduce(layout, &limits, &reduction, Some(&own), to.as_ref(), root)
            },
            Some(&|me| {
                let own = memory.elements();
                let to = (me.rank == root).then(|| result.elements());
                flat::reduce(me, &flat, &reduction, Some(&own), to.as_ref(), root)
            }),
        );
        let wanted = (nodes - 1, hops * ranks * bytes);
        expect(
            "gather",
            shape,
            wanted,
            &|layout| {
                let blocks = (layout.rank() == root).then(|| all.blocks(COUNT));
                two_level::gather(layout, &limits, Some(memory.view()), blocks.as_ref(), root)
            },
            None, // a direct gather sends fewer bytes in more messages
        );
        expect(
            "scatter",
            shape,
            wanted,
            &|layout| {
                let blocks = (layout.rank() == root).then(|| all.blocks(COUNT));
                two_level::scatter(layout, &limits, blocks.as_ref(), Some(memory.view()), root)
            },
            None,
        );
    }
}

#[test]
fn barrier_is_one_among_nodes() {
    for (nodes, ranks) in SHAPES {
        expect(
            "barrier",
            (nodes, ranks),
            (nodes * rounds(nodes), 0),
            &|layout| two_level::barrier(layout, &limits(false)),
            Some(&|me| Ok(flat::barrier(me))),
        );
    }
}

#[test]
fn reductions_to_all_send_what_one_rank_a_node_would() {
    let kind = Kind::plain();
    for (nodes, ranks) in SHAPES {
        let (shape, size, bytes) = ((nodes, ranks), nodes * ranks, 8 * COUNT);
        let operator = Operator::commuting(&kind);
        let reduction = operator.reduction(&kind, COUNT);
        let buffers = || -> Vec<Memory> {
            let buffer = |_| Memory::new(&kind, &vec![0; COUNT]);
            (0..size).map(buffer).collect()
        };
        let (send, receive) = (buffers(), buffers());
        let messages = doubling(nodes);
        for columns in [false, true] {
            // Columns send the parts of a vector apart.
            let times = if columns { ranks } else { 1 };
            expect(
                "allreduce",
                shape,
                (messages * times, messages * bytes),
                &|layout| {
                    let (own, to) =
                        (send[layout.rank()].elements(), receive[layout.rank()].elements());
                    two_level::allreduce(layout, &short(columns), &reduction, Some(&own), &to)
                },
                None,
            );
        }
        let own = vec![COUNT / size; size];
        let reduction = operator.reduction(&kind, COUNT / size * size);
        let bytes = 8 * reduction.count;
        if nodes.is_power_of_two() {
            let build = |layout: &RanksByNode| {
                let (from, to) =
                    (send[layout.rank()].elements(), receive[layout.rank()].elements());
                let limits = short(false);
                two_level::reduce_scatter(layout, &limits, &reduction, &own, Some(&from), &to)
            };
            let wanted = (messages, (nodes - 1) * bytes);
            expect("reduce_scatter", shape, wanted, &build, None);
        }
    }
}

#[test]
fn gathering_and_exchanging_to_all_sends_each_block_once_to_each_node() {
    let kind = Kind::plain();
    for (nodes, ranks) in SHAPES {
        let (shape, size) = ((nodes, ranks), nodes * ranks);
        let (count, bytes) = (3, 24);
        let buffers = || -> Vec<Memory> {
            let buffer = |_| Memory::new(&kind, &vec![0; count * size]);
            (0..size).map(buffer).collect()
        };
        let (send, receive) = (buffers(), buffers());
        for columns in [false, true] {
            let limits = limits(columns);
            let messages = if columns { size * (nodes - 1) } else { nodes * rounds(nodes) };
            expect(
                "allgather",
                shape,
                (messages, size * (nodes - 1) * bytes),
                &|layout| {
                    let own = send[layout.rank()].range(0, count);
                    let all = receive[layout.rank()].blocks(count);
                    two_level::allgather_blocks(layout, &limits, Some(own), &all)
                },
                None,
            );
            let messages = if columns { size * (nodes - 1) } else { nodes * (nodes - 1) };
            let flat = thresholds()[1];
            expect(
                "alltoall",
                shape,
                (messages, size * (size - ranks) * bytes),
                &|layout| {
                    let me = layout.rank();
                    let (own, all) = (send[me].blocks(count), receive[me].blocks(count));
                    two_level::alltoall(layout, &limits, Some(&own), &all)
                },
                Some(&|me| {
                    let (own, all) = (send[me.rank].blocks(count), receive[me.rank].blocks(count));
                    flat::alltoall(me, &flat, Some(&own), &all)
                }),
            );
        }
    }
}

/// What is chosen by default on two nodes of two ranks, which must keep up with the best of others.
#[test]
fn two_nodes_of_two_ranks() {
    let (kind, names) = (Kind::plain(), [0, 0, 1, 1]);
    let limits = TwoLevel::DEFAULT;
    for (bytes, messages) in
        [(8, 2), (1 << 10, 2), (16 << 10, 2), (256 << 10, 2), (512 << 10, 4), (1 << 20, 4)]
    {
        let count = bytes / 8;
        let operator = Operator::commuting(&kind);
        let reduction = operator.reduction(&kind, count);
        let memory = |_| Memory::new(&kind, &vec![0; count]);
        let (send, receive): (Vec<_>, Vec<_>) =
            ((0..4).map(memory).collect(), (0..4).map(memory).collect());
        let schedules = run_on(&names, 0, |layout| {
            let (own, to) = (send[layout.rank()].elements(), receive[layout.rank()].elements());
            two_level::allreduce(layout, &limits, &reduction, Some(&own), &to)
        });
        assert_eq!(network(&names, &schedules), (messages, 2 * bytes), "allreduce of {bytes} B");
    }
    for (bytes, messages) in [(8, 4), (1 << 10, 4), (4 << 10, 4), (8 << 10, 8), (1 << 20, 8)] {
        let memory = |_| Memory::new(&kind, &vec![0; bytes / 2]);
        let (send, receive): (Vec<_>, Vec<_>) =
            ((0..4).map(memory).collect(), (0..4).map(memory).collect());
        let schedules = run_on(&names, 0, |layout| {
            let me = layout.rank();
            let (own, all) = (send[me].blocks(bytes / 8), receive[me].blocks(bytes / 8));
            two_level::alltoall(layout, &limits, Some(&own), &all)
        });
        assert_eq!(network(&names, &schedules), (messages, 8 * bytes), "alltoall of {bytes} B");
    }
}
