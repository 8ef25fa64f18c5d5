//! The collectives on shared areas, with all ranks of a node group in one thread: polled in random
//! orders, several operations at once, sequences that use the turns again and again, against what
//! the ranks' contributions say. A failure names the seed.

mod cases;
mod errors;
mod rig;

use cases::{Case, Kit, Spec, counts};
use fastrand::Rng;
use mica_collective::intranode::choice::context::RootedDirection;
use mica_collective::intranode::{CollectiveOperation, Parts};
use mica_memory::{Shape, View};
use mica_objects::constants as c;
use mica_policy::collective::Collective;
use rig::{Form, Means, NodePath, Operation, Ranks};

/// Runs these collectives one after the other, some at once, and checks them all.
fn check(ranks: &Ranks, cases: &[Case], paths: &[NodePath], width: usize, seed: u64) {
    let operations: Vec<_> =
        cases.iter().zip(paths).map(|(case, &path)| case.operation(path)).collect();
    let results = ranks.run(&operations, width, seed);
    for (i, case) in cases.iter().enumerate() {
        let means = ranks.form.means;
        case.check(&results[i], means, &(seed, i, paths[i], ranks.form));
        if let NodePath::Direct { by_address, .. } = paths[i]
            && let Some(taken) = case.must_go(ranks.form.means, by_address)
        {
            assert_eq!(results[i][0], Ok(taken), "{:?} {:?}", case.spec, paths[i]);
        }
    }
}

/// Random operations on one node group, so that turns are used again and again.
fn sequence(kit: &Kit, form: Form, length: usize, seed: u64, path: impl Fn(&mut Rng) -> NodePath) {
    let mut random = Rng::with_seed(seed);
    let ranks = Ranks::new(form);
    let mut cases = Vec::new();
    while cases.len() < length {
        let salt = cases.len() + 1;
        let case = Case::new(kit, Spec::random(&mut random, kit, form.size, form.cell, salt));
        if ranks.fits(&case.parts[0]) {
            cases.push(case);
        }
    }
    let paths: Vec<NodePath> = cases.iter().map(|_| path(&mut random)).collect();
    let width = random.choice([1, 2, 4, 7]).expect("some");
    check(&ranks, &cases, &paths, width, seed);
}

const CELLS: [usize; 3] = [256, 1024, 32 << 10];

#[test]
fn long_sequences_through_cells() {
    let kit = Kit::new();
    for size in 1..=17 {
        for (i, cell) in CELLS.into_iter().enumerate() {
            for fan in [None, Some([2, 3, 8][(size + i) % 3])] {
                let seed = (size * 100 + i * 10 + fan.unwrap_or(0)) as u64;
                let form = Form { fan, ..Form::flat(size, cell) };
                sequence(&kit, form, 24, seed, |random| NodePath::Cells {
                    base: random.choice([0, 0, 1, 3]).expect("some"),
                });
            }
        }
    }
}

#[test]
fn long_sequences_of_direct_copies() {
    let kit = Kit::new();
    let all = [
        Means::Nothing,
        Means::Off,
        Means::Cma,
        Means::Windows,
        Means::Mixed,
        Means::Mapped,
        Means::OneCannot,
        Means::Refusing,
    ];
    for size in [1, 2, 3, 4, 5, 8, 13, 17] {
        for (i, means) in all.into_iter().enumerate() {
            for has_cores in [false, true] {
                let seed = (size * 100 + i * 10 + usize::from(has_cores)) as u64;
                let form = Form { means, has_cores, ..Form::flat(size, CELLS[(size + i) % 2]) };
                sequence(&kit, form, 24, seed, random_path);
            }
        }
    }
}

fn random_path(random: &mut Rng) -> NodePath {
    use RootedDirection::{Auto, Both, Pull, Push};
    match random.usize(..5) == 0 {
        true => NodePath::Cells { base: 0 },
        false => NodePath::Direct {
            by_address: random.usize(..2) == 0,
            direction: random.choice([Auto, Pull, Push, Both]).expect("some"),
        },
    }
}

/// Each collective alone, with every number of elements that makes a difference, on every number of
/// ranks.
#[test]
fn every_collective_of_every_length() {
    let kit = Kit::new();
    let mut seed = 0;
    for size in 1..=17 {
        for cell in CELLS {
            let forms = [None, Some(2), Some(3), Some(8)]
                .map(|fan| Ranks::new(Form { fan, ..Form::flat(size, cell) }));
            for collective in Collective::ALL {
                let mut cases = Vec::new();
                for count in counts(collective, size, cell) {
                    seed += 1;
                    let kind = match collective.reduces() {
                        true => seed % Kit::REDUCED,
                        false => seed % kit.kinds(),
                    };
                    let spec = Spec {
                        collective,
                        size,
                        count,
                        root: seed % size,
                        in_place: seed % 3 == 0,
                        kind: if seed % 2 == 0 { 0 } else { kind },
                        sent: if seed % 3 == 0 { 0 } else { kind },
                        commutes: seed % 5 < 2,
                        uneven: seed % 7 < 3,
                        scattered: seed % 11 < 5 && seed % 7 < 3,
                        salt: seed,
                    };
                    cases.push(Case::new(&kit, spec));
                }
                let ranks = &forms[seed % forms.len()];
                cases.retain(|case| ranks.fits(&case.parts[0]));
                let base = [0, 2][seed % 2];
                let paths = vec![NodePath::Cells { base }; cases.len()];
                check(ranks, &cases, &paths, 1 + seed % 5, seed as u64);
            }
        }
    }
}

