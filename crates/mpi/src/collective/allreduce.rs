//! Allreduce: recursive doubling for short vectors; long ones are reduce-scattered (see `split`)
//! and allgathered (Rabenseifner). Both keep rank order, and all ranks compute every element from
//! the same operands in the same order, so all get the same bits.

use super::fold::{Fold, OperandAccess};
use super::place::{Elements, Halves, HalvingPart, RankPlace};
use super::reduction::Reduction;
use super::schedule::Schedule;
use super::split;
use super::thresholds::MessageThresholds;
use crate::error::Result;

/// The schedule of an allreduce. In place, `send` is absent and `receive` holds the operand.
pub fn build(
    me: RankPlace,
    thresholds: &MessageThresholds,
    reduction: &Reduction,
    send: Option<&Elements>,
    receive: &Elements,
) -> Result<Schedule> {
    let count = reduction.count;
    if count == 0 {
        return Ok(Schedule::new());
    }
    let halves = Halves::of(me.size, None);
    let (number, joined) = match halves.part(me.rank) {
        HalvingPart::Active { number, joined } => (number, joined),
        HalvingPart::Passive { speaker } => {
            let own = send.unwrap_or(receive);
            let mut schedule = Schedule::new();
            schedule.round().send(speaker, own.view(0, count)?);
            schedule.round().receive(speaker, receive.view(0, count)?);
            return Ok(schedule);
        }
    };
    let active = Active { me, halves, number, joined };
    let mut schedule =
        if reduction.bytes() >= thresholds.reduce_split && count >= halves.active && me.size > 2 {
            active.halving(reduction, send, receive)?
        } else {
            active.doubling(reduction, send, receive)?
        };
    if let Some(neighbour) = joined {
        schedule.round().send(neighbour, receive.view(0, count)?);
    }
    Ok(schedule)
}

/// A rank that takes part in the power-of-two part.
struct Active {
    me: RankPlace,
    halves: Halves,
    number: usize,
    joined: Option<usize>,
}

impl Active {
    fn doubling(
        &self,
        reduction: &Reduction,
        send: Option<&Elements>,
        receive: &Elements,
    ) -> Result<Schedule> {
        let count = reduction.count;
        let mut schedule = Schedule::new();
        let partners: Vec<usize> = self
            .joined
            .into_iter()
            .chain(
                (0..self.halves.active.ilog2()).map(|k| self.halves.rank(self.number ^ (1 << k))),
            )
            .collect();
        // If the first operand comes from the right, it may be received in the receive buffer and
        // become the result there; if it comes from the left, this rank's own operand must be
        // there.
        let first_from_right = partners.first().is_some_and(|&p| p > self.me.rank);
        let mut fold = match send {
            Some(send) if first_from_right => {
                Fold::new(reduction, (send.clone(), OperandAccess::ReadOnly), Some(receive.clone()))
            }
            Some(send) => {
                schedule.round().copy(send.view(0, count)?, receive.view(0, count)?);
                Fold::new(reduction, (receive.clone(), OperandAccess::Writable), None)
            }
            None => Fold::new(reduction, (receive.clone(), OperandAccess::Writable), None),
        };
        for (step, &partner) in partners.iter().enumerate() {
            let operand = fold.incoming()?;
            let round = schedule.round();
            round.receive(partner, operand.view(0, count)?);
            if step > 0 || self.joined.is_none() {
                round.send(partner, fold.value().view(0, count)?);
            }
            // Never `combine`: operators on floating point numbers may not commute in the last bit
            // (NaN, -0).
            if partner > self.me.rank {
                fold.append(round, operand);
            } else {
                fold.prepend(round, operand)?;
            }
        }
        fold.deliver(schedule.last(), receive)?;
        Ok(schedule)
    }

    fn halving(
        &self,
        reduction: &Reduction,
        send: Option<&Elements>,
        receive: &Elements,
    ) -> Result<Schedule> {
        let count = reduction.count;
        let mut schedule = Schedule::new();
        if let Some(send) = send {
            schedule.round().copy(send.view(0, count)?, receive.view(0, count)?);
        }
        let staging =
            reduction.temporary(if self.joined.is_some() { count } else { count.div_ceil(2) })?;
        if let Some(neighbour) = self.joined {
            let round = schedule.round();
            round.receive(neighbour, staging.view(0, count)?);
            // Without a rank to keep, the odd one of two neighbours is active: its operand is the
            // right one.
            reduction.apply(round, &staging, receive, count);
        }
        let steps = split::reduce_scatter(
            &mut schedule,
            reduction,
            &self.halves,
            self.number,
            receive,
            &staging,
        )?;
        for step in steps.iter().rev() {
            let round = schedule.round();
            if !step.given.is_empty() {
                round.receive(step.partner, receive.view(step.given.start, step.given.len())?);
            }
            if !step.kept.is_empty() {
                round.send(step.partner, receive.view(step.kept.start, step.kept.len())?);
            }
        }
        Ok(schedule)
    }
}
