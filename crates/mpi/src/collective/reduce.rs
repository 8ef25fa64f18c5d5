//! Reduce: a binomial tree for short vectors; long ones are reduce-scattered (see `split`) and
//! gathered at the root (Rabenseifner). Operators that do not commute use a tree rooted at rank 0,
//! whose subtrees are ranges of ranks in order, and rank 0 sends the result to the root.

use super::fold::{Fold, OperandAccess};
use super::place::{BinomialTree, Elements, Halves, HalvingPart, RankPlace};
use super::reduction::Reduction;
use super::schedule::Schedule;
use super::split;
use super::thresholds::MessageThresholds;
use crate::error::Result;

/// The schedule of a reduce. `send` is absent in place (at the root), `receive` away from the root.
pub fn build(
    me: RankPlace,
    thresholds: &MessageThresholds,
    reduction: &Reduction,
    send: Option<&Elements>,
    receive: Option<&Elements>,
    root: usize,
) -> Result<Schedule> {
    if reduction.count == 0 {
        Ok(Schedule::new())
    } else if reduction.bytes() >= thresholds.reduce_split
        && reduction.count >= me.size
        && me.size > 2
    {
        halving(me, reduction, send, receive, root)
    } else {
        tree(me, reduction, send, receive, root)
    }
}

fn tree(
    me: RankPlace,
    reduction: &Reduction,
    send: Option<&Elements>,
    receive: Option<&Elements>,
    root: usize,
) -> Result<Schedule> {
    let count = reduction.count;
    let top = if reduction.op.is_commutative() { root } else { 0 };
    let actual = |v: usize| (v + top) % me.size;
    let tree = BinomialTree::binomial(me.relative(top), me.size);
    let mut schedule = Schedule::new();

    let own = send.or(receive).expect("every rank has an operand").clone();
    // The receive buffer takes the first operand, unless it holds this rank's own.
    let spare = if send.is_some() { receive.cloned() } else { None };
    let mut fold = Fold::new(reduction, (own, OperandAccess::of_call(send)), spare);
    for &(child, _) in tree.children.iter().rev() {
        let operand = fold.incoming()?;
        let round = schedule.round();
        round.receive(actual(child), operand.view(0, count)?);
        fold.combine(round, operand)?;
    }
    match tree.parent {
        Some(parent) => {
            schedule.round().send(actual(parent), fold.value().view(0, count)?);
            if me.rank == root {
                let receive = receive.expect("the root receives");
                schedule.round().receive(top, receive.view(0, count)?);
            }
        }
        None if me.rank == root => {
            fold.deliver(schedule.last(), receive.expect("the root receives"))?;
        }
        None => {
            schedule.round().send(root, fold.value().view(0, count)?);
        }
    }
    Ok(schedule)
}

fn halving(
    me: RankPlace,
    reduction: &Reduction,
    send: Option<&Elements>,
    receive: Option<&Elements>,
    root: usize,
) -> Result<Schedule> {
    let count = reduction.count;
    let halves = Halves::of(me.size, Some(root));
    let mut schedule = Schedule::new();
    let (number, joined) = match halves.part(me.rank) {
        HalvingPart::Active { number, joined } => (number, joined),
        HalvingPart::Passive { speaker } => {
            let own = send.or(receive).expect("every rank has an operand");
            schedule.round().send(speaker, own.view(0, count)?);
            return Ok(schedule);
        }
    };
    let vector = match receive {
        Some(receive) => receive.clone(),
        None => reduction.temporary(count)?,
    };
    if let Some(send) = send {
        schedule.round().copy(send.view(0, count)?, vector.view(0, count)?);
    }
    let staging = reduction.temporary(if joined.is_some() { count } else { count.div_ceil(2) })?;
    if let Some(neighbour) = joined {
        let round = schedule.round();
        round.receive(neighbour, staging.view(0, count)?);
        if neighbour > me.rank {
            reduction.append(round, &vector, &staging, count)?;
        } else {
            reduction.apply(round, &staging, &vector, count);
        }
    }
    let steps =
        split::reduce_scatter(&mut schedule, reduction, &halves, number, &vector, &staging)?;

    // Backwards: of two partners, the one that equals the root in this bit (both agree with it in
    // all higher ones) collects what both have.
    let HalvingPart::Active { number: target, .. } = halves.part(root) else {
        unreachable!("the root is kept active")
    };
    for step in steps.iter().rev() {
        if (number ^ target) & step.bit != 0 {
            if !step.kept.is_empty() {
                schedule.round().send(step.partner, vector.view(step.kept.start, step.kept.len())?);
            }
            break;
        }
        if !step.given.is_empty() {
            schedule
                .round()
                .receive(step.partner, vector.view(step.given.start, step.given.len())?);
        }
    }
    Ok(schedule)
}
