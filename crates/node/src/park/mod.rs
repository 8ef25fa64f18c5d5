//! Parking: a rank that has nothing to do sleeps in a futex until somebody sends to it (DESIGN.md, section 5).
//!
//! The lost wake-up is the classic one: the waiter must announce that it parks before it looks a last time, and the sender
//! must look for that announcement after it has published. Both are a store followed by a load, so both need a full
//! fence. Senders are many and hot, waiters are few and about to sleep anyway; so the waiter pays for both: it
//! issues an expedited `membarrier`, which runs a fence on every core that runs a rank, and the sender has none.
//! Where membarrier is refused, or where ranks outnumber cores so that parking itself is hot, senders fence.
//!
//! | who | writes `parked` |
//! |---|---|
//! | the owner rank | 1 before it sleeps |
//! | anyone who unblocks it | 0, and wakes it if it was 1 |

mod futex;
mod membarrier;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

pub use membarrier::{is_available as membarrier_available, register as membarrier_register};

use crate::sync::{AtomicU32, Ordering, fence};
use std::time::Duration;

/// Who issues the full fence between publishing and looking at `parked`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fencing {
    /// Every sender, on each send.
    Sender,
    /// The rank that parks, by membarrier, on behalf of all senders.
    Parker,
}

/// The futex word of a rank.
#[derive(Debug)]
#[repr(transparent)]
pub struct ParkingSpot(AtomicU32);

impl Default for ParkingSpot {
    fn default() -> ParkingSpot {
        ParkingSpot(AtomicU32::new(0))
    }
}

impl ParkingSpot {
    /// Sleeps until [`ParkingSpot::wake`], unless `ready` says that there is something to do already. May return
    /// early. `limit` bounds the sleep; `None` sleeps for as long as it takes.
    pub fn park(&self, fencing: Fencing, limit: Option<Duration>, ready: impl FnOnce() -> bool) {
        self.0.store(1, Ordering::Relaxed);
        let mut limit = limit;
        match fencing {
            // SYNC park: pairs with the fence in `wake`. Either our `ready` sees what was published, or the waker sees 1.
            Fencing::Sender => fence(Ordering::SeqCst),
            // SYNC park: membarrier fences this core and all cores that run senders.
            Fencing::Parker => {
                if !membarrier::run() {
                    // Nothing orders the senders: never sleep long enough to matter.
                    limit = Some(Duration::from_millis(1));
                }
            }
        }
        if ready() {
            // The word stays 1: another thread of this rank may sleep on it. One later wake is in vain.
            return;
        }
        futex::wait(&self.0, 1, limit);
    }

    /// Wakes the owner if it sleeps. To be called after what it waits for has been published.
    #[inline(always)]
    pub fn wake(&self, fencing: Fencing) {
        match fencing {
            // SYNC park: pairs with the fence in `park`.
            Fencing::Sender => fence(Ordering::SeqCst),
            // The parker's membarrier stands in for this core's fence; only the compiler must keep the order.
            Fencing::Parker => {
                core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst)
            }
        }
        if self.0.load(Ordering::Relaxed) != 0 {
            self.wake_now();
        }
    }

    #[cold]
    fn wake_now(&self) {
        if self.0.swap(0, Ordering::Relaxed) != 0 {
            futex::wake_all(&self.0);
        }
    }
}
