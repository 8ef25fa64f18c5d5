//! Allreduce. A unit is an element.
//!
//! - [`doubling`], recursive doubling, for short vectors: `log2 p (a + n b + n c)`.
//! - [`halving`], for long ones: reduce-scattered (see `split`) and allgathered (Rabenseifner):
//!   `2 log2 p a + 2 (p - 1) / p n b + (p - 1) / p n c`.
//!
//! Where the ranks are no power of two, each surplus rank gives its operand to its neighbour before
//! and gets the result after. Both keep rank order, and all ranks compute every element from the
//! same operands in the same order, so all get the same bits.

use crate::fold::{Fold, OperandAccess, combine};
use crate::{Buffer, Halves, HalvingPart, OwnData, RankPlace, ReductionShape, RoundSink, split};

const RESULT: crate::BufferPlace = Buffer::Output.at(0);

/// A rank's number among the active ranks, and the neighbour whose operand it also has; `None` if
/// the rank is passive, whose rounds are then complete.
fn active(
    me: RankPlace,
    halves: &Halves,
    own: OwnData,
    count: usize,
    out: &mut impl RoundSink,
) -> Option<(usize, Option<usize>)> {
    match halves.part(me.rank) {
        HalvingPart::Active { number, joined } => Some((number, joined)),
        HalvingPart::Passive { speaker } => {
            out.round();
            out.send(speaker, own.place().part(count));
            out.round();
            out.receive(speaker, RESULT.part(count));
            None
        }
    }
}

/// Sends the result to the neighbour that has taken part through this rank.
fn give_back(joined: Option<usize>, count: usize, out: &mut impl RoundSink) {
    if let Some(neighbour) = joined {
        out.round();
        out.send(neighbour, RESULT.part(count));
    }
}

/// Recursive doubling.
pub fn doubling(me: RankPlace, reduction: ReductionShape, own: OwnData, out: &mut impl RoundSink) {
    let (count, halves) = (reduction.count, Halves::of(me.size, None));
    let Some((number, joined)) = active(me, &halves, own, count, out) else {
        return;
    };
    let steps = (0..halves.active.ilog2()).map(|k| halves.rank(number ^ (1 << k)));
    let partners: Vec<usize> = joined.into_iter().chain(steps).collect();
    // If the first operand comes from the right, it may be received in the receive buffer and
    // become the result there; if it comes from the left, this rank's own operand must be there.
    let first_from_right = partners.first().is_some_and(|&p| p > me.rank);
    let mut fold = match own {
        OwnData::Input if first_from_right => {
            Fold::new(reduction, (own.place(), own.access()), Some(RESULT))
        }
        OwnData::Input => {
            out.round();
            out.copy(own.place().part(count), RESULT.part(count));
            Fold::new(reduction, (RESULT, OperandAccess::Writable), None)
        }
        OwnData::InPlace => Fold::new(reduction, (RESULT, OperandAccess::Writable), None),
    };
    for (step, &partner) in partners.iter().enumerate() {
        let operand = fold.incoming(out);
        out.round();
        out.receive(partner, operand.part(count));
        if step > 0 || joined.is_none() {
            out.send(partner, fold.value().part(count));
        }
        // Never `join`: operators on floating point numbers may not commute in the last bit (NaN,
        // -0).
        if partner > me.rank {
            fold.append(operand, out);
        } else {
            fold.prepend(operand, out);
        }
    }
    fold.deliver(RESULT, out);
    give_back(joined, count, out);
}

/// Recursive halving, and its reverse.
pub fn halving(me: RankPlace, reduction: ReductionShape, own: OwnData, out: &mut impl RoundSink) {
    let (count, halves) = (reduction.count, Halves::of(me.size, None));
    let Some((number, joined)) = active(me, &halves, own, count, out) else {
        return;
    };
    if own == OwnData::Input {
        out.round();
        out.copy(own.place().part(count), RESULT.part(count));
    }
    let staged = if joined.is_some() { count } else { count.div_ceil(2) };
    let staging = out.scratch(staged).at(0);
    if let Some(neighbour) = joined {
        out.round();
        out.receive(neighbour, staging.part(count));
        // Without a rank to keep, the odd one of two neighbours is active: its operand is the right
        // one.
        combine(staging, RESULT, count, out);
    }
    let steps = split::reduce_scatter(reduction, &halves, number, (RESULT, staging), out);
    for step in steps.iter().rev() {
        out.round();
        if !step.given.is_empty() {
            out.receive(step.partner, RESULT.after(step.given.start).part(step.given.len()));
        }
        if !step.kept.is_empty() {
            out.send(step.partner, RESULT.after(step.kept.start).part(step.kept.len()));
        }
    }
    give_back(joined, count, out);
}
