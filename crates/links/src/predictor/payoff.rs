//! What the predictor gains, in two uses: postponing a call while a long one is predicted
//! (muecke-2010, chapter 6), and choosing between schedules of the collective before each call.
//!
//! Both run in a [`World`]: a model of a machine, or the machine. Each seed is one world with its
//! own background traffic; the same seed is run with and without the predictor, so that worlds are
//! compared in pairs, and the interval is over seeds. Time that a postponed call waits counts: a
//! program that has nothing else to do gains only if the call itself gets shorter by more.

use serde::Serialize;

use super::tree::Tree;
use crate::analysis::cluster::TimeClass;
use crate::analysis::resample::{Interval, mean_interval};

const RESAMPLES: usize = 1000;

/// Where calls are made, one after the other.
pub trait World {
    /// The load of a link now, in the unit that the predictor has learnt from.
    fn load(&mut self, link: usize) -> f64;
    /// Lets time pass without a call.
    fn wait(&mut self, seconds: f64);
    /// Makes a call by one of the schedules, and returns how long it took.
    fn call(&mut self, schedule: usize) -> f64;
}

/// The time of the same calls without and with the predictor.
#[derive(Debug, Clone, Serialize)]
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
    /// What can be said.
    pub verdict: Verdict,
}

/// Whether it pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The whole interval is above zero.
    Pays,
    /// The whole interval is below zero.
    Costs,
    /// The interval contains zero.
    Undecided,
}

/// How a call is postponed.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// The time between two readings of the counters.
    pub step: f64,
    /// Readings after which the call is made whatever is predicted.
    pub looks: usize,
}

/// Predictions for a schedule from the loads that its tree reads.
fn predict<W: World>(tree: &Tree, world: &mut W) -> TimeClass {
    let loads: Vec<(usize, f64)> = tree
        .links()
        .iter()
        .map(|link| (*link, world.load(*link)))
        .collect();
    let load = |link: usize| loads.iter().find(|entry| entry.0 == link);
    tree.predict(|link| load(link).map_or(0.0, |entry| entry.1))
}

/// Postpones calls that are predicted to be long.
pub fn postponing<W: World>(
    new_world: impl Fn(u64) -> W,
    tree: &Tree,
    patience: Patience,
    calls: usize,
    seeds: u64,
) -> Payoff {
    let run = |seed| {
        let mut world = new_world(seed);
        let without: f64 = (0..calls).map(|_| world.call(0)).sum();
        let mut world = new_world(seed);
        let (mut with, mut waiting) = (0.0, 0.0);
        for _ in 0..calls {
            for _ in 0..patience.looks {
                if predict(tree, &mut world) != TimeClass::Long {
                    break;
                }
                world.wait(patience.step);
                waiting += patience.step;
            }
            with += world.call(0);
        }
        [without, with + waiting, waiting]
    };
    payoff((0..seeds).map(run).collect())
}

/// Takes for each call the first schedule for which the shortest duration is predicted. The
/// comparison is with the best single schedule of each world, which no program knows beforehand.
pub fn choosing<W: World>(
    new_world: impl Fn(u64) -> W,
    trees: &[Tree],
    calls: usize,
    seeds: u64,
) -> Payoff {
    let run = |seed| {
        let one = |schedule: usize| {
            let mut world = new_world(seed);
            (0..calls).map(|_| world.call(schedule)).sum::<f64>()
        };
        let without = (0..trees.len()).map(one).fold(f64::INFINITY, f64::min);
        let mut world = new_world(seed);
        let mut with = 0.0;
        for _ in 0..calls {
            let predicted: Vec<TimeClass> = trees.iter().map(|t| predict(t, &mut world)).collect();
            let best = (0..trees.len()).min_by_key(|schedule| predicted[*schedule]);
            with += world.call(best.unwrap_or(0));
        }
        [without, with, 0.0]
    };
    payoff((0..seeds).map(run).collect())
}

fn payoff(runs: Vec<[f64; 3]>) -> Payoff {
    let mean = |of: usize| runs.iter().map(|run| run[of]).sum::<f64>() / runs.len().max(1) as f64;
    let saved: Vec<f64> = runs
        .iter()
        .map(|run| 1.0 - run[1] / run[0].max(1e-12))
        .collect();
    let interval = mean_interval(&saved, RESAMPLES, 1);
    Payoff {
        without: mean(0),
        with: mean(1),
        waiting: mean(2) / mean(1).max(1e-12),
        saved: saved.iter().sum::<f64>() / saved.len().max(1) as f64,
        interval,
        verdict: match interval {
            Interval { low, .. } if low > 0.0 => Verdict::Pays,
            Interval { high, .. } if high < 0.0 => Verdict::Costs,
            _ => Verdict::Undecided,
        },
    }
}
