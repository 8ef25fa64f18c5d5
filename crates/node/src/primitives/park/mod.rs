//! Parking: a rank that has nothing to do sleeps in a futex until another rank sends to it
//! (docs/design/house.md, section 5).
//!
//! The protocol must not lose a wake-up: the waiter announces that it parks before its last check,
//! and the sender checks for that announcement after it has published. Both are a store followed by
//! a load, so both need a full fence. Senders are many and on the critical path, waiters are few
//! and about to sleep anyway, so the waiter pays for both: it issues an expedited `membarrier`,
//! which runs a fence on every core that runs a rank, and the sender has no fence. Where membarrier
//! is refused, or where ranks outnumber cores so that parking is frequent, senders fence.
//!
//! | who | writes the state in the low bits of the word |
//! |---|---|
//! | the owner rank | 1 before it sleeps, 2 before it listens |
//! | any waker | 0, and counts a wake-up above; wakes a sleeper (1) or [socket](WakeSocket) (2) |
//!
//! Several threads of a rank may park at one spot. A wake-up may come when the first has announced
//! itself and does not sleep yet. If a second thread then announces itself, the state is 1 again,
//! though the first must not sleep. The count prevents that: the kernel lets a thread sleep only
//! while no wake-up has come since its own announcement.
//!
//! A rank that also waits for a file descriptor, for example of the network, cannot sleep in a
//! futex: it [listens](ParkingSpot::listen) to the descriptor and to its wake-up socket. One thread
//! of the rank has the watch and listens; the others sleep until it gives the watch up.

mod events;
mod membarrier;
#[cfg(not(loom))]
mod socket;
#[cfg(loom)]
#[path = "socket_under_loom.rs"]
mod socket;
mod wake_address;
mod wake_socket;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

pub use events::WakeEvents;
pub use membarrier::{
    is_available as membarrier_available, register as membarrier_register, run as membarrier_run,
};
pub use wake_address::WakeAddress;
pub use wake_socket::WakeSocket;

use crate::futex::{self, FutexScope};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

/// Which side issues the full fence between publishing and reading the state of a [`ParkingSpot`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fencing {
    /// Every sender, on each send.
    Sender,
    /// The rank that parks, by membarrier, on behalf of all senders.
    Parker,
}

impl Fencing {
    /// For the waker: orders what it has published before its reads of [`ParkingSpot`]s.
    #[inline(always)]
    pub fn before_waking(self) {
        match self {
            // SYNC park: pairs with the fence in `announce`.
            Fencing::Sender => fence(Ordering::SeqCst),
            // The parker's membarrier replaces this core's fence; only the compiler must keep the
            // order.
            Fencing::Parker => {
                core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst)
            }
        }
    }
}

/// No thread waits here.
const AWAKE: u32 = 0;
/// A thread sleeps on the futex.
const ASLEEP: u32 = 1;
/// A thread listens to the wake-up socket.
const LISTENING: u32 = 2;
/// Mask of the state in the word; the bits above count wake-ups.
const STATE: u32 = 3;
/// One wake-up, in the word. The count wraps; that matters only if a thread misses 2^30 wake-ups
/// between its announcement and its sleep.
const WAKE_UP: u32 = 4;

/// Where a rank waits: a futex word (state and wake-ups), and the address of its wake-up socket if
/// it has one.
#[derive(Debug)]
#[repr(C)]
pub struct ParkingSpot {
    word: AtomicU32,
    /// Written by the owner before its first LISTENING, which publishes it.
    socket: AtomicU32,
    /// As `socket`; strangers cannot read it.
    nonce: AtomicU64,
}

impl Default for ParkingSpot {
    fn default() -> ParkingSpot {
        ParkingSpot {
            word: AtomicU32::new(AWAKE),
            socket: AtomicU32::new(0),
            nonce: AtomicU64::new(0),
        }
    }
}

impl ParkingSpot {
    /// Sleeps until [`ParkingSpot::wake`], unless `ready` returns true. May return early. `limit`
    /// bounds the sleep; `None` means no bound.
    pub fn park(&self, fencing: Fencing, limit: Option<Duration>, ready: impl FnOnce() -> bool) {
        let (announced, limit) = self.announce(ASLEEP, fencing, limit);
        if ready() {
            // The state stays 1, since another thread of this rank may sleep on it. At worst one
            // later wake finds no sleeper.
            return;
        }
        futex::wait(&self.word, announced, FutexScope::Node, limit);
    }

