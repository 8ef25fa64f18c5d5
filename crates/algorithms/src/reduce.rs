//! Reduce. A unit is an element.
//!
//! - [`binomial`], for short vectors: `ceil(log2 p) (a + n b + n c)`. Operators that do not commute
//!   use a tree rooted at rank 0, whose subtrees are ranges of ranks in order, and rank 0 sends the
//!   result to the root.
//! - [`halving`], for long ones: reduce-scattered (see `split`) and gathered at the root
//!   (Rabenseifner): `2 log2 p a + 2 (p - 1) / p n b + (p - 1) / p n c`.

use crate::fold::{Fold, combine};
use crate::{
    BinomialTree, Buffer, Halves, HalvingPart, OwnData, RankPlace, ReduceBuffers, ReductionShape,
    RoundSink, split,
};

/// Up a binomial tree.
pub fn binomial(
    me: RankPlace,
    root: usize,
    reduction: ReductionShape,
    operands: ReduceBuffers,
    out: &mut impl RoundSink,
) {
    let (count, own) = (reduction.count, operands.own);
    let top = if reduction.commutes { root } else { 0 };
    let tree = BinomialTree::binomial(me.relative(top), me.size);
    let result = Buffer::Output.at(0);
    // The output takes the first operand, unless it holds this rank's own.
    let has_spare = own == OwnData::Input && operands.has_output;
    let mut fold = Fold::new(reduction, (own.place(), own.access()), has_spare.then_some(result));
    for &(child, _) in tree.children.iter().rev() {
        let operand = fold.incoming(out);
        out.round();
        out.receive(me.actual(top, child), operand.part(count));
        fold.join(operand, out);
    }
    match tree.parent {
        Some(parent) => {
            out.round();
            out.send(me.actual(top, parent), fold.value().part(count));
            if me.rank == root {
                out.round();
                out.receive(top, result.part(count));
            }
        }
        None if me.rank == root => fold.deliver(result, out),
        None => {
            out.round();
            out.send(root, fold.value().part(count));
        }
    }
}

/// Recursive halving, and a gather of the parts at the root.
pub fn halving(
    me: RankPlace,
    root: usize,
    reduction: ReductionShape,
    operands: ReduceBuffers,
    out: &mut impl RoundSink,
) {
    let count = reduction.count;
    let halves = Halves::of(me.size, Some(root));
    let (number, joined) = match halves.part(me.rank) {
        HalvingPart::Active { number, joined } => (number, joined),
        HalvingPart::Passive { speaker } => {
            out.round();
            return out.send(speaker, operands.own.place().part(count));
        }
    };
    let vector = match operands.has_output {
        true => Buffer::Output.at(0),
        false => out.scratch(count).at(0),
    };
    if operands.own == OwnData::Input {
        out.round();
        out.copy(Buffer::Input.part(0, count), vector.part(count));
    }
    let staged = if joined.is_some() { count } else { count.div_ceil(2) };
    let staging = out.scratch(staged).at(0);
    if let Some(neighbour) = joined {
        out.round();
        out.receive(neighbour, staging.part(count));
        if neighbour > me.rank {
            reduction.append(vector, staging, count, out);
        } else {
            combine(staging, vector, count, out);
        }
    }
    let steps = split::reduce_scatter(reduction, &halves, number, (vector, staging), out);

    // Backwards: of two partners, the one that equals the root in this bit (both agree with it in
    // all higher ones) collects what both have.
    let HalvingPart::Active { number: target, .. } = halves.part(root) else {
        unreachable!("the root is kept active")
    };
    for step in steps.iter().rev() {
        if (number ^ target) & step.bit != 0 {
            if !step.kept.is_empty() {
                out.round();
                out.send(step.partner, vector.after(step.kept.start).part(step.kept.len()));
            }
            break;
        }
        if !step.given.is_empty() {
            out.round();
            out.receive(step.partner, vector.after(step.given.start).part(step.given.len()));
        }
    }
}
