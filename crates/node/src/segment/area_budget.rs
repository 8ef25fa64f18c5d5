//! The memory budget of the collective areas of one node.

use crate::sync::{AtomicU64, Ordering};

/// The node's count of area bytes, with the limits that the job's launcher has set.
#[derive(Debug, Clone, Copy)]
pub struct AreaBudget<'a> {
    used: &'a AtomicU64,
    limit: u64,
    bound: u64,
}

impl<'a> AreaBudget<'a> {
    pub(crate) fn new(used: &'a AtomicU64, limit: u64, bound: u64) -> AreaBudget<'a> {
        AreaBudget { used, limit, bound }
    }

    /// Bytes that the existing areas use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Maximum of bytes of all areas together.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Maximum of bytes of the cells of one area; 0 if there are no areas.
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// Reserves bytes for an area. Returns false, and reserves nothing, if the limit would be
    /// exceeded.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        // Relaxed, here and below: only the number matters; the kernel orders the memory.
        let more = |used: u64| used.checked_add(bytes as u64).filter(|&used| used <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Returns the bytes of an area to the budget.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}
