//! A place in a target's memory, and the runs of bytes in it.

use std::ops::Range;

use mica_channel::direct::PeerBuffer;
use mica_channel::memory::{Region, RegionRef, Shape};
use mica_node::counters::AccessClass;

/// Which way the bytes of a put or get go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// To the target.
    Put,
    /// From the target.
    Get,
}

impl Direction {
    /// Copies `bytes` bytes between the origin's buffer and the target's memory.
    #[inline(always)]
    pub fn copy(self, here: RegionRef<'_>, there: RegionRef<'_>, bytes: usize) {
        match self {
            Direction::Put => here.copy_to(there, bytes),
            Direction::Get => there.copy_to(here, bytes),
        }
    }
}

/// A stretch of a target's memory that an operation's bytes lie in, and where in it the operation's
/// displacement is. That may lie outside the stretch, if no byte lies there.
#[derive(Debug, Clone, Copy)]
pub(super) enum TargetPlace<'a> {
    /// Reached by loads and stores: at this offset of the region.
    Mapped(&'a Region, isize),
    /// Reached by loads and stores as far as they go, and by the kernel: at this position.
    Peer(&'a PeerBuffer, isize),
}

impl TargetPlace<'_> {
    /// The place `bytes` further on.
    pub fn offset(self, bytes: isize) -> Self {
        match self {
            TargetPlace::Mapped(region, at) => TargetPlace::Mapped(region, at + bytes),
            TargetPlace::Peer(buffer, at) => TargetPlace::Peer(buffer, at + bytes),
        }
    }

    /// How the `bytes` bytes here are accessed.
    pub fn access(self, bytes: usize) -> AccessClass {
        match self.region(bytes) {
            Some(_) => AccessClass::Memory,
            None => AccessClass::Kernel,
        }
    }

    /// The `bytes` bytes here, if loads and stores reach them.
    pub fn region(self, bytes: usize) -> Option<Region> {
        match self {
            TargetPlace::Mapped(region, at) => Some(region.offset(at)),
            TargetPlace::Peer(buffer, at) => buffer.region(at as usize, bytes),
        }
    }
}

/// The runs of consecutive bytes of a shape in message order, as offsets from its origin.
pub(super) fn runs(shape: &Shape) -> impl Iterator<Item = Range<isize>> + '_ {
    let mut position = 0;
    std::iter::from_fn(move || {
        let (at, bytes) = shape.seek(position)?;
        position += bytes;
        Some(at..at + bytes as isize)
    })
}
