//! Every description, run on symbolic values by all ranks, does what MPI says of its collective:
//! for 1 to 17 ranks, all roots, in place or not, with eager and with rendezvous sends.

mod calls;
mod run;

use run::{Delivery, Memory, RoundList, Symbol, run, symbol};

use crate::*;
use reduce_scatter::ScatteredBlocks;

const OWN: [OwnData; 2] = [OwnData::Input, OwnData::InPlace];
const RANKS: std::ops::RangeInclusive<usize> = 1..=17;

fn deliveries() -> [Delivery; 2] {
    [Delivery::Eager, Delivery::Rendezvous]
}

/// The units of `rank`'s data.
fn data(rank: usize, count: usize) -> Vec<Symbol> {
    (0..count).map(|i| symbol(rank, i)).collect()
}

fn nothing(count: usize) -> Vec<Symbol> {
    vec![None; count]
}

/// Calls `f` for each number of ranks, root and delivery.
fn rooted(mut f: impl FnMut(usize, usize, Delivery)) {
    for size in RANKS {
        for root in 0..size {
            for delivery in deliveries() {
                f(size, root, delivery);
            }
        }
    }
}

/// Calls `f` for each number of ranks, place of the data and delivery.
fn unrooted(mut f: impl FnMut(usize, OwnData, Delivery)) {
    for size in RANKS {
        for own in OWN {
            for delivery in deliveries() {
                f(size, own, delivery);
            }
        }
    }
}

/// The data in the input, or in the output, which has `room` units.
fn memory(own: OwnData, data: Vec<Symbol>, room: usize) -> Memory {
    match own {
        OwnData::Input => Memory::new(data, nothing(room)),
        OwnData::InPlace => {
            let missing = room.saturating_sub(data.len());
            Memory::new(Vec::new(), [data, nothing(missing)].concat())
        }
    }
}

/// Element `i` of the operands of `ranks`, in order.
fn folded(ranks: std::ops::Range<usize>, i: usize) -> Symbol {
    Some(ranks.map(|rank| (rank, i)).collect())
}

/// Whether all results are `expected`: in this order, or in any where the operator commutes.
fn agrees(found: &[Symbol], expected: &[Symbol], commutes: bool) -> bool {
    let in_order = |symbol: &Symbol| {
        let mut symbol = symbol.clone();
        if let Some(operands) = symbol.as_mut().filter(|_| commutes) {
            operands.sort_unstable();
        }
        symbol
    };
    found.len() == expected.len()
        && found.iter().zip(expected).all(|(f, e)| in_order(f) == in_order(e))
}

#[test]
fn barrier_hears_of_all_ranks() {
    for size in RANKS {
        let peers = |rank| {
            let mut list = RoundList::default();
            barrier::dissemination(RankPlace { rank, size }, &mut list);
            list.peers()
        };
        let all: Vec<_> = (0..size).map(peers).collect();
        let mut heard: Vec<Vec<bool>> =
            (0..size).map(|me| (0..size).map(|rank| rank == me).collect()).collect();
        for (round, _) in all[0].iter().enumerate() {
            // Messages of a round are of the state before.
            let before = heard.clone();
            for (me, mine) in heard.iter_mut().enumerate() {
                for &from in &all[me][round].1 {
                    assert!(all[from][round].0.contains(&me));
                    mine.iter_mut().zip(&before[from]).for_each(|(mine, theirs)| *mine |= theirs);
                }
            }
        }
        assert!(heard.iter().flatten().all(|heard| *heard), "{size}");
        for delivery in deliveries() {
            let empty = |_| Memory::new(Vec::new(), Vec::new());
            run(size, delivery, empty, barrier::dissemination);
        }
    }
}

#[test]
fn bcast_brings_the_roots_data() {
    for scatters in [false, true] {
        rooted(|size, root, delivery| {
            for bytes in [1, 7, 16, 40] {
                let memory = |rank| match rank == root {
                    true => Memory::new(Vec::new(), data(root, bytes)),
                    false => Memory::new(Vec::new(), nothing(bytes)),
                };
                let outputs = run(size, delivery, memory, |me, out| match scatters {
                    false => bcast::binomial(me, root, bytes, out),
                    true => bcast::scatter_ring(me, root, bytes, out),
                });
                assert!(outputs.iter().all(|output| *output == data(root, bytes)));
            }
        });
    }
}

