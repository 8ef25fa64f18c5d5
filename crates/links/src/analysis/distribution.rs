//! What the paper's Figures 2, 3 and 6 show: the execution times as a whole, those of fast calls
//! as a histogram, and the load of each link in fast calls.

use mica_statistics::{quantile, sorted};
use serde::Serialize;

use super::Columns;

/// The execution times of all calls.
#[derive(Debug, Clone, Serialize)]
pub struct TimeDistribution {
    /// The number of calls.
    pub calls: usize,
    /// The sum of all times.
    pub total_seconds: f64,
    /// The shortest time.
    pub min: f64,
    /// The middle time.
    pub median: f64,
    /// 95 % of the calls take at most this: the bound of a fast call. The paper's is 500 us, which
    /// is the same share of its calls.
    pub p95: f64,
    /// 99 % of the calls take at most this.
    pub p99: f64,
    /// The longest time.
    pub max: f64,
    /// The share of the total time that the slowest 5 % of the calls take; 93 % in the paper.
    pub slowest_share: f64,
}

/// A bar of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bin {
    /// The least time of the bar.
    pub from: f64,
    /// The bar ends before this.
    pub to: f64,
    /// Columns within.
    pub calls: usize,
}

/// The load of one link during fast calls.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LinkLoad {
    /// The link's place among the columns.
    pub link: usize,
    /// The least load.
    pub min: f64,
    /// The middle load.
    pub median: f64,
    /// The highest load.
    pub max: f64,
}

/// The execution times as a whole. `None` without calls.
pub fn distribution(seconds: &[f64]) -> Option<TimeDistribution> {
    let sorted = sorted(seconds.iter().copied());
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let total_seconds: f64 = sorted.iter().sum();
    let slow: f64 = sorted[sorted.len() - sorted.len().div_ceil(20)..].iter().sum();
    Some(TimeDistribution {
        calls: sorted.len(),
        total_seconds,
        min,
        median: quantile(&sorted, 0.5),
        p95: quantile(&sorted, 0.95),
        p99: quantile(&sorted, 0.99),
        max,
        slowest_share: if total_seconds > 0.0 { slow / total_seconds } else { 0.0 },
    })
}

/// The times of calls up to `limit` in bars of one width, chosen after Freedman and Diaconis
/// (1981), 80 at most.
pub fn histogram(seconds: &[f64], limit: f64) -> Vec<Bin> {
    let fast = sorted(seconds.iter().copied().filter(|time| *time <= limit));
    let (Some(low), Some(high)) = (fast.first(), fast.last()) else { return Vec::new() };
    let quartiles = quantile(&fast, 0.75) - quantile(&fast, 0.25);
    let width = 2.0 * quartiles / (fast.len() as f64).cbrt();
    let span = high - low;
    let bars = if width > 0.0 { (span / width).ceil() } else { 1.0 };
    let bars = (bars as usize).clamp(1, 80);
    let width = span / bars as f64;
    let mut histogram: Vec<Bin> = (0..bars)
        .map(|bar| Bin {
            from: low + bar as f64 * width,
            to: low + (bar + 1) as f64 * width,
            calls: 0,
        })
        .collect();
    for time in &fast {
        let bar = if width > 0.0 { (time - low) / width } else { 0.0 };
        histogram[(bar as usize).min(bars - 1)].calls += 1;
    }
    histogram
}

/// The load of each link in calls of at most `limit` seconds, the least loaded link first.
pub fn fast_loads(calls: &Columns, limit: f64) -> Vec<LinkLoad> {
    let load = |(link, load): (usize, &&[f64])| {
        let fast = load.iter().zip(calls.seconds).filter(|(_, time)| **time <= limit);
        let sorted = sorted(fast.map(|(load, _)| *load));
        LinkLoad {
            link,
            min: sorted.first().copied().unwrap_or_default(),
            median: quantile(&sorted, 0.5),
            max: sorted.last().copied().unwrap_or_default(),
        }
    };
    let mut loads: Vec<LinkLoad> = calls.loads.iter().enumerate().map(load).collect();
    loads.sort_by(|a, b| a.median.total_cmp(&b.median));
    loads
}
