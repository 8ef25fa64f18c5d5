//! Calls that do not match: a rank that can detect it reports it, no rank hangs, and none writes
//! where no data is expected.

use mica_collective::intranode::CollectiveOperation;
use mica_collective::intranode::choice::context::RootedDirection;
use mica_objects::constants as c;
use mica_policy::collective::Collective;

use super::cases::{Case, Kit, Spec};
use super::rig::{Form, Means, NodePath, Operation, Ranks};
use crate::common::{Kind, Memory, UNTOUCHED, values};

const CELLS: NodePath = NodePath::Cells { base: 0 };

fn spec(collective: Collective, size: usize, count: usize) -> Spec {
    Spec {
        collective,
        size,
        count,
        root: 0,
        in_place: false,
        kind: 0,
        sent: 0,
        commutes: true,
        uneven: false,
        scattered: false,
        salt: 1,
    }
}

/// All paths that there are to copy.
fn paths() -> Vec<(Means, NodePath)> {
    use RootedDirection::{Auto, Both, Pull, Push};
    let mut paths = vec![(Means::Nothing, CELLS), (Means::Nothing, NodePath::Cells { base: 2 })];
    for means in [Means::Off, Means::Cma, Means::Windows, Means::Mixed] {
        for direction in [Auto, Pull, Push, Both] {
            let path = NodePath::Direct { by_address: true, direction };
            paths.push((means, path));
        }
    }
    paths
}

fn ranks(size: usize, means: Means) -> Ranks {
    Ranks::new(Form { means, has_cores: true, ..Form::flat(size, 256) })
}

/// Where all ranks read all headers, all report the mismatch, and none hangs.
#[test]
fn different_calls_are_told_apart() {
    use Collective::{Allgather, Allreduce, Alltoall, Barrier, ReduceScatter};
    let (kit, all) = (Kit::new(), [Barrier, Allgather, Alltoall, Allreduce, ReduceScatter]);
    let pairs = || all.iter().flat_map(|&a| all.iter().map(move |&b| (a, b)));
    for (size, count) in [(2, 3), (4, 3), (4, 100)] {
        let ranks = ranks(size, Means::Nothing);
        for (most, one) in pairs().filter(|(a, b)| a != b) {
            for odd in 0..size {
                let [mut parts, mut others] = [most, one]
                    .map(|collective| Case::new(&kit, spec(collective, size, count)).parts);
                parts[odd] = others.swap_remove(odd);
                let name = format!("{odd} of {size} in {one:?}, others in {most:?}, {count}");
                let operation = Operation::new(parts, CELLS, name.clone());
                for result in &ranks.run(&[operation], 1, odd as u64)[0] {
                    let text = result.as_ref().expect_err(&name).to_string();
                    assert!(text.contains("has called"), "{name}: {text}");
                }
            }
        }
    }
}

#[test]
fn the_error_names_both_calls() {
    let kit = Kit::new();
    let mut parts = Case::new(&kit, spec(Collective::Allgather, 3, 4)).parts;
    parts[1] = CollectiveOperation::Barrier;
    let operation = Operation::new(parts, CELLS, String::new());
    let results = ranks(3, Means::Nothing).run(&[operation], 1, 7).remove(0);
    let text = |rank: usize| results[rank].as_ref().expect_err("called apart").to_string();
    // Only calls through the interface say which of two functions they are.
    let (gather, barrier) = ("MPI_Allgather(v)", "MPI_Barrier");
    for rank in [0, 2] {
        assert!(
            text(rank).starts_with(&format!(
                "rank 2 of the job has called {barrier} where this rank has called {gather}"
            )),
            "{}",
            text(rank)
        );
    }
    assert!(text(1).contains(&format!("called {gather} where this rank has called {barrier}")));
}

