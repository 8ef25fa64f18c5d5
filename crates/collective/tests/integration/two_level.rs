//! The two-level algorithms for many placements of up to 12 ranks on nodes, every root, operators
//! of both kinds, several counts, datatypes and limits, against what the standard says each rank
//! has in the end; and how much travels between nodes.

use crate::common::*;
use mica_collective::schedule::{RoundTransfer, Schedule};
use mica_collective::{TwoLevel, two_level};
use mica_memory::View;

const COUNTS: [usize; 6] = [0, 1, 2, 7, 40, 1500];

/// A case: where ranks are, how much, of what, how.
struct Case<'a> {
    names: &'a [u32],
    count: usize,
    kind: &'a Kind,
    limits: TwoLevel,
    in_place: bool,
    seed: usize,
}

impl Case<'_> {
    fn size(&self) -> usize {
        self.names.len()
    }

    fn label(&self, what: &'static str, more: usize) -> impl std::fmt::Debug + '_ {
        (what, more, self.names, self.count, self.in_place, self.limits)
    }

    fn untouched(&self, count: usize) -> Memory {
        Memory::new(self.kind, &vec![UNTOUCHED; count])
    }

    fn operands(&self) -> Vec<Memory> {
        let operand = |rank| Memory::new(self.kind, &values(rank, 0..self.count));
        (0..self.size()).map(operand).collect()
    }
}

