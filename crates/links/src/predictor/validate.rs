//! Cross-validation over folds of consecutive calls.

use fastrand::Rng;
use serde::Serialize;

use super::tree::DecisionTree;
use crate::analysis::cluster::{TIME_CLASSES, TimeClass};
use crate::analysis::resample::{Interval, blocks};

const FOLDS: usize = 10;

/// How good the predictor is on calls that it has not learnt from.
#[derive(Debug, Clone, Serialize)]
pub struct Validation {
    /// Calls by what they are (row) and what was predicted (column).
    pub confusion: [[usize; 3]; 3],
    /// The share of right predictions.
    pub accuracy: f64,
    /// That of the most frequent duration of the calls learnt from.
    pub constant: f64,
    /// The interval of the difference of both.
    pub gain: Interval,
    /// The mean over durations of the share that is recognized; a constant guess has one over their
    /// number.
    pub balanced: f64,
    /// The whole interval of the difference is above zero.
    pub beats_constant: bool,
}

/// Validates trees over these features. `None` if there are too few calls, or all are alike.
pub fn validate(
    features: &[&[f64]],
    durations: &[TimeClass],
    resamples: usize,
    seed: u64,
) -> Option<Validation> {
    let n = durations.len();
    if n < 4 * FOLDS || durations.iter().all(|duration| *duration == durations[0]) {
        return None;
    }
    let mut confusion = [[0; 3]; 3];
    let mut right = Vec::with_capacity(n);
    for fold in 0..FOLDS {
        let held = fold * n / FOLDS..(fold + 1) * n / FOLDS;
        let learn: Vec<usize> = (0..n).filter(|call| !held.contains(call)).collect();
        let tree = DecisionTree::learn(features, durations, &learn);
        let constant = most_frequent(durations, &learn);
        for call in held {
            let (is, predicted) = (durations[call], tree.predict(|link| features[link][call]));
            confusion[is as usize][predicted as usize] += 1;
            right.push((is == predicted, is == constant));
        }
    }
    let share = |which: fn(&(bool, bool)) -> bool| {
        right.iter().filter(|entry| which(entry)).count() as f64 / n as f64
    };
    let mut rng = Rng::with_seed(seed);
    let difference = |drawn: Vec<usize>| {
        let one = |call: &usize| {
            let (tree, constant) = right[*call];
            f64::from(u8::from(tree)) - f64::from(u8::from(constant))
        };
        drawn.iter().map(one).sum::<f64>() / n as f64
    };
    let gain = Interval::of((0..resamples).map(|_| difference(blocks(n, &mut rng))).collect());
    Some(Validation {
        confusion,
        accuracy: share(|entry| entry.0),
        constant: share(|entry| entry.1),
        gain,
        balanced: balanced(&confusion),
        beats_constant: gain.low > 0.0,
    })
}

fn balanced(confusion: &[[usize; 3]; 3]) -> f64 {
    let recognized: Vec<f64> = confusion
        .iter()
        .enumerate()
        .filter(|(_, row)| row.iter().sum::<usize>() > 0)
        .map(|(which, row)| row[which] as f64 / row.iter().sum::<usize>() as f64)
        .collect();
    recognized.iter().sum::<f64>() / recognized.len().max(1) as f64
}

fn most_frequent(durations: &[TimeClass], calls: &[usize]) -> TimeClass {
    let count = |which: &TimeClass| calls.iter().filter(|call| durations[**call] == *which).count();
    TIME_CLASSES.into_iter().rev().max_by_key(count).unwrap_or(TimeClass::Short)
}
