//! The algorithms on intercommunicators, for groups of 1 to 6 processes on each side, every root,
//! several counts, datatypes and thresholds, against what the standard says each process has in the
//! end.
//!
//! Processes are numbered from the lower group on; the schedules number their own group first.

use crate::common::*;
use mica_collective::MessageThresholds;
use mica_collective::inter::{self, InterSides, Root};
use mica_collective::schedule::{RoundTransfer, Schedule};
use mica_memory::View;

const COUNTS: [usize; 4] = [0, 1, 7, 40];

/// Sizes of the lower and of the upper group.
fn groups() -> impl Iterator<Item = [usize; 2]> {
    (1..=6).flat_map(|lower| (1..=6).map(move |upper| [lower, upper]))
}

/// Calls `f` with groups, count, kind, thresholds, and a number that differs between calls.
fn cases(mut f: impl FnMut([usize; 2], usize, &Kind, &MessageThresholds, usize)) {
    let mut seed = 0;
    for sizes in groups() {
        for count in COUNTS {
            for kind in &Kind::all()[..if count == 7 { 5 } else { 1 }] {
                for limits in &thresholds() {
                    f(sizes, count, kind, limits, seed);
                    seed += 1;
                }
            }
        }
    }
}

/// A process: which group it is of, its rank there, its number among all.
#[derive(Clone, Copy, Debug)]
struct Process {
    upper: bool,
    rank: usize,
    number: usize,
    sides: InterSides,
}

impl Process {
    /// The number of a rank of the other group.
    fn other(&self, rank: usize) -> usize {
        if self.upper { rank } else { self.sides.local + rank }
    }
}

fn processes([lower, upper]: [usize; 2]) -> Vec<Process> {
    let process = |number: usize| {
        let upper_side = number >= lower;
        let (rank, local, remote) =
            if upper_side { (number - lower, upper, lower) } else { (number, lower, upper) };
        Process {
            upper: upper_side,
            rank,
            number,
            sides: InterSides { rank, local, remote, lower: !upper_side },
        }
    };
    (0..lower + upper).map(process).collect()
}

/// Builds all processes' schedules and runs them.
fn run_all(sizes: [usize; 2], seed: usize, build: impl Fn(Process) -> Schedule) {
    let schedules: Vec<Schedule> = processes(sizes)
        .into_iter()
        .map(|me| {
            let mut schedule = build(me);
            for round in &mut schedule.rounds {
                for transfer in &mut round.transfers {
                    let (RoundTransfer::Send { to: peer, .. }
                    | RoundTransfer::Receive { from: peer, .. }) = transfer;
                    *peer = match (me.upper, peer.checked_sub(me.sides.local)) {
                        (false, _) => *peer,
                        (true, None) => sizes[0] + *peer,
                        (true, Some(remote)) => remote,
                    };
                }
            }
            schedule
        })
        .collect();
    let delivery = [Delivery::Eager, Delivery::Rendezvous][seed % 2];
    simulate(&schedules, delivery, seed % 4 < 2);
}

/// Every process can be the root: its number, and what each process passes for it.
fn roots(sizes: [usize; 2]) -> impl Iterator<Item = (Process, impl Fn(Process) -> Root)> {
    processes(sizes).into_iter().map(|root| {
        let argument = move |me: Process| match me.upper == root.upper {
            true if me.number == root.number => Root::Here,
            true => Root::Beside,
            false => Root::Remote(root.rank),
        };
        (root, argument)
    })
}

fn untouched(count: usize) -> Vec<u64> {
    vec![UNTOUCHED; count]
}

/// Blocks of `count + i % 3` elements, none for every fourth, in a buffer with a gap after each.
fn ragged(count: usize, blocks: usize) -> (Vec<std::ops::Range<usize>>, usize) {
    let mut end = 0;
    let block = |i: usize| {
        let length = if i % 4 == 3 { 0 } else { count + i % 3 };
        let start = end;
        end = start + length + 1;
        start..start + length
    };
    ((0..blocks).map(block).collect(), end)
}

#[test]
fn barrier_waits_for_everybody() {
    for sizes in groups() {
        let all = processes(sizes);
        run_all(sizes, 0, |me| inter::barrier(me.sides));
        run_all(sizes, 3, |me| inter::barrier(me.sides));
        // News spreads along the messages, round by round.
        let schedules: Vec<Schedule> = all.iter().map(|me| inter::barrier(me.sides)).collect();
        let mut heard: Vec<u64> = (0..all.len()).map(|number| 1 << number).collect();
        for round in 0..schedules[0].rounds.len() {
            let before = heard.clone();
            for me in &all {
                for transfer in &schedules[me.number].rounds[round].transfers {
                    if let RoundTransfer::Send { to, .. } = transfer {
                        let to = match to.checked_sub(me.sides.local) {
                            Some(rank) => me.other(rank),
                            None => me.number - me.rank + to,
                        };
                        heard[to] |= before[me.number];
                    }
                }
            }
        }
        assert!(heard.iter().all(|&h| h == (1 << all.len()) - 1), "{sizes:?}");
    }
}

