//! Scan and exscan: recursive doubling. Partners differ in one bit of their rank. Each rank holds
//! the reduction of its group so far (`group`) and of the ranks up to itself (`prefix`), and
//! extends the latter by the groups to its left.

use super::fold::{Fold, OperandAccess};
use super::place::{Elements, RankPlace};
use super::reduction::{Reduction, ScanKind};
use super::schedule::Schedule;
use crate::error::Result;

/// The schedule of a scan. In place, `send` is absent and `receive` holds the operand.
pub fn build(
    me: RankPlace,
    kind: ScanKind,
    reduction: &Reduction,
    send: Option<&Elements>,
    receive: &Elements,
) -> Result<Schedule> {
    let count = reduction.count;
    let mut schedule = Schedule::new();
    if count == 0 {
        return Ok(schedule);
    }
    let (own, mut prefix_known) = match (kind, send) {
        (ScanKind::Inclusive, Some(send)) => {
            schedule.round().copy(send.view(0, count)?, receive.view(0, count)?);
            (send.clone(), true)
        }
        (ScanKind::Exclusive, Some(send)) => (send.clone(), false),
        (_, None) if me.size == 1 => return Ok(schedule),
        (_, None) => {
            // The receive buffer becomes the prefix: the group starts from a copy.
            let copy = reduction.temporary(count)?;
            schedule.round().copy(receive.view(0, count)?, copy.view(0, count)?);
            (copy, kind == ScanKind::Inclusive)
        }
    };
    let mut group = Fold::new(reduction, (own, OperandAccess::of_call(send)), None);
    let mut bit = 1;
    while bit < me.size {
        let partner = me.rank ^ bit;
        if partner < me.size {
            let operand = group.incoming()?;
            let round = schedule.round();
            round
                .receive(partner, operand.view(0, count)?)
                .send(partner, group.value().view(0, count)?);
            if partner > me.rank {
                group.append(round, operand);
            } else {
                if prefix_known {
                    reduction.apply(round, &operand, receive, count);
                } else {
                    round.copy(operand.view(0, count)?, receive.view(0, count)?);
                    prefix_known = true;
                }
                group.prepend(round, operand)?;
            }
        }
        bit *= 2;
    }
    Ok(schedule)
}
