//! Reduce-scatter, with equal or unequal blocks. A unit is an element.
//!
//! - [`halving`], recursive halving, for short vectors and operators that commute:
//!   `log2 p a + (p - 1) / p n (b + c)`.
//! - [`pairwise`], for long vectors and operators that commute:
//!   `(p - 1) a + (p - 1) / p n (b + c)`.
//! - [`in_order`], for the others: every rank collects the operands of its block and folds them in
//!   rank order.
//!
//! In place, the output holds the whole operand and gets the block at its start.

use crate::fold::{Fold, OperandAccess, combine};
use crate::{
    Buffer, BufferPlace, Halves, HalvingPart, OwnData, RankPlace, ReductionShape, RoundSink,
};

/// The blocks of a reduce-scatter.
#[derive(Clone, Copy)]
pub struct ScatteredBlocks<'a> {
    /// First element of each rank's block; for the number of ranks, the end of the last one.
    pub first: &'a dyn Fn(usize) -> usize,
    /// Where this rank's operand is.
    pub own: OwnData,
}

impl ScatteredBlocks<'_> {
    fn count(&self, rank: usize) -> usize {
        (self.first)(rank + 1) - (self.first)(rank)
    }

    /// The operand for `rank`'s block.
    fn operand(&self, rank: usize) -> BufferPlace {
        self.own.place().after((self.first)(rank))
    }
}

const RESULT: BufferPlace = Buffer::Output.at(0);

/// Step `d`: send the `d`th rank after this one its operand, and receive an operand of this rank's
/// block from the `d`th rank before it.
pub fn pairwise(me: RankPlace, blocks: ScatteredBlocks<'_>, out: &mut impl RoundSink) {
    let own = blocks.count(me.rank);
    let part = ReductionShape { count: own, commutes: true };
    // In place, nothing may land in the receive buffer while parts of it have yet to be sent.
    let spare = (blocks.own == OwnData::Input).then_some(RESULT);
    let mut fold = Fold::new(part, (blocks.operand(me.rank), OperandAccess::ReadOnly), spare);
    for distance in 1..me.size {
        let (to, from) = (me.after(distance), me.before(distance));
        out.round();
        if blocks.count(to) > 0 {
            out.send(to, blocks.operand(to).part(blocks.count(to)));
        }
        if own > 0 {
            let incoming = fold.incoming(out);
            out.receive(from, incoming.part(own));
            fold.join(incoming, out);
        }
    }
    if own > 0 {
        fold.deliver(RESULT, out);
    }
}

/// All operands of a rank's block, combined in rank order.
pub fn in_order(me: RankPlace, blocks: ScatteredBlocks<'_>, out: &mut impl RoundSink) {
    let own = blocks.count(me.rank);
    out.round();
    let incoming = out.scratch(own * me.size);
    for distance in 1..me.size {
        let (to, from) = (me.after(distance), me.before(distance));
        if own > 0 {
            out.receive(from, incoming.part(from * own, own));
        }
        if blocks.count(to) > 0 {
            out.send(to, blocks.operand(to).part(blocks.count(to)));
        }
    }
    if own > 0 {
        out.copy(blocks.operand(me.rank).part(own), incoming.part(me.rank * own, own));
        let result = incoming.at((me.size - 1) * own);
        for rank in (0..me.size - 1).rev() {
            combine(incoming.at(rank * own), result, own, out);
        }
        out.copy(result.part(own), RESULT.part(own));
    }
}

/// Recursive halving: partners differ in one bit of their number, the highest first.
pub fn halving(me: RankPlace, blocks: ScatteredBlocks<'_>, out: &mut impl RoundSink) {
    let (count, own) = ((blocks.first)(me.size), blocks.count(me.rank));
    let halves = Halves::of(me.size, None);
    let (number, joined) = match halves.part(me.rank) {
        HalvingPart::Active { number, joined } => (number, joined),
        HalvingPart::Passive { speaker } => {
            out.round();
            out.send(speaker, blocks.operand(0).part(count));
            if own > 0 {
                out.round();
                out.receive(speaker, RESULT.part(own));
            }
            return;
        }
    };
    let (vector, staging) = (out.scratch(count), out.scratch(count).at(0));
    out.round();
    out.copy(blocks.operand(0).part(count), vector.part(0, count));
    if let Some(neighbour) = joined {
        out.round();
        out.receive(neighbour, staging.part(count));
        combine(staging, vector.at(0), count, out);
    }
    // The blocks of active ranks `from..to` as elements.
    let range = |from: usize, to: usize| {
        let element = |number: usize| (blocks.first)(halves.first(number));
        element(from)..element(to)
    };
    let mut bit = halves.active / 2;
    while bit > 0 {
        let group = number & !(2 * bit - 1);
        let (lower, upper) = (range(group, group + bit), range(group + bit, group + 2 * bit));
        let (kept, given) = if number & bit == 0 { (lower, upper) } else { (upper, lower) };
        let partner = halves.rank(number ^ bit);
        out.round();
        if !kept.is_empty() {
            out.receive(partner, staging.part(kept.len()));
        }
        if !given.is_empty() {
            out.send(partner, vector.part(given.start, given.len()));
        }
        combine(staging, vector.at(kept.start), kept.len(), out);
        bit /= 2;
    }
    if let Some(neighbour) = joined.filter(|&n| blocks.count(n) > 0) {
        out.round();
        out.send(neighbour, vector.part((blocks.first)(neighbour), blocks.count(neighbour)));
    }
    if own > 0 {
        out.copy(vector.part((blocks.first)(me.rank), own), RESULT.part(own));
    }
}
