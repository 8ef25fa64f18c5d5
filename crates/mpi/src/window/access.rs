//! Which targets may be accessed right now: what every operation checks first.
//!
//! The epochs ([`super::epoch`]) say what the program has opened; these flags say what has been
//! granted as well. They are written under the lock of the epochs and read without it. Relaxed
//! accesses suffice: a thread that operates in an epoch which another thread has opened was
//! synchronized with that thread by the program (MPI 5.0, 11.6), and a thread that sees a flag
//! closed takes the slow path.

//!
//! After a fence all targets are *ready*: the first operation opens them, by which the fence's
//! epoch has operations ([`AccessFlags::has_operations`]).

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// `all`: targets are open one by one.
const CLOSED: u8 = 0;
/// `all`: open with the first operation.
const READY: u8 = 1;
/// `all`: open.
const OPEN: u8 = 2;

/// The flags of one window.
#[derive(Debug)]
pub(super) struct AccessFlags {
    all: AtomicU8,
    each: Box<[AtomicBool]>,
    /// The access epoch is one of passive target communication.
    is_passive: AtomicBool,
}

/// What may be accessed at all targets at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AllTargets {
    /// Nothing: targets are opened one by one.
    Closed,
    /// Everything, once there is an operation.
    Ready,
    /// Everything.
    Open,
}

impl AccessFlags {
    /// Nothing may be accessed at `targets` targets.
    pub fn closed(targets: usize) -> AccessFlags {
        AccessFlags {
            all: AtomicU8::new(CLOSED),
            each: (0..targets).map(|_| AtomicBool::new(false)).collect(),
            is_passive: AtomicBool::new(false),
        }
    }

    /// Whether an operation may access `target` without further checks.
    #[inline(always)]
    pub fn is_open(&self, target: usize) -> bool {
        match self.all.load(Ordering::Relaxed) {
            // Of a rank that is not there, nothing is open.
            CLOSED => match self.each.get(target) {
                Some(open) => open.load(Ordering::Relaxed),
                None => false,
            },
            OPEN => true,
            _ => {
                self.all.store(OPEN, Ordering::Relaxed);
                true
            }
        }
    }

    /// Whether there were operations since all targets became ready.
    pub fn has_operations(&self) -> bool {
        self.all.load(Ordering::Relaxed) == OPEN
    }

    /// Whether operations on `target` may be flushed without further checks.
    #[inline(always)]
    pub fn is_flushable(&self, target: usize) -> bool {
        self.is_passive.load(Ordering::Relaxed) && self.is_open(target)
    }

    /// An access epoch of passive target communication has begun, or ended.
    pub fn set_passive(&self, passive: bool) {
        self.is_passive.store(passive, Ordering::Relaxed);
    }

    /// Opens or closes all targets.
    pub fn set_all(&self, all: AllTargets) {
        let value = match all {
            AllTargets::Closed => CLOSED,
            AllTargets::Ready => READY,
            AllTargets::Open => OPEN,
        };
        self.all.store(value, Ordering::Relaxed);
    }

    /// `target`, one of the window's, may be accessed, or no longer.
    // flag: the value of the flag that is set.
    #[inline(always)]
    pub fn set(&self, target: usize, open: bool) {
        debug_assert!(target < self.each.len(), "target {target}");
        // No panic, whose call would need a frame.
        if let Some(flag) = self.each.get(target) {
            flag.store(open, Ordering::Relaxed);
        }
    }
}
