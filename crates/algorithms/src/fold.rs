//! The running result of one rank in a reduction.

use crate::{BufferPlace, OwnData, ReductionShape, RoundSink};

/// What may be done with an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperandAccess {
    /// To be read alone: it is the caller's send buffer.
    ReadOnly,
    /// The result may overwrite it.
    Writable,
}

/// A running result. Operands arrive in memory that [`Fold::incoming`] returns. Which memory holds
/// the result changes, so that results are not copied: `op` writes to its right operand.
pub(crate) struct Fold {
    reduction: ReductionShape,
    value: BufferPlace,
    /// Whether `value` may be changed.
    access: OperandAccess,
    spare: Option<BufferPlace>,
}

impl ReductionShape {
    /// `value = value (op) operand`, where `operand` may be overwritten.
    pub(crate) fn append(
        self,
        value: BufferPlace,
        operand: BufferPlace,
        count: usize,
        out: &mut impl RoundSink,
    ) {
        if self.commutes {
            combine(operand, value, count, out);
        } else if count > 0 {
            combine(value, operand, count, out);
            out.copy(operand.part(count), value.part(count));
        }
    }
}

/// `inout = input (op) inout` for the first `count` elements.
pub(crate) fn combine(
    input: BufferPlace,
    inout: BufferPlace,
    count: usize,
    out: &mut impl RoundSink,
) {
    if count > 0 {
        out.combine(input, inout, count);
    }
}

impl OwnData {
    /// What may be done with it.
    pub(crate) fn access(self) -> OperandAccess {
        match self {
            OwnData::Input => OperandAccess::ReadOnly,
            OwnData::InPlace => OperandAccess::Writable,
        }
    }
}

impl Fold {
    /// Starts with this rank's own operand; `spare` is memory for the next one.
    pub fn new(
        reduction: ReductionShape,
        (own, access): (BufferPlace, OperandAccess),
        spare: Option<BufferPlace>,
    ) -> Fold {
        Fold { reduction, value: own, access, spare }
    }

    pub fn value(&self) -> BufferPlace {
        self.value
    }

    /// Memory for the next operand.
    pub fn incoming(&mut self, out: &mut impl RoundSink) -> BufferPlace {
        self.spare.take().unwrap_or_else(|| out.scratch(self.reduction.count).at(0))
    }

    /// `value = operand (op) value`.
    pub fn prepend(&mut self, operand: BufferPlace, out: &mut impl RoundSink) {
        let count = self.reduction.count;
        if self.access == OperandAccess::ReadOnly {
            let copy = out.scratch(count).at(0);
            out.copy(self.value.part(count), copy.part(count));
            self.value = copy;
            self.access = OperandAccess::Writable;
        }
        combine(operand, self.value, count, out);
        self.spare = Some(operand);
    }

    /// `value = value (op) operand`.
    pub fn append(&mut self, operand: BufferPlace, out: &mut impl RoundSink) {
        combine(self.value, operand, self.reduction.count, out);
        let old = std::mem::replace(&mut self.value, operand);
        self.spare = (self.access == OperandAccess::Writable).then_some(old);
        self.access = OperandAccess::Writable;
    }

    /// Combines `value` and `operand` in either order, if the operator allows it; otherwise
    /// appends.
    pub fn join(&mut self, operand: BufferPlace, out: &mut impl RoundSink) {
        if self.access == OperandAccess::Writable && self.reduction.commutes {
            self.prepend(operand, out);
        } else {
            self.append(operand, out);
        }
    }

    /// Copies the result to `to`, unless it is already there.
    pub fn deliver(&self, to: BufferPlace, out: &mut impl RoundSink) {
        if self.value != to {
            let count = self.reduction.count;
            out.copy(self.value.part(count), to.part(count));
        }
    }
}
