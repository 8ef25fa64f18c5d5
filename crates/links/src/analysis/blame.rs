//! Links ordered by how their load goes with the execution time (muecke-2010, Figures 4 and 5).
//!
//! A link's load goes with the time beyond chance if its Spearman correlation with it is positive
//! and chance does not explain that: one-sided test, effective number of calls, Holm's correction
//! over all links, level [`ALPHA`]. The interval beside it is a block bootstrap of the ranks.

use fastrand::Rng;
use mica_statistics::{quantile, sorted};
use serde::Serialize;

use super::rank::{dot, effective_number, holm, normalize, p_positive, unit_ranks};
use super::resample::{Interval, blocks};
use super::{ALPHA, Columns};

/// How a link's load goes with the execution time.
#[derive(Debug, Clone, Serialize)]
pub struct LinkBlame {
    /// The link's place among the columns.
    pub link: usize,
    /// Spearman's coefficient.
    pub rho: f64,
    /// Its interval.
    pub interval: Interval,
    /// The p-value after Holm's correction.
    pub p: f64,
    /// The correlation is beyond chance. That is no blame: a long call counts more bytes on every
    /// link (`Explanation::named` has the links that are blamed).
    pub beyond_chance: bool,
    /// The share of the slow calls in which the link's load is above what 95 % of the fast calls
    /// have on it.
    pub coincidence: f64,
}

/// The correlation of one column, as the total load of Figure 4, with the execution time.
pub fn correlation(seconds: &[f64], load: &[f64]) -> f64 {
    dot(&unit_ranks(seconds), &unit_ranks(load))
}

/// All links, the highest correlation first. `slow` says of each call whether it is slow.
pub fn rank_links(calls: &Columns, slow: &[bool], resamples: usize, seed: u64) -> Vec<LinkBlame> {
    let time = unit_ranks(calls.seconds);
    let columns: Vec<Vec<f64>> = calls.loads.iter().map(|load| unit_ranks(load)).collect();
    let rho: Vec<f64> = columns.iter().map(|column| dot(&time, column)).collect();
    let tests = columns.iter().zip(&rho);
    let p: Vec<f64> =
        tests.map(|(column, rho)| p_positive(*rho, effective_number(&time, column))).collect();
    let adjusted = holm(&p);
    let intervals = intervals(&time, &columns, resamples, seed);
    let mut links: Vec<LinkBlame> = (0..columns.len())
        .map(|link| LinkBlame {
            link,
            rho: rho[link],
            interval: intervals[link],
            p: adjusted[link],
            beyond_chance: adjusted[link] < ALPHA,
            coincidence: coincidence(calls.loads[link], slow),
        })
        .collect();
    links.sort_by(|a, b| b.rho.total_cmp(&a.rho));
    links
}

/// Resamples the ranks, all links by the same draws.
fn intervals(time: &[f64], columns: &[Vec<f64>], resamples: usize, seed: u64) -> Vec<Interval> {
    let mut rng = Rng::with_seed(seed);
    let mut values = vec![Vec::with_capacity(resamples); columns.len()];
    if time.is_empty() {
        return vec![Interval::of(Vec::new()); columns.len()];
    }
    for _ in 0..resamples {
        let drawn = blocks(time.len(), &mut rng);
        let time = redrawn(time, &drawn);
        for (column, values) in columns.iter().zip(&mut values) {
            values.push(dot(&time, &redrawn(column, &drawn)));
        }
    }
    values.into_iter().map(Interval::of).collect()
}

/// The drawn values, centred and scaled again.
fn redrawn(values: &[f64], drawn: &[usize]) -> Vec<f64> {
    let mut values: Vec<f64> = drawn.iter().map(|call| values[*call]).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter_mut().for_each(|value| *value -= mean);
    normalize(&mut values);
    values
}

fn coincidence(load: &[f64], slow: &[bool]) -> f64 {
    let of = |which: bool| {
        load.iter().zip(slow).filter(move |(_, slow)| **slow == which).map(|(load, _)| *load)
    };
    let usual = quantile(&sorted(of(false)), 0.95);
    let (above, all) =
        of(true).fold((0, 0), |(above, all), load| (above + usize::from(load > usual), all + 1));
    above as f64 / f64::max(1.0, f64::from(all))
}
