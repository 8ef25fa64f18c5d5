//! Which targets may be accessed right now: what every operation checks first.
//!
//! The epochs ([`crate::epoch`]) say what the program has opened; these flags say what has been
//! granted as well. They are written under the lock of the epochs and read without it. Relaxed
//! accesses suffice: a thread that operates in an epoch which another thread has opened was
//! synchronized with that thread by the program (MPI 5.0, 11.6), and a thread that sees a flag
//! closed takes the slow path.
//!
//! After a fence all targets are *ready*: the first operation opens them, by which the fence's
//! epoch has operations ([`AccessFlags::has_operations`]).

use std::sync::atomic::{AtomicU8, Ordering};

/// Of all: targets are open one by one.
const CLOSED: u8 = 0;
/// Open, in an epoch of active target communication.
const ACTIVE: u8 = 1;
/// Open, in one of passive target communication, where operations may be flushed.
const PASSIVE: u8 = 2;
/// Of all: open with the first operation.
const READY: u8 = 3;

/// The flag of all targets of a window at once.
#[derive(Debug)]
pub(crate) struct AccessFlags {
    all: AtomicU8,
}

/// The flag of one target. It lies with what else an operation reads of the target.
#[derive(Debug)]
pub(crate) struct TargetFlag(AtomicU8);

/// What may be accessed at one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetAccess {
    /// Nothing.
    Closed,
    /// Everything, in an epoch of active target communication.
    Active,
    /// Everything, in one of passive target communication.
    Passive,
}

/// What may be accessed at all targets at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllTargets {
    /// Nothing: targets are opened one by one.
    Closed,
    /// Everything, once there is an operation, in a fence's epoch.
    Ready,
    /// Everything, in an epoch of passive target communication.
    Passive,
}

impl AccessFlags {
    /// Nothing may be accessed.
    pub fn closed() -> AccessFlags {
        AccessFlags { all: AtomicU8::new(CLOSED) }
    }

    /// Whether an operation may access the target with the flag `one` without further checks.
    #[inline(always)]
    pub fn is_open(&self, one: &TargetFlag) -> bool {
        match self.all.load(Ordering::Relaxed) {
            CLOSED => one.get() != CLOSED,
            READY => {
                self.all.store(ACTIVE, Ordering::Relaxed);
                true
            }
            _ => true,
        }
    }

    /// Whether there were operations since all targets became ready.
    pub fn has_operations(&self) -> bool {
        self.all.load(Ordering::Relaxed) == ACTIVE
    }

    /// Whether operations on the target with the flag `one` may be flushed without further checks.
    #[inline(always)]
    pub fn is_flushable(&self, one: &TargetFlag) -> bool {
        match self.all.load(Ordering::Relaxed) {
            CLOSED => one.get() == PASSIVE,
            all => all == PASSIVE,
        }
    }

    /// Opens or closes all targets.
    pub fn set_all(&self, all: AllTargets) {
        let value = match all {
            AllTargets::Closed => CLOSED,
            AllTargets::Ready => READY,
            AllTargets::Passive => PASSIVE,
        };
        self.all.store(value, Ordering::Relaxed);
    }

    /// That no target is open at once with the others.
    pub fn is_one_by_one(&self) -> bool {
        self.all.load(Ordering::Relaxed) == CLOSED
    }
}

impl TargetFlag {
    /// Nothing may be accessed.
    pub fn closed() -> TargetFlag {
        TargetFlag(AtomicU8::new(CLOSED))
    }

    #[inline(always)]
    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// Opens or closes the target.
    #[inline(always)]
    pub fn set(&self, access: TargetAccess) {
        let value = match access {
            TargetAccess::Closed => CLOSED,
            TargetAccess::Active => ACTIVE,
            TargetAccess::Passive => PASSIVE,
        };
        self.0.store(value, Ordering::Relaxed);
    }
}