#[test]
fn bcast_brings_the_roots_data_to_the_other_group() {
    cases(|sizes, count, kind, limits, seed| {
        for (root, argument) in roots(sizes) {
            let memory: Vec<Memory> = processes(sizes)
                .iter()
                .map(|me| match me.number == root.number {
                    true => Memory::new(kind, &values(root.number, 0..count)),
                    false => Memory::new(kind, &untouched(count)),
                })
                .collect();
            run_all(sizes, seed + root.number, |me| {
                inter::bcast(me.sides, limits, memory[me.number].view(), argument(me)).unwrap()
            });
            for me in processes(sizes) {
                let has = me.number == root.number || me.upper != root.upper;
                let expected = match has {
                    true => values(root.number, 0..count),
                    false => untouched(count),
                };
                memory[me.number].expect(&expected, &(sizes, root, me, limits));
            }
        }
    });
}

#[test]
fn gather_and_scatter_serve_the_other_group() {
    cases(|sizes, count, kind, limits, seed| {
        if *limits != MessageThresholds::DEFAULT {
            return; // they have no thresholds
        }
        for (root, argument) in roots(sizes) {
            let remote = root.sides.remote;
            let (places, total) = ragged(count, remote);
            let own: Vec<Memory> = processes(sizes)
                .iter()
                .map(|me| Memory::new(kind, &values(me.number, 0..count + 2)))
                .collect();
            let gathered = Memory::new(kind, &untouched(total));
            let views = || -> Vec<View> {
                let view =
                    |place: &std::ops::Range<usize>| gathered.range(place.start, place.len());
                places.iter().map(view).collect()
            };
            let mine = |me: Process, memory: &Memory| match argument(me) {
                Root::Remote(_) => Some(memory.range(0, places[me.rank].len())),
                _ => None,
            };
            let blocks = |me: Process| (argument(me) == Root::Here).then(&views);
            run_all(sizes, seed + root.number, |me| {
                inter::gather(me.sides, mine(me, &own[me.number]), blocks(me), argument(me))
            });
            let mut expected = untouched(total);
            for (rank, place) in places.iter().enumerate() {
                let from = values(root.other(rank), 0..place.len());
                expected[place.clone()].copy_from_slice(&from);
            }
            gathered.expect(&expected, &(sizes, root, count));

            let back: Vec<Memory> =
                processes(sizes).iter().map(|_| Memory::new(kind, &untouched(count + 2))).collect();
            run_all(sizes, seed + root.number + 1, |me| {
                inter::scatter(me.sides, blocks(me), mine(me, &back[me.number]), argument(me))
            });
            for me in processes(sizes) {
                let mut expected = untouched(count + 2);
                if me.upper != root.upper {
                    let length = places[me.rank].len();
                    expected[..length].copy_from_slice(&values(me.number, 0..length));
                }
                back[me.number].expect(&expected, &(sizes, root, me, count));
            }
        }
    });
}

#[test]
fn allgather_brings_all_of_the_other_group() {
    cases(|sizes, count, kind, limits, seed| {
        if *limits != MessageThresholds::DEFAULT {
            return;
        }
        let all = processes(sizes);
        let length = |me: &Process| ragged(count, me.rank + 1).0[me.rank].len();
        let own: Vec<Memory> =
            all.iter().map(|me| Memory::new(kind, &values(me.number, 0..count + 2))).collect();
        let gathered: Vec<Memory> = all
            .iter()
            .map(|me| Memory::new(kind, &untouched(ragged(count, me.sides.remote).1)))
            .collect();
        run_all(sizes, seed, |me| {
            let (places, _) = ragged(count, me.sides.remote);
            let memory = &gathered[me.number];
            let blocks: Vec<View> =
                places.iter().map(|place| memory.range(place.start, place.len())).collect();
            inter::allgather(me.sides, own[me.number].range(0, length(&me)), &blocks)
        });
        for me in all {
            let (places, total) = ragged(count, me.sides.remote);
            let mut expected = untouched(total);
            for (rank, place) in places.iter().enumerate() {
                let from = values(me.other(rank), 0..place.len());
                expected[place.clone()].copy_from_slice(&from);
            }
            gathered[me.number].expect(&expected, &(sizes, me, count));
        }
    });
}

