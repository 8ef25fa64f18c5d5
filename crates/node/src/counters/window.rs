//! The words in which a rank counts the one-sided operations of one window.
//!
//! A rank has [`WINDOW_SLOTS`] such blocks, one for each window that is in use; a window keeps its
//! block until it is freed, and the windows beyond that share one more. Operations are counted
//! there and nowhere else, so that counts by window cost no instruction: what the rank has done in
//! all is the sum of the blocks and of what freed windows have left
//! ([`LiveCounters::retire_window`](super::LiveCounters::retire_window)).
//!
//! Written as all of [`live`](super::live): by the rank alone, by plain loads and stores.

use super::{ACCESS_CLASSES, AccessClass};
use std::sync::atomic::{AtomicU64, Ordering};

/// Windows of a rank with a block of their own, at a time.
pub const WINDOW_SLOTS: usize = 7;

const LOCKS: usize = 2 * ACCESS_CLASSES;
const WORDS: usize = LOCKS + 3;

/// The words of one window. Zeroed memory has counted nothing.
#[derive(Debug)]
#[repr(C)]
pub struct WindowCounters([AtomicU64; WORDS]);

impl Default for WindowCounters {
    fn default() -> WindowCounters {
        WindowCounters([const { AtomicU64::new(0) }; WORDS])
    }
}

/// What a window has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowCounts {
    /// Operations and their bytes, by [`AccessClass`].
    pub operations: [(u64, u64); ACCESS_CLASSES],
    /// Locks that were asked for.
    pub locks: u64,
    /// Times that one was waited for.
    pub lock_waits: u64,
    /// Times that one was had before ranks that waited.
    pub lock_barges: u64,
}

impl WindowCounters {
    #[inline(always)]
    fn bump(&self, at: usize, amount: u64) {
        // Relaxed: readers show the values and draw no conclusions from them.
        let word = &self.0[at];
        word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Counts a one-sided operation on `bytes` bytes.
    #[inline(always)]
    pub fn count_operation(&self, access: AccessClass, bytes: usize) {
        self.bump(2 * access as usize, 1);
        self.bump(2 * access as usize + 1, bytes as u64);
    }

    /// Counts a lock that is asked for.
    #[inline(always)]
    pub fn count_lock(&self) {
        self.bump(LOCKS, 1);
    }

    /// Counts a wait for a lock.
    pub fn count_lock_wait(&self) {
        self.bump(LOCKS + 1, 1);
    }

    /// Counts a lock that was had before ranks that wait for it.
    pub fn count_lock_barge(&self) {
        self.bump(LOCKS + 2, 1);
    }

    /// The values at this moment.
    pub fn counts(&self) -> WindowCounts {
        let word = |at: usize| self.0[at].load(Ordering::Relaxed);
        WindowCounts {
            operations: std::array::from_fn(|access| (word(2 * access), word(2 * access + 1))),
            locks: word(LOCKS),
            lock_waits: word(LOCKS + 1),
            lock_barges: word(LOCKS + 2),
        }
    }

    /// Sets everything to 0.
    pub(super) fn clear(&self) {
        for word in &self.0 {
            word.store(0, Ordering::Relaxed);
        }
    }
}
