//! Binds memory to the buffers that a described algorithm (`mica_algorithms`) names: its rounds
//! become this rank's [`Schedule`].
//!
//! A [`BoundMemory`] says what a unit is. There is one for each kind of description: a whole
//! message, packed bytes, blocks, elements of a vector.

use mica_algorithms::{Buffer, BufferPart, BufferPlace, OwnData, ReductionShape, RoundSink};
use mica_memory::{Region, View};

use super::place::{Blocks, Elements, Packed, bytes_at};
use super::reduction::Reduction;
use super::schedule::{RoundWork, Schedule};
use mica_objects::error::{Error, Result};

/// The memory behind the buffers of a description.
pub(super) trait BoundMemory {
    /// The units of `part` as one message.
    fn view(&self, part: BufferPart) -> Result<View>;

    /// New temporary memory; returns its number.
    fn scratch(&mut self, units: usize) -> Result<usize> {
        unreachable!("asks for {units} units of temporary memory, which it does not use")
    }

    /// `inout = input (op) inout` for `count` units.
    fn combine(&self, input: BufferPlace, inout: BufferPlace, count: usize) -> RoundWork {
        unreachable!("combines {count} units of {input:?} and {inout:?} without an operator")
    }
}

/// Takes a description's rounds.
pub(super) struct ScheduleBinder<M> {
    /// The rounds so far; what an algorithm's user adds to them may stand before and behind.
    pub schedule: Schedule,
    memory: M,
    error: Option<Error>,
}

/// The schedule of what `describe` describes.
///
/// # Errors
/// When a buffer extends past the largest address.
pub(super) fn bind<M: BoundMemory>(
    memory: M,
    describe: impl FnOnce(&mut ScheduleBinder<M>),
) -> Result<Schedule> {
    let mut binder = ScheduleBinder { schedule: Schedule::new(), memory, error: None };
    describe(&mut binder);
    binder.error.map_or(Ok(binder.schedule), Err)
}

impl<M: BoundMemory> ScheduleBinder<M> {
    /// The value, or the first error is kept.
    fn checked<T>(&mut self, value: Result<T>) -> Option<T> {
        value.map_err(|error| self.error.get_or_insert(error)).ok()
    }
}

impl<M: BoundMemory> RoundSink for ScheduleBinder<M> {
    fn scratch(&mut self, units: usize) -> Buffer {
        let number = self.memory.scratch(units);
        // After an error nothing is bound any more.
        Buffer::Scratch(self.checked(number).unwrap_or(usize::MAX))
    }

    fn round(&mut self) {
        self.schedule.round();
    }

    fn send(&mut self, to: usize, part: BufferPart) {
        if self.error.is_none() {
            let view = self.memory.view(part);
            if let Some(view) = self.checked(view) {
                self.schedule.last().send(to, view);
            }
        }
    }

    fn receive(&mut self, from: usize, part: BufferPart) {
        if self.error.is_none() {
            let view = self.memory.view(part);
            if let Some(view) = self.checked(view) {
                self.schedule.last().receive(from, view);
            }
        }
    }

    fn copy(&mut self, from: BufferPart, to: BufferPart) {
        if self.error.is_none() {
            let views = self.memory.view(from).and_then(|from| Ok((from, self.memory.view(to)?)));
            if let Some((from, to)) = self.checked(views) {
                self.schedule.last().copy(from, to);
            }
        }
    }

    fn combine(&mut self, input: BufferPlace, inout: BufferPlace, count: usize) {
        if self.error.is_none() {
            let work = self.memory.combine(input, inout, count);
            self.schedule.last().local.push(work);
        }
    }
}

/// A message that is sent and received as a whole.
pub(super) struct WholeMessage(pub View);

impl BoundMemory for WholeMessage {
    fn view(&self, _: BufferPart) -> Result<View> {
        Ok(self.0.clone())
    }
}

/// Packed bytes from the region's origin on; a unit is a byte.
pub(super) struct PackedBytes(pub Region);

impl BoundMemory for PackedBytes {
    fn view(&self, part: BufferPart) -> Result<View> {
        Ok(bytes_at(&self.0, part.first, part.count))
    }
}