#[test]
fn gather_collects_in_rank_order() {
    for is_linear in [false, true] {
        for own in OWN {
            rooted(|size, root, delivery| {
                let own_of = |rank| if rank == root { own } else { OwnData::Input };
                let blocks = |_: usize| 1;
                let memory = |rank| match (rank == root, own) {
                    (true, OwnData::InPlace) => {
                        let mut output = nothing(size);
                        output[root] = symbol(root, 0);
                        Memory::new(Vec::new(), output)
                    }
                    (is_root, _) => {
                        Memory::new(data(rank, 1), nothing(if is_root { size } else { 0 }))
                    }
                };
                let outputs = run(size, delivery, memory, |me, out| match is_linear {
                    false => gather::gather_binomial(me, root, own_of(me.rank), out),
                    true => gather::gather_linear(
                        me,
                        root,
                        own_of(me.rank),
                        BlockLengths::Each(&blocks),
                        out,
                    ),
                });
                let expected: Vec<Symbol> = (0..size).map(|rank| symbol(rank, 0)).collect();
                assert_eq!(outputs[root], expected);
            });
        }
    }
}

#[test]
fn scatter_deals_out_in_rank_order() {
    for is_linear in [false, true] {
        for own in OWN {
            rooted(|size, root, delivery| {
                let own_of = |rank| if rank == root { own } else { OwnData::Input };
                let memory = |rank| {
                    let input = if rank == root { data(root, size) } else { Vec::new() };
                    Memory::new(input, nothing(1))
                };
                let outputs = run(size, delivery, memory, |me, out| match is_linear {
                    false => gather::scatter_binomial(me, root, own_of(me.rank), out),
                    true => {
                        gather::scatter_linear(me, root, own_of(me.rank), BlockLengths::Equal, out)
                    }
                });
                for (rank, output) in outputs.iter().enumerate() {
                    let is_left_alone = rank == root && own == OwnData::InPlace;
                    let expected = if is_left_alone { None } else { symbol(root, rank) };
                    assert_eq!(output[0], expected);
                }
            });
        }
    }
}

#[test]
fn allgather_gives_all_blocks_to_all() {
    let algorithms: [fn(RankPlace, OwnData, &mut RoundList); 3] = [
        |me, own, out| allgather::ring(me, own, BlockLengths::Equal, out),
        |me, own, out| allgather::bruck(me, own, out),
        |me, own, out| match me.size.is_power_of_two() {
            true => allgather::recursive_doubling(me, own, out),
            false => allgather::bruck(me, own, out),
        },
    ];
    for algorithm in algorithms {
        unrooted(|size, own, delivery| {
            let memory = |rank| {
                let mut output = nothing(size);
                if own == OwnData::InPlace {
                    output[rank] = symbol(rank, 0);
                }
                Memory::new(data(rank, 1), output)
            };
            let outputs = run(size, delivery, memory, |me, out| algorithm(me, own, out));
            let expected: Vec<Symbol> = (0..size).map(|rank| symbol(rank, 0)).collect();
            assert!(outputs.iter().all(|output| *output == expected));
        });
    }
}

#[test]
fn alltoall_transposes() {
    let algorithms: [fn(RankPlace, &mut RoundList); 4] = [
        |me, out| alltoall::bruck(me, out),
        |me, out| alltoall::exchange(me, 1, BlockLengths::Equal, BlockLengths::Equal, out),
        |me, out| alltoall::exchange(me, 32, BlockLengths::Equal, BlockLengths::Equal, out),
        |me, out| alltoall::swap(me, |_| 1, out),
    ];
    for (number, algorithm) in algorithms.into_iter().enumerate() {
        unrooted(|size, own, delivery| {
            if (number == 3) != (own == OwnData::InPlace) {
                return;
            }
            let memory = |rank| memory(own, data(rank, size), size);
            let outputs = run(size, delivery, memory, algorithm);
            for (rank, output) in outputs.iter().enumerate() {
                let expected: Vec<Symbol> = (0..size).map(|from| symbol(from, rank)).collect();
                assert_eq!(*output, expected);
            }
        });
    }
}

/// Where lengths differ, ranks agree on which messages there are: those that have bytes.
#[test]
fn empty_blocks_are_not_sent() {
    let length = |from: usize, to: usize| (from + to) % 3;
    unrooted(|size, own, delivery| {
        let block = |rank: usize| length(rank, 0);
        let memory = |rank: usize| {
            let blocks = (0..size).map(|other| symbol(rank, other));
            memory(OwnData::Input, blocks.collect(), size)
        };
        let sums = run(size, delivery, memory, |me, out| match own {
            OwnData::Input => alltoall::exchange(
                me,
                3,
                BlockLengths::Each(&|to| length(me.rank, to)),
                BlockLengths::Each(&|from| length(from, me.rank)),
                out,
            ),
            OwnData::InPlace => {
                allgather::ring(me, OwnData::Input, BlockLengths::Each(&block), out)
            }
        });
        for (rank, output) in sums.iter().enumerate() {
            for (from, found) in output.iter().enumerate() {
                let (bytes, expected) = match own {
                    OwnData::Input => (length(from, rank), symbol(from, rank)),
                    OwnData::InPlace => (block(from), symbol(from, 0)),
                };
                let is_sent = bytes > 0 || from == rank;
                assert_eq!(*found, expected.filter(|_| is_sent));
            }
        }
    });
}

