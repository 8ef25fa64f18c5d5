//! The relevant set of links, which the paper found by eye (muecke-2010, chapter 6: "it would be
//! most desirable to partially automate the process").
//!
//! Forward selection on ranks: the link whose load explains most of what is left of the time enters
//! the set, then its part is removed from the time and from the other links. It enters only if its
//! correlation is higher than that of any link with the time in another order: blocks of calls are
//! shuffled, which keeps what neighbouring calls have in common, and destroys a period (circular
//! shifts would not). The highest of all links is compared with
//! the highest of all links, so that many links need no further correction.
//!
//! Links that carry the same traffic, as those of one route, cannot be told apart by any statistic:
//! one of them is in the set and the others are named beside it (`companions`).
//!
//! Stability is the share of half samples in which a link is selected (Meinshausen and Bühlmann
//! 2010), counted for a link together with its companions.

use fastrand::Rng;
use serde::Serialize;

use super::rank::{dot, normalize, unit_ranks};
use super::resample::{half, shuffled};
use super::{ALPHA, Columns};

/// The most links in a set.
const MOST: usize = 6;
/// Links with at least this rank correlation cannot be told apart.
const SAME: f64 = 0.9;

/// How much is computed.
#[derive(Debug, Clone, Copy)]
pub struct SelectionEffort {
    /// Shuffles of the test; at least 1 / [`ALPHA`] or nothing is ever found.
    pub shuffles: usize,
    /// Half samples for the stability.
    pub halves: usize,
}

impl Default for SelectionEffort {
    fn default() -> SelectionEffort {
        SelectionEffort { shuffles: 199, halves: 50 }
    }
}

/// A link of the relevant set.
#[derive(Debug, Clone, Serialize)]
pub struct SelectedLink {
    /// The link's place among the columns.
    pub link: usize,
    /// The share of the time's variance (of ranks) that it explains beyond those before it.
    pub explains: f64,
    /// The chance of as high a correlation of any link with a shuffled time.
    pub p: f64,
    /// Links whose load cannot be told from its.
    pub companions: Vec<usize>,
    /// The share of half samples that select it or a companion.
    pub stability: f64,
}

/// The relevant set, the most important link first.
pub fn relevant_set(calls: &Columns, effort: SelectionEffort, seed: u64) -> Vec<SelectedLink> {
    let mut rng = Rng::with_seed(seed);
    let columns: Vec<Vec<f64>> = calls.loads.iter().map(|load| unit_ranks(load)).collect();
    let mut set = forward(unit_ranks(calls.seconds), columns.clone(), effort.shuffles, &mut rng);
    for selected in &mut set {
        let of = &columns[selected.link];
        let same = |link: &usize| *link != selected.link && dot(of, &columns[*link]) >= SAME;
        selected.companions = (0..columns.len()).filter(same).collect();
    }
    for _ in 0..if set.is_empty() { 0 } else { effort.halves } {
        let drawn = half(calls.seconds.len(), &mut rng);
        let of = |values: &[f64]| drawn.iter().map(|call| values[*call]).collect::<Vec<f64>>();
        let loads = calls.loads.iter().map(|load| unit_ranks(&of(load))).collect();
        let found = forward(unit_ranks(&of(calls.seconds)), loads, effort.shuffles, &mut rng);
        for selected in &mut set {
            let is_it = |other: &SelectedLink| {
                other.link == selected.link || selected.companions.contains(&other.link)
            };
            if found.iter().any(is_it) {
                selected.stability += 1.0 / effort.halves as f64;
            }
        }
    }
    set
}

fn forward(
    mut time: Vec<f64>,
    mut columns: Vec<Vec<f64>>,
    shuffles: usize,
    rng: &mut Rng,
) -> Vec<SelectedLink> {
    let mut set = Vec::new();
    let mut left = 1.0;
    while set.len() < MOST {
        let Some((link, rho)) = highest(&time, &columns) else { break };
        let p = chance(&time, &columns, rho, shuffles, rng);
        if rho <= 0.0 || p > ALPHA {
            break;
        }
        let explains = left * rho * rho;
        left -= explains;
        set.push(SelectedLink { link, explains, p, companions: Vec::new(), stability: 0.0 });
        let chosen = columns[link].clone();
        remove(&mut time, &chosen, 0.0);
        for column in &mut columns {
            // What is left of a companion is noise of its own, blown up by scaling: it goes.
            remove(column, &chosen, 1.0 - SAME * SAME);
        }
    }
    set
}

/// The link with the highest positive correlation.
fn highest(time: &[f64], columns: &[Vec<f64>]) -> Option<(usize, f64)> {
    columns.iter().map(|column| dot(time, column)).enumerate().max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The share of shuffles with as high a correlation of any link.
fn chance(time: &[f64], columns: &[Vec<f64>], rho: f64, shuffles: usize, rng: &mut Rng) -> f64 {
    if time.len() < 16 {
        return 1.0;
    }
    let mut as_high = 0;
    for _ in 0..shuffles {
        let shuffled: Vec<f64> = shuffled(time.len(), rng).iter().map(|call| time[*call]).collect();
        let any = |column: &Vec<f64>| dot(&shuffled, column) >= rho;
        as_high += usize::from(columns.iter().any(any));
        // Enough to know that it is no rare event.
        if (as_high + 1) as f64 > 2.0 * ALPHA * (shuffles + 1) as f64 {
            break;
        }
    }
    (as_high + 1) as f64 / (shuffles + 1) as f64
}

/// Removes `chosen` from `column`; the column is gone if less than `least` of it is left.
fn remove(column: &mut [f64], chosen: &[f64], least: f64) {
    let share = dot(column, chosen);
    for (value, chosen) in column.iter_mut().zip(chosen) {
        *value -= share * chosen;
    }
    if 1.0 - share * share <= least.max(1e-9) {
        column.fill(0.0);
    }
    normalize(column);
}