/// A broadcast of more than one rank has room for.
#[test]
fn a_message_that_is_too_long_is_the_error_of_its_receiver() {
    let kind = Kind::plain();
    for (means, path) in paths() {
        for (size, long, short) in
            [(2, 5, 4), (4, 20, 3), (4, 17, 16), (5, 300, 120), (4, 9000, 8000)]
        {
            let message = values(1, 0..long);
            for odd in 1..size {
                let memory = |rank: usize| match rank {
                    0 => Memory::new(&kind, &message),
                    rank if rank == odd => Memory::new(&kind, &vec![UNTOUCHED; short]),
                    _ => Memory::new(&kind, &vec![UNTOUCHED; long]),
                };
                let memories: Vec<Memory> = (0..size).map(memory).collect();
                let part =
                    |memory: &Memory| CollectiveOperation::Bcast { view: memory.view(), root: 0 };
                let parts = memories.iter().map(part).collect();
                let label = format!("{means:?} {path:?} {long} to {short} at {odd} of {size}");
                let operation = Operation::new(parts, path, label.clone());
                let results = ranks(size, means).run(&[operation], 1, odd as u64).remove(0);
                for (rank, result) in results.iter().enumerate() {
                    if rank == odd {
                        let error = result.as_ref().expect_err(&label);
                        assert_eq!(error.code(), c::ERR_TRUNCATE, "{label}: {error}");
                        // Whatever it has got, nothing beyond.
                        memories[rank].expect(&memories[rank].values(), &label);
                    } else {
                        assert!(result.is_ok(), "{label}: {rank} {result:?}");
                        memories[rank].expect(&message, &label);
                    }
                }
            }
        }
    }
}

/// The calls that a rank may make, with their names.
fn calls(
    kit: &Kit,
    size: usize,
    count: usize,
    root: usize,
) -> Vec<(&'static str, Vec<CollectiveOperation>)> {
    let make = |collective, uneven| {
        let spec = Spec { root, uneven, ..spec(collective, size, count) };
        Case::new(kit, spec).parts
    };
    let mut calls: Vec<_> = Collective::ALL
        .into_iter()
        .map(|collective| (collective.name(), make(collective, false)))
        .collect();
    calls.push(("exscan", make(Collective::Scan, true)));
    calls
}

/// Whether a rank in this call waits for another, even if all is as short as can be.
fn waits_for(call: &str, root: usize, rank: usize, other: usize) -> bool {
    match call {
        "bcast" | "scatter" => other == root,
        "gather" | "reduce" => rank == root,
        "scan" | "exscan" => other < rank,
        _ => true,
    }
}

/// One rank makes another call than the others: no rank hangs, and those that wait for a rank in
/// another call report it.
#[test]
fn no_rank_waits_for_one_that_has_called_something_else() {
    let kit = Kit::new();
    let cells = [CELLS, NodePath::Cells { base: 2 }];
    for (size, count, fan) in [(2, 3, None), (4, 3, None), (3, 100, None), (4, 5, Some(2))] {
        let ranks = Ranks::new(Form { fan, ..Form::flat(size, 256) });
        let calls = calls(&kit, size, count, 0);
        for ((most, parts), (one, other)) in pairs(&calls) {
            for odd in 0..size {
                let mut parts = parts.clone();
                parts[odd] = other[odd].clone();
                let path = cells[odd % 2];
                let name = format!("{odd} of {size} in {one}, others in {most}, {count}, {fan:?}");
                let operation = Operation::new(parts, path, name.clone());
                let results = ranks.run(&[operation], 1, odd as u64).remove(0);
                let errors = results.iter().filter_map(|result| result.as_ref().err());
                let texts: Vec<String> = errors.map(ToString::to_string).collect();
                let must_be_reported = (0..size)
                    .filter(|&rank| rank != odd)
                    .any(|rank| waits_for(one, 0, odd, rank) || waits_for(most, 0, rank, odd));
                let is_reported = texts.iter().any(|text| text.contains("has called"));
                assert!(is_reported || !must_be_reported, "{name}: {results:?}");
            }
        }
    }
}

fn pairs<T>(all: &[T]) -> impl Iterator<Item = (&T, &T)> {
    let different = |&(i, j): &(usize, usize)| i != j;
    let indices = (0..all.len()).flat_map(|i| (0..all.len()).map(move |j| (i, j)));
    indices.filter(different).map(|(i, j)| (&all[i], &all[j]))
}

