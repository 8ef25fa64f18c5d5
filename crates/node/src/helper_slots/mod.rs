//! `HelperSlots`: how many helper threads are at work on the node, so that they never outnumber the
//! cores that no rank needs.
//!
//! chai-2009, 5.3 warns that a helper makes sense only where a processor is left for it. One count
//! in the job segment, zero at first, serves all ranks of the node: a rank takes a token before its
//! helper starts to work and gives it back when the helper goes to sleep. A process that dies with
//! a token keeps it: the launcher ends its job then, and the segment with it.

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::sync::{AtomicU32, Ordering};

/// The count of tokens taken. Zeroed memory is a valid one with none taken.
#[derive(Debug)]
#[repr(transparent)]
pub struct HelperSlots(AtomicU32);

impl Default for HelperSlots {
    fn default() -> HelperSlots {
        HelperSlots(AtomicU32::new(0))
    }
}

impl HelperSlots {
    /// Takes a token if fewer than `limit` are taken. Whoever gets true must
    /// [give it back](HelperSlots::release).
    ///
    /// The limit is the caller's: one that was asked for a helper explicitly may allow more than
    /// another.
    pub fn try_acquire(&self, limit: u32) -> bool {
        // Relaxed, here and below: the count guards nothing but itself. Cores carry no data.
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                (taken < limit).then_some(taken + 1)
            })
            .is_ok()
    }

    /// Gives a token back.
    pub fn release(&self) {
        let before = self.0.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a token was given back that nobody had taken");
    }

    /// HelperSlots taken right now.
    pub fn taken(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}
