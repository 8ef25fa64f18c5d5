//! The mapping of an area: its part of the job's file.

use super::head::AreaHead;
use crate::segment::{JobSegment, PAGE, SegmentError};
use std::ptr::NonNull;

/// The mapping of an area: its part of the job's file.
#[derive(Debug)]
pub(super) struct AreaMapping {
    base: NonNull<u8>,
    bytes: usize,
}

impl AreaMapping {
    /// Maps `bytes` bytes of the file, of which the first page is allocated.
    pub fn new(
        segment: &JobSegment,
        offset: u64,
        bytes: usize,
    ) -> Result<AreaMapping, SegmentError> {
        let base = segment.map_part(offset, bytes)?;
        Ok(AreaMapping { base, bytes })
    }

    pub fn head(&self) -> &AreaHead {
        // SAFETY: the first page is allocated; zeroed memory is a valid head; all access goes
        // through its atomics.
        unsafe { self.base.cast().as_ref() }
    }

    #[inline(always)]
    pub fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset < self.bytes);
        // SAFETY: the callers' offsets follow from the layout that the mapping was made for.
        unsafe { self.base.add(offset) }
    }

    /// Maps allocated bytes for writing, as [`JobSegment::populate`] does.
    pub fn populate(&self, offset: usize, bytes: usize) {
        let start = offset / PAGE * PAGE;
        let end = offset + bytes;
        debug_assert!(end <= self.bytes);
        // SAFETY: the range lies in our mapping; populating does not change its bytes.
        unsafe {
            libc::madvise(
                self.at(start).as_ptr().cast(),
                end - start,
                libc::MADV_POPULATE_WRITE,
            )
        };
    }
}

impl Drop for AreaMapping {
    fn drop(&mut self) {
        // SAFETY: mapped with this length in `new`; references into the mapping borrow the area
        // that owns it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
