//! [`WindowLock`]: the shared and exclusive lock of one target of a window (jiang-2004, chapter 4;
//! MPI 5.0, 12.5.3), taken by origins in any process of the node without the target's help.
//!
//! Three designs, to be the same for all origins of a window:
//!
//! - **Test&Set** (4.3.1; [`baselines`]): an origin changes `owners` by compare-and-swap, and tries
//!   again after a pause that doubles each time. One atomic operation without contention. Not fair.
//!   A waiting origin is not woken, so that it sleeps for limited times only.
//! - **MCS** (4.3.2; Mellor-Crummey and Scott, ACM TOCS 9(1), 1991): an exclusive origin that finds
//!   the lock taken makes itself the tail of a queue, by the swap that the thesis could not have,
//!   and waits on its own line until the lock is handed to it. First come, first served; each
//!   hand-over wakes the origins that get the lock and no other.
//! - **Barging**: the same queue, but for a bounded time a holder that leaves hands over to no one:
//!   it leaves the lock open.
//!
//! The queue ([`queue`]) has only those that wait: a lock that no other rank
//! wants is taken by one compare-and-swap on `owners`, and given back by one store.
//!
//! In all, a shared origin never waits for an exclusive one that waits itself. It must not: a rank
//! may hold one lock, shared, while it waits for another (`MPI_Win_lock_all`; several
//! `MPI_Win_lock`). Two ranks that do so crosswise would block each other for ever if each of the
//! second locks had an exclusive origin in between. So shared origins do not queue. While others
//! hold the lock shared, they join them; while it is held exclusive, they wait together, and the
//! holder lets all of them in before it hands over to the next exclusive origin.
//!
//! | state of an origin | becomes | by | in |
//! |---|---|---|---|
//! | idle | waits, or holds | the origin | [`begin`](WindowLock::begin) |
//! | waits | holds | MCS: the holder that leaves | [`release`](WindowLock::release) |
//! | waits | holds | Test&Set, barging: the origin | [`poll`](WindowLock::poll) |
//! | holds | idle | the origin | [`release`](WindowLock::release) |
//!
//! **Who waits is not missed** (SYNC window-waiters). An origin announces that it waits (the tail
//! of the queue, the count of readers), and then looks at `owners`. A holder that leaves writes
//! `owners`, and then looks who waits. If both are fenced, at least one sees the other. With
//! barging the holder that leaves has no fence where parkers have one for all
//! ([`Fencing::Parker`]): origins look at `owners` again while they wait, and each before it parks,
//! behind its membarrier.
//!
//! Each change of an origin's state by another is a Release that its `poll` acquires, and a release
//! orders the accesses to the window before it (SYNC window-lock): what was done under the lock is
//! visible to the next holder.
//!
//! An origin that dies with the lock keeps it. The hang report and the message about the dead rank
//! read who that is: [`holders`](WindowLock::holders), [`waiters`](WindowLock::waiters).

mod baselines;
mod queue;
pub(super) mod ticket;
pub(super) mod words;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::park::Fencing;
use crate::sync::Ordering;
#[cfg(loom)]
use crate::sync::fence;
use std::time::Duration;
use ticket::{LOOK_EVERY, LockTicket};
use words::{IDLE, LockMode, ONE_SHARED, OriginLine, TargetLine, exclusive, exclusive_holder};

/// How origins come to the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockDesign {
    /// Compare-and-swap with exponential back-off.
    TestAndSet,
    /// A queue: fair, and waiters are woken.
    Mcs,
    /// A queue, whose first waits while others take the lock before it for a bounded time.
    Barging,
}

/// The lock of one target: a view of the words in shared memory.
#[derive(Debug, Clone, Copy)]
pub struct WindowLock<'a> {
    design: LockDesign,
    /// Who fences where a holder leaves.
    fencing: Fencing,
    target: &'a TargetLine,
    origins: &'a [OriginLine],
}

/// The lock of one target as one origin uses it, exclusive, while no other origin waits for it.
#[derive(Debug, Clone, Copy)]
pub struct OwnLock<'a> {
    target: &'a TargetLine,
    origin: u32,
    /// `owners` while it holds the lock.
    held: u32,
    /// Not 0: it fences when it gives the lock back. (An `Option` of this is known by an address,
    /// as the usual case is checked first.)
    fences: u32,
}

