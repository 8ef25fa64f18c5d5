//! Reduce-scatter, with equal or unequal blocks: recursive halving for short vectors, pairwise
//! exchange for long ones (both for operators that commute). Otherwise every rank collects the
//! operands of its block and folds them in rank order.

use super::fold::{Fold, OperandAccess};
use super::place::{Elements, Halves, HalvingPart, RankPlace};
use super::reduction::Reduction;
use super::schedule::Schedule;
use super::thresholds::MessageThresholds;
use crate::error::Result;

/// The schedule of a reduce-scatter: rank `i` gets the `counts[i]` elements after those of the
/// ranks before it. In place, `send` is absent, `receive` holds the whole operand and gets the
/// block at its start.
pub fn build(
    me: RankPlace,
    thresholds: &MessageThresholds,
    reduction: &Reduction,
    counts: &[usize],
    send: Option<&Elements>,
    receive: &Elements,
) -> Result<Schedule> {
    if reduction.count == 0 {
        return Ok(Schedule::new());
    }
    let mut first = vec![0];
    for count in counts {
        first.push(first[first.len() - 1] + count);
    }
    let task = HalvingTask { me, reduction, first, send, receive };
    if !reduction.op.is_commutative() {
        task.in_order()
    } else if reduction.bytes() >= thresholds.reduce_scatter_pairwise {
        task.pairwise()
    } else {
        task.halving()
    }
}

struct HalvingTask<'a> {
    me: RankPlace,
    reduction: &'a Reduction,
    /// First element of each rank's block, and the end of the last one.
    first: Vec<usize>,
    send: Option<&'a Elements>,
    receive: &'a Elements,
}

impl HalvingTask<'_> {
    fn count(&self, rank: usize) -> usize {
        self.first[rank + 1] - self.first[rank]
    }

    /// The operand for `rank`'s block.
    fn operand(&self, rank: usize) -> Elements {
        self.send.unwrap_or(self.receive).from(self.first[rank])
    }

    /// Step `d`: send the `d`th rank after this one its operand, and receive an operand of this
    /// rank's block from the `d`th rank before it.
    fn pairwise(&self) -> Result<Schedule> {
        let mut schedule = Schedule::new();
        let own = self.count(self.me.rank);
        let part = Reduction { count: own, ..self.reduction.clone() };
        // In place, nothing may land in the receive buffer while parts of it have yet to be sent.
        let spare = self.send.is_some().then(|| self.receive.clone());
        let mut fold =
            Fold::new(&part, (self.operand(self.me.rank), OperandAccess::ReadOnly), spare);
        for distance in 1..self.me.size {
            let (to, from) = (self.me.after(distance), self.me.before(distance));
            let round = schedule.round();
            if self.count(to) > 0 {
                round.send(to, self.operand(to).view(0, self.count(to))?);
            }
            if own > 0 {
                let incoming = fold.incoming()?;
                round.receive(from, incoming.view(0, own)?);
                fold.combine(round, incoming)?;
            }
        }
        if own > 0 {
            fold.deliver(schedule.last(), self.receive)?;
        }
        Ok(schedule)
    }

    fn in_order(&self) -> Result<Schedule> {
        let (me, own) = (self.me, self.count(self.me.rank));
        let mut schedule = Schedule::new();
        let round = schedule.round();
        let incoming = self.reduction.temporary(own * me.size)?;
        for distance in 1..me.size {
            let (to, from) = (me.after(distance), me.before(distance));
            if own > 0 {
                round.receive(from, incoming.view(from * own, own)?);
            }
            if self.count(to) > 0 {
                round.send(to, self.operand(to).view(0, self.count(to))?);
            }
        }
        if own > 0 {
            round.copy(self.operand(me.rank).view(0, own)?, incoming.view(me.rank * own, own)?);
            let result = (me.size - 1) * own;
            for rank in (0..me.size - 1).rev() {
                self.reduction.apply(
                    round,
                    &incoming.from(rank * own),
                    &incoming.from(result),
                    own,
                );
            }
            round.copy(incoming.view(result, own)?, self.receive.view(0, own)?);
        }
        Ok(schedule)
    }

    fn halving(&self) -> Result<Schedule> {
        let (me, count) = (self.me, self.reduction.count);
        let halves = Halves::of(me.size, None);
        let mut schedule = Schedule::new();
        let own = self.count(me.rank);
        let (number, joined) = match halves.part(me.rank) {
            HalvingPart::Active { number, joined } => (number, joined),
            HalvingPart::Passive { speaker } => {
                schedule.round().send(speaker, self.operand(0).view(0, count)?);
                if own > 0 {
                    schedule.round().receive(speaker, self.receive.view(0, own)?);
                }
                return Ok(schedule);
            }
        };
        let vector = self.reduction.temporary(count)?;
        let staging = self.reduction.temporary(count)?;
        schedule.round().copy(self.operand(0).view(0, count)?, vector.view(0, count)?);
        if let Some(neighbour) = joined {
            let round = schedule.round();
            round.receive(neighbour, staging.view(0, count)?);
            self.reduction.apply(round, &staging, &vector, count);
        }
        // The blocks of active ranks `from..to` as elements.
        let blocks = |from: usize, to: usize| {
            let element = |number: usize| self.first[halves.first(number)];
            element(from)..element(to)
        };
        let mut bit = halves.active / 2;
        while bit > 0 {
            let group = number & !(2 * bit - 1);
            let (lower, upper) = (blocks(group, group + bit), blocks(group + bit, group + 2 * bit));
            let (kept, given) = if number & bit == 0 { (lower, upper) } else { (upper, lower) };
            let partner = halves.rank(number ^ bit);
            let round = schedule.round();
            if !kept.is_empty() {
                round.receive(partner, staging.view(0, kept.len())?);
            }
            if !given.is_empty() {
                round.send(partner, vector.view(given.start, given.len())?);
            }
            self.reduction.apply(round, &staging, &vector.from(kept.start), kept.len());
            bit /= 2;
        }
        if let Some(neighbour) = joined.filter(|&n| self.count(n) > 0) {
            let result = vector.view(self.first[neighbour], self.count(neighbour))?;
            schedule.round().send(neighbour, result);
        }
        if own > 0 {
            let result = vector.view(self.first[me.rank], own)?;
            schedule.last().copy(result, self.receive.view(0, own)?);
        }
        Ok(schedule)
    }
}
