//! [`WindowLock`]: the shared and exclusive lock of one target of a window (jiang-2004, chapter 4;
//! MPI 5.0, 12.5.3), taken by origins in any process of the node without the target's help.
//!
//! Two designs, to be the same for all origins of a window:
//!
//! - **Test&Set** (4.3.1): an origin changes `owners` by compare-and-swap, and tries again after a
//!   pause that doubles each time. One atomic operation without contention. Not fair: shared
//!   holders that come and go may keep an exclusive origin out. A waiting origin is not woken,
//!   so that it sleeps for limited times only.
//! - **MCS** (4.3.2; Mellor-Crummey and Scott, ACM TOCS 9(1), 1991), with the native swap that the
//!   thesis lacked: an origin swaps itself to the tail of a queue, waits on its own line, and is
//!   handed the lock by the one before it. First come, first served; each hand-over wakes the
//!   origins that get the lock and no other.
//!
//! The queue orders *admission*. Its head adds itself to `owners`. A shared origin is in then, and
//! leaves the queue at once, so that the next one is admitted too. An exclusive origin stays at the
//! head, which keeps all others out, until it releases; it has the lock as soon as the shared
//! holders have gone, and the last of them grants it. The origin that hands over does all this on
//! behalf of the next ones, asleep or computing as they may be: an origin whose call to
//! `MPI_Win_lock` has returned before the lock was granted holds up no other shared origin.
//!
//! | state of an origin | becomes | by | in |
//! |---|---|---|---|
//! | idle | waits, or holds | the origin | [`begin`](WindowLock::begin) |
//! | waits | holds | MCS: the one before it in the queue, or the last shared holder | `grant` |
//! | waits | holds | Test&Set: the origin | [`poll`](WindowLock::poll) |
//! | holds | idle | the origin | [`release`](WindowLock::release) |
//!
//! An origin has left the queue before it learns that it holds the lock shared, so that its line
//! is free for its next turn. Each change of an origin's state by another is a Release that its
//! `poll` acquires, and a release orders the accesses to the window before it (SYNC
//! window-lock): what was done under the lock is visible to the next holder.
//!
//! An origin that dies with the lock keeps it. The hang report and the message about the dead rank
//! read who that is: [`holders`](WindowLock::holders), [`waiters`](WindowLock::waiters).

use super::lock_words::{
    IDLE, LockMode, ONE_SHARED, OriginLine, TargetLine, exclusive, exclusive_rank, shared_holders,
};
use crate::sync::{Ordering, yield_now};
use std::time::Duration;

/// How origins come to the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockDesign {
    /// Compare-and-swap with exponential back-off.
    TestAndSet,
    /// A queue by swap: fair, and waiters are woken.
    Mcs,
}

/// The most polls between two attempts of the Test&Set design: about 10 us of polling.
const MOST_POLLS: u32 = 1 << 10;

/// The lock of one target: a view of the words in shared memory.
#[derive(Debug, Clone, Copy)]
pub struct WindowLock<'a> {
    design: LockDesign,
    target: &'a TargetLine,
    origins: &'a [OriginLine],
}

/// An origin's turn at one lock, from [`begin`](WindowLock::begin) to
/// [`release`](WindowLock::release).
#[derive(Debug)]
#[must_use = "the lock is held, or will be, until the ticket is released"]
pub struct LockTicket {
    origin: u32,
    mode: LockMode,
    is_held: bool,
    /// Test&Set: polls between two attempts, and how many of them are left.
    interval: u32,
    left: u32,
}

impl LockTicket {
    /// The rank that takes the lock.
    pub fn origin(&self) -> u32 {
        self.origin
    }

    /// Test&Set: the next poll makes an attempt, although the pause is not over. For an origin that
    /// has slept.
    pub fn end_pause(&mut self) {
        self.left = 1;
    }

    /// How it takes the lock.
    pub fn mode(&self) -> LockMode {
        self.mode
    }
}

