//! Where ranks leave what they saw of late arrivals ([`crate::late`]): a part of the segment for
//! each, allocated when it has something to tell.
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

/// Bytes of a rank's part.
pub const LATE_BYTES: usize = (64 << 10) + size_of::<u64>();

impl JobSegment {
    /// Leaves `table` as that of rank `rank`, in the place of what it left before. To be called by
    /// that rank, by one thread at a time.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn publish_late(&self, rank: u32, table: &LateRecord) -> Result<(), SegmentError> {
        let bytes = table.to_bytes();
        let offset = self.geometry.late(self.index(rank));
        self.allocate(offset, size_of::<u64>() + bytes.len())?;
        let at = self.at(offset);
        // SAFETY: in the mapping and just allocated, aligned to a page; used for nothing else.
        let length = unsafe { &*at.cast::<AtomicU64>() };
        length.store(0, Ordering::Relaxed);
        // SAFETY: the table has no more bytes than the geometry keeps for it (asserted where it is
        // laid out); this thread alone writes here, and others read by `pread` only.
        unsafe {
            at.add(size_of::<u64>())
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        // SYNC late: pairs with the read in `late_table`, by the kernel; the table is there before
        // its length.
        length.store(bytes.len() as u64, Ordering::Release);
        Ok(())
    }

    /// What rank `rank` has left of late arrivals. `None` if it has not, or left something else.
    pub fn late_table(&self, rank: u32) -> Option<LateRecord> {
        // Not through the mapping: to look at a page that nobody has written would allocate it.
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