fn cases(mut f: impl FnMut(&Case<'_>)) {
    let (kinds, mut seed) = (Kind::all(), 0);
    for names in &placements() {
        for count in COUNTS {
            for kind in &kinds[..if count == 7 { kinds.len() } else { 1 }] {
                for limits in two_levels() {
                    for in_place in [false, true] {
                        seed += 1;
                        f(&Case { names, count, kind, limits, in_place, seed });
                    }
                }
            }
        }
    }
}

#[test]
fn barrier_waits_for_everybody() {
    for names in placements() {
        for limits in two_levels() {
            run_on(&names, 0, |layout| two_level::barrier(layout, &limits));
            let schedules = run_on(&names, 3, |layout| two_level::barrier(layout, &limits));
            hears_of_all(&schedules);
        }
    }
}

/// News spreads with messages; ranks go on as soon as they can.
fn hears_of_all(schedules: &[Schedule]) {
    let size = schedules.len();
    let mut heard: Vec<u64> = (0..size).map(|rank| 1 << rank).collect();
    let mut at = vec![0; size];
    let mut wires =
        std::collections::HashMap::<(usize, usize), std::collections::VecDeque<u64>>::new();
    let mut entered = vec![false; size];
    let mut left = true;
    while left {
        left = false;
        for me in 0..size {
            let Some(round) = schedules[me].rounds.get(at[me]) else {
                continue;
            };
            left = true;
            if !std::mem::replace(&mut entered[me], true) {
                for transfer in &round.transfers {
                    if let RoundTransfer::Send { to, .. } = transfer {
                        wires.entry((me, *to)).or_default().push_back(heard[me]);
                    }
                }
            }
            let sources: Vec<usize> = round
                .transfers
                .iter()
                .filter_map(|transfer| match transfer {
                    RoundTransfer::Receive { from, .. } => Some(*from),
                    RoundTransfer::Send { .. } => None,
                })
                .collect();
            let ready = |from: &usize| wires.get(&(*from, me)).is_some_and(|wire| !wire.is_empty());
            if sources.iter().all(ready) {
                for from in sources {
                    heard[me] |= wires.get_mut(&(from, me)).unwrap().pop_front().unwrap();
                }
                at[me] += 1;
                entered[me] = false;
            }
        }
    }
    assert!(heard.iter().all(|&h| h == (1 << size) - 1), "{heard:x?}");
}

#[test]
fn bcast_brings_the_roots_data() {
    cases(|case| {
        for root in (0..case.size()).filter(|_| !case.in_place) {
            let memory: Vec<Memory> = (0..case.size())
                .map(|rank| match rank == root {
                    true => Memory::new(case.kind, &values(root, 0..case.count)),
                    false => case.untouched(case.count),
                })
                .collect();
            run_on(case.names, case.seed + root, |layout| {
                two_level::bcast(layout, &case.limits, memory[layout.rank()].view(), root)
            });
            for memory in &memory {
                memory.expect(&values(root, 0..case.count), &case.label("bcast", root));
            }
        }
    });
}

/// The blocks of all ranks, one after the other.
fn gathered(size: usize, count: usize) -> Vec<u64> {
    (0..size).flat_map(|rank| values(rank, 0..count)).collect()
}

#[test]
fn gather_and_scatter_keep_rank_order() {
    cases(|case| {
        let (size, count) = (case.size(), case.count.min(40));
        for root in 0..size {
            let own: Vec<Memory> =
                (0..size).map(|rank| Memory::new(case.kind, &values(rank, 0..count))).collect();
            let mut initial = vec![UNTOUCHED; size * count];
            if case.in_place {
                initial[root * count..][..count].copy_from_slice(&values(root, 0..count));
            }
            let all = Memory::new(case.kind, &initial);
            let needs = |rank: usize| rank != root || !case.in_place;
            run_on(case.names, case.seed + root, |layout| {
                let rank = layout.rank();
                let send = needs(rank).then(|| own[rank].view());
                let blocks = (rank == root).then(|| all.blocks(count));
                two_level::gather(layout, &case.limits, send, blocks.as_ref(), root)
            });
            all.expect(&gathered(size, count), &case.label("gather", root));
            for (rank, own) in own.iter().enumerate() {
                own.expect(&values(rank, 0..count), &"a send buffer was changed");
            }

            let back: Vec<Memory> = (0..size).map(|_| case.untouched(count)).collect();
            run_on(case.names, case.seed + root + 1, |layout| {
                let rank = layout.rank();
                let receive = needs(rank).then(|| back[rank].view());
                let blocks = (rank == root).then(|| all.blocks(count));
                two_level::scatter(layout, &case.limits, blocks.as_ref(), receive, root)
            });
            all.expect(&gathered(size, count), &"the send buffer was changed");
            for rank in (0..size).filter(|&rank| needs(rank)) {
                back[rank].expect(&values(rank, 0..count), &case.label("scatter", root));
            }
        }
    });
}

#[test]
fn allgather_gives_everybody_all_blocks() {
    cases(|case| {
        let size = case.size();
        // Blocks of one length, then of different ones, some empty.
        for uneven in [false, true] {
            let length = |rank: usize| match uneven {
                true => case.count * ((rank * 7 + case.seed) % 3),
                false => case.count,
            };
            let first: Vec<usize> = (0..=size).map(|rank| (0..rank).map(length).sum()).collect();
            let mut wanted = Vec::new();
            for rank in 0..size {
                wanted.extend(values(rank, 0..length(rank)));
            }
            let own: Vec<Memory> = (0..size)
                .map(|rank| Memory::new(case.kind, &values(rank, 0..length(rank))))
                .collect();
            let all: Vec<Memory> = (0..size)
                .map(|rank| {
                    let mut initial = vec![UNTOUCHED; first[size]];
                    if case.in_place {
                        let mine = values(rank, 0..length(rank));
                        initial[first[rank]..first[rank + 1]].copy_from_slice(&mine);
                    }
                    Memory::new(case.kind, &initial)
                })
                .collect();
            run_on(case.names, case.seed, |layout| {
                let (me, limits) = (layout.rank(), &case.limits);
                let send = (!case.in_place).then(|| own[me].view());
                if uneven {
                    let block = |rank: usize| all[me].range(first[rank], length(rank));
                    let blocks: Vec<View> = (0..size).map(block).collect();
                    two_level::allgather(layout, limits, send, &blocks)
                } else {
                    two_level::allgather_blocks(layout, limits, send, &all[me].blocks(case.count))
                }
            });
            for all in &all {
                all.expect(&wanted, &case.label("allgather", usize::from(uneven)));
            }
        }
    });
}

/// What rank `from` sends rank `to`.
fn letter(from: usize, to: usize, count: usize) -> Vec<u64> {
    values(from, to * 1000..to * 1000 + count)
}

#[test]
fn alltoall_transposes() {
    cases(|case| {
        let (size, count) = (case.size(), case.count.min(40));
        let outgoing =
            |rank| -> Vec<u64> { (0..size).flat_map(|to| letter(rank, to, count)).collect() };
        let send: Vec<Memory> =
            (0..size).map(|rank| Memory::new(case.kind, &outgoing(rank))).collect();
        let receive: Vec<Memory> = (0..size)
            .map(|rank| match case.in_place {
                true => Memory::new(case.kind, &outgoing(rank)),
                false => case.untouched(size * count),
            })
            .collect();
        run_on(case.names, case.seed, |layout| {
            let own = (!case.in_place).then(|| send[layout.rank()].blocks(count));
            let into = receive[layout.rank()].blocks(count);
            two_level::alltoall(layout, &case.limits, own.as_ref(), &into)
        });
        for rank in 0..size {
            let wanted: Vec<u64> = (0..size).flat_map(|from| letter(from, rank, count)).collect();
            receive[rank].expect(&wanted, &case.label("alltoall", rank));
            send[rank].expect(&outgoing(rank), &"a send buffer was changed");
        }
    });
}

#[test]
fn exchange_moves_blocks_of_any_length() {
    cases(|case| {
        let size = case.size();
        let length = |from: usize, to: usize| (from * 5 + to * 3) % 4 * case.count.min(40);
        let out = |rank| -> Vec<u64> {
            let block = |to| letter(rank, to, length(rank, to));
            (0..size).flat_map(block).collect()
        };
        let into = |rank| -> Vec<u64> {
            let block = |from| letter(from, rank, length(from, rank));
            (0..size).flat_map(block).collect()
        };
        let send: Vec<Memory> = (0..size).map(|r| Memory::new(case.kind, &out(r))).collect();
        let receive: Vec<Memory> = (0..size).map(|r| case.untouched(into(r).len())).collect();
        let views = |memory: &Memory, length: &dyn Fn(usize) -> usize| -> Vec<View> {
            let mut first = 0;
            let view = |other| {
                first += length(other);
                memory.range(first - length(other), length(other))
            };
            (0..size).map(view).collect()
        };
        run_on(case.names, case.seed, |layout| {
            let me = layout.rank();
            let outgoing = views(&send[me], &|to| length(me, to));
            let incoming = views(&receive[me], &|from| length(from, me));
            Ok(two_level::exchange(layout, &case.limits, &outgoing, &incoming))
        });
        for (rank, receive) in receive.iter().enumerate() {
            receive.expect(&into(rank), &case.label("exchange", rank));
        }
    });
}

/// Calls `f` with operators that commute and those that do not.
fn reductions(mut f: impl FnMut(&Case<'_>, &Operator)) {
    cases(|case| {
        for operator in [Operator::ordered(case.kind), Operator::commuting(case.kind)] {
            f(case, &operator);
        }
    });
}

#[test]
fn reduce_folds_in_rank_order() {
    reductions(|case, operator| {
        for root in 0..case.size() {
            let send = case.operands();
            let receive = match case.in_place {
                true => Memory::new(case.kind, &values(root, 0..case.count)),
                false => case.untouched(case.count),
            };
            run_on(case.names, case.seed + root, |layout| {
                let here = layout.rank() == root;
                let own = (!here || !case.in_place).then(|| send[layout.rank()].elements());
                let to = here.then(|| receive.elements());
                let reduction = operator.reduction(case.kind, case.count);
                two_level::reduce(layout, &case.limits, &reduction, own.as_ref(), to.as_ref(), root)
            });
            let wanted = operator.expected(0..case.size(), 0..case.count);
            receive.expect(&wanted, &case.label("reduce", root));
            for (rank, send) in send.iter().enumerate() {
                send.expect(&values(rank, 0..case.count), &"a send buffer was changed");
            }
        }
    });
}

#[test]
fn allreduce_folds_in_rank_order() {
    reductions(|case, operator| {
        let send = case.operands();
        let receive: Vec<Memory> = match case.in_place {
            true => case.operands(),
            false => (0..case.size()).map(|_| case.untouched(case.count)).collect(),
        };
        run_on(case.names, case.seed, |layout| {
            let own = (!case.in_place).then(|| send[layout.rank()].elements());
            let to = receive[layout.rank()].elements();
            let reduction = operator.reduction(case.kind, case.count);
            two_level::allreduce(layout, &case.limits, &reduction, own.as_ref(), &to)
        });
        let wanted = operator.expected(0..case.size(), 0..case.count);
        for (rank, (send, receive)) in send.iter().zip(&receive).enumerate() {
            receive.expect(&wanted, &case.label("allreduce", rank));
            send.expect(&values(rank, 0..case.count), &"a send buffer was changed");
        }
    });
}

#[test]
fn reduce_scatter_folds_in_rank_order() {
    reductions(|case, operator| {
        let (size, count) = (case.size(), case.count);
        let even: Vec<usize> =
            (0..size).map(|rank| (rank + 1) * count / size - rank * count / size).collect();
        let mut uneven = vec![0; size];
        uneven[size / 2] = count / 3;
        uneven[size - 1] += count - count / 3;
        for blocks in [even, uneven] {
            let send = case.operands();
            let receive: Vec<Memory> = match case.in_place {
                true => case.operands(),
                false => blocks.iter().map(|&block| case.untouched(block)).collect(),
            };
            run_on(case.names, case.seed, |layout| {
                let own = (!case.in_place).then(|| send[layout.rank()].elements());
                let to = receive[layout.rank()].elements();
                let reduction = operator.reduction(case.kind, count);
                let own = own.as_ref();
                two_level::reduce_scatter(layout, &case.limits, &reduction, &blocks, own, &to)
            });
            for rank in 0..size {
                let first: usize = blocks[..rank].iter().sum();
                let mut wanted = operator.expected(0..size, first..first + blocks[rank]);
                if case.in_place {
                    // Behind the result the operand may stay as it was.
                    wanted.extend(values(rank, blocks[rank]..count));
                }
                receive[rank].expect(&wanted, &case.label("reduce_scatter", rank));
                send[rank].expect(&values(rank, 0..count), &"a send buffer was changed");
            }
        }
    });
}
