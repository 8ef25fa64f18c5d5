//! The mapping of an area: its part of the job's file.

use super::head::AreaHead;
use crate::page::page_size;
use crate::segment::{JobSegment, MappedPart, SegmentError};
use std::ptr::NonNull;

/// The mapping of an area: its part of the job's file.
#[derive(Debug)]
pub(super) struct AreaMapping(MappedPart);

impl AreaMapping {
    /// Maps `bytes` bytes of the file, of which the first page is allocated.
    pub fn new(
        segment: &JobSegment,
        offset: u64,
        bytes: usize,
    ) -> Result<AreaMapping, SegmentError> {
        segment.map_part(offset, bytes).map(AreaMapping)
    }

    pub fn head(&self) -> &AreaHead {
        // SAFETY: the first page is allocated; zeroed memory is a valid head; all access goes
        // through its atomics.
        unsafe { self.0.base().cast().as_ref() }
    }

    #[inline(always)]
    pub fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset < self.0.bytes());
        // SAFETY: the callers' offsets follow from the layout that the mapping was made for.
        unsafe { self.0.base().add(offset) }
    }

    /// Maps allocated bytes for writing, as [`JobSegment::populate`] does.
    pub fn populate(&self, offset: usize, bytes: usize) {
        let start = offset - offset % page_size();
        let end = offset + bytes;
        debug_assert!(end <= self.0.bytes());
        // SAFETY: the range lies in our mapping; populating does not change its bytes.
        unsafe {
            libc::madvise(self.at(start).as_ptr().cast(), end - start, libc::MADV_POPULATE_WRITE)
        };
    }
}
