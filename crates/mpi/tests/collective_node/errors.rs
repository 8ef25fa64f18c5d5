//! Calls that do not go together: whoever can tell says so, and nobody writes where nothing is expected.

use mica_mpi::collective::node::What;
use mica_mpi::collective::node::direct::Direction;
use mica_mpi::constants as c;
use mica_policy::collective::Collective;

use crate::cases::{Case, Kit, Spec};
use crate::collective_common::{Kind, Memory, UNTOUCHED, values};
use crate::rig::{Form, How, Means, Operation, Ranks};

const CELLS: How = How::Cells { base: 0 };

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

/// All ways that there are to copy.
fn ways() -> Vec<(Means, How)> {
    use Direction::{Auto, Both, Pull, Push};
    let mut ways = vec![
        (Means::Nothing, CELLS),
        (Means::Nothing, How::Cells { base: 2 }),
    ];
    for means in [Means::Off, Means::Cma, Means::Windows, Means::Mixed] {
        for direction in [Auto, Pull, Push, Both] {
            let how = How::Direct {
                by_address: true,
                direction,
            };
            ways.push((means, how));
        }
    }
    ways
}

fn ranks(size: usize, means: Means) -> Ranks {
    Ranks::new(Form {
        means,
        has_cores: true,
        ..Form::flat(size, 256)
    })
}

/// Where everybody looks at everybody, everybody is told, and nobody waits for ever.
#[test]
fn different_calls_are_told_apart() {
    use Collective::{Allgather, Allreduce, Alltoall, Barrier, ReduceScatter};
    let (kit, all) = (
        Kit::new(),
        [Barrier, Allgather, Alltoall, Allreduce, ReduceScatter],
    );
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
    parts[1] = What::Barrier;
    let operation = Operation::new(parts, CELLS, String::new());
    let results = ranks(3, Means::Nothing).run(&[operation], 1, 7).remove(0);
    let text = |rank: usize| {
        results[rank]
            .as_ref()
            .expect_err("called apart")
            .to_string()
    };
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
    assert!(text(1).contains(&format!(
        "called {gather} where this rank has called {barrier}"
    )));
}

/// A broadcast of more than one rank has room for.
#[test]
fn a_message_that_is_too_long_is_the_error_of_its_receiver() {
    let kind = Kind::plain();
    for (means, how) in ways() {
        for (size, long, short) in [
            (2, 5, 4),
            (4, 20, 3),
            (4, 17, 16),
            (5, 300, 120),
            (4, 9000, 8000),
        ] {
            let message = values(1, 0..long);
            for odd in 1..size {
                let memory = |rank: usize| match rank {
                    0 => Memory::new(&kind, &message),
                    rank if rank == odd => Memory::new(&kind, &vec![UNTOUCHED; short]),
                    _ => Memory::new(&kind, &vec![UNTOUCHED; long]),
                };
                let memories: Vec<Memory> = (0..size).map(memory).collect();
                let part = |memory: &Memory| What::Bcast {
                    view: memory.view(),
                    root: 0,
                };
                let parts = memories.iter().map(part).collect();
                let label = format!("{means:?} {how:?} {long} to {short} at {odd} of {size}");
                let operation = Operation::new(parts, how, label.clone());
                let results = ranks(size, means)
                    .run(&[operation], 1, odd as u64)
                    .remove(0);
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

/// One rank takes part with more than the others: somebody says so. Where everybody looks at everybody, nobody waits for ever; in the
/// others those may that have still to send.
#[test]
fn different_lengths_are_refused() {
    use Collective::{Allgather, Allreduce, Gather, Reduce, Scan};
    let kit = Kit::new();
    let amounts = [(3, 4), (8, 30), (100, 101), (500, 3000), (4100, 4101)];
    for (means, how) in ways() {
        for size in [2, 4] {
            for (count, more) in amounts {
                for collective in [Gather, Allgather, Reduce, Allreduce, Scan] {
                    let odd = 1 + (count + more) % (size - 1);
                    let mut parts = Case::new(&kit, spec(collective, size, count)).parts;
                    let mut other = Case::new(&kit, spec(collective, size, more)).parts;
                    parts[odd] = other.swap_remove(odd);
                    let name = format!(
                        "{collective:?} {means:?} {how:?} {count}, {more} at {odd} of {size}"
                    );
                    let operation = Operation::new(parts, how, name.clone());
                    let results = ranks(size, means)
                        .run_while_it_goes(&[operation], 1, count as u64)
                        .remove(0);
                    let errors: Vec<_> = results
                        .iter()
                        .flatten()
                        .filter_map(|result| result.as_ref().err())
                        .collect();
                    assert!(!errors.is_empty(), "{name}: {results:?}");
                    for error in errors {
                        assert_eq!(error.code(), c::ERR_TRUNCATE, "{name}: {error}");
                    }
                    if count < 100 || !matches!(collective, Gather | Scan) {
                        assert!(!results.contains(&None), "{name}: {results:?}");
                    }
                }
            }
        }
    }
}