#[test]
fn alltoall_brings_each_its_own() {
    cases(|sizes, count, kind, limits, seed| {
        let all = processes(sizes);
        // From process `from` to process `to` go elements from `100 * to` on, none to some.
        let length = |from: usize, to: usize| match (from + to) % 5 {
            4 => 0,
            more => count + more,
        };
        let block = |from: usize, to: usize| values(from, 100 * to..100 * to + length(from, to));
        let side = |me: Process, f: &dyn Fn(usize) -> Vec<u64>| {
            let values: Vec<Vec<u64>> = (0..me.sides.remote).map(|r| f(me.other(r))).collect();
            let lengths: Vec<usize> = values.iter().map(Vec::len).collect();
            (values.concat(), lengths)
        };
        let sent: Vec<_> = all
            .iter()
            .map(|&me| {
                let (values, lengths) = side(me, &|to| block(me.number, to));
                (Memory::new(kind, &values), lengths)
            })
            .collect();
        let received: Vec<_> = all
            .iter()
            .map(|&me| {
                let (values, lengths) = side(me, &|from| block(from, me.number));
                (Memory::new(kind, &untouched(values.len())), lengths)
            })
            .collect();
        let views = |(memory, lengths): &(Memory, Vec<usize>)| -> Vec<View> {
            let mut first = 0;
            let view = |&length: &usize| {
                first += length;
                memory.range(first - length, length)
            };
            lengths.iter().map(view).collect()
        };
        run_all(sizes, seed, |me| {
            let (out, into) = (views(&sent[me.number]), views(&received[me.number]));
            inter::alltoall(me.sides, limits, &out, &into)
        });
        for me in all {
            let (expected, _) = side(me, &|from| block(from, me.number));
            received[me.number].0.expect(&expected, &(sizes, me, limits));
        }
    });
}

#[test]
fn reductions_cross_over_in_rank_order() {
    cases(|sizes, count, kind, limits, seed| {
        for operator in [Operator::ordered(kind), Operator::commuting(kind)] {
            // The other group's operands, reduced.
            let expected = |me: Process, range| {
                let first = me.other(0);
                operator.expected(first..first + me.sides.remote, range)
            };
            let all = processes(sizes);
            let operands = |count: usize| -> Vec<Memory> {
                all.iter().map(|me| Memory::new(kind, &values(me.number, 0..count))).collect()
            };
            let results = |count: usize| -> Vec<Memory> {
                all.iter().map(|_| Memory::new(kind, &untouched(count))).collect()
            };
            let reduction = operator.reduction(kind, count);
            let (send, receive) = (operands(count), results(count));
            let elements = |memory: &[Memory], me: Process| memory[me.number].elements();
            run_all(sizes, seed, |me| {
                let (send, receive) = (elements(&send, me), elements(&receive, me));
                inter::allreduce(me.sides, limits, &reduction, &send, &receive).unwrap()
            });
            for &me in &all {
                receive[me.number].expect(&expected(me, 0..count), &(sizes, me, limits));
            }

            for (root, argument) in roots(sizes) {
                let receive = results(count);
                run_all(sizes, seed + root.number, |me| {
                    let here = argument(me);
                    let out = elements(&send, me);
                    let into = elements(&receive, me);
                    let out = matches!(here, Root::Remote(_)).then_some(&out);
                    let into = (here == Root::Here).then_some(&into);
                    inter::reduce(me.sides, limits, &reduction, out, into, here).unwrap()
                });
                for &me in &all {
                    let expected = match me.number == root.number {
                        true => expected(me, 0..count),
                        false => untouched(count),
                    };
                    receive[me.number].expect(&expected, &(sizes, root, me, limits));
                }
            }

            // Shared out: the first of each group gets half, every second one nothing.
            let counts = |local: usize| {
                let mut left = count;
                let share = |rank: usize| {
                    let share = match rank {
                        _ if rank + 1 == local => left,
                        _ if rank % 2 == 1 => 0,
                        _ => left / 2,
                    };
                    left -= share;
                    share
                };
                (0..local).map(share).collect::<Vec<usize>>()
            };
            let receive: Vec<Memory> = all
                .iter()
                .map(|me| Memory::new(kind, &untouched(counts(me.sides.local)[me.rank])))
                .collect();
            run_all(sizes, seed, |me| {
                let (send, receive) = (elements(&send, me), elements(&receive, me));
                let counts = counts(me.sides.local);
                inter::reduce_scatter(me.sides, limits, &reduction, &counts, &send, &receive)
                    .unwrap()
            });
            for &me in &all {
                let counts = counts(me.sides.local);
                let first: usize = counts[..me.rank].iter().sum();
                let range = first..first + counts[me.rank];
                receive[me.number].expect(&expected(me, range), &(sizes, me, limits));
            }
        }
    });
}