impl<'a> WindowLock<'a> {
    /// The lock in these words. `origins` has one line for each rank that may take the lock; all
    /// ranks give the same words and the same design.
    pub fn new(
        design: LockDesign,
        target: &'a TargetLine,
        origins: &'a [OriginLine],
    ) -> WindowLock<'a> {
        WindowLock {
            design,
            target,
            origins,
        }
    }

    /// Starts to take the lock for rank `origin`, which neither holds it nor waits for it. Does not
    /// block. [`poll`](Self::poll) says when the lock is held; it may be at once. Calls `wake` with
    /// each rank that it lets in.
    ///
    /// # Panics
    /// If there is no line for `origin`.
    pub fn begin(&self, origin: u32, mode: LockMode, wake: impl FnMut(u32)) -> LockTicket {
        let line = &self.origins[origin as usize];
        debug_assert_eq!(line.state.load(Ordering::Relaxed), IDLE, "origin {origin}");
        // Relaxed: for reports, and for the one before in the queue, which reads it behind `next`.
        line.state.store(mode.waits(), Ordering::Relaxed);
        let is_held = match self.design {
            LockDesign::TestAndSet => self.test_and_set(origin, mode),
            LockDesign::Mcs => self.join(origin, mode, wake),
        };
        LockTicket {
            origin,
            mode,
            is_held,
            interval: 1,
            left: 1,
        }
    }

    /// True when the lock is held. Does not block; never true to two exclusive origins at once.
    #[inline]
    pub fn poll(&self, ticket: &mut LockTicket) -> bool {
        if !ticket.is_held {
            ticket.is_held = match self.design {
                LockDesign::TestAndSet => self.try_after_pause(ticket),
                LockDesign::Mcs => {
                    let line = &self.origins[ticket.origin as usize];
                    // SYNC window-lock: pairs with the Release in `grant`.
                    line.state.load(Ordering::Acquire) == ticket.mode.holds()
                }
            };
        }
        ticket.is_held
    }

    /// How long the origin may sleep between two polls; `None` if it will be woken.
    pub fn sleep_limit(&self, ticket: &LockTicket) -> Option<Duration> {
        match self.design {
            // As many microseconds as polls: 1 ms at most.
            LockDesign::TestAndSet => Some(Duration::from_micros(ticket.interval.into())),
            LockDesign::Mcs => None,
        }
    }

    /// Gives the lock back. The ticket must be held. Calls `wake` with each rank that gets the
    /// lock. Does not block, except for the moment between two instructions of another origin that
    /// is about to join the queue.
    ///
    /// # Panics
    /// If [`poll`](Self::poll) has not returned true for this ticket, nor `begin` had the lock.
    pub fn release(&self, ticket: LockTicket, mut wake: impl FnMut(u32)) {
        assert!(ticket.is_held, "rank {}: lock not held", ticket.origin);
        let line = &self.origins[ticket.origin as usize];
        line.state.store(IDLE, Ordering::Relaxed);
        let owners = &self.target.owners;
        match ticket.mode {
            LockMode::Exclusive => {
                // SYNC window-lock: no other origin writes while an exclusive one holds. Release:
                // pairs with the Acquire in `test_and_set`; under MCS the queue orders.
                owners.store(0, Ordering::Release);
                if self.design == LockDesign::Mcs {
                    self.hand_over(ticket.origin, wake);
                }
            }
            LockMode::Shared => {
                // SYNC window-lock: Release pairs with the Acquire of who is exclusive next.
                // Acquire: the last one passes on what all shared holders have done.
                let before = owners.fetch_sub(ONE_SHARED, Ordering::AcqRel);
                // Test&Set: an exclusive origin is never there beside shared ones.
                if shared_holders(before) == 1
                    && let Some(next) = exclusive_rank(before)
                {
                    self.grant(next, LockMode::Exclusive);
                    wake(next);
                }
            }
        }
    }

    /// The ranks that hold the lock, and how; a snapshot, for reports.
    pub fn holders(&self) -> impl Iterator<Item = (u32, LockMode)> + use<'a> {
        self.ranks(LockMode::of_holder)
    }

    /// The ranks that wait for the lock, and how; a snapshot in the order of ranks, for reports.
    pub fn waiters(&self) -> impl Iterator<Item = (u32, LockMode)> + use<'a> {
        self.ranks(LockMode::of_waiter)
    }

    fn ranks(
        &self,
        mode: fn(u32) -> Option<LockMode>,
    ) -> impl Iterator<Item = (u32, LockMode)> + use<'a> {
        let states = self.origins.iter().map(|line| &line.state);
        states.enumerate().filter_map(move |(rank, state)| {
            // Relaxed: it may change at any time.
            mode(state.load(Ordering::Relaxed)).map(|mode| (rank as u32, mode))
        })
    }
}

