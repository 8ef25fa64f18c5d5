//! The steps of message-based reductions, as local work of rounds, and the running result of one
//! rank.

use super::place::Elements;
use super::reduction::Reduction;
use super::schedule::{Round, RoundWork};
use crate::error::Result;

impl Reduction {
    /// `inout = input (op) inout` for the first `count` elements.
    pub(super) fn apply(
        &self,
        round: &mut Round,
        input: &Elements,
        inout: &Elements,
        count: usize,
    ) {
        if count > 0 {
            round.local.push(RoundWork::Reduce {
                op: self.op.clone(),
                input: input.region(0),
                inout: inout.region(0),
                count,
                datatype: self.datatype.clone(),
            });
        }
    }

    /// `value = value (op) operand`, where `operand` may be overwritten.
    pub(super) fn append(
        &self,
        round: &mut Round,
        value: &Elements,
        operand: &Elements,
        count: usize,
    ) -> Result<()> {
        if self.op.is_commutative() {
            self.apply(round, operand, value, count);
        } else if count > 0 {
            self.apply(round, value, operand, count);
            round.copy(operand.view(0, count)?, value.view(0, count)?);
        }
        Ok(())
    }
}

/// What may be done with an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperandAccess {
    /// To be read alone: it is the caller's send buffer.
    ReadOnly,
    /// The result may overwrite it.
    Writable,
}

/// A running result. Operands arrive in memory that [`Fold::incoming`] returns. Which memory holds
/// the result changes, so that results are not copied: `op` writes to its right operand.
pub(super) struct Fold<'a> {
    reduction: &'a Reduction,
    value: Elements,
    /// Whether `value` may be changed.
    access: OperandAccess,
    spare: Option<Elements>,
}

impl OperandAccess {
    /// For the operand of a call: in its send buffer, if it has one, or else in its receive buffer.
    pub fn of_call(send: Option<&Elements>) -> OperandAccess {
        match send {
            Some(_) => OperandAccess::ReadOnly,
            None => OperandAccess::Writable,
        }
    }
}

impl<'a> Fold<'a> {
    /// Starts with this rank's own operand.
    pub fn new(
        reduction: &'a Reduction,
        (own, access): (Elements, OperandAccess),
        spare: Option<Elements>,
    ) -> Self {
        Fold { reduction, value: own, access, spare }
    }

    pub fn value(&self) -> &Elements {
        &self.value
    }

    /// Memory for the next operand.
    pub fn incoming(&mut self) -> Result<Elements> {
        match self.spare.take() {
            Some(spare) => Ok(spare),
            None => self.reduction.temporary(self.reduction.count),
        }
    }

    /// `value = operand (op) value`.
    pub fn prepend(&mut self, round: &mut Round, operand: Elements) -> Result<()> {
        let count = self.reduction.count;
        if self.access == OperandAccess::ReadOnly {
            let copy = self.reduction.temporary(count)?;
            round.copy(self.value.view(0, count)?, copy.view(0, count)?);
            self.value = copy;
            self.access = OperandAccess::Writable;
        }
        self.reduction.apply(round, &operand, &self.value, count);
        self.spare = Some(operand);
        Ok(())
    }

    /// `value = value (op) operand`.
    pub fn append(&mut self, round: &mut Round, operand: Elements) {
        self.reduction.apply(round, &self.value, &operand, self.reduction.count);
        let old = std::mem::replace(&mut self.value, operand);
        self.spare = (self.access == OperandAccess::Writable).then_some(old);
        self.access = OperandAccess::Writable;
    }

    /// Combines `value` and `operand` in either order, if the operator allows it; otherwise
    /// appends.
    pub fn combine(&mut self, round: &mut Round, operand: Elements) -> Result<()> {
        if self.access == OperandAccess::Writable && self.reduction.op.is_commutative() {
            self.prepend(round, operand)
        } else {
            self.append(round, operand);
            Ok(())
        }
    }

    /// Copies the result to `to`, unless it is already there.
    pub fn deliver(&self, round: &mut Round, to: &Elements) -> Result<()> {
        if !self.value.same_place(to) {
            let count = self.reduction.count;
            round.copy(self.value.view(0, count)?, to.view(0, count)?);
        }
        Ok(())
    }
}
