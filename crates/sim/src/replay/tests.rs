//! From a profile to a prediction, on runs that the tests write themselves.

use mica_policy::collective::Collective;
use mica_profile::{CallRecord, MessageEnvelope, Profile, RankProfile, TimelineInterval};

use super::engine::{ReplayOperation, Workload};
use super::grid::Grid;
use super::pattern::{ExchangeOrder, PatternError, StepKind};
use super::*;
use crate::loggp::Parameters;

/// Nanoseconds that a rank computes before each step.
const WORK: u64 = 50_000;

/// Writes the calls of one rank.
struct Line {
    rank: u32,
    clock: u64,
    intervals: Vec<TimelineInterval>,
}

impl Line {
    fn new(rank: u32) -> Line {
        let mut line = Line { rank, clock: 0, intervals: Vec::new() };
        line.call("MPI_Comm_rank", None, 0);
        line
    }

    fn call(&mut self, name: &str, peer: Option<u32>, bytes: u64) {
        self.intervals.push(TimelineInterval {
            rank: self.rank,
            thread: 0,
            start_ns: self.clock,
            end_ns: self.clock + 100,
            call: name.into(),
            site: 0,
            bytes,
            peer,
            envelope: None,
            joined: None,
        });
        self.clock += 100;
    }

    /// A message or receive with a communicator and a tag.
    fn labelled(&mut self, name: &str, peer: Option<u32>, (comm, tag): (u32, i32)) {
        self.call(name, peer, 8);
        let last = self.intervals.last_mut().expect("just put there");
        last.envelope = Some(MessageEnvelope { comm, tag, receive_tag: None });
    }

    fn compute(&mut self) {
        self.clock += WORK;
    }

    /// What comes after the call is not part of the run's time.
    fn end(&mut self) {
        let end = self.clock;
        self.call("MPI_Finalize", None, 0);
        self.clock = end;
    }
}

fn profile(lines: Vec<Line>) -> Profile {
    let mut profile = Profile::example();
    profile.job.missing_ranks.clear();
    profile.timeline.dropped = 0;
    let ranks = lines.iter().map(|line| RankProfile {
        rank: line.rank,
        app_ns: line.clock,
        ..RankProfile::default()
    });
    profile.ranks = ranks.collect();
    profile.calls.clear();
    profile.timeline.intervals = lines.into_iter().flat_map(|line| line.intervals).collect();
    profile
}

/// A halo exchange with the faces of `grid`; a face across dimension `d` has `100 (d + 1)` bytes.
fn halo(grid: &Grid, steps: u32) -> Profile {
    let lines = (0..grid.ranks() as u32).map(|rank| {
        let mut line = Line::new(rank);
        for _ in 0..steps {
            line.compute();
            let faces = faces(grid, rank);
            for (peer, _) in &faces {
                line.call("MPI_Irecv", *peer, 0);
            }
            for (peer, bytes) in &faces {
                line.call("MPI_Isend", *peer, if peer.is_some() { *bytes } else { 0 });
            }
            line.call("MPI_Waitall", None, 0);
        }
        line.call("MPI_Allreduce", None, 8);
        line.end();
        line
    });
    profile(lines.collect())
}

/// The neighbours across each face, `None` at a border.
fn faces(grid: &Grid, rank: u32) -> Vec<(Option<u32>, u64)> {
    let mut faces = Vec::new();
    for dimension in 0..grid.dimensions.len() {
        for step in [-1, 1] {
            let mut direction = vec![0; grid.dimensions.len()];
            direction[dimension] = step;
            let bytes = 100 * (dimension as u64 + 1);
            faces.push((grid.neighbour(rank, &direction), bytes));
        }
    }
    faces
}

fn found(profile: &Profile) -> ExchangePattern {
    pattern(&Recorded::of(profile).unwrap(), None).unwrap()
}

fn operations(workload: &dyn Workload, rank: u32, step: u32) -> Vec<ReplayOperation> {
    let mut out = Vec::new();
    workload.operations(rank, step, &mut out);
    out
}

fn sends(workload: &dyn Workload, rank: u32) -> Vec<(u32, u64)> {
    let operations = operations(workload, rank, 0).into_iter();
    let sends = operations.filter_map(|operation| match operation {
        ReplayOperation::Send { to, bytes, .. } => Some((to, bytes)),
        _ => None,
    });
    let mut sends: Vec<(u32, u64)> = sends.collect();
    sends.sort_unstable();
    sends
}