    /// Announces that this rank is about to wait, before its last check. Returns the value that the
    /// word keeps while no wake-up comes, and how long the rank may then wait.
    fn announce(
        &self,
        how: u32,
        fencing: Fencing,
        limit: Option<Duration>,
    ) -> (u32, Option<Duration>) {
        let announced = |word: u32| word & !STATE | how;
        let (Ok(before) | Err(before)) = self
            .word
            // SYNC socket: publishes the number of the wake-up socket.
            .fetch_update(Ordering::Release, Ordering::Relaxed, |word| Some(announced(word)));
        match fencing {
            // SYNC park: pairs with the fence in `before_waking`. Either our `ready` sees what was
            // published, or the waker sees this.
            Fencing::Sender => fence(Ordering::SeqCst),
            // SYNC park: membarrier fences this core and all cores that run senders.
            Fencing::Parker => {
                if !membarrier::run() {
                    // The senders are not ordered: the sleep must stay too short to matter.
                    return (announced(before), Some(Duration::from_millis(1)));
                }
            }
        }
        (announced(before), limit)
    }

    /// Whether a thread of the owner sleeps, or has announced that it is about to.
    pub fn is_announced(&self) -> bool {
        // Relaxed: for the owner, whose own announcement it sees.
        self.word.load(Ordering::Relaxed) & STATE != AWAKE
    }

    /// Wakes the owner if it sleeps. To be called after publishing what it waits for.
    #[inline(always)]
    pub fn wake(&self, fencing: Fencing) {
        fencing.before_waking();
        self.wake_fenced();
    }

    /// [`wake`](Self::wake) for a caller that has called [`Fencing::before_waking`] after it
    /// published: one fence for several wake-ups.
    #[inline(always)]
    pub fn wake_fenced(&self) {
        let seen = self.word.load(Ordering::Relaxed);
        if seen & STATE != AWAKE {
            self.wake_now(seen);
        }
    }

    #[cold]
    fn wake_now(&self, mut seen: u32) {
        // A waker that finds the owner awake must not write: the word belongs to the next waiter's
        // announcement.
        while seen & STATE != AWAKE {
            let word = &self.word;
            let woken = (seen & !STATE).wrapping_add(WAKE_UP);
            // SYNC socket: who listens has published its socket.
            match word.compare_exchange(seen, woken, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) if seen & STATE == LISTENING => {
                    // Other threads of that rank sleep until its listener gives the watch up.
                    return socket::wake(WakeAddress {
                        number: self.socket.load(Ordering::Relaxed),
                        nonce: self.nonce.load(Ordering::Relaxed),
                    });
                }
                Ok(_) => return futex::wake_all(word, FutexScope::Node),
                Err(now) => seen = now,
            }
        }
    }
}

impl ParkingSpot {
    /// Sets the wake-up socket that wakers use. To be called once, by the owner, before it first
    /// listens.
    pub fn set_wake_socket(&self, socket: &WakeSocket) {
        let WakeAddress { number, nonce } = socket.address();
        self.nonce.store(nonce, Ordering::Relaxed);
        self.socket.store(number, Ordering::Relaxed);
    }

    /// Waits until [`ParkingSpot::wake`], or an event that the [`WakeEvents`] names, unless `ready`
    /// returns `None`: then there is work already. May return early. Several threads of the rank
    /// may call this at once.
    pub fn listen(
        &self,
        fencing: Fencing,
        socket: &WakeSocket,
        ready: impl FnOnce() -> Option<WakeEvents>,
    ) {
        // SYNC watch: read before the announcement. The thread that gives the watch up first
        // withdraws all announcements so far, and then counts a handover. So a thread that
        // announced itself before that does not sleep, or is woken.
        let handovers = socket.handovers();
        let watches = socket.take_watch();
        let (_, limit) = self.announce(LISTENING, fencing, None);
        let events = ready();
        if watches {
            if let Some(events) = events {
                socket.await_events(events.shorter(limit));
            }
            // Before the watch is given up: the next thread that takes it announces itself again.
            self.word.fetch_and(!STATE, Ordering::SeqCst);
            socket.give_up_watch();
        } else if let Some(events) = events {
            socket.await_handover(handovers, events.shorter(limit).limit);
        }
    }
}
