//! The algorithms that move data, for 1 to 9 ranks, every root, many counts, datatypes and
//! thresholds, against what the standard says each rank has in the end.

use crate::common::*;
use mica_collective::flat;
use mica_collective::schedule::Schedule;
use mica_memory::View;

/// Calls `f` with every combination; kinds of data vary for a few counts only. The last number
/// differs between calls.
fn cases(mut f: impl FnMut(usize, usize, &Kind, &Kind, usize)) {
    let kinds = Kind::all();
    let mut seed = 0;
    for size in SIZES {
        for count in counts(size) {
            let some = if [1, 7, 20].contains(&count) { kinds.len() } else { 1 };
            for send in &kinds[..some] {
                for receive in &kinds[..some] {
                    f(size, count, send, receive, seed);
                    seed += 1;
                }
            }
        }
    }
}

#[test]
fn barrier_waits_for_everybody() {
    for size in 1..40 {
        let schedules: Vec<Schedule> = (0..size)
            .map(|rank| flat::barrier(mica_collective::RankPlace { rank, size }))
            .collect();
        simulate(&schedules, Delivery::Eager, false);
        simulate(&schedules, Delivery::Rendezvous, true);
        // News spreads along the messages, round by round: in the end each rank has heard of
        // all others.
        let mut heard: Vec<u64> = (0..size).map(|rank| 1 << rank).collect();
        for round in 0..schedules[0].rounds.len() {
            let before = heard.clone();
            for (rank, schedule) in schedules.iter().enumerate() {
                for transfer in &schedule.rounds[round].transfers {
                    if let mica_collective::schedule::RoundTransfer::Send { to, .. } = transfer {
                        heard[*to] |= before[rank];
                    }
                }
            }
        }
        assert!(heard.iter().all(|&h| h == (1 << size) - 1), "{size} ranks");
    }
}

#[test]
fn bcast_brings_the_roots_data() {
    cases(|size, count, at_root, elsewhere, seed| {
        for root in 0..size {
            for limits in thresholds() {
                let memory: Vec<Memory> = (0..size)
                    .map(|rank| match rank == root {
                        true => Memory::new(at_root, &values(root, 0..count)),
                        false => Memory::new(elsewhere, &vec![UNTOUCHED; count]),
                    })
                    .collect();
                run(size, seed + root, |me| flat::bcast(me, &limits, memory[me.rank].view(), root));
                for (rank, memory) in memory.iter().enumerate() {
                    memory.expect(&values(root, 0..count), &("bcast", size, root, rank, count));
                }
            }
        }
    });
}

/// The blocks of all ranks, one after the other.
fn gathered(size: usize, count: usize) -> Vec<u64> {
    (0..size).flat_map(|rank| values(rank, 0..count)).collect()
}

#[test]
fn gather_collects_in_rank_order() {
    cases(|size, count, send_kind, receive_kind, seed| {
        for root in 0..size {
            for (limits, in_place) in thresholds().into_iter().flat_map(|t| [(t, false), (t, true)])
            {
                let own = |rank: usize| Memory::new(send_kind, &values(rank, 0..count));
                let send: Vec<Memory> = (0..size).map(own).collect();
                let mut initial = vec![UNTOUCHED; size * count];
                if in_place {
                    initial[root * count..][..count].copy_from_slice(&values(root, 0..count));
                }
                let receive = Memory::new(receive_kind, &initial);
                run(size, seed + root, |me| {
                    let here = me.rank == root;
                    let own = (!here || !in_place).then(|| send[me.rank].view());
                    let blocks = here.then(|| receive.blocks(count));
                    flat::gather(me, &limits, own, blocks.as_ref(), root)
                });
                receive.expect(&gathered(size, count), &("gather", size, root, count, in_place));
                for (rank, send) in send.iter().enumerate() {
                    send.expect(&values(rank, 0..count), &"a send buffer was changed");
                }
            }
        }
    });
}

#[test]
fn scatter_deals_out_in_rank_order() {
    cases(|size, count, send_kind, receive_kind, seed| {
        for root in 0..size {
            for (limits, in_place) in thresholds().into_iter().flat_map(|t| [(t, false), (t, true)])
            {
                let send = Memory::new(send_kind, &gathered(size, count));
                let receive: Vec<Memory> =
                    (0..size).map(|_| Memory::new(receive_kind, &vec![UNTOUCHED; count])).collect();
                run(size, seed + root, |me| {
                    let here = me.rank == root;
                    let own = (!here || !in_place).then(|| receive[me.rank].view());
                    let blocks = here.then(|| send.blocks(count));
                    flat::scatter(me, &limits, blocks.as_ref(), own, root)
                });
                send.expect(&gathered(size, count), &"the send buffer was changed");
                for (rank, receive) in receive.iter().enumerate() {
                    let untouched = in_place && rank == root;
                    let wanted =
                        if untouched { vec![UNTOUCHED; count] } else { values(rank, 0..count) };
                    receive.expect(&wanted, &("scatter", size, root, rank, count, in_place));
                }
            }
        }
    });
}