#[test]
fn finds_the_grid_of_a_halo_exchange() {
    for dimensions in [vec![2, 2], vec![4, 2], vec![3, 3], vec![2, 2, 2], vec![4], vec![3, 4, 2]] {
        let grid = Grid::open(&dimensions);
        let pattern = found(&halo(&grid, 3));
        assert_eq!(pattern.grid, grid);
        assert_eq!(pattern.steps.len(), 4);
        assert_eq!(pattern.steps[0].before_ns, vec![WORK as f64; grid.ranks() as usize]);
    }
    let rings = Grid { dimensions: vec![4, 3], periodic: vec![true, true] };
    assert_eq!(found(&halo(&rings, 1)).grid, rings);
}

#[test]
fn a_larger_grid_has_the_right_neighbours_at_borders_and_inside() {
    let pattern = found(&halo(&Grid::open(&[2, 2]), 2));
    let grid = Grid::open(&[5, 4]);
    let large = Extrapolated::new(&pattern, grid.clone(), Scaling::Weak).unwrap();
    for rank in 0..20 {
        let neighbours = faces(&grid, rank).into_iter();
        let mut expected: Vec<(u32, u64)> =
            neighbours.filter_map(|(peer, bytes)| Some((peer?, bytes))).collect();
        expected.sort_unstable();
        assert_eq!(sends(&large, rank), expected, "{rank}");
    }
    let recorded = found(&halo(&grid, 2));
    let same = Extrapolated::new(&recorded, grid, Scaling::Weak).unwrap();
    for (rank, step) in (0..20).flat_map(|rank| (0..4).map(move |step| (rank, step))) {
        let mut both = [&large, &same].map(|w| operations(w, rank, step));
        both.iter_mut().for_each(|o| o.sort_by_key(|o| format!("{o:?}")));
        assert_eq!(both[0], both[1]);
    }
}

#[test]
fn strong_scaling_divides_work_and_faces() {
    let pattern = found(&halo(&Grid::open(&[2, 2]), 1));
    let large = Extrapolated::new(&pattern, Grid::open(&[4, 8]), Scaling::Strong).unwrap();
    // Across the first dimension (100 bytes) the face lies along the second: 2 / 8 of it.
    assert_eq!(sends(&large, 0), [(1, 100), (8, 25)]);
    let ReplayOperation::Compute(time) = operations(&large, 0, 0)[0] else {
        panic!("computes first");
    };
    assert_eq!(time.ns(), WORK as f64 * 4.0 / 32.0);
}

#[test]
fn exchanges_with_one_neighbour_after_the_other_are_one_step() {
    // Ranks at the ends of a chain make fewer calls.
    let lines = (0..5u32).map(|rank| {
        let mut line = Line::new(rank);
        for _ in 0..3 {
            line.compute();
            for peer in [rank.checked_sub(1), Some(rank + 1).filter(|p| *p < 5)] {
                if peer.is_some() {
                    line.call("MPI_Sendrecv", peer, 64);
                }
            }
        }
        line
    });
    let pattern = found(&profile(lines.collect()));
    assert_eq!((pattern.grid.dimensions.as_slice(), pattern.steps.len()), (&[5][..], 3));
    let StepKind::Exchange { messages, order } = &pattern.steps[1].kind else {
        panic!("an exchange");
    };
    assert_eq!((messages.len(), *order), (2, ExchangeOrder::OneByOne));
}

fn transform(ranks: u32, block: u64) -> Profile {
    let lines = (0..ranks).map(|rank| {
        let mut line = Line::new(rank);
        for _ in 0..2 {
            line.compute();
            line.call("MPI_Alltoall", None, block);
        }
        line
    });
    profile(lines.collect())
}

fn alltoall_bytes(workload: &dyn Workload) -> u64 {
    let operations = operations(workload, 0, 0);
    let collective = operations.iter().find_map(|operation| match operation {
        ReplayOperation::Collective(call) => Some((call.collective, call.bytes)),
        _ => None,
    });
    assert_eq!(collective.unwrap().0, Collective::Alltoall);
    collective.unwrap().1
}

#[test]
fn blocks_of_an_all_to_all_scale() {
    let pattern = found(&transform(4, 1 << 20));
    let on = |ranks, scaling| Extrapolated::new(&pattern, Grid::open(&[ranks]), scaling).unwrap();
    assert_eq!(alltoall_bytes(&on(16, Scaling::Weak)), 1 << 18);
    assert_eq!(alltoall_bytes(&on(16, Scaling::Strong)), 1 << 16);
    assert_eq!(alltoall_bytes(&on(4, Scaling::Strong)), 1 << 20);
}

