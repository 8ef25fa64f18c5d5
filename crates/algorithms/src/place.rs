//! What the descriptions take: a rank's place, where its data is, and lengths.

use crate::{Buffer, BufferPlace};

/// The rank that a description is for, and the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankPlace {
    /// This rank.
    pub rank: usize,
    /// Number of ranks.
    pub size: usize,
}

impl RankPlace {
    /// The rank `distance` after this one in the ring of ranks.
    pub fn after(self, distance: usize) -> usize {
        (self.rank + distance) % self.size
    }

    /// The rank `distance` (at most `size`) before this one in the ring of ranks.
    pub fn before(self, distance: usize) -> usize {
        (self.rank + self.size - distance) % self.size
    }

    /// This rank's number when the ring of ranks is counted from `root`.
    pub fn relative(self, root: usize) -> usize {
        (self.rank + self.size - root) % self.size
    }

    /// The rank with number `v` when the ring of ranks is counted from `root`.
    pub fn actual(self, root: usize, v: usize) -> usize {
        (v + root) % self.size
    }
}

/// Where a rank's own data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnData {
    /// In [`Buffer::Input`].
    Input,
    /// In [`Buffer::Output`], which the result replaces (`MPI_IN_PLACE`).
    InPlace,
}

impl OwnData {
    /// The start of the data.
    pub(crate) fn place(self) -> BufferPlace {
        match self {
            OwnData::Input => Buffer::Input.at(0),
            OwnData::InPlace => Buffer::Output.at(0),
        }
    }
}

/// The blocks of an algorithm that can do with blocks of different lengths.
#[derive(Clone, Copy)]
pub enum BlockLengths<'a> {
    /// All have the same length, which is not 0.
    Equal,
    /// The length of each rank's block.
    Each(&'a dyn Fn(usize) -> usize),
}

impl BlockLengths<'_> {
    /// Whether the block of `rank` has no bytes, so that it is not sent.
    pub(crate) fn is_empty(&self, rank: usize) -> bool {
        match self {
            BlockLengths::Equal => false,
            BlockLengths::Each(length) => length(rank) == 0,
        }
    }
}

/// A vector and the order in which its operands are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReductionShape {
    /// Number of elements.
    pub count: usize,
    /// Whether the operator commutes.
    pub commutes: bool,
}

/// The buffers that a rank has in a reduction to one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReduceBuffers {
    /// Its operand.
    pub own: OwnData,
    /// Whether it has an output buffer; the root has.
    pub has_output: bool,
}

/// Whether a rank's own operand is part of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanKind {
    /// `MPI_Scan`.
    Inclusive,
    /// `MPI_Exscan`; the result of rank 0 is undefined, its receive buffer stays as it is.
    Exclusive,
}
