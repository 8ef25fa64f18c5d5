//! A peer's buffer, mapped here.

use std::ops::Range;
use std::sync::Arc;

use mica_memory::{Block, Region, Shape, View};

/// A peer's buffer that this rank loads from and stores to. Cheap to clone; may outlive the
/// [`Direct`](super::Direct) that made it, but not the peer's [`Exposed`](super::Exposed): a copy
/// after that is lost, or faults.
///
/// # Contract
/// The bytes belong to another process. MPI's rules for buffers in use keep both sides from
/// touching a byte at the same time: a byte is written by the one side only while the other neither
/// reads nor writes it, and the messages by which the two sides agree on this order their accesses.
/// Windows copy with raw addresses and never make references, so a program that breaks these rules
/// gets wrong bytes, but no undefined behaviour in this process.
#[derive(Debug, Clone)]
pub struct MappedWindow {
    /// Where the buffer's first byte is, or would be if it were reachable.
    pub(super) origin: usize,
    pub(super) reachable: Range<usize>,
    /// Memory of the peer that is mapped here until the last window and region on it are gone.
    pub(super) mapping: Arc<Block>,
}

impl MappedWindow {
    /// The bytes of the buffer that [`load`](Self::load) and [`store`](Self::store) may touch.
    pub fn reachable(&self) -> Range<usize> {
        self.reachable.clone()
    }

    /// The part of `range` that `window` reaches, the part before it and the part behind it. Each
    /// may be empty.
    #[inline]
    pub fn parts(window: Option<&MappedWindow>, range: &Range<usize>) -> [Range<usize>; 3] {
        split(range, &window.map_or(0..0, MappedWindow::reachable))
    }

    /// The buffer as a view, for a copy engine. Keeps the mapping.
    ///
    /// # Panics
    /// If not all of it is reachable.
    pub fn view(&self) -> View {
        assert_eq!(self.reachable.start, 0, "the buffer's start is not reachable");
        let bytes = self.reachable.end;
        self.region(0).view(Shape::Contiguous { bytes })
    }

    /// The peer's memory from `position` on. Keeps the mapping.
    pub(super) fn region(&self, position: usize) -> Region {
        self.mapping.region_at(self.origin.wrapping_add(position))
    }

    /// Copies `len` bytes at `position` of the peer's buffer to `view` from `view_position` on.
    /// Does not block.
    ///
    /// # Panics
    /// If the bytes are not all reachable, or the view does not have them, or lies among them.
    #[inline]
    pub fn load(&self, position: usize, view: &View, view_position: usize, len: usize) {
        let from = self.address(position, view, view_position, len);
        let from = std::ptr::with_exposed_provenance::<u8>(from);
        // SAFETY: 1. `address` has checked that the bytes lie in the mapping, which lives as long
        // as `self`; 2. `address` has also checked that a view in the same mapping does not overlap
        // them; no other view lies in the mapping. That the peer leaves the bytes alone is the
        // window's contract.
        unsafe { view.unpack_from(view_position, from, len) };
    }

    /// Copies `len` bytes of `view` from `view_position` on to `position` of the peer's buffer.
    /// Does not block.
    ///
    /// # Panics
    /// As [`load`](Self::load).
    #[inline]
    pub fn store(&self, position: usize, view: &View, view_position: usize, len: usize) {
        let to = self.address(position, view, view_position, len);
        let to = std::ptr::with_exposed_provenance_mut::<u8>(to);
        // SAFETY: as in `load`.
        unsafe { view.pack_into(view_position, to, len) };
    }

    #[inline]
    fn address(&self, position: usize, view: &View, view_position: usize, len: usize) -> usize {
        let end = position.checked_add(len);
        assert!(
            position >= self.reachable.start && end.is_some_and(|end| end <= self.reachable.end),
            "{len} bytes at {position} are not within the {:?} that the window reaches",
            self.reachable
        );
        assert!(
            view_position.checked_add(len).is_some_and(|end| end <= view.len()),
            "{len} bytes at {view_position} are not within a view of {}",
            view.len()
        );
        let first = self.origin.wrapping_add(position);
        debug_assert!({
            let mapped = self.mapping.addresses();
            len == 0 || (mapped.contains(&first) && first + len <= mapped.end)
        });
        assert!(
            !view.meets(&self.mapping, first..first.wrapping_add(len)),
            "the view lies among the {len} bytes at {position} of the peer's buffer"
        );
        first
    }
}

/// The part of `range` within `reachable`, the part before it and the part behind it.
#[inline]
pub(super) fn split(range: &Range<usize>, reachable: &Range<usize>) -> [Range<usize>; 3] {
    let start = reachable.start.clamp(range.start, range.end);
    let end = reachable.end.clamp(start, range.end);
    [start..end, range.start..start, end..range.end]
}
