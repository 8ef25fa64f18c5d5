//! How much memory the areas of one node have, and may have.

use crate::sync::{AtomicU64, Ordering};

/// The node's count of the areas' bytes, with the limits that the job's launcher has set.
#[derive(Debug, Clone, Copy)]
pub struct Budget<'a> {
    used: &'a AtomicU64,
    limit: u64,
    bound: u64,
}

impl<'a> Budget<'a> {
    pub(crate) fn new(used: &'a AtomicU64, limit: u64, bound: u64) -> Budget<'a> {
        Budget { used, limit, bound }
    }

    /// Bytes of the areas that there are.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that all areas may have together.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that the cells of one area may have; 0: there are no areas.
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// Takes bytes for an area. False, with nothing taken, if they are too many.
    pub(super) fn take(&self, bytes: usize) -> bool {
        // Relaxed, here and below: only the number matters; the kernel orders the memory.
        let more = |used: u64| {
            used.checked_add(bytes as u64)
                .filter(|&used| used <= self.limit)
        };
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Gives the bytes of an area back.
    pub(super) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}
