use std::cell::Cell;

use mica_policy::collective::LevelCosts;
use mica_policy::collective::formulas::load;

use super::*;

const PAIR: CorePair = CorePair { level: Level::SharedCache, map_by: "core" };

const EFFORT: MeasuringEffort =
    MeasuringEffort { seconds: 0.0, rounds: 5, time_limit: Duration::from_secs(600), cores: 2 };

/// A machine on which messages and calls take the times of `truth`, whatever the figures by which
/// they are chosen.
struct Machine {
    truth: CollectiveCosts,
    /// Each run takes longer or shorter by up to this fraction, in a fixed pattern.
    noise: f64,
    runs: Cell<u32>,
}

impl Machine {
    fn new(truth: CollectiveCosts) -> Machine {
        Machine { truth, noise: 0.0, runs: Cell::new(0) }
    }

    fn noisy(&self, ns: f64) -> f64 {
        let run = self.runs.replace(self.runs.get() + 1);
        // The pattern favours neither side of a round: it is longer than a round, and its length is
        // odd.
        let share = [0.0, 1.0, -0.6, 0.3, -1.0, 0.8, -0.2][run as usize % 7];
        ns * (1.0 + share * self.noise)
    }
}

/// The paths that `mica tune` measures.
fn measured() -> MessagePaths {
    MessagePaths::ALL.without(MessagePaths::NONE.with(MessagePath::Offload))
}

/// A chooser that works like the library.
fn chooser<'a>(
    runs: &'a dyn ProbeRuns,
    tuning: &'a Tuning,
    samples: Vec<SeriesMessage>,
) -> MessageProbes<'a> {
    MessageProbes {
        runs,
        effort: EFFORT,
        until: Instant::now(),
        pair: PAIR,
        parts: Vec::new(),
        tuning,
        situation: Situation::waiting(PAIR.level, measured()),
        samples,
    }
}

impl ProbeRuns for Machine {
    fn message(
        &self,
        pair: CorePair,
        sample: &SeriesMessage,
        tuning: Option<&Tuning>,
    ) -> Option<f64> {
        let (none, shipped) = (Tuning::default(), PathCosts::default());
        let costs = tuning.map_or(shipped, Tuning::applied);
        let path = chooser(self, &none, vec![*sample]).paths(&costs)[0];
        let pieces = sample.len.checked_div(sample.block).unwrap_or(1) as usize;
        let truth = self.truth.messages.of(pair.level, path);
        Some(self.noisy(truth.ns(sample.len as usize, pieces)))
    }

    fn call(&self, calls: &MeasuredCalls, tuning: Option<&Tuning>) -> Option<f64> {
        let costs = match tuning {
            None => CollectiveCosts::default(),
            Some(tuning) => tuning.applied_to_collectives(),
        };
        let level = calls.pair.map_or(PAIR.level, |pair| pair.level);
        let cores = EFFORT.cores.min(calls.ranks);
        let question = steps::question(calls.collective, calls.bytes, level, calls.ranks, cores);
        let algorithm = pick(&costs, &question, &ForcedAlgorithms::default());
        let load = load(&self.truth, &question, algorithm);
        Some(self.noisy(load.ns(calls.ranks, cores, self.truth.switch_ns)))
    }
}

fn shipped(path: MessagePath) -> PathCost {
    *PathCosts::default().of(PAIR.level, path)
}

/// The cost multiplied by `factor`.
fn times(cost: PathCost, factor: f64) -> PathCost {
    let prices: Vec<(u64, f64)> =
        cost.used_spans().map(|span| (span.from, factor * span.byte_ns)).collect();
    PathCost::new(factor * cost.start_ns, &prices)
        .pieces(cost.piece_ns)
        .shares(cost.sender, cost.receiver)
}

fn tuning(costs: &[(MessagePath, PathCost)]) -> Tuning {
    Tuning {
        costs: costs.iter().map(|&(path, cost)| (PAIR.level, path, cost)).collect(),
        ..Tuning::default()
    }
}

fn accepted(machine: &Machine, tuning: &Tuning) -> (Tuning, Vec<ComparisonRow>) {
    let mut rows = Vec::new();
    let (costs, gain) = messages(machine, EFFORT, &[PAIR], tuning, &mut rows);
    let accepted = collectives(machine, EFFORT, &[PAIR], tuning, (&costs, gain), &mut rows);
    (accepted, rows)
}

/// A candidate that measured all paths at their shipped costs, except for `others`.
fn all_but(others: &[(MessagePath, PathCost)]) -> Tuning {
    let cost = |path| {
        let other = others.iter().find(|(of, _)| *of == path);
        (path, other.map_or(shipped(path), |(_, cost)| *cost))
    };
    tuning(&measured().iter().map(cost).collect::<Vec<_>>())
}

