//! The head of an area: whether it may be used, and how many members have left it.

use crate::park::Fencing;
use crate::sync::{AtomicU32, AtomicU64, Ordering, spin_loop, yield_now};

/// No member has opened the area.
const NEW: u32 = 0;
/// The first member is checking whether there is memory.
const CREATING: u32 = 1;
/// The area can be used.
const READY: u32 = 2;
/// There is no memory for the area.
const REFUSED: u32 = 3;

/// Polls of the state before a waiting member yields its core.
const POLLS_BEFORE_YIELD: u32 = 100;

/// The first line of an area. Zeroed memory is the head of an area that no member has opened.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct AreaHead {
    state: AtomicU32,
    /// Members that have closed the area or were refused.
    left: AtomicU32,
    /// Bytes that it has taken of the node's budget.
    taken: AtomicU32,
}

/// Whether members wait for others to finish an operation. In a line of its own, which is written
/// only when a member begins to wait.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct Awaited {
    /// The latest operation that a member has waited for.
    operation: AtomicU64,
}

impl Awaited {
    /// Notes that a member waits for `operation`.
    pub fn raise(&self, operation: u64) {
        // SYNC awaited: the waiter's fence, when it parks, lies between this store and its last
        // read of the finished numbers.
        self.operation.fetch_max(operation, Ordering::Relaxed);
    }

    /// Whether a member may wait for an operation later than `before`. A member calls this after it
    /// has published its finished number.
    #[inline]
    pub fn is_after(&self, before: u64, fencing: Fencing) -> bool {
        // SYNC awaited: a fence between the finished number's store and this load; where the parker
        // fences for all, its fence replaces this one.
        fencing.before_waking();
        self.operation.load(Ordering::Relaxed) > before
    }
}

impl AreaHead {
    /// Whether the area can be used. The first member that calls this decides with `grant`; all
    /// others wait for its decision and return the same.
    pub fn is_granted(&self, grant: impl FnOnce() -> bool) -> bool {
        let first =
            self.state.compare_exchange(NEW, CREATING, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_ok() {
            let granted = grant();
            let state = if granted { READY } else { REFUSED };
            // SYNC area-state: pairs with the load below; the lines are allocated before.
            self.state.store(state, Ordering::Release);
            return granted;
        }
        let mut polls = 0;
        loop {
            // SYNC area-state: pairs with the store above.
            match self.state.load(Ordering::Acquire) {
                READY => return true,
                REFUSED => return false,
                _ if polls < POLLS_BEFORE_YIELD => spin_loop(),
                _ => yield_now(),
            }
            polls += 1;
        }
    }

    /// Records what it has taken of the node's budget.
    pub fn set_taken(&self, bytes: usize) {
        // Relaxed, here and below: it is read when no member is left.
        self.taken.store(bytes as u32, Ordering::Relaxed);
    }

    /// Bytes that it has taken of the node's budget.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed) as usize
    }

    /// Counts a member that is done with the area. Returns true for the last of `members`.
    pub fn leave(&self, members: usize) -> bool {
        // SYNC area-left: everything that the others did in the area happens before the last member
        // returns.
        self.left.fetch_add(1, Ordering::AcqRel) as usize + 1 == members
    }
}
