//! The head of an area: whether it may be used, and how many members are done with it.

use crate::park::Fencing;
use crate::sync::{AtomicU32, AtomicU64, Ordering, spin_loop, yield_now};

/// Nobody has opened the area.
const NEW: u32 = 0;
/// Somebody finds out whether there is memory.
const CREATING: u32 = 1;
/// It can be used.
const READY: u32 = 2;
/// There is no memory for it.
const REFUSED: u32 = 3;

/// Looks at the state before a waiting member yields its core.
const POLLS_BEFORE_YIELD: u32 = 100;

/// The first line of an area; zeroed memory is the head of one that nobody has opened.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct AreaHead {
    state: AtomicU32,
    /// Members that have closed it, or were refused.
    left: AtomicU32,
}

/// Whether members wait for others to finish an operation: in a line of its own, which is written
/// when one begins to wait only.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct Awaited {
    /// The latest operation that somebody has waited for.
    operation: AtomicU64,
}

impl Awaited {
    /// Notes that somebody waits for `operation`.
    pub fn raise(&self, operation: u64) {
        // SYNC awaited: the waiter's fence, when it parks, comes between this and its last look at
        // the marks.
        self.operation.fetch_max(operation, Ordering::Relaxed);
    }

    /// Whether somebody may wait for a later operation than `before`: asked by a member after it
    /// has published its mark.
    #[inline]
    pub fn is_after(&self, before: u64, fencing: Fencing) -> bool {
        // SYNC awaited: between the mark and this look; where parkers fence for all, theirs stands
        // in for it.
        fencing.before_waking();
        self.operation.load(Ordering::Relaxed) > before
    }
}

impl AreaHead {
    /// Whether the area can be used: what `grant` says to the first member that asks, all others
    /// wait for and share.
    pub fn is_granted(&self, grant: impl FnOnce() -> bool) -> bool {
        let first =
            self.state
                .compare_exchange(NEW, CREATING, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_ok() {
            let granted = grant();
            let state = if granted { READY } else { REFUSED };
            // SYNC area-state: pairs with the load below; the lines are there.
            self.state.store(state, Ordering::Release);
            return granted;
        }
        let mut looks = 0;
        loop {
            // SYNC area-state: pairs with the store above.
            match self.state.load(Ordering::Acquire) {
                READY => return true,
                REFUSED => return false,
                _ if looks < POLLS_BEFORE_YIELD => spin_loop(),
                _ => yield_now(),
            }
            looks += 1;
        }
    }

    /// Counts a member that is done with the area. True for the last of `members`.
    pub fn leave(&self, members: usize) -> bool {
        // SYNC area-left: the last one comes after all that the others did in the area.
        self.left.fetch_add(1, Ordering::AcqRel) as usize + 1 == members
    }
}