#[test]
fn a_hundred_thousand_ranks_are_replayed() {
    let parameters = Parameters {
        latency: 1500.0,
        send_overhead: 300.0,
        receive_overhead: 300.0,
        gap: 200.0,
        gap_per_byte: 0.1,
    };
    let cluster = ReplayCluster::of(parameters);
    let pattern = found(&halo(&Grid::open(&[2, 2]), 2));
    let grid = Grid::open(&balanced(100_000, 2));
    let workload = Extrapolated::new(&pattern, grid, Scaling::Weak).unwrap();
    let mut begun = 0;
    let prediction = replay(&workload, &cluster, &mut |steps| begun += steps).unwrap();
    assert_eq!(begun, 4 * 100_000);
    // Four neighbours but at the borders, twice; and recursive doubling with surplus ranks.
    let halos = 2 * 2 * (399 * 250 + 400 * 249);
    let doubling = 16 * 65_536 + 2 * (100_000 - 65_536);
    assert_eq!(prediction.messages, halos + doubling);
    assert!(prediction.time.ns() > 2.0 * WORK as f64);

    let mut pattern = found(&transform(4, 1 << 20));
    pattern.steps.truncate(1);
    let workload = Extrapolated::new(&pattern, Grid::open(&[100_000]), Scaling::Weak).unwrap();
    let prediction = replay(&workload, &cluster, &mut |_| {}).unwrap();
    // 42 bytes for each pair: Bruck's 17 rounds.
    assert_eq!(prediction.messages, 17 * 100_000);
}

#[test]
fn replays_a_run_as_it_was_recorded() {
    let recorded = Recorded::of(&halo(&Grid::open(&[2]), 3)).unwrap();
    let mut free = ReplayCluster::of(Parameters::default());
    free.combine_byte_ns = 0.0;
    let prediction = replay(&AsRecorded(&recorded), &free, &mut |_| {}).unwrap();
    assert_eq!(prediction.time.ns(), 3.0 * WORK as f64);
    let slow =
        ReplayCluster { network: Parameters { latency: 1000.0, ..Parameters::default() }, ..free };
    let prediction = replay(&AsRecorded(&recorded), &slow, &mut |_| {}).unwrap();
    assert_eq!(prediction.time.ns(), 3.0 * WORK as f64 + 4000.0);
}

#[test]
fn receives_of_any_source_take_what_named_ones_leave() {
    let mut master = Line::new(0);
    for _ in 0..2 {
        master.call("MPI_Recv", None, 0);
    }
    master.call("MPI_Recv", Some(2), 0);
    let worker = |rank, times: u64| {
        let mut line = Line::new(rank);
        for _ in 0..times {
            line.compute();
            line.call("MPI_Send", Some(0), 8);
        }
        line
    };
    let profile = profile(vec![master, worker(1, 1), worker(2, 2)]);
    let recorded = Recorded::of(&profile).unwrap();
    let prediction =
        replay(&AsRecorded(&recorded), &ReplayCluster::of(Parameters::default()), &mut |_| {});
    assert_eq!(prediction.unwrap().messages, 3);
    let error = pattern(&recorded, None).unwrap_err();
    assert!(matches!(error, PatternError::NotAlike { .. } | PatternError::NoGrid { .. }));
}

#[test]
fn receives_take_messages_of_their_communicator_and_tag() {
    let (world, other) = (0, 3);
    let mut one = Line::new(0);
    one.labelled("MPI_Send", Some(1), (world, 1));
    one.labelled("MPI_Send", Some(1), (other, 1));
    one.labelled("MPI_Send", Some(1), (world, 2));
    let mut two = Line::new(1);
    for (peer, label) in
        [(Some(0), (world, 2)), (Some(0), (other, MessageEnvelope::ANY_TAG)), (None, (world, 1))]
    {
        two.labelled("MPI_Irecv", peer, label);
    }
    two.call("MPI_Waitall", None, 0);
    let recorded = Recorded::of(&profile(vec![one, two])).unwrap();
    let streams = |rank: usize| -> Vec<u32> {
        let calls = recorded.ranks[rank].calls.iter();
        let streams = calls.filter_map(|call| match call.operation {
            ReplayOperation::Send { stream, .. } | ReplayOperation::Receive { stream, .. } => {
                Some(stream.0)
            }
            _ => None,
        });
        streams.collect()
    };
    assert_eq!(streams(0), [0, 1, 2]);
    assert_eq!(streams(1), [2, 1, 0]);
}