/// Where each of two ranks waits for the other, both report the mismatch.
#[test]
fn gather_and_scatter_are_told_apart() {
    let kit = Kit::new();
    for (means, path) in paths() {
        for count in [3, 100, 2000] {
            let [gather, scatter] = [Collective::Gather, Collective::Scatter]
                .map(|collective| Case::new(&kit, spec(collective, 2, count)).parts);
            let parts = vec![gather[0].clone(), scatter[1].clone()];
            let name = format!("{means:?} {path:?} {count}");
            let operation = Operation::new(parts, path, name.clone());
            let results = ranks(2, means).run(&[operation], 1, 3).remove(0);
            let (gather, scatter) = ("MPI_Gather(v)", "MPI_Scatter(v)");
            for (rank, theirs, ours) in [(0, scatter, gather), (1, gather, scatter)] {
                let error = results[rank].as_ref().expect_err(&name).to_string();
                let said = format!(
                    "rank {} of the job has called {theirs} where this rank has called {ours}",
                    1 + rank
                );
                assert!(error.contains(&said), "{name}: {error}");
            }
        }
    }
}

#[test]
fn scan_and_exscan_are_told_apart() {
    let kit = Kit::new();
    for (means, path) in paths() {
        for count in [3, 100] {
            let [scan, exscan] = [false, true].map(|uneven| {
                let spec = Spec { uneven, ..spec(Collective::Scan, 2, count) };
                Case::new(&kit, spec).parts
            });
            let name = format!("{means:?} {path:?} {count}");
            let parts = vec![scan[0].clone(), exscan[1].clone()];
            let operation = Operation::new(parts, path, name.clone());
            let results = ranks(2, means).run(&[operation], 1, 3).remove(0);
            let error = results[1].as_ref().expect_err(&name).to_string();
            let said = "has called MPI_Scan where this rank has called MPI_Exscan";
            assert!(error.contains(said), "{name}: {error}");
        }
    }
}

/// If ranks name different roots, all report it: at once where they wait for each other, else in
/// the next call.
#[test]
fn all_ranks_report_different_roots() {
    use Collective::{Allreduce, Bcast, Gather, Reduce, Scatter};
    let kit = Kit::new();
    for (means, path) in paths() {
        for (collective, size) in [(Bcast, 2), (Bcast, 3), (Gather, 3), (Scatter, 3), (Reduce, 3)] {
            for (count, shift) in [(3, 0), (100, 1), (2000, 0), (2000, 1)] {
                let case = |root| {
                    let spec = Spec { root, ..spec(collective, size, count) };
                    Case::new(&kit, spec).parts
                };
                // Each takes itself for the root, or the next one.
                let parts: Vec<_> =
                    (0..size).map(|rank| case((rank + shift) % size).swap_remove(rank)).collect();
                let name = format!("{collective:?} of {size} {means:?} {path:?} {count} {shift}");
                let next = Case::new(&kit, spec(Allreduce, size, 5));
                let operations = [
                    Operation::new(parts, path, name.clone()),
                    next.operation(CELLS),
                    next.operation(CELLS),
                ];
                let results = ranks(size, means).run(&operations, 1, 9);
                for rank in 0..size {
                    let mut errors =
                        results[..2].iter().filter_map(|results| results[rank].as_ref().err());
                    let is_reported = errors.any(|error| error.code() == c::ERR_ROOT);
                    assert!(is_reported, "{name}, rank {rank}: {results:?}");
                }
                assert!(results[2].iter().all(Result::is_ok), "{name}: {results:?}");
            }
        }
    }
}

/// Each of two ranks takes the other for the root, or itself.
#[test]
fn different_roots_are_refused() {
    use Collective::{Bcast, Gather, Reduce, Scatter};
    let kit = Kit::new();
    for (means, path) in paths() {
        for collective in [Bcast, Gather, Scatter, Reduce] {
            for count in [3, 100, 2000] {
                let [first, second] = [0, 1].map(|root| {
                    let spec = Spec { root, ..spec(collective, 2, count) };
                    Case::new(&kit, spec).parts
                });
                for parts in [
                    vec![first[0].clone(), second[1].clone()],
                    vec![second[0].clone(), first[1].clone()],
                ] {
                    let name = format!("{collective:?} {means:?} {path:?} {count}");
                    let roots = [0, 1].map(|rank: usize| parts[rank].root().expect("a root"));
                    let must_be_reported = [0, 1]
                        .into_iter()
                        .any(|rank| waits_for(collective.name(), roots[rank], rank, 1 - rank));
                    let operation = Operation::new(parts, path, name.clone());
                    let results = ranks(2, means).run(&[operation], 1, 5).remove(0);
                    let mut errors = results.iter().filter_map(|result| result.as_ref().err());
                    let is_reported = errors.any(|error| error.code() == c::ERR_ROOT);
                    assert!(is_reported || !must_be_reported, "{name}: {results:?}");
                }
            }
        }
    }
}

