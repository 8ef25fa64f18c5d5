//! `HelperSlots`: the number of helper threads at work on the node, limited to the cores that no
//! rank needs.
//!
//! According to chai-2009, 5.3, a helper makes sense only where a processor is left for it. One
//! count in the job segment, initially zero, serves all ranks of the node: a rank acquires a slot
//! before its helper starts to work and releases it when the helper goes to sleep. A process that
//! dies with a slot does not release it; the launcher then ends its job, and the segment with it.

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::sync::{AtomicU32, Ordering};

/// The count of slots taken. Zeroed memory is a valid count, with none taken.
#[derive(Debug)]
#[repr(transparent)]
pub struct HelperSlots(AtomicU32);

impl Default for HelperSlots {
    fn default() -> HelperSlots {
        HelperSlots(AtomicU32::new(0))
    }
}

impl HelperSlots {
    /// Acquires a slot if fewer than `limit` are taken. After true, the caller must
    /// [release](HelperSlots::release) it.
    ///
    /// The caller chooses the limit: one that was explicitly configured to use a helper may allow
    /// more than another.
    pub fn try_acquire(&self, limit: u32) -> bool {
        // Relaxed, here and below: the count guards no data but itself.
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                (taken < limit).then_some(taken + 1)
            })
            .is_ok()
    }

    /// Releases a slot.
    pub fn release(&self) {
        let before = self.0.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "released a helper slot that was not taken");
    }

    /// Slots taken right now.
    pub fn taken(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}