/// Test&Set.
impl WindowLock<'_> {
    /// Tries once.
    fn test_and_set(&self, origin: u32, mode: LockMode) -> bool {
        let owners = &self.target.owners;
        // SYNC window-lock: Acquire pairs with the Release of `release`.
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let is_held = match mode {
            LockMode::Exclusive => owners
                .compare_exchange(0, exclusive(origin), acquire, relaxed)
                .is_ok(),
            LockMode::Shared => owners
                .fetch_update(acquire, relaxed, |owners| {
                    exclusive_rank(owners)
                        .is_none()
                        .then_some(owners + ONE_SHARED)
                })
                .is_ok(),
        };
        if is_held {
            let line = &self.origins[origin as usize];
            // Relaxed: for reports.
            line.state.store(mode.holds(), Ordering::Relaxed);
        }
        is_held
    }

    /// Tries once if the pause is over, and doubles the pause if it fails.
    fn try_after_pause(&self, ticket: &mut LockTicket) -> bool {
        ticket.left -= 1;
        if ticket.left > 0 {
            return false;
        }
        ticket.interval = (2 * ticket.interval).min(MOST_POLLS);
        ticket.left = ticket.interval;
        self.test_and_set(ticket.origin, ticket.mode)
    }
}

/// MCS.
impl WindowLock<'_> {
    /// Joins the queue. Returns true if the origin got the lock at once.
    fn join(&self, origin: u32, mode: LockMode, wake: impl FnMut(u32)) -> bool {
        let line = &self.origins[origin as usize];
        line.next.store(0, Ordering::Relaxed);
        // SYNC window-queue: Acquire pairs with the Release in `leave`, by which the last head gave
        // up an empty queue. Release: the next one that joins writes to our line.
        let before = self.target.tail.0.swap(origin + 1, Ordering::AcqRel);
        if let Some(before) = before.checked_sub(1) {
            let before = &self.origins[before as usize];
            // SYNC window-queue: pairs with the Acquire in `leave`, which reads our state.
            before.next.store(origin + 1, Ordering::Release);
            return false;
        }
        let is_held = self.admit(origin, mode);
        if is_held {
            // Relaxed: only the origin changes its state now; others read it for reports.
            line.state.store(mode.holds(), Ordering::Relaxed);
        }
        if mode == LockMode::Shared {
            self.hand_over(origin, wake);
        }
        is_held
    }

    /// Adds the head of the queue to the owners. Returns true if it has the lock with that; if not,
    /// the last shared holder grants it.
    fn admit(&self, head: u32, mode: LockMode) -> bool {
        let owners = &self.target.owners;
        match mode {
            LockMode::Shared => {
                // Relaxed: an exclusive origin before us has handed over the queue, which orders.
                owners.fetch_add(ONE_SHARED, Ordering::Relaxed);
                true
            }
            LockMode::Exclusive => {
                // SYNC window-lock: Acquire pairs with the Release of each shared holder that has
                // gone; Release, so that the last one that goes finds the head's state.
                let before = owners.fetch_add(exclusive(head), Ordering::AcqRel);
                shared_holders(before) == 0
            }
        }
    }

    /// `head` leaves the queue. Admits those behind it: one exclusive origin, or the shared ones up
    /// to the next that is exclusive.
    fn hand_over(&self, head: u32, mut wake: impl FnMut(u32)) {
        let mut next = self.leave(head);
        while let Some(rank) = next {
            // Relaxed: `leave` has acquired what the origin wrote before it joined.
            let state = self.origins[rank as usize].state.load(Ordering::Relaxed);
            let mode = LockMode::of_waiter(state).expect("who is in the queue waits");
            let is_held = self.admit(rank, mode);
            // Before the grant: with that, the line belongs to its origin again.
            next = match mode {
                LockMode::Shared => self.leave(rank),
                LockMode::Exclusive => None,
            };
            if is_held {
                self.grant(rank, mode);
                wake(rank);
            }
        }
    }

    /// The head leaves the queue. Returns the one behind it, the new head.
    fn leave(&self, head: u32) -> Option<u32> {
        let (tail, line) = (&self.target.tail.0, &self.origins[head as usize]);
        // SYNC window-queue: pairs with the Release in `join`.
        if line.next.load(Ordering::Acquire) == 0 {
            // SYNC window-queue: pairs with the Acquire in `join`: a rank that finds the queue
            // empty sees what the last head did.
            let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
            if tail.compare_exchange(head + 1, 0, release, relaxed).is_ok() {
                return None;
            }
        }
        loop {
            // SYNC window-queue: as above. The next origin is between its swap and its store.
            if let Some(next) = line.next.load(Ordering::Acquire).checked_sub(1) {
                return Some(next);
            }
            yield_now();
        }
    }

    /// Lets `rank` know that it holds the lock.
    fn grant(&self, rank: u32, mode: LockMode) {
        let line = &self.origins[rank as usize];
        // SYNC window-lock: pairs with the Acquire in `poll`.
        line.state.store(mode.holds(), Ordering::Release);
    }
}
