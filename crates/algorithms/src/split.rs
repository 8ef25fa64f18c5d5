//! The reduce-scatter phase of Rabenseifner's algorithms: vector halving with distance doubling.
//!
//! Partners differ in one bit of their number, the lowest first. Each keeps one half of its range
//! of the vector and gets the partner's operands for it. The groups that have been combined are
//! always neighbours, so rank order holds and operators need not commute. Each element ends up at
//! one rank, so all ranks later see the same bits.

use std::ops::Range;

use crate::fold::combine;
use crate::{BufferPlace, Halves, ReductionShape, RoundSink};

/// One step of the halving; the inverse phase replays it.
pub(crate) struct HalvingStep {
    pub bit: usize,
    /// The partner's rank.
    pub partner: usize,
    /// What this rank kept.
    pub kept: Range<usize>,
    /// What the partner kept.
    pub given: Range<usize>,
}

/// Reduces `vector` (changed in place) over the active ranks; `number` is this rank's among them.
/// Operands arrive in `staging`. The last step's `kept` is this rank's part of the result.
pub(crate) fn reduce_scatter(
    reduction: ReductionShape,
    halves: &Halves,
    number: usize,
    (vector, staging): (BufferPlace, BufferPlace),
    out: &mut impl RoundSink,
) -> Vec<HalvingStep> {
    let mut steps = Vec::new();
    let mut range = 0..reduction.count;
    let mut bit = 1;
    while bit < halves.active {
        let middle = range.start + range.len() / 2;
        let (lower, upper) = (range.start..middle, middle..range.end);
        let partner = halves.rank(number ^ bit);
        let (kept, given) = if number & bit == 0 { (lower, upper) } else { (upper, lower) };
        out.round();
        if !kept.is_empty() {
            out.receive(partner, staging.part(kept.len()));
        }
        if !given.is_empty() {
            out.send(partner, vector.after(given.start).part(given.len()));
        }
        let value = vector.after(kept.start);
        if number & bit == 0 {
            reduction.append(value, staging, kept.len(), out);
        } else {
            combine(staging, value, kept.len(), out);
        }
        range = kept.clone();
        steps.push(HalvingStep { bit, partner, kept, given });
        bit *= 2;
    }
    steps
}
