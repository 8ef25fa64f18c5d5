//! The message-based collective algorithms, each described once: what one rank sends, receives,
//! combines and copies, round by round, in units of named buffers.
//!
//! A description is a function of the rank, the number of ranks, the root and the lengths, and
//! reports its rounds to a [`RoundSink`]. It knows no communicator, no datatype and no memory.
//! Those that read it:
//!
//! - `mica_collective` binds the buffers and gets the schedule that a rank carries out;
//! - `policy::collective` adds up what the rounds cost, and chooses;
//! - `sim::replay` and `mica links` carry out the rounds of all ranks on a modelled machine.
//!
//! All messages of a round are in flight together: a rank posts its receives, starts its sends, and
//! waits for all of them. Then it does the round's copies and combinations in the order given. Two
//! ranks list the messages between them in the same order, so one tag serves a whole collective.
//! Empty messages are left out on both sides, except in a barrier, whose messages are all empty.
//! Reductions keep rank order unless the operator commutes, and an allreduce combines every element
//! in the same order at all ranks, so that all get the same bits.
//!
//! What a unit is depends on the algorithm: a byte of the message (bcast), an element of the vector
//! (reductions), a rank's block (all others). The tests run every description on symbolic values,
//! for all roots and with rendezvous sends, and compare the outcome with MPI's definition.
//!
//! The algorithms are those that Thakur, Rabenseifner and Gropp compare ("Optimization of
//! Collective Communication Operations in MPICH", 2005). [`Algorithm`] names them, and
//! [`MessageCall`] is a call of one.

#![forbid(unsafe_code)]

pub mod allgather;
pub mod allreduce;
pub mod alltoall;
pub mod barrier;
pub mod bcast;
mod call;
mod fold;
pub mod gather;
mod halves;
mod place;
pub mod reduce;
pub mod reduce_scatter;
pub mod scan;
mod split;
mod tree;

pub use call::{ALGORITHMS, Algorithm, AlgorithmFamily, COLLECTIVES, Collective, MessageCall};
pub use halves::{Halves, HalvingPart};
pub use place::{BlockLengths, OwnData, RankPlace, ReduceBuffers, ReductionShape, ScanKind};
pub use tree::BinomialTree;

/// Memory that a description names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Buffer {
    /// The send buffer: never written.
    Input,
    /// The receive buffer; of a bcast, the message.
    Output,
    /// Temporary memory, in the order in which the description asks for it.
    Scratch(usize),
}

/// A place in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferPlace {
    /// The buffer.
    pub buffer: Buffer,
    /// Units before it.
    pub first: usize,
}

/// Consecutive units of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferPart {
    /// The buffer.
    pub buffer: Buffer,
    /// The first unit.
    pub first: usize,
    /// Number of units.
    pub count: usize,
}

impl Buffer {
    /// The place after `first` units.
    pub const fn at(self, first: usize) -> BufferPlace {
        BufferPlace { buffer: self, first }
    }

    /// `count` units from `first` on.
    pub const fn part(self, first: usize, count: usize) -> BufferPart {
        BufferPart { buffer: self, first, count }
    }
}

impl BufferPlace {
    /// The place `units` later.
    pub const fn after(self, units: usize) -> BufferPlace {
        BufferPlace { buffer: self.buffer, first: self.first + units }
    }

    /// `count` units from here on.
    pub const fn part(self, count: usize) -> BufferPart {
        self.buffer.part(self.first, count)
    }
}

/// What gets a rank's rounds, in order.
pub trait RoundSink {
    /// Whether it takes copies. If not, an algorithm may leave them out, which makes Bruck's among
    /// many ranks short to describe.
    const TAKES_COPIES: bool = true;

    /// New temporary memory of `units` units: [`Buffer::Scratch`], counted from 0.
    fn scratch(&mut self, units: usize) -> Buffer;

    /// Starts another round. A round to which nothing was added is used again, so that an algorithm
    /// may start rounds freely. What is added before the first call belongs to a first round.
    fn round(&mut self);

    /// Adds a message to rank `to`.
    fn send(&mut self, to: usize, part: BufferPart);

    /// Adds a message from rank `from`.
    fn receive(&mut self, from: usize, part: BufferPart);

    /// Adds a copy to the local work at the end of the round.
    fn copy(&mut self, from: BufferPart, to: BufferPart);

    /// Adds `inout = input (op) inout`, unit by unit, to the local work at the end of the round.
    fn combine(&mut self, input: BufferPlace, inout: BufferPlace, count: usize);
}

#[cfg(test)]
mod tests;
