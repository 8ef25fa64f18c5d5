//! The shared words of a [`WindowLock`](super::WindowLock): one [`TargetLine`] for the lock, and
//! one [`OriginLine`] for each rank that may take it.

use crate::sync::{AtomicU32, AtomicU64};

/// What a lock lets other origins do (MPI 5.0, 12.5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// `MPI_LOCK_SHARED`: others may hold the lock in the same mode.
    Shared,
    /// `MPI_LOCK_EXCLUSIVE`: no other origin holds the lock.
    Exclusive,
}

/// Who holds the lock, and who waits for it. Zeroed memory is a free lock.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct TargetLine {
    /// 0 while the lock is free; the number of shared holders; or the [`exclusive`] holder.
    pub(in crate::window) owners: AtomicU32,
    /// On the second cache line: an origin that begins to wait does not disturb a holder that
    /// leaves.
    pub(in crate::window) waits: WaitLine,
}

/// Who waits for the lock.
#[derive(Debug)]
#[repr(C, align(64))]
pub(in crate::window) struct WaitLine {
    /// Rank + 1 of the last in the queue of exclusive origins; 0 if the queue is empty.
    pub(in crate::window) tail: AtomicU32,
    /// Number of shared origins that wait; at times more than there are.
    pub(in crate::window) readers: AtomicU32,
    /// Rank + 1 of the first in the queue; 0 if the queue is empty, or the first is just joining.
    pub(in crate::window) first: AtomicU32,
    /// How often the lock was left open since the queue has moved on. Written by the exclusive
    /// holder, as is `since`.
    pub(in crate::window) openings: AtomicU32,
    /// When that was done first since then, in nanoseconds.
    pub(in crate::window) since: AtomicU64,
}

/// One origin at one target: what it has of the lock, who comes after it, and its accumulates.
/// Zeroed memory is an origin that has nothing to do with the target.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct OriginLine {
    /// One of the states below.
    pub(in crate::window) state: AtomicU32,
    /// Rank + 1 of the next in the queue, which writes it; 0 while none is behind.
    pub(in crate::window) next: AtomicU32,
    /// Atomic updates of the target that this origin has in progress ([`AccumulateGate`]).
    ///
    /// [`AccumulateGate`]: crate::window::AccumulateGate
    pub(in crate::window) updates: AtomicU32,
    /// For reports, of a number that stands for origins that share no memory with the target: the
    /// rank + 1 of one that has the lock, as the rank that takes it for them names it, and how many
    /// have.
    pub(in crate::window) served: AtomicU32,
    pub(in crate::window) served_count: AtomicU32,
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<TargetLine>() == 128);
    assert!(std::mem::offset_of!(TargetLine, waits) == 64);
    assert!(size_of::<OriginLine>() == 64);
};

/// The origin neither holds the lock nor waits for it; or it holds it, exclusive, without having
/// waited.
pub(in crate::window) const IDLE: u32 = 0;
/// The origin waits for the lock, shared.
const WAITS_SHARED: u32 = 1;
/// The origin waits for the lock, exclusive.
const WAITS_EXCLUSIVE: u32 = 2;
/// The origin holds the lock, shared.
const HOLDS_SHARED: u32 = 3;
/// The origin holds the lock, exclusive.
const HOLDS_EXCLUSIVE: u32 = 4;
/// The origin waits for the lock, exclusive, and is the first in the queue.
pub(in crate::window) const IS_FIRST: u32 = 5;

impl LockMode {
    /// The state of an origin that waits.
    pub(in crate::window) fn waits(self) -> u32 {
        match self {
            LockMode::Shared => WAITS_SHARED,
            LockMode::Exclusive => WAITS_EXCLUSIVE,
        }
    }

    /// The state of an origin that holds.
    pub(in crate::window) fn holds(self) -> u32 {
        match self {
            LockMode::Shared => HOLDS_SHARED,
            LockMode::Exclusive => HOLDS_EXCLUSIVE,
        }
    }

    /// The mode of an origin that waits, by its state.
    pub(in crate::window) fn of_waiter(state: u32) -> Option<LockMode> {
        match state {
            WAITS_SHARED => Some(LockMode::Shared),
            WAITS_EXCLUSIVE | IS_FIRST => Some(LockMode::Exclusive),
            _ => None,
        }
    }

    /// The mode of an origin that shares the lock, by its state. (Who holds it alone, `owners`
    /// says.)
    pub(in crate::window) fn of_sharer(state: u32) -> Option<LockMode> {
        (state == HOLDS_SHARED).then_some(LockMode::Shared)
    }
}

impl TargetLine {
    /// A free lock.
    #[allow(clippy::new_without_default)] // no const new under loom; no caller needs Default
    pub fn new() -> TargetLine {
        TargetLine {
            owners: AtomicU32::new(0),
            waits: WaitLine {
                tail: AtomicU32::new(0),
                readers: AtomicU32::new(0),
                first: AtomicU32::new(0),
                openings: AtomicU32::new(0),
                since: AtomicU64::new(0),
            },
        }
    }
}

impl OriginLine {
    /// An origin that has nothing to do with the lock.
    #[allow(clippy::new_without_default)] // as above
    pub fn new() -> OriginLine {
        OriginLine {
            state: AtomicU32::new(IDLE),
            next: AtomicU32::new(0),
            updates: AtomicU32::new(0),
            served: AtomicU32::new(0),
            served_count: AtomicU32::new(0),
        }
    }
}

/// In `owners`: an exclusive origin holds the lock. The bits below are its rank.
const EXCLUSIVE: u32 = 1 << 31;

/// Most ranks that a lock may have.
pub(in crate::window) const MOST_RANKS: u32 = EXCLUSIVE - 1;

/// `owners` with one shared holder more, or the only one.
pub(in crate::window) const ONE_SHARED: u32 = 1;

/// `owners` while `rank` holds the lock, exclusive.
#[inline(always)]
pub(in crate::window) fn exclusive(rank: u32) -> u32 {
    EXCLUSIVE | rank
}

/// The rank that holds the lock, exclusive.
pub(in crate::window) fn exclusive_holder(owners: u32) -> Option<u32> {
    (owners & EXCLUSIVE != 0).then_some(owners & !EXCLUSIVE)
}
