//! Resampling of calls that depend on their neighbours: blocks of consecutive calls are drawn with
//! replacement (Künsch 1989, here circular after Politis and Romano 1992), or half of the blocks
//! without (Meinshausen and Bühlmann's subsampling of 2010).

use fastrand::Rng;
use mica_statistics::{median, quantile, sorted};
use serde::{Deserialize, Serialize};

/// A 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The 2.5th percentile.
    pub low: f64,
    /// The 97.5th percentile.
    pub high: f64,
}

impl Interval {
    /// The percentile interval of resampled values. All zero if there are none.
    pub fn of(values: Vec<f64>) -> Interval {
        let values = sorted(values);
        Interval { low: quantile(&values, 0.025), high: quantile(&values, 0.975) }
    }
}

/// The length of a block: the cube root's order is optimal for a mean (Hall, Horowitz and Jing
/// 1995); the factor covers bursts of some dozen calls.
pub fn block_length(calls: usize) -> usize {
    ((2.0 * (calls as f64).cbrt()).round() as usize).clamp(1, calls.max(1))
}

/// Indices of as many calls, drawn in blocks with replacement.
pub fn blocks(calls: usize, rng: &mut Rng) -> Vec<usize> {
    let length = block_length(calls);
    let mut drawn = Vec::with_capacity(calls + length);
    while drawn.len() < calls {
        let start = rng.usize(0..calls);
        drawn.extend((0..length).map(|step| (start + step) % calls));
    }
    drawn.truncate(calls);
    drawn
}

/// Indices of all calls in another order: blocks, the first of which begins anywhere, are shuffled.
pub fn shuffled(calls: usize, rng: &mut Rng) -> Vec<usize> {
    let length = block_length(calls);
    let origin = rng.usize(0..calls.max(1));
    let mut starts: Vec<usize> = (0..calls).step_by(length).collect();
    rng.shuffle(&mut starts);
    let whole = |start: usize| start..(start + length).min(calls);
    starts.into_iter().flat_map(whole).map(|place| (place + origin) % calls).collect()
}

/// Indices of half of the calls, in whole blocks and in order.
pub fn half(calls: usize, rng: &mut Rng) -> Vec<usize> {
    let length = block_length(calls);
    let mut starts: Vec<usize> = (0..calls).step_by(length).collect();
    rng.shuffle(&mut starts);
    starts.truncate(starts.len().div_ceil(2));
    starts.sort_unstable();
    starts.into_iter().flat_map(|start: usize| start..(start + length).min(calls)).collect()
}

/// The bootstrap's interval of the mean of values that are independent of each other.
pub fn mean_interval(values: &[f64], resamples: usize, seed: u64) -> Interval {
    interval_of(values, resamples, seed, |drawn| drawn.iter().sum::<f64>() / drawn.len() as f64)
}

/// The bootstrap's interval of the median of values that are independent of each other.
pub fn median_interval(values: &[f64], resamples: usize, seed: u64) -> Interval {
    interval_of(values, resamples, seed, median)
}

/// The bootstrap's interval of a statistic of values that are independent of each other.
fn interval_of(
    values: &[f64],
    resamples: usize,
    seed: u64,
    statistic: impl Fn(&[f64]) -> f64,
) -> Interval {
    if values.is_empty() {
        return Interval::of(Vec::new());
    }
    let mut rng = Rng::with_seed(seed);
    let mut drawn = vec![0.0; values.len()];
    let mut resample = || {
        drawn.fill_with(|| values[rng.usize(0..values.len())]);
        statistic(&drawn)
    };
    Interval::of((0..resamples).map(|_| resample()).collect())
}