/// The blocks in one buffer.
pub(super) enum BoundBlocks<'a> {
    /// This rank has no such buffer.
    Absent,
    /// This rank's own block.
    One(View),
    /// Of equal length.
    Even(&'a Blocks),
    /// One by one.
    Each(&'a [View]),
}

impl BoundBlocks<'_> {
    /// A rank's own block, if it has one.
    pub(super) fn own(view: Option<View>) -> BoundBlocks<'static> {
        view.map_or(BoundBlocks::Absent, BoundBlocks::One)
    }

    fn view(&self, part: BufferPart) -> Result<View> {
        match self {
            BoundBlocks::Absent => unreachable!("{part:?} of a buffer that this rank lacks"),
            BoundBlocks::One(view) => Ok(view.clone()),
            BoundBlocks::Even(blocks) => blocks.view(part.first, part.count),
            BoundBlocks::Each(views) => Ok(views[part.first].clone()),
        }
    }
}

/// Blocks of ranks; temporary ones are packed.
pub(super) struct BlockMemory<'a> {
    input: BoundBlocks<'a>,
    output: BoundBlocks<'a>,
    /// Bytes of a unit of temporary memory.
    unit: usize,
    scratch: Vec<Packed>,
}

impl<'a> BlockMemory<'a> {
    /// The send buffer and the receive buffer; `unit` is in bytes.
    pub(super) fn new(input: BoundBlocks<'a>, output: BoundBlocks<'a>, unit: usize) -> Self {
        BlockMemory { input, output, unit, scratch: Vec::new() }
    }

    /// As [`bind`], where no view is computed.
    pub(super) fn bind_each(
        self,
        describe: impl FnOnce(&mut ScheduleBinder<BlockMemory<'a>>),
    ) -> Schedule {
        bind(self, describe).expect("blocks that are listed have their views")
    }
}

impl BoundMemory for BlockMemory<'_> {
    fn view(&self, part: BufferPart) -> Result<View> {
        match part.buffer {
            Buffer::Input => self.input.view(part),
            Buffer::Output => self.output.view(part),
            Buffer::Scratch(number) => Ok(self.scratch[number].view(part.first, part.count)),
        }
    }

    fn scratch(&mut self, units: usize) -> Result<usize> {
        self.scratch.push(Packed::temporary(units, self.unit));
        Ok(self.scratch.len() - 1)
    }
}

/// The vectors of a reduction; a unit is an element.
pub(super) struct VectorMemory<'a> {
    reduction: &'a Reduction,
    send: Option<&'a Elements>,
    receive: Option<&'a Elements>,
    scratch: Vec<Elements>,
}

impl<'a> VectorMemory<'a> {
    /// The send buffer, absent in place, and the receive buffer, absent where there is no result.
    pub(super) fn new(
        reduction: &'a Reduction,
        send: Option<&'a Elements>,
        receive: Option<&'a Elements>,
    ) -> Self {
        VectorMemory { reduction, send, receive, scratch: Vec::new() }
    }

    fn elements(&self, buffer: Buffer) -> &Elements {
        match buffer {
            Buffer::Input => self.send.expect("not in place"),
            Buffer::Output => self.receive.expect("this rank has a result"),
            Buffer::Scratch(number) => &self.scratch[number],
        }
    }
}

impl BoundMemory for VectorMemory<'_> {
    fn view(&self, part: BufferPart) -> Result<View> {
        self.elements(part.buffer).view(part.first, part.count)
    }

    fn scratch(&mut self, units: usize) -> Result<usize> {
        self.scratch.push(self.reduction.temporary(units)?);
        Ok(self.scratch.len() - 1)
    }

    fn combine(&self, input: BufferPlace, inout: BufferPlace, count: usize) -> RoundWork {
        let region = |place: BufferPlace| self.elements(place.buffer).region(place.first);
        RoundWork::Reduce {
            op: self.reduction.op.clone(),
            input: region(input),
            inout: region(inout),
            count,
            datatype: self.reduction.datatype.clone(),
        }
    }
}

/// Where the own data of a rank with this send buffer is.
pub(super) fn own_data<T>(send: Option<&T>) -> OwnData {
    match send {
        Some(_) => OwnData::Input,
        None => OwnData::InPlace,
    }
}

impl Reduction {
    /// What a description needs to know of it.
    pub(super) fn shape(&self) -> ReductionShape {
        ReductionShape { count: self.count, commutes: self.op.is_commutative() }
    }
}
