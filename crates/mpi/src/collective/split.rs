//! The reduce-scatter phase of Rabenseifner's algorithms: vector halving with distance doubling.
//!
//! Partners differ in one bit of their number, the lowest first. Each keeps one half of its range
//! of the vector and gets the partner's operands for it. The groups that have been combined are
//! always neighbours, so rank order holds and operators need not commute. Each element ends up at
//! one rank, so all ranks later see the same bits.

use std::ops::Range;

use super::place::{Elements, Halves};
use super::reduction::Reduction;
use super::schedule::Schedule;
use crate::error::Result;

/// One step of the halving; the inverse phase replays it.
pub(super) struct HalvingStep {
    pub bit: usize,
    /// The partner's rank.
    pub partner: usize,
    /// What this rank kept.
    pub kept: Range<usize>,
    /// What the partner kept.
    pub given: Range<usize>,
}

/// Reduces `vector` (changed in place) over the active ranks. The last step's `kept` is this rank's
/// part of the result.
pub(super) fn reduce_scatter(
    schedule: &mut Schedule,
    reduction: &Reduction,
    halves: &Halves,
    number: usize,
    vector: &Elements,
    staging: &Elements,
) -> Result<Vec<HalvingStep>> {
    let mut steps = Vec::new();
    let mut range = 0..reduction.count;
    let mut bit = 1;
    while bit < halves.active {
        let middle = range.start + range.len() / 2;
        let (lower, upper) = (range.start..middle, middle..range.end);
        let partner = halves.rank(number ^ bit);
        let (kept, given) = if number & bit == 0 { (lower, upper) } else { (upper, lower) };
        let round = schedule.round();
        if !kept.is_empty() {
            round.receive(partner, staging.view(0, kept.len())?);
        }
        if !given.is_empty() {
            round.send(partner, vector.view(given.start, given.len())?);
        }
        let value = vector.from(kept.start);
        if number & bit == 0 {
            reduction.append(round, &value, staging, kept.len())?;
        } else {
            reduction.apply(round, staging, &value, kept.len());
        }
        range = kept.clone();
        steps.push(HalvingStep { bit, partner, kept, given });
        bit *= 2;
    }
    Ok(steps)
}