#[test]
fn allgather_gives_everybody_all_blocks() {
    cases(|size, count, send_kind, receive_kind, seed| {
        for (limits, in_place) in thresholds().into_iter().flat_map(|t| [(t, false), (t, true)]) {
            let own = |rank: usize| Memory::new(send_kind, &values(rank, 0..count));
            let send: Vec<Memory> = (0..size).map(own).collect();
            let receive: Vec<Memory> = (0..size)
                .map(|rank| {
                    let mut initial = vec![UNTOUCHED; size * count];
                    if in_place {
                        initial[rank * count..][..count].copy_from_slice(&values(rank, 0..count));
                    }
                    Memory::new(receive_kind, &initial)
                })
                .collect();
            run(size, seed, |me| {
                let own = (!in_place).then(|| send[me.rank].view());
                flat::allgather(me, &limits, own, &receive[me.rank].blocks(count))
            });
            for receive in &receive {
                receive
                    .expect(&gathered(size, count), &("allgather", size, count, in_place, limits));
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
    cases(|size, count, send_kind, receive_kind, seed| {
        for (limits, in_place) in thresholds().into_iter().flat_map(|t| [(t, false), (t, true)]) {
            let outgoing =
                |rank| (0..size).flat_map(|to| letter(rank, to, count)).collect::<Vec<_>>();
            let incoming =
                |rank| (0..size).flat_map(|from| letter(from, rank, count)).collect::<Vec<_>>();
            let send: Vec<Memory> =
                (0..size).map(|rank| Memory::new(send_kind, &outgoing(rank))).collect();
            let receive: Vec<Memory> = (0..size)
                .map(|rank| match in_place {
                    true => Memory::new(receive_kind, &outgoing(rank)),
                    false => Memory::new(receive_kind, &vec![UNTOUCHED; size * count]),
                })
                .collect();
            run(size, seed, |me| {
                let own = (!in_place).then(|| send[me.rank].blocks(count));
                flat::alltoall(me, &limits, own.as_ref(), &receive[me.rank].blocks(count))
            });
            for rank in 0..size {
                receive[rank]
                    .expect(&incoming(rank), &("alltoall", size, rank, count, in_place, limits));
                send[rank].expect(&outgoing(rank), &"a send buffer was changed");
            }
        }
    });
}

/// Blocks of different lengths, some empty, in an order that is not that of the ranks, with gaps:
/// displacements in elements and the number of elements that they span.
fn layout(lengths: &[usize]) -> (Vec<usize>, usize) {
    let mut displacements = vec![0; lengths.len()];
    let mut at = 1;
    for rank in (0..lengths.len()).rev() {
        displacements[rank] = at;
        at += lengths[rank] + rank % 2;
    }
    (displacements, at)
}

fn length(from: usize, to: usize, factor: usize) -> usize {
    (from * 5 + to * 3) % 4 * factor
}

/// A buffer's contents: UNTOUCHED except for the given blocks.
fn with_blocks(lengths: &[usize], block: impl Fn(usize) -> Vec<u64>) -> Vec<u64> {
    let (displacements, span) = layout(lengths);
    let mut contents = vec![UNTOUCHED; span];
    for (rank, &length) in lengths.iter().enumerate() {
        contents[displacements[rank]..][..length].copy_from_slice(&block(rank));
    }
    contents
}

fn block_views(memory: &Memory, lengths: &[usize]) -> Vec<View> {
    let (displacements, _) = layout(lengths);
    lengths.iter().zip(displacements).map(|(&n, at)| memory.range(at, n)).collect()
}

#[test]
fn v_forms_move_blocks_of_any_length() {
    let kinds = Kind::all();
    let mut seed = 0;
    for size in SIZES {
        for factor in [0, 1, 2, 5] {
            for kind in &kinds {
                let lengths: Vec<usize> = (0..size).map(|rank| length(rank, 1, factor)).collect();
                let block = |rank: usize| values(rank, 0..lengths[rank]);
                let full = with_blocks(&lengths, block);
                let empty = vec![UNTOUCHED; full.len()];
                let single = |rank: usize| Memory::new(&kinds[1], &block(rank));
                for in_place in [false, true] {
                    seed += 1;
                    for root in 0..size {
                        // Gather.
                        let send: Vec<Memory> = (0..size).map(single).collect();
                        let only_own = with_blocks(&lengths, |rank| match rank == root {
                            true => block(rank),
                            false => vec![UNTOUCHED; lengths[rank]],
                        });
                        let receive = Memory::new(kind, if in_place { &only_own } else { &empty });
                        run(size, seed, |me| {
                            let here = me.rank == root;
                            let own = (!here || !in_place).then(|| send[me.rank].view());
                            let blocks = here.then(|| block_views(&receive, &lengths));
                            Ok(flat::gather_linear(me, own, blocks, root))
                        });
                        receive.expect(&full, &("gatherv", size, root, factor));
                        // Scatter.
                        let send = Memory::new(kind, &full);
                        let receive: Vec<Memory> = (0..size)
                            .map(|rank| Memory::new(&kinds[2], &vec![UNTOUCHED; lengths[rank]]))
                            .collect();
                        run(size, seed, |me| {
                            let here = me.rank == root;
                            let own = (!here || !in_place).then(|| receive[me.rank].view());
                            let blocks = here.then(|| block_views(&send, &lengths));
                            Ok(flat::scatter_linear(me, blocks, own, root))
                        });
                        for rank in (0..size).filter(|&rank| !in_place || rank != root) {
                            receive[rank]
                                .expect(&block(rank), &("scatterv", size, root, rank, factor));
                        }
                    }
                    // Allgather.
                    let send: Vec<Memory> = (0..size).map(single).collect();
                    let receive: Vec<Memory> = (0..size)
                        .map(|me| {
                            let own = with_blocks(&lengths, |rank| match rank == me {
                                true => block(rank),
                                false => vec![UNTOUCHED; lengths[rank]],
                            });
                            Memory::new(kind, if in_place { &own } else { &empty })
                        })
                        .collect();
                    run(size, seed, |me| {
                        let own = (!in_place).then(|| send[me.rank].view());
                        Ok(flat::allgather_ring(me, own, &block_views(&receive[me.rank], &lengths)))
                    });
                    for receive in &receive {
                        receive.expect(&full, &("allgatherv", size, factor, in_place));
                    }
                }
            }
        }
    }
}

#[test]
fn alltoallv_moves_blocks_of_any_length() {
    let kinds = Kind::all();
    let mut seed = 0;
    for size in SIZES {
        for (factor, kind) in
            [0, 1, 2, 5].into_iter().flat_map(|f| kinds.iter().map(move |k| (f, k)))
        {
            for limits in thresholds() {
                seed += 1;
                let out: Vec<Vec<usize>> = (0..size)
                    .map(|r| (0..size).map(|to| length(r, to, factor)).collect())
                    .collect();
                let into: Vec<Vec<usize>> = (0..size)
                    .map(|r| (0..size).map(|from| length(from, r, factor)).collect())
                    .collect();
                let sent = |r: usize| with_blocks(&out[r], |to| letter(r, to, out[r][to]));
                let wanted =
                    |r: usize| with_blocks(&into[r], |from| letter(from, r, into[r][from]));
                let send: Vec<Memory> = (0..size).map(|r| Memory::new(kind, &sent(r))).collect();
                let receive: Vec<Memory> = (0..size)
                    .map(|r| {
                        Memory::new(
                            &kinds[seed % kinds.len()],
                            &vec![UNTOUCHED; layout(&into[r]).1],
                        )
                    })
                    .collect();
                run(size, seed, |me| {
                    let outgoing = block_views(&send[me.rank], &out[me.rank]);
                    let incoming = block_views(&receive[me.rank], &into[me.rank]);
                    Ok(flat::alltoall_exchange(me, &limits, &outgoing, &incoming))
                });
                for (r, receive) in receive.iter().enumerate() {
                    receive.expect(&wanted(r), &("alltoallv", size, r, factor, limits));
                }
            }
            // In place, what two ranks exchange has the same length in both directions.
            let both = |a: usize, b: usize| length(a.min(b), a.max(b), factor);
            let lengths: Vec<Vec<usize>> =
                (0..size).map(|r| (0..size).map(|other| both(r, other)).collect()).collect();
            let sent = |r: usize| with_blocks(&lengths[r], |to| letter(r, to, lengths[r][to]));
            let wanted =
                |r: usize| with_blocks(&lengths[r], |from| letter(from, r, lengths[r][from]));
            let memory: Vec<Memory> = (0..size).map(|r| Memory::new(kind, &sent(r))).collect();
            run(size, seed, |me| {
                Ok(flat::alltoall_swap(me, &block_views(&memory[me.rank], &lengths[me.rank])))
            });
            for (r, memory) in memory.iter().enumerate() {
                memory.expect(&wanted(r), &("alltoallv in place", size, r, factor));
            }
        }
    }
}
