//! A place in a target's memory, and the runs of bytes in it.

use std::ops::Range;

use mica_channel::direct::PeerBuffer;
use mica_memory::{Region, RegionRef, Shape, View};
use mica_node::counters::AccessClass;

use mica_objects::error::Result;

/// Which way the bytes of a put or get go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
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
pub(crate) enum TargetPlace<'a> {
    /// Reached by loads and stores: at this offset of the region.
    Mapped(&'a Region, isize),
    /// Reached by loads and stores as far as they go, and by the kernel: at this position.
    Peer(&'a PeerBuffer, isize),
    /// In several pieces, which the target has attached one by one: at this offset.
    Pieces(&'a MemoryPieces<'a>, isize),
}

/// The attached memory that an operation's bytes lie in, in order of address.
#[derive(Debug)]
pub(crate) struct MemoryPieces<'a>(Vec<MemoryPiece<'a>>);

/// One piece of it: `bytes` bytes at an offset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryPiece<'a> {
    pub at: isize,
    pub bytes: usize,
    /// Its first byte.
    pub place: TargetPlace<'a>,
}

impl<'a> MemoryPieces<'a> {
    /// These pieces, if all bytes of `runs` lie in them.
    pub fn of(
        mut pieces: Vec<MemoryPiece<'a>>,
        mut runs: impl Iterator<Item = Range<isize>>,
    ) -> Option<MemoryPieces<'a>> {
        pieces.sort_unstable_by_key(|piece| piece.at);
        let pieces = MemoryPieces(pieces);
        runs.all(|run| pieces.has(run)).then_some(pieces)
    }

    fn has(&self, mut run: Range<isize>) -> bool {
        while !run.is_empty() {
            let Some((_, left)) = self.at(run.start) else {
                return false;
            };
            run.start += left as isize;
        }
        true
    }

    /// The place of the byte at an offset, and the bytes from it on that its piece has.
    fn at(&self, offset: isize) -> Option<(TargetPlace<'a>, usize)> {
        let after = self.0.partition_point(|piece| piece.at <= offset);
        let piece = self.0.get(after.checked_sub(1)?)?;
        let within = offset - piece.at;
        let left = piece.bytes.checked_sub(within as usize).filter(|&left| left > 0)?;
        Some((piece.place.offset(within), left))
    }
}

impl TargetPlace<'_> {
    /// The place `bytes` further on.
    pub fn offset(self, bytes: isize) -> Self {
        match self {
            TargetPlace::Mapped(region, at) => TargetPlace::Mapped(region, at + bytes),
            TargetPlace::Peer(buffer, at) => TargetPlace::Peer(buffer, at + bytes),
            TargetPlace::Pieces(pieces, at) => TargetPlace::Pieces(pieces, at + bytes),
        }
    }

    /// Copies the `bytes` bytes here to `view` from `position` on.
    ///
    /// # Errors
    /// When the kernel has to copy and refuses.
    pub fn load(self, view: &View, position: usize, bytes: usize) -> Result<()> {
        match self {
            TargetPlace::Mapped(region, at) => {
                view.unpack_at(position, &region.offset(at), bytes);
                Ok(())
            }
            TargetPlace::Peer(buffer, at) => Ok(buffer.load(at as usize, view, position, bytes)?),
            TargetPlace::Pieces(..) => {
                self.each_piece(bytes, |place, done, n| place.load(view, position + done, n))
            }
        }
    }

    /// Copies `bytes` bytes of `view` from `position` on to here.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn store(self, view: &View, position: usize, bytes: usize) -> Result<()> {
        match self {
            TargetPlace::Mapped(region, at) => {
                view.pack_to(position, &region.offset(at), bytes);
                Ok(())
            }
            TargetPlace::Peer(buffer, at) => {
                Ok(buffer.store(at as usize, view, position, bytes)?)
            }
            TargetPlace::Pieces(..) => {
                self.each_piece(bytes, |place, done, n| place.store(view, position + done, n))
            }
        }
    }

    /// Calls `f` with each piece of the `bytes` bytes here: its place, the bytes before it, and its
    /// bytes.
    fn each_piece(
        self,
        bytes: usize,
        mut f: impl FnMut(TargetPlace<'_>, usize, usize) -> Result<()>,
    ) -> Result<()> {
        let TargetPlace::Pieces(pieces, at) = self else {
            return f(self, 0, bytes);
        };
        let mut done = 0;
        while done < bytes
            && let Some((place, left)) = pieces.at(at + done as isize)
        {
            let n = left.min(bytes - done);
            f(place, done, n)?;
            done += n;
        }
        Ok(())
    }

    /// How the `bytes` bytes here are accessed.
    pub fn access(self, bytes: usize) -> AccessClass {
        let mut class = AccessClass::Memory;
        let of_piece = self.each_piece(bytes, |place, _, n| {
            if place.region(n).is_none() {
                class = AccessClass::Kernel;
            }
            Ok(())
        });
        debug_assert!(of_piece.is_ok());
        class
    }

    /// The `bytes` bytes here, if loads and stores reach them.
    pub fn region(self, bytes: usize) -> Option<Region> {
        match self {
            TargetPlace::Mapped(region, at) => Some(region.offset(at)),
            TargetPlace::Peer(buffer, at) => buffer.region(at as usize, bytes),
            TargetPlace::Pieces(pieces, at) => {
                let (place, left) = pieces.at(at)?;
                if bytes <= left { place.region(bytes) } else { None }
            }
        }
    }
}

/// The runs of consecutive bytes of a shape in message order, as offsets from its origin.
pub(crate) fn runs(shape: &Shape) -> impl Iterator<Item = Range<isize>> + '_ {
    let mut position = 0;
    std::iter::from_fn(move || {
        let (at, bytes) = shape.seek(position)?;
        position += bytes;
        Some(at..at + bytes as isize)
    })
}