/// Rank 1 takes the second message first and answers it; rank 0 works after the answer. In the
/// order of the pair, rank 1 would answer the first message, before rank 0 has worked at all.
#[test]
fn a_trace_whose_order_differs_by_tag_takes_its_time() {
    let mut one = Line::new(0);
    one.labelled("MPI_Send", Some(1), (0, 1));
    one.compute();
    one.labelled("MPI_Send", Some(1), (0, 2));
    let mut two = Line::new(1);
    two.labelled("MPI_Recv", Some(0), (0, 2));
    two.compute();
    two.labelled("MPI_Recv", Some(0), (0, 1));
    let profile = profile(vec![one, two]);
    let recorded = Recorded::of(&profile).unwrap();
    let free = ReplayCluster::of(Parameters::default());
    let prediction = replay(&AsRecorded(&recorded), &free, &mut |_| {}).unwrap();
    assert_eq!(prediction.time.ns(), 2.0 * WORK as f64);
}

#[test]
fn a_receive_whose_tag_is_never_sent_waits_for_ever() {
    let mut one = Line::new(0);
    one.labelled("MPI_Send", Some(1), (0, 1));
    let mut two = Line::new(1);
    two.labelled("MPI_Recv", Some(0), (0, 2));
    let recorded = Recorded::of(&profile(vec![one, two])).unwrap();
    let free = ReplayCluster::of(Parameters::default());
    let stuck = replay(&AsRecorded(&recorded), &free, &mut |_| {});
    assert!(matches!(stuck, Err(ReplayError::Stuck { rank: 1, .. })));
}

#[test]
fn says_what_cannot_be_replayed() {
    let good = halo(&Grid::open(&[2, 2]), 1);
    let refuse = |change: &dyn Fn(&mut Profile)| {
        let mut profile = good.clone();
        change(&mut profile);
        Recorded::of(&profile).unwrap_err().to_string()
    };
    let call = |profile: &mut Profile, name: &str| {
        profile.timeline.intervals[3].call = name.into();
    };
    let cut = refuse(&|p| {
        p.timeline.dropped = 7;
        p.calls = vec![CallRecord { count: 40, ..CallRecord::default() }];
    });
    assert!(cut.contains("--spans 40"), "{cut}");
    for (error, words) in [
        (refuse(&|p| p.timeline.intervals.clear()), "no time line"),
        (refuse(&|p| p.job.missing_ranks = vec![2]), "rank 2 left no record"),
        (refuse(&|p| p.timeline.intervals[2].thread = 1), "several threads"),
        (refuse(&|p| call(p, "MPI_Put")), "calls MPI_Put"),
    ] {
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    }
    let odd = found(&halo(&Grid::open(&[2]), 1));
    let wide = Extrapolated::new(&odd, Grid::open(&[2, 2]), Scaling::Weak).unwrap_err();
    assert_eq!(wide.to_string(), "the recorded grid has 1 dimensions and the new one 2");
    let recorded = Recorded::of(&halo(&Grid::open(&[2, 1]), 1)).unwrap();
    let flat = pattern(&recorded, Some(&Grid::open(&[2, 1]))).unwrap();
    let unknown = Extrapolated::new(&flat, Grid::open(&[2, 2]), Scaling::Weak).unwrap_err();
    assert!(unknown.to_string().contains("in dimension 2"));
    let one = pattern(&Recorded::of(&profile(vec![Line::new(0)])).unwrap(), None);
    assert_eq!(one, Err(PatternError::OneRank));
}

#[test]
fn ranks_that_differ_have_no_pattern() {
    let mut lines: Vec<Line> = (0..3).map(Line::new).collect();
    for line in &mut lines {
        line.call("MPI_Barrier", None, 0);
    }
    lines[2].call("MPI_Bcast", Some(0), 8);
    let recorded = Recorded::of(&profile(lines)).unwrap();
    let error = pattern(&recorded, None).unwrap_err().to_string();
    assert!(error.contains("rank 2 has 2 steps, rank 0 has 1 steps"), "{error}");
    // Each rank to the one opposite: no grid of 5 ranks has that.
    let lines = (0..5u32).map(|rank| {
        let mut line = Line::new(rank);
        line.call("MPI_Isend", Some((rank + 2) % 5), 8);
        line.call("MPI_Irecv", Some((rank + 3) % 5), 0);
        line.call("MPI_Waitall", None, 0);
        line
    });
    let recorded = Recorded::of(&profile(lines.collect())).unwrap();
    let error = pattern(&recorded, None).unwrap_err().to_string();
    assert!(error.contains("no grid of 5 ranks"), "{error}");
}
