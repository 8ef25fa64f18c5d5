//! The late-arrival records of the ranks ([`crate::late`]): a part of the segment for each rank,
//! allocated when the rank first publishes a record.
//!
//! ```text
//! u64  bytes of the table that follows; 0: none
//! ...  the table, as `crate::late` lays it out
//! ```

use super::{JobSegment, SegmentError};
use crate::late::LateRecord;
use crate::sync::{AtomicU64, Ordering};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of the part of one rank.
pub const LATE_BYTES: usize = (64 << 10) + size_of::<u64>();

impl JobSegment {
    /// Publishes `table` as the record of rank `rank`, and replaces its earlier one. To be called
    /// by that rank, by one thread at a time.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn publish_late(&self, rank: u32, table: &LateRecord) -> Result<(), SegmentError> {
        let bytes = table.to_bytes();
        let offset = self.geometry.late(self.index(rank));
        self.allocate(offset, size_of::<u64>() + bytes.len())?;
        let at = self.at(offset);
        // SAFETY: in the mapping and just allocated, page-aligned; used for nothing else.
        let length = unsafe { &*at.cast::<AtomicU64>() };
        length.store(0, Ordering::Relaxed);
        // SAFETY: the table has at most the bytes that the geometry reserves for it (asserted where
        // it is laid out); only this thread writes here, and others read by `pread` only.
        unsafe {
            at.add(size_of::<u64>()).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        // SYNC late: pairs with the read in `late_table`, by the kernel; the table is written
        // before its length.
        length.store(bytes.len() as u64, Ordering::Release);
        Ok(())
    }

    /// The late-arrival record of rank `rank`. `None` if there is none, or it is invalid.
    pub fn late_table(&self, rank: u32) -> Option<LateRecord> {
        // Not through the mapping: reading a page that was never written would allocate it.
        let file = File::from(self.as_fd().try_clone_to_owned().ok()?);
        let offset = self.geometry.late(self.index(rank)) as u64;
        let mut length = [0; size_of::<u64>()];
        // SYNC late: pairs with the Release store in `publish_late`.
        file.read_exact_at(&mut length, offset).ok()?;
        let length = usize::try_from(u64::from_ne_bytes(length)).ok()?;
        if length == 0 || length > LATE_BYTES - size_of::<u64>() {
            return None;
        }
        let mut bytes = vec![0; length];
        let start = offset + size_of::<u64>() as u64;
        file.read_exact_at(&mut bytes, start).ok()?;
        LateRecord::from_bytes(&bytes)
    }
}
