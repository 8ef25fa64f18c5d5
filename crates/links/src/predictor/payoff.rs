//! What the predictor gains, in two uses: postponing a call while a long one is predicted
//! (muecke-2010, chapter 6), and choosing between schedules of the collective before each call.
//!
//! Both run in a [`PredictorWorld`]: a model of a machine (`model::world`), or the machine. Each
//! seed is one world with its own background traffic; the same seed is run with and without the
//! predictor, so that worlds are compared in pairs, and the interval is over seeds. Time that a
//! postponed call waits counts: a program that has nothing else to do gains only if the call itself
//! gets shorter by more. What a program saves that has other work for that time is given beside it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};

use super::tree::DecisionTree;
use crate::analysis::cluster::TimeClass;
use crate::analysis::resample::{Interval, mean_interval};

const RESAMPLES: usize = 1000;

/// Where calls are made, one after the other.
pub trait PredictorWorld {
    /// The load of a link now, in the unit that the predictor has learnt from.
    fn load(&mut self, link: usize) -> f64;
    /// Lets time pass without a call.
    fn wait(&mut self, seconds: f64);
    /// Makes a call by one of the schedules, and returns how long it took.
    fn call(&mut self, schedule: usize) -> f64;
}

/// The time of the same calls without and with the predictor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Payoff {
    /// The mean seconds without.
    pub without: f64,
    /// The mean seconds with, waiting included.
    pub with: f64,
    /// The share of it that was waiting.
    pub waiting: f64,
    /// The mean share of time saved; negative if it costs.
    pub saved: f64,
    /// Its interval over worlds.
    pub interval: Interval,
    /// The mean share of time saved if the time that calls wait is used for other work.
    pub saved_in_calls: f64,
    /// Its interval over worlds.
    pub in_calls_interval: Interval,
    /// The verdict.
    pub verdict: PayoffVerdict,
}

/// Whether it pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PayoffVerdict {
    /// The whole interval is above zero.
    Pays,
    /// The whole interval is below zero.
    Costs,
    /// The interval contains zero.
    Undecided,
}

impl PayoffVerdict {
    /// As the end of a sentence.
    pub fn words(self) -> &'static str {
        match self {
            PayoffVerdict::Pays => "it pays",
            PayoffVerdict::Costs => "it costs",
            PayoffVerdict::Undecided => "no difference can be told",
        }
    }
}

/// For how long a call is postponed at most.
#[derive(Debug, Clone, Copy)]
pub struct PostponeLimits {
    /// The time between two readings of the counters.
    pub step: f64,
    /// Readings after which the call is made whatever is predicted.
    pub readings: usize,
}

/// How much is run.
#[derive(Debug, Clone, Copy)]
pub struct PayoffTrial {
    /// Calls in each world.
    pub calls: usize,
    /// Seeds from this one on.
    pub first_seed: u64,
    /// Number of worlds.
    pub worlds: u64,
}

/// A tree, and how long a call takes on average that it predicts as short, medium or long.
#[derive(Debug, Clone)]
pub struct SchedulePredictor {
    /// The tree.
    pub tree: DecisionTree,
    /// Seconds, by predicted class; where a class was never predicted, the mean of all calls.
    pub seconds: [f64; 3],
}

impl SchedulePredictor {
    /// Learns from calls: the load of each link before them, their classes and times.
    pub fn learn(features: &[&[f64]], classes: &[TimeClass], seconds: &[f64]) -> SchedulePredictor {
        let everything: Vec<usize> = (0..classes.len()).collect();
        let tree = DecisionTree::learn(features, classes, &everything);
        let (mut sums, mut counts) = ([0.0; 3], [0_usize; 3]);
        for (call, time) in seconds.iter().enumerate() {
            let class = tree.predict(|link| features[link][call]) as usize;
            sums[class] += time;
            counts[class] += 1;
        }
        let mean = sums.iter().sum::<f64>() / seconds.len().max(1) as f64;
        let of = |class: usize| match counts[class] {
            0 => mean,
            count => sums[class] / count as f64,
        };
        SchedulePredictor { tree, seconds: [of(0), of(1), of(2)] }
    }

    fn expected<W: PredictorWorld>(&self, world: &mut W) -> f64 {
        self.seconds[predict(&self.tree, world) as usize]
    }
}

/// Predictions for a schedule from the loads that its tree reads.
fn predict<W: PredictorWorld>(tree: &DecisionTree, world: &mut W) -> TimeClass {
    let loads: Vec<(usize, f64)> =
        tree.links().iter().map(|link| (*link, world.load(*link))).collect();
    let load = |link: usize| loads.iter().find(|entry| entry.0 == link);
    tree.predict(|link| load(link).map_or(0.0, |entry| entry.1))
}