/// What an origin leaves to do that has given the lock back: others may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitersLeft {
    /// None waits.
    None,
    /// [`WindowLock::serve_waiters`] must follow.
    Some,
}

/// When an origin had the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnOrder {
    /// In its turn, as far as is known.
    Own,
    /// Before others that were in the queue, and still are.
    Barged,
}

impl<'a> WindowLock<'a> {
    /// The lock in these words. `origins` has one line for each rank that may take the lock; all
    /// ranks give the same words and the same design. `fencing` is how this rank wakes others.
    #[inline(always)]
    pub fn new(
        design: LockDesign,
        fencing: Fencing,
        target: &'a TargetLine,
        origins: &'a [OriginLine],
    ) -> WindowLock<'a> {
        let fencing = match design {
            LockDesign::Barging => fencing,
            // Origins that wait do not look again.
            LockDesign::TestAndSet | LockDesign::Mcs => Fencing::Sender,
        };
        WindowLock { design, fencing, target, origins }
    }

    /// The lock as rank `origin` uses it; `None` in a design without a queue.
    ///
    /// # Panics
    /// If there is no line for `origin`.
    #[inline(always)]
    pub fn own(&self, origin: u32) -> Option<OwnLock<'a>> {
        match self.design {
            LockDesign::TestAndSet => None,
            LockDesign::Mcs | LockDesign::Barging => Some(self.own_line(origin)),
        }
    }

    #[inline(always)]
    fn own_line(&self, origin: u32) -> OwnLock<'a> {
        assert!((origin as usize) < self.origins.len(), "rank {origin}");
        let fences = u32::from(self.fencing == Fencing::Sender);
        OwnLock { target: self.target, origin, held: exclusive(origin), fences }
    }

    /// Starts to take the lock for rank `origin`, which neither holds it nor waits for it. Does not
    /// block. [`poll`](Self::poll) says when the lock is held; it may be at once.
    ///
    /// # Panics
    /// If there is no line for `origin`.
    #[inline]
    pub fn begin(&self, origin: u32, mode: LockMode) -> LockTicket {
        let line = &self.origins[origin as usize];
        debug_assert_eq!(line.state.load(Ordering::Relaxed), IDLE, "origin {origin}");
        if self.design == LockDesign::TestAndSet {
            // Relaxed: for reports.
            line.state.store(mode.waits(), Ordering::Relaxed);
            return LockTicket::new(origin, mode, self.test_and_set(origin, mode));
        }
        match mode {
            LockMode::Shared => {
                let is_held = self.join_shared(origin);
                let mut ticket = LockTicket::new(origin, mode, is_held);
                ticket.pause(LOOK_EVERY);
                ticket
            }
            LockMode::Exclusive => {
                let own = self.own_line(origin);
                match own.take_free() {
                    true => own.held_ticket(),
                    false => self.join_queue(origin),
                }
            }
        }
    }

    /// True when the lock is held. Never true to two exclusive origins at once. Does not block,
    /// except for the moment between two instructions of another origin that joins the queue.
    #[inline]
    pub fn poll(&self, ticket: &mut LockTicket) -> bool {
        if !ticket.is_held() {
            let is_held = match (self.design, ticket.mode()) {
                (LockDesign::TestAndSet, _) => self.try_after_pause(ticket),
                (_, LockMode::Shared) => self.poll_shared(ticket),
                (_, LockMode::Exclusive) => self.poll_queue(ticket),
            };
            if is_held {
                ticket.set_held();
            }
        }
        ticket.is_held()
    }

    /// How long the origin may sleep between two polls; `None` if it will be woken.
    pub fn sleep_limit(&self, ticket: &LockTicket) -> Option<Duration> {
        match self.design {
            // As many microseconds as polls: 1 ms at most.
            LockDesign::TestAndSet => Some(Duration::from_micros(ticket.interval().into())),
            LockDesign::Mcs | LockDesign::Barging => None,
        }
    }

    /// Gives the lock back. The ticket must be held. Calls `wake` with each rank that gets the
    /// lock, or may take it now. Does not block, except for the moment between two instructions of
    /// another origin that joins the queue. Returns whether the origin came before others.
    ///
    /// # Panics
    /// If [`poll`](Self::poll) has not returned true for this ticket, nor `begin` had the lock.
    #[inline]
    pub fn release(&self, ticket: LockTicket, mut wake: impl FnMut(u32)) -> TurnOrder {
        assert!(ticket.is_held(), "rank {}: lock not held", ticket.origin());
        // Relaxed: only the origin changes its state while it holds.
        self.origins[ticket.origin() as usize].state.store(IDLE, Ordering::Relaxed);
        match (ticket.mode(), self.design) {
            (LockMode::Exclusive, LockDesign::TestAndSet) => {
                // SYNC window-lock: no other origin writes while an exclusive one holds. Release:
                // pairs with the Acquire in `test_and_set`.
                self.target.owners.store(0, Ordering::Release);
                TurnOrder::Own
            }
            (LockMode::Exclusive, _) => self.leave(ticket.origin(), &mut wake),
            (LockMode::Shared, _) => {
                self.leave_holders(ticket.origin(), &mut wake);
                TurnOrder::Own
            }
        }
    }

    /// The ranks that hold the lock, and how; a snapshot, for reports.
    pub fn holders(&self) -> impl Iterator<Item = (u32, LockMode)> + use<'a> {
        // Relaxed: it may change at any time.
        let exclusive = exclusive_holder(self.target.owners.load(Ordering::Relaxed));
        let shared = self.ranks(LockMode::of_sharer);
        exclusive.map(|rank| (rank, LockMode::Exclusive)).into_iter().chain(shared)
    }

    /// The ranks that wait for the lock, and how; a snapshot in the order of ranks, for reports.
    pub fn waiters(&self) -> impl Iterator<Item = (u32, LockMode)> + use<'a> {
        self.ranks(LockMode::of_waiter)
    }

    /// Notes for whom `origin` has the lock: the ranks that it stands for.
    pub fn note_served(&self, origin: u32, ranks: &[usize]) {
        let line = &self.origins[origin as usize];
        let first = ranks.first().map_or(0, |&rank| rank as u32 + 1);
        // Relaxed: for reports.
        line.served.store(first, Ordering::Relaxed);
        line.served_count.store(ranks.len() as u32, Ordering::Relaxed);
    }

    /// For whom `origin` has the lock: one of the ranks, and how many they are; a snapshot, for
    /// reports.
    pub fn served(&self, origin: u32) -> Option<(usize, usize)> {
        let line = &self.origins[origin as usize];
        // Relaxed: they may change at any time.
        let first = line.served.load(Ordering::Relaxed).checked_sub(1)?;
        Some((first as usize, line.served_count.load(Ordering::Relaxed) as usize))
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

/// Shared origins.
impl WindowLock<'_> {
    /// Joins the shared holders, or announces that the origin waits for that. Returns true if it
    /// has the lock.
    #[inline]
    fn join_shared(&self, origin: u32) -> bool {
        let line = &self.origins[origin as usize];
        loop {
            if self.join_holders() {
                // Relaxed: only the origin changes its state now; others read it for reports.
                line.state.store(LockMode::Shared.holds(), Ordering::Relaxed);
                return true;
            }
            line.state.store(LockMode::Shared.waits(), Ordering::Relaxed);
            // SYNC window-waiters: before `owners` is read again. Releases the state.
            self.target.waits.readers.fetch_add(1, Ordering::SeqCst);
            #[cfg(loom)]
            fence(Ordering::SeqCst);
            if self.is_taken() {
                return false;
            }
            // The holder has left, and may not have seen the announcement.
            if !self.withdraw(origin) {
                return true;
            }
        }
    }

    /// Whether an exclusive origin has the lock, as an origin sees it that has announced that it
    /// waits.
    fn is_taken(&self) -> bool {
        // SYNC window-waiters
        exclusive_holder(self.target.owners.load(Ordering::SeqCst)).is_some()
    }

    /// A poll of an origin that waits: whether it was let in. With barging it looks at the lock
    /// now and then, too.
    fn poll_shared(&self, ticket: &mut LockTicket) -> bool {
        let line = &self.origins[ticket.origin() as usize];
        // SYNC window-lock: pairs with the Release in `let_readers_in`.
        if line.state.load(Ordering::Acquire) == LockMode::Shared.holds() {
            // Relaxed: a hint.
            self.target.waits.readers.fetch_sub(1, Ordering::Relaxed);
            return true;
        }
        if self.design != LockDesign::Barging || !ticket.ends_pause() {
            return false;
        }
        ticket.pause(LOOK_EVERY);
        let is_over = !self.is_taken();
        is_over && (!self.withdraw(ticket.origin()) || self.join_shared(ticket.origin()))
    }

    /// Adds a shared holder, unless the lock is held exclusive.
    #[inline]
    fn join_holders(&self) -> bool {
        let owners = &self.target.owners;
        // SYNC window-lock: Acquire pairs with the Release of the exclusive holder that has left.
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let joined = owners.fetch_update(acquire, relaxed, |owners| {
            exclusive_holder(owners).is_none().then_some(owners + ONE_SHARED)
        });
        joined.is_ok()
    }

    /// The origin no longer waits to join. False if it was let in meanwhile.
    fn withdraw(&self, origin: u32) -> bool {
        let line = &self.origins[origin as usize];
        // Relaxed: the count is a hint; the exchange on the state decides.
        self.target.waits.readers.fetch_sub(1, Ordering::Relaxed);
        // SYNC window-lock: Acquire pairs with the Release in `let_readers_in`.
        let (acquire, waits) = (Ordering::Acquire, LockMode::Shared.waits());
        line.state.compare_exchange(waits, IDLE, acquire, acquire).is_ok()
    }

    /// Lets all shared origins in that wait, unless an exclusive one has the lock; that one does it
    /// when it leaves. Calls `wake` with each rank that gets the lock. `me` is the caller.
    #[cold]
    #[inline(never)]
    fn let_readers_in(&self, me: u32, wake: &mut dyn FnMut(u32)) {
        let (waits, holds) = (LockMode::Shared.waits(), LockMode::Shared.holds());
        for (rank, line) in (0..).zip(self.origins) {
            // Acquire: with the state, the announcement.
            if line.state.load(Ordering::Acquire) != waits {
                continue;
            }
            // It holds the lock from here on, so that no exclusive origin gets it first.
            if !self.join_holders() {
                return;
            }
            // SYNC window-lock: Release pairs with the Acquire in `poll_shared` and `withdraw`.
            let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
            match line.state.compare_exchange(waits, holds, release, relaxed) {
                Ok(_) => wake(rank),
                // It has withdrawn, and tries again by itself.
                Err(_) => self.leave_holders(me, &mut *wake),
            }
        }
    }

    /// One shared holder less, by the origin `me`. The last one passes the lock on to the queue, as
    /// an exclusive holder does that leaves.
    fn leave_holders(&self, me: u32, wake: &mut dyn FnMut(u32)) {
        let (owners, tail) = (&self.target.owners, &self.target.waits.tail);
        // SYNC window-lock: Release pairs with the Acquire of who is exclusive next. Acquire: the
        // last one passes on what all shared holders have done. SeqCst: SYNC window-waiters.
        let (order, relaxed) = (Ordering::SeqCst, Ordering::Relaxed);
        let mut before = owners.load(relaxed);
        loop {
            let passes_on = before == ONE_SHARED && tail.load(relaxed) != 0;
            let after = if passes_on { exclusive(me) } else { before - ONE_SHARED };
            match owners.compare_exchange(before, after, order, relaxed) {
                Ok(_) if passes_on => return self.pass_on(me, wake),
                Ok(_) => break,
                Err(found) => before = found,
            }
        }
        // loom's sequentially consistent accesses are only acquire and release.
        #[cfg(loom)]
        fence(Ordering::SeqCst);
        // SYNC window-waiters: read after the lock was left, pairs with the swap in `join_queue`.
        if before == ONE_SHARED && tail.load(Ordering::SeqCst) != 0 {
            self.serve_queue(me, wake);
        }
    }
}