/// Calls `f` for vectors that commute or do not, with fewer and with more elements than ranks.
fn vectors(mut f: impl FnMut(ReductionShape)) {
    for commutes in [false, true] {
        for count in [1, 6, 23] {
            f(ReductionShape { count, commutes });
        }
    }
}

#[test]
fn reduce_folds_all_operands_at_the_root() {
    for halves in [false, true] {
        for own in OWN {
            vectors(|vector| {
                rooted(|size, root, delivery| {
                    let operands = |rank| ReduceBuffers {
                        own: if rank == root { own } else { OwnData::Input },
                        has_output: rank == root,
                    };
                    let memory = |rank: usize| {
                        let room = if rank == root { vector.count } else { 0 };
                        memory(operands(rank).own, data(rank, vector.count), room)
                    };
                    let outputs = run(size, delivery, memory, |me, out| match halves {
                        false => reduce::binomial(me, root, vector, operands(me.rank), out),
                        true => reduce::halving(me, root, vector, operands(me.rank), out),
                    });
                    let expected: Vec<Symbol> =
                        (0..vector.count).map(|i| folded(0..size, i)).collect();
                    assert!(agrees(&outputs[root], &expected, vector.commutes));
                });
            });
        }
    }
}

#[test]
fn allreduce_folds_in_the_same_order_everywhere() {
    for halves in [false, true] {
        vectors(|vector| {
            unrooted(|size, own, delivery| {
                let memory = |rank| memory(own, data(rank, vector.count), vector.count);
                let outputs = run(size, delivery, memory, |me, out| match halves {
                    false => allreduce::doubling(me, vector, own, out),
                    true => allreduce::halving(me, vector, own, out),
                });
                let expected: Vec<Symbol> = (0..vector.count).map(|i| folded(0..size, i)).collect();
                assert!(agrees(&outputs[0], &expected, vector.commutes));
                assert!(outputs.iter().all(|output| *output == outputs[0]));
            });
        });
    }
}

#[test]
fn reduce_scatter_folds_each_block() {
    type Algorithm = fn(RankPlace, ScatteredBlocks<'_>, &mut RoundList);
    let algorithms: [(bool, Algorithm); 3] = [
        (true, |me, blocks, out| reduce_scatter::pairwise(me, blocks, out)),
        (true, |me, blocks, out| reduce_scatter::halving(me, blocks, out)),
        (false, |me, blocks, out| reduce_scatter::in_order(me, blocks, out)),
    ];
    for (commutes, algorithm) in algorithms {
        for lengths in [|_: usize| 1, |rank: usize| rank % 3, |rank: usize| usize::from(rank == 1)]
        {
            unrooted(|size, own, delivery| {
                let mut first = vec![0];
                (0..size).for_each(|rank| first.push(first[rank] + lengths(rank)));
                let whole = first[size];
                let memory = |rank: usize| memory(own, data(rank, whole), whole);
                let outputs = run(size, delivery, memory, |me, out| {
                    algorithm(me, ScatteredBlocks { first: &|rank| first[rank], own }, out);
                });
                for (rank, output) in outputs.iter().enumerate() {
                    let elements = first[rank]..first[rank + 1];
                    let expected: Vec<Symbol> =
                        elements.clone().map(|i| folded(0..size, i)).collect();
                    assert!(agrees(&output[..elements.len()], &expected, commutes));
                }
            });
        }
    }
}

#[test]
fn scans_fold_the_ranks_before() {
    for kind in [ScanKind::Inclusive, ScanKind::Exclusive] {
        vectors(|vector| {
            unrooted(|size, own, delivery| {
                let memory = |rank| memory(own, data(rank, vector.count), vector.count);
                let outputs = run(size, delivery, memory, |me, out| {
                    scan::doubling(me, kind, vector, own, out);
                });
                for (rank, output) in outputs.iter().enumerate() {
                    let end = if kind == ScanKind::Inclusive { rank + 1 } else { rank };
                    let result = |i| folded(0..end, i);
                    let expected: Vec<Symbol> = match (end, own) {
                        // Undefined: nothing is written.
                        (0, OwnData::Input) => nothing(vector.count),
                        (0, OwnData::InPlace) => data(rank, vector.count),
                        _ => (0..vector.count).map(result).collect(),
                    };
                    assert!(agrees(output, &expected, false), "{kind:?} {size} {rank}");
                }
            });
        });
    }
}