/// Postpones calls that are predicted to be long.
pub fn postponing<W: PredictorWorld>(
    new_world: impl Fn(u64) -> W + Sync,
    tree: &DecisionTree,
    limits: PostponeLimits,
    trial: PayoffTrial,
) -> Payoff {
    let run = |seed| {
        let mut world = new_world(seed);
        let without: f64 = (0..trial.calls).map(|_| world.call(0)).sum();
        let mut world = new_world(seed);
        let (mut with, mut waiting) = (0.0, 0.0);
        for _ in 0..trial.calls {
            for _ in 0..limits.readings {
                if predict(tree, &mut world) != TimeClass::Long {
                    break;
                }
                world.wait(limits.step);
                waiting += limits.step;
            }
            with += world.call(0);
        }
        [without, with + waiting, waiting]
    };
    payoff(&in_worlds(trial, run))
}

/// What choosing was compared with.
#[derive(Debug, Clone)]
pub struct ChoosingRuns {
    /// The mean seconds of a call by each schedule alone.
    pub alone: Vec<f64>,
    /// Against the best single schedule of each world, which no program knows beforehand.
    pub against_best: Payoff,
    /// Against one schedule for all worlds: the one with the least mean time while learning.
    pub against_fixed: Payoff,
}

/// Takes for each call the schedule with the least time to be expected; the first of equals.
pub fn choosing<W: PredictorWorld>(
    new_world: impl Fn(u64) -> W + Sync,
    predictors: &[SchedulePredictor],
    fixed: usize,
    trial: PayoffTrial,
) -> ChoosingRuns {
    let run = |seed| {
        let one = |schedule: usize| {
            let mut world = new_world(seed);
            (0..trial.calls).map(|_| world.call(schedule)).sum::<f64>()
        };
        let alone: Vec<f64> = (0..predictors.len()).map(one).collect();
        let mut world = new_world(seed);
        let mut with = 0.0;
        for _ in 0..trial.calls {
            let expected: Vec<f64> = predictors.iter().map(|p| p.expected(&mut world)).collect();
            let least = |a: &usize, b: &usize| expected[*a].total_cmp(&expected[*b]);
            let best = (0..predictors.len()).min_by(least);
            with += world.call(best.unwrap_or(0));
        }
        (alone, with)
    };
    let runs = in_worlds(trial, run);
    let against = |without: &dyn Fn(&[f64]) -> f64| {
        let rows = runs.iter().map(|(alone, with)| [without(alone), *with, 0.0]);
        payoff(&rows.collect::<Vec<_>>())
    };
    let calls = (runs.len() * trial.calls).max(1) as f64;
    let mean = |schedule| runs.iter().map(|(alone, _)| alone[schedule]).sum::<f64>() / calls;
    ChoosingRuns {
        alone: (0..predictors.len()).map(mean).collect(),
        against_best: against(&|alone| alone.iter().copied().fold(f64::INFINITY, f64::min)),
        against_fixed: against(&|alone| alone[fixed]),
    }
}

/// The results of all worlds in the order of their seeds; as many at once as there are cores.
pub fn in_worlds<R: Send>(trial: PayoffTrial, run: impl Fn(u64) -> R + Sync) -> Vec<R> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let world = next.fetch_add(1, Ordering::Relaxed);
            if world >= trial.worlds {
                return done;
            }
            done.push((world, run(trial.first_seed + world)));
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(trial.worlds as usize).max(1);
    let mut all: Vec<(u64, R)> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = running.into_iter().map(|thread| thread.join());
        joined.flat_map(|done| done.expect("a world does not panic")).collect()
    });
    all.sort_by_key(|(world, _)| *world);
    all.into_iter().map(|(_, result)| result).collect()
}

/// From the seconds without, with, and of these waiting, of each world.
fn payoff(runs: &[[f64; 3]]) -> Payoff {
    let mean = |of: usize| runs.iter().map(|run| run[of]).sum::<f64>() / runs.len().max(1) as f64;
    let average = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let saved = |with: &dyn Fn(&[f64; 3]) -> f64| -> Vec<f64> {
        runs.iter().map(|run| 1.0 - with(run) / run[0].max(1e-12)).collect()
    };
    let (all, calls) = (saved(&|run| run[1]), saved(&|run| run[1] - run[2]));
    let interval = mean_interval(&all, RESAMPLES, 1);
    Payoff {
        without: mean(0),
        with: mean(1),
        waiting: mean(2) / mean(1).max(1e-12),
        saved: average(&all),
        interval,
        saved_in_calls: average(&calls),
        in_calls_interval: mean_interval(&calls, RESAMPLES, 1),
        verdict: match interval {
            Interval { low, .. } if low > 0.0 => PayoffVerdict::Pays,
            Interval { high, .. } if high < 0.0 => PayoffVerdict::Costs,
            _ => PayoffVerdict::Undecided,
        },
    }
}