/// One rank takes part with more than the others, perhaps with so much that it takes another way:
/// a rank reports it, and none hangs.
#[test]
fn different_lengths_are_refused() {
    use Collective::{Allgather, Allreduce, Alltoall, Gather, Reduce, ReduceScatter, Scan};
    let kit = Kit::new();
    let amounts = [(3, 4), (8, 30), (100, 101), (500, 3000), (4100, 4101)];
    let direct = NodePath::Direct { by_address: true, direction: RootedDirection::Auto };
    for (means, path) in paths() {
        for size in [2, 4] {
            for (count, more) in amounts {
                for collective in
                    [Gather, Allgather, Alltoall, Reduce, Allreduce, ReduceScatter, Scan]
                {
                    let odd = 1 + (count + more) % (size - 1);
                    let mut parts = Case::new(&kit, spec(collective, size, count)).parts;
                    let mut other = Case::new(&kit, spec(collective, size, more)).parts;
                    parts[odd] = other.swap_remove(odd);
                    let name = format!(
                        "{collective:?} {means:?} {path:?} {count}, {more} at {odd} of {size}"
                    );
                    let operation = || Operation::new(parts.clone(), path, name.clone());
                    let odd_operations = match path {
                        NodePath::Cells { base: 0 } => {
                            vec![operation(), operation().but(odd, direct)]
                        }
                        NodePath::Cells { .. } => vec![operation()],
                        NodePath::Direct { .. } => vec![operation(), operation().but(odd, CELLS)],
                    };
                    for operation in odd_operations {
                        let results =
                            ranks(size, means).run(&[operation], 1, count as u64).remove(0);
                        let errors: Vec<_> =
                            results.iter().filter_map(|result| result.as_ref().err()).collect();
                        // An all-to-all announces the sizes of blocks only through cells.
                        let is_reported =
                            collective != Alltoall || matches!(path, NodePath::Cells { .. });
                        assert!(!errors.is_empty() || !is_reported, "{name}: {results:?}");
                        for error in errors {
                            assert_eq!(error.code(), c::ERR_TRUNCATE, "{name}: {error}");
                        }
                    }
                }
            }
        }
    }
}

/// A rank that sends nothing where the root expects something says so: the root names both amounts.
#[test]
fn nothing_sent_is_another_amount() {
    let kit = Kit::new();
    let mut parts = Case::new(&kit, spec(Collective::Gather, 3, 4)).parts;
    parts[1] = Case::new(&kit, spec(Collective::Gather, 3, 0)).parts.swap_remove(1);
    let operation = Operation::new(parts, CELLS, "nothing from rank 1".to_owned());
    let results = ranks(3, Means::Cma).run(&[operation], 1, 4).remove(0);
    let error = results[0].as_ref().expect_err("rank 1 sends nothing").to_string();
    assert!(error.contains("takes part with 0 bytes"), "{error}");
}

/// After an error the other operations of the node group still work.
#[test]
fn a_node_group_survives_calls_that_do_not_go_together() {
    let kit = Kit::new();
    let ranks = ranks(3, Means::Cma);
    let direct = NodePath::Direct { by_address: true, direction: RootedDirection::Auto };
    let case = |collective| Case::new(&kit, spec(collective, 3, 50));
    let (good, bad) = (case(Collective::Allreduce), case(Collective::Gather));
    let mut parts = bad.parts.clone();
    parts[1] = case(Collective::Scatter).parts.swap_remove(1);
    let mut operations = vec![Operation::new(parts, direct, "bad".to_owned())];
    operations.extend((0..9).map(|_| good.operation(direct)));
    let results = ranks.run(&operations, 2, 11);
    assert!(results[0].iter().any(Result::is_err));
    for results in &results[1..] {
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }
}