#[test]
fn a_fit_whose_choices_measure_worse_is_not_written() {
    // The fit has pulling at a third of its true cost: it would always be chosen, and is slower.
    let candidate = all_but(&[(MessagePath::Pull, times(shipped(MessagePath::Pull), 0.33))]);
    let (found, rows) = accepted(&Machine::new(CollectiveCosts::default()), &candidate);
    assert_eq!(found, Tuning::default());
    let text = table(&rows);
    assert!(text.contains("slower: stays as shipped"), "{text}");
    assert!(!text.contains("accepted"), "{text}");
}

#[test]
fn a_real_gain_is_written_and_nothing_else() {
    let fast = times(shipped(MessagePath::Pull), 0.33);
    let mut truth = CollectiveCosts::default();
    truth.messages.set(PAIR.level, MessagePath::Pull, fast);
    let candidate = all_but(&[(MessagePath::Pull, fast)]);
    let (found, rows) = accepted(&Machine::new(truth), &candidate);
    assert_eq!(found.costs, [(PAIR.level, MessagePath::Pull, fast)]);
    let text = table(&rows);
    assert!(text.contains("faster: accepted"), "{text}");
    let written = found.to_string();
    assert_eq!(written.matches("[shared-cache.").count(), 1, "{written}");
}

#[test]
fn a_gain_is_written_without_the_loss_beside_it() {
    let fast = times(shipped(MessagePath::Pull), 0.33);
    let mut truth = CollectiveCosts::default();
    truth.messages.set(PAIR.level, MessagePath::Pull, fast);
    // Cells would be chosen where they are slower than the shipped choice.
    let wrong = times(shipped(MessagePath::Cells), 0.2);
    let candidate = all_but(&[(MessagePath::Pull, fast), (MessagePath::Cells, wrong)]);
    let (found, _) = accepted(&Machine::new(truth), &candidate);
    assert_eq!(found.costs, [(PAIR.level, MessagePath::Pull, fast)]);
}

#[test]
fn noise_writes_nothing() {
    // Two paths of equal cost, except for the error of the fit.
    let mut truth = CollectiveCosts::default();
    let mapped = shipped(MessagePath::Mapped);
    truth.messages.set(PAIR.level, MessagePath::Pull, mapped);
    let candidate = all_but(&[(MessagePath::Pull, times(mapped, 0.98))]);
    let machine = Machine { noise: 0.15, ..Machine::new(truth) };
    let (found, rows) = accepted(&machine, &candidate);
    assert_eq!(found, Tuning::default(), "{}", table(&rows));
}

#[test]
fn steps_of_collectives_are_held_to_the_same() {
    // By the fit, exposing a buffer is almost free, but in truth it is not: direct copies would be
    // chosen everywhere.
    let wrong = LevelTuning { expose_ns: Some(1.0), ..LevelTuning::default() };
    let mut candidate = Tuning::default();
    candidate.collective.levels = vec![(PAIR.level, wrong)];
    let (found, _) = accepted(&Machine::new(CollectiveCosts::default()), &candidate);
    assert_eq!(found, Tuning::default());
    // Where the fit is right it is accepted.
    let mut truth = CollectiveCosts::default();
    let level = LevelCosts { expose_ns: 1.0, ..*truth.of(PAIR.level) };
    truth.set(PAIR.level, level);
    let (found, rows) = accepted(&Machine::new(truth), &candidate);
    assert_eq!(found.collective, candidate.collective, "{}", table(&rows));
}

#[test]
fn failed_runs_are_not_written() {
    struct Broken;
    impl ProbeRuns for Broken {
        fn message(&self, _: CorePair, _: &SeriesMessage, _: Option<&Tuning>) -> Option<f64> {
            None
        }
        fn call(&self, _: &MeasuredCalls, _: Option<&Tuning>) -> Option<f64> {
            None
        }
    }
    let candidate = all_but(&[(MessagePath::Pull, times(shipped(MessagePath::Pull), 0.33))]);
    let mut rows = Vec::new();
    let found = messages(&Broken, EFFORT, &[PAIR], &candidate, &mut rows);
    assert_eq!(found, (Vec::new(), 0.0));
    assert!(table(&rows).contains("not measured"), "{}", table(&rows));
}

#[test]
fn figures_are_taken_apart_and_put_together_again() {
    let level = LevelTuning {
        sync_ns: Some(1.0),
        expose_ns: Some(2.0),
        copy: Some(PathCost::new(0.0, &[(0, 0.1)])),
    };
    let all = CollectiveTuning {
        switch_ns: Some(3.0),
        reduce_byte_ns: None,
        round_ns: Some(4.0),
        levels: vec![(Level::SharedCache, level), (Level::Node, level)],
    };
    let steps = figures(&all);
    assert_eq!(steps.len(), 8);
    assert_eq!(sections(steps.into_iter()), all);
}

#[test]
fn runs_of_neighbours_are_thinned() {
    let differing: Vec<(usize, usize, u8)> =
        (3..13).map(|n| (n, n, 0)).chain([(13, 13, 1), (20, 20, 1)]).collect();
    assert_eq!(thinned(&differing), [3, 7, 11, 12, 13, 20]);
    let lengths: Vec<u64> = lengths(400).collect();
    assert_eq!(lengths, [64, 96, 128, 192, 256, 384]);
}
