//! Which targets may be accessed right now: what every operation checks first.
//!
//! The epochs ([`super::epoch`]) say what the program has opened; these flags say what has been
//! granted as well. They are written under the lock of the epochs and read without it. Relaxed
//! accesses suffice: a thread that operates in an epoch which another thread has opened was
//! synchronized with that thread by the program (MPI 5.0, 11.6), and a thread that sees a flag
//! closed takes the slow path.

use std::sync::atomic::{AtomicBool, Ordering};

/// The flags of one window.
#[derive(Debug)]
pub(super) struct AccessFlags {
    all: AtomicBool,
    each: Box<[AtomicBool]>,
}

impl AccessFlags {
    /// Nothing may be accessed at `targets` targets.
    pub fn closed(targets: usize) -> AccessFlags {
        AccessFlags {
            all: AtomicBool::new(false),
            each: (0..targets).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Whether `target` may be accessed without further checks.
    #[inline(always)]
    pub fn is_open(&self, target: usize) -> bool {
        self.all.load(Ordering::Relaxed) || self.each[target].load(Ordering::Relaxed)
    }

    /// All targets may be accessed, or no longer all.
    pub fn set_all(&self, open: bool) {
        self.all.store(open, Ordering::Relaxed);
    }

    /// `target` may be accessed, or no longer.
    pub fn set(&self, target: usize, open: bool) {
        self.each[target].store(open, Ordering::Relaxed);
    }
}