/// Copies long enough to be shared out between the root and the others.
#[test]
fn long_direct_copies_go_every_way() {
    use RootedDirection::{Auto, Both, Pull, Push};
    let kit = Kit::new();
    let (size, mut seed) = (4, 0);
    for means in [Means::Cma, Means::Windows, Means::Mixed, Means::Refusing] {
        for has_cores in [false, true] {
            let ranks = Ranks::new(Form { means, has_cores, ..Form::flat(size, 1024) });
            for direction in [Auto, Pull, Push, Both] {
                let mut cases = Vec::new();
                for collective in Collective::ALL {
                    seed += 1;
                    cases.push(Case::new(
                        &kit,
                        Spec {
                            collective,
                            size,
                            count: 5001,
                            root: seed % size,
                            in_place: seed % 3 == 0,
                            kind: 0,
                            sent: 0,
                            commutes: seed % 2 == 0,
                            uneven: seed % 4 == 0,
                            scattered: false,
                            salt: seed,
                        },
                    ));
                }
                let path = NodePath::Direct { by_address: true, direction };
                check(&ranks, &cases, &[path; 10], 4, seed as u64);
            }
        }
    }
}

/// Buffers that are used again have their pages moved between two operations, or within one by
/// another: what is read and written is the same.
#[test]
fn buffers_that_move_keep_their_content() {
    use Collective::{
        Allgather, Allreduce, Alltoall, Bcast, Gather, Reduce, ReduceScatter, Scan, Scatter,
    };
    let kit = Kit::new();
    let ranks = Ranks::new(Form { means: Means::Mapped, has_cores: true, ..Form::flat(3, 1024) });
    let mut cases = Vec::new();
    for (i, collective) in
        [Bcast, Gather, Scatter, Allgather, Alltoall, Reduce, Allreduce, ReduceScatter, Scan]
            .into_iter()
            .enumerate()
    {
        let spec = Spec {
            collective,
            size: 3,
            count: 25_000,
            root: i % 3,
            in_place: false,
            kind: 0,
            sent: 0,
            commutes: false,
            uneven: false,
            scattered: false,
            salt: i,
        };
        cases.push(Case::new(&kit, spec));
    }
    let path = NodePath::Direct { by_address: true, direction: RootedDirection::Auto };
    for time in 0..4 {
        check(&ranks, &cases, &[path; 9], 3, time);
    }
    assert_ne!(ranks.moves(), Some(0), "nothing was used again");
}

/// Through every tree.
#[test]
fn no_rank_leaves_a_barrier_before_all_have_come() {
    let kit = Kit::new();
    for size in 1..=17 {
        for fan in [None, Some(2), Some(3), Some(8)] {
            let ranks = Ranks::new(Form { fan, ..Form::flat(size, 256) });
            let spec = Spec {
                collective: Collective::Barrier,
                ..Spec::random(&mut Rng::with_seed(size as u64), &kit, size, 256, 1)
            };
            let cases: Vec<_> = (0..20).map(|_| Case::new(&kit, spec)).collect();
            check(&ranks, &cases, &[NodePath::Cells { base: 0 }; 20], size % 5 + 1, size as u64);
        }
    }
}

fn nowhere(bytes: usize) -> View {
    // SAFETY: nothing is read or written through the view.
    unsafe { View::user(std::ptr::null(), Shape::Contiguous { bytes }) }
}

/// A stamp has 24 bits for the phases of an operation: half a cell of 256 bytes each would not do
/// for 2 GiB.
#[test]
fn a_message_of_too_many_pieces_does_not_go_through_cells() {
    let ranks = Ranks::new(Form::flat(2, 256));
    let bcast = |bytes| CollectiveOperation::Bcast { view: nowhere(bytes), root: 0 };
    assert!(ranks.fits(&bcast(256 << 20)));
    assert!(!ranks.fits(&bcast(2 << 30)));
}

/// Where not all know the lengths, they cannot agree on another way.
#[test]
fn a_part_of_too_many_pieces_is_an_error_at_both_ends() {
    let ranks = Ranks::new(Form::flat(2, 256));
    let gather = |send, parts| CollectiveOperation::Gather {
        send: Some(nowhere(send)),
        parts,
        root: 0,
        bytes: None,
    };
    let all = Parts::Each(vec![nowhere(0), nowhere(2 << 30)]);
    let parts = vec![gather(0, Some(all)), gather(2 << 30, None)];
    let operation = Operation::new(parts, NodePath::Cells { base: 0 }, String::new());
    let results = ranks.run(&[operation], 1, 5).remove(0);
    for result in results {
        let error = result.expect_err("too long");
        assert_eq!(error.code(), c::ERR_COUNT);
        assert!(error.to_string().contains("2147483648 bytes"), "{error}");
    }
}
