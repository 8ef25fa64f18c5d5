//! [`WindowLock`]: the shared and exclusive lock of one target of a window (jiang-2004, chapter 4;
//! MPI 5.0, 12.5.3), taken by origins in any process of the node without the target's help.
//!
//! Three designs, to be the same for all origins of a window:
//!
//! - **Test&Set** (4.3.1): an origin changes `owners` by compare-and-swap, and tries again after a
//!   pause that doubles each time. One atomic operation without contention. Not fair. A waiting
//!   origin is not woken, so that it sleeps for limited times only.
//! - **MCS** (4.3.2; Mellor-Crummey and Scott, ACM TOCS 9(1), 1991): an exclusive origin makes
//!   itself the tail of a queue, waits on its own line, and is handed the lock by the one before
//!   it. First come, first served; each hand-over wakes the origins that get the lock and no other.
//!   The tail lies in one word with the holders. So it changes by compare-and-swap, as in the
//!   thesis, and not by the swap that processors have; but a lock that no other rank wants is taken
//!   by one atomic operation and given back by another, where separate words need two each.
//!
//! - **Barging**: the same queue, but for a bounded time a holder that leaves hands over to no one:
//!   it leaves the lock open ([`barging`](super::lock_barging)).
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
//! | waits | holds | MCS: the exclusive holder that leaves, or the last shared one | `grant` |
//! | waits | holds | Test&Set, barging: the origin | [`poll`](WindowLock::poll) |
//! | holds | idle | the origin | [`release`](WindowLock::release) |
//!
//! The word `owners` counts the shared holders, and names the exclusive origin at the head of the
//! queue, and the one at its tail. The head holds the lock once there are no shared holders; until
//! then it waits, and the last shared holder grants it. A queue without a head has a holder that is
//! leaving, and will name the next one, unless the lock is open.
//!
//! A shared origin that finds the lock held exclusive announces that it waits (its state, the count
//! of readers), and then looks at `owners` again. The holder that leaves takes its name out of
//! `owners`, and then looks at the count. Both are sequentially consistent, so at least one sees
//! the other (SYNC window-readers). If both do, the compare-and-swap on the origin's state decides.
//! An exclusive origin that comes in between lets the readers in when it leaves.
//!
//! Each change of an origin's state by another is a Release that its `poll` acquires, and a release
//! orders the accesses to the window before it (SYNC window-lock): what was done under the lock is
//! visible to the next holder.
//!
//! An origin that dies with the lock keeps it. The hang report and the message about the dead rank
//! read who that is: [`holders`](WindowLock::holders), [`waiters`](WindowLock::waiters).

use super::lock_ticket::{LOOK_EVERY, LockTicket, QueueEntry};
use super::lock_words::{
    IDLE, LockMode, ONE_SHARED, OPEN, OriginLine, TargetLine, exclusive, exclusive_rank,
    is_held_exclusive, shared_holders, tail, with_tail,
};
#[cfg(loom)]
use crate::sync::fence;
use crate::sync::{Ordering, yield_now};
use std::time::Duration;

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

/// The most polls between two attempts of the Test&Set design: about 10 us of polling.
const MOST_POLLS: u32 = 1 << 10;

/// The lock of one target: a view of the words in shared memory.
#[derive(Debug, Clone, Copy)]
pub struct WindowLock<'a> {
    pub(super) design: LockDesign,
    pub(super) target: &'a TargetLine,
    pub(super) origins: &'a [OriginLine],
}

/// The lock of one target as one origin uses it, exclusive, while no other origin wants it.
#[derive(Debug, Clone, Copy)]
pub struct OwnLock<'a> {
    target: &'a TargetLine,
    line: &'a OriginLine,
    origin: u32,
    /// `owners` where it is the only holder, and no other is in the queue.
    only: u64,
}

/// What an origin leaves to do that has given the lock back: shared origins may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadersLeft {
    /// None waits.
    None,
    /// [`WindowLock::let_readers_in`] must follow.
    Some,
}

impl<'a> WindowLock<'a> {
    /// The lock in these words. `origins` has one line for each rank that may take the lock; all
    /// ranks give the same words and the same design.
    pub fn new(
        design: LockDesign,
        target: &'a TargetLine,
        origins: &'a [OriginLine],
    ) -> WindowLock<'a> {
        WindowLock { design, target, origins }
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
        OwnLock {
            target: self.target,
            line: &self.origins[origin as usize],
            origin,
            only: with_tail(exclusive(origin), origin),
        }
    }

    /// Starts to take the lock for rank `origin`, which neither holds it nor waits for it. Does not
    /// block. [`poll`](Self::poll) says when the lock is held; it may be at once.
    ///
    /// # Panics
    /// If there is no line for `origin`.
    #[inline(always)]
    pub fn begin(&self, origin: u32, mode: LockMode) -> LockTicket {
        let line = &self.origins[origin as usize];
        debug_assert_eq!(line.state.load(Ordering::Relaxed), IDLE, "origin {origin}");
        if self.design == LockDesign::TestAndSet {
            // Relaxed: for reports.
            line.state.store(mode.waits(), Ordering::Relaxed);
            return LockTicket::new(origin, mode, self.test_and_set(origin, mode));
        }
        match mode {
            // It announces that it waits only if it must: then others may let it in.
            LockMode::Shared => LockTicket::new(origin, mode, self.join_shared(origin)),
            LockMode::Exclusive => {
                let entry = self.join_queue(origin);
                let mut ticket = LockTicket::new(origin, mode, entry == QueueEntry::Holds);
                match entry {
                    QueueEntry::Holds => {}
                    QueueEntry::HasBarged => ticket.set_barged(),
                    QueueEntry::Waits => ticket.pause(LOOK_EVERY),
                }
                ticket
            }
        }
    }

    /// True when the lock is held. Does not block; never true to two exclusive origins at once.
    #[inline(always)]
    pub fn poll(&self, ticket: &mut LockTicket) -> bool {
        if !ticket.is_held() {
            let is_held = match self.design {
                LockDesign::TestAndSet => self.try_after_pause(ticket),
                LockDesign::Mcs | LockDesign::Barging => {
                    let line = &self.origins[ticket.origin() as usize];
                    // SYNC window-lock: pairs with the Release in `grant` and `let_readers_in`.
                    let is_held = line.state.load(Ordering::Acquire) == ticket.mode().holds();
                    if is_held && ticket.mode() == LockMode::Shared {
                        // Relaxed: a hint.
                        self.target.waits.readers.fetch_sub(1, Ordering::Relaxed);
                    }
                    is_held || self.design == LockDesign::Barging && self.try_as_first(ticket)
                }
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
    /// another origin that is about to join the queue.
    ///
    /// # Panics
    /// If [`poll`](Self::poll) has not returned true for this ticket, nor `begin` had the lock.
    #[inline(always)]
    pub fn release(&self, ticket: LockTicket, wake: impl FnMut(u32)) {
        assert!(ticket.is_held(), "rank {}: lock not held", ticket.origin());
        let line = &self.origins[ticket.origin() as usize];
        line.state.store(IDLE, Ordering::Relaxed);
        match (ticket.mode(), self.design) {
            (LockMode::Exclusive, LockDesign::TestAndSet) => {
                // SYNC window-lock: no other origin writes while an exclusive one holds. Release:
                // pairs with the Acquire in `test_and_set`.
                self.target.owners.store(0, Ordering::Release);
            }
            (LockMode::Exclusive, _) => self.leave_queue(&ticket, wake),
            (LockMode::Shared, _) => self.leave_holders(wake),
        }
    }

    /// One shared holder less. The last one grants the exclusive origin that waits, or wakes the
    /// first in the queue of an open lock.
    fn leave_holders(&self, mut wake: impl FnMut(u32)) {
        // SYNC window-lock: Release pairs with the Acquire of who is exclusive next. Acquire: the
        // last one passes on what all shared holders have done.
        let before = self.target.owners.fetch_sub(ONE_SHARED, Ordering::AcqRel);
        if shared_holders(before) != 1 {
            return;
        }
        // Test&Set: an exclusive origin is never there beside shared ones.
        if let Some(next) = exclusive_rank(before) {
            self.grant(next, LockMode::Exclusive);
            wake(next);
        } else if before & OPEN != 0 {
            wake(self.first_in_queue());
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

/// Test&Set.
impl WindowLock<'_> {
    /// Tries once.
    fn test_and_set(&self, origin: u32, mode: LockMode) -> bool {
        let owners = &self.target.owners;
        // SYNC window-lock: Acquire pairs with the Release of `release`.
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let is_held = match mode {
            LockMode::Exclusive => {
                owners.compare_exchange(0, exclusive(origin), acquire, relaxed).is_ok()
            }
            LockMode::Shared => owners
                .fetch_update(acquire, relaxed, |owners| {
                    exclusive_rank(owners).is_none().then_some(owners + ONE_SHARED)
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
        if !ticket.ends_pause() {
            return false;
        }
        ticket.pause((2 * ticket.interval()).min(MOST_POLLS));
        self.test_and_set(ticket.origin(), ticket.mode())
    }
}

/// MCS: shared origins.
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
            // SYNC window-readers: before `owners` is read again. Releases the state.
            self.target.waits.readers.fetch_add(1, Ordering::SeqCst);
            #[cfg(loom)]
            fence(Ordering::SeqCst);
            // SYNC window-readers
            if is_held_exclusive(self.target.owners.load(Ordering::SeqCst)) {
                return false;
            }
            // The holder has left, and may not have seen the announcement.
            if !self.withdraw(origin) {
                return true;
            }
        }
    }

    /// Adds a shared holder, unless the lock is held exclusive.
    #[inline]
    fn join_holders(&self) -> bool {
        let owners = &self.target.owners;
        // SYNC window-lock: Acquire pairs with the Release of the exclusive holder that has left.
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let joined = owners.fetch_update(acquire, relaxed, |owners| {
            (!is_held_exclusive(owners)).then_some(owners + ONE_SHARED)
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

    /// An exclusive holder that has left lets all shared origins in that wait, unless there is
    /// another one. Calls `wake` with each rank that gets the lock.
    pub fn let_readers_in(&self, wake: &mut impl FnMut(u32)) {
        #[cfg(loom)]
        fence(Ordering::SeqCst);
        // SYNC window-readers: after the holder's name was taken out of `owners`.
        if self.target.waits.readers.load(Ordering::SeqCst) > 0 {
            self.let_each_reader_in(wake);
        }
    }

    #[cold]
    #[inline(never)]
    fn let_each_reader_in(&self, wake: &mut impl FnMut(u32)) {
        let (waits, holds) = (LockMode::Shared.waits(), LockMode::Shared.holds());
        for (rank, line) in (0..).zip(self.origins) {
            // Acquire: with the state, the announcement.
            if line.state.load(Ordering::Acquire) != waits {
                continue;
            }
            // It holds the lock from here on, so that no exclusive origin gets it first.
            if !self.join_holders() {
                // The next exclusive holder lets the rest in.
                return;
            }
            // SYNC window-lock: Release pairs with the Acquire in `poll` and `withdraw`.
            let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
            match line.state.compare_exchange(waits, holds, release, relaxed) {
                Ok(_) => wake(rank),
                // It has withdrawn, and tries again by itself.
                Err(_) => self.leave_holders(&mut *wake),
            }
        }
    }
}

/// MCS: exclusive origins.
impl WindowLock<'_> {
    /// Joins the queue, or takes the lock at once.
    #[inline(always)]
    fn join_queue(&self, origin: u32) -> QueueEntry {
        match self.own_line(origin).enter_free() {
            Ok(()) => QueueEntry::Holds,
            Err(before) => self.join_others(origin, before),
        }
    }

    /// As [`join_queue`](Self::join_queue), where others hold the lock or are in the queue:
    /// `owners` was `before`.
    #[cold]
    #[inline(never)]
    fn join_others(&self, origin: u32, mut before: u64) -> QueueEntry {
        let line = &self.origins[origin as usize];
        let owners = &self.target.owners;
        // As in `join_queue`.
        let (order, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        // Relaxed: for reports, until it is in the queue.
        line.state.store(LockMode::Exclusive.waits(), Ordering::Relaxed);
        loop {
            if before & OPEN != 0 && shared_holders(before) == 0 {
                match self.barge(origin, before) {
                    Ok(()) => return QueueEntry::HasBarged,
                    Err(found) => before = found,
                }
                continue;
            }
            let head = match tail(before) {
                None => exclusive(origin),
                Some(_) => 0,
            };
            let joined = with_tail(before + head, origin);
            match owners.compare_exchange(before, joined, order, relaxed) {
                Ok(_) => break,
                Err(found) => before = found,
            }
        }
        if let Some(last) = tail(before) {
            let last = &self.origins[last as usize];
            // SYNC window-queue: pairs with the Acquire in `next_in_queue`, which reads our state.
            last.next.store(origin + 1, Ordering::Release);
            return QueueEntry::Waits;
        }
        if shared_holders(before) > 0 {
            return QueueEntry::Waits;
        }
        // Relaxed: only the origin changes its state now; others read it for reports.
        line.state.store(LockMode::Exclusive.holds(), Ordering::Relaxed);
        QueueEntry::Holds
    }

    /// The exclusive holder leaves the queue, lets the shared origins in that wait, and admits the
    /// one behind it.
    #[inline(always)]
    fn leave_queue(&self, ticket: &LockTicket, mut wake: impl FnMut(u32)) {
        match self.own_line(ticket.origin()).leave_free() {
            Some(ReadersLeft::None) => {}
            Some(ReadersLeft::Some) => self.let_each_reader_in(&mut wake),
            None => self.leave_to_next(ticket, wake),
        }
    }

    /// As [`leave_queue`](Self::leave_queue), where others are behind the holder.
    #[cold]
    #[inline(never)]
    fn leave_to_next(&self, ticket: &LockTicket, mut wake: impl FnMut(u32)) {
        let owners = &self.target.owners;
        let own = exclusive(ticket.origin());
        let order = Ordering::SeqCst;
        // So the holder alone names a head.
        if self.design == LockDesign::Barging && self.leave_open(ticket, &mut wake) {
            return;
        }
        owners.fetch_sub(own, order);
        self.let_readers_in(&mut wake);
        let next = self.next_after(ticket);
        // SYNC window-lock: Acquire pairs with the Release of each shared holder that has gone;
        // Release, so that the last one that goes finds the head's state.
        let before = owners.fetch_add(exclusive(next), Ordering::AcqRel);
        if shared_holders(before) == 0 {
            self.grant(next, LockMode::Exclusive);
            wake(next);
        }
    }

    /// The first of those that wait in the queue, when the holder of `ticket` leaves.
    pub(super) fn next_after(&self, ticket: &LockTicket) -> u32 {
        match ticket.has_barged() {
            true => self.first_in_queue(),
            false => self.next_in_queue(ticket.origin()),
        }
    }

    /// The one behind the head of the queue, which exists, when the head leaves.
    fn next_in_queue(&self, head: u32) -> u32 {
        let line = &self.origins[head as usize];
        loop {
            // SYNC window-queue: pairs with the Release in `join_queue`.
            if let Some(next) = line.next.load(Ordering::Acquire).checked_sub(1) {
                // For the head's next turn. Relaxed: it joins by a Release on `owners`.
                line.next.store(0, Ordering::Relaxed);
                return next;
            }
            // It is between its compare-and-swap and its store.
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

impl OwnLock<'_> {
    /// Takes the lock if it is free. Does not block.
    #[inline(always)]
    pub fn take_free(&self) -> Option<LockTicket> {
        self.enter_free().ok()?;
        Some(LockTicket::new(self.origin, LockMode::Exclusive, true))
    }

    /// Gives the lock back that [`take_free`](Self::take_free) has taken; `None` if other origins
    /// are in the queue: nothing was done, and [`WindowLock::release`] does it. Does not block.
    #[inline(always)]
    pub fn give_back(&self) -> Option<ReadersLeft> {
        let readers = self.leave_free()?;
        // Relaxed: as in `enter_free`.
        self.line.state.store(IDLE, Ordering::Relaxed);
        Some(readers)
    }

    /// Becomes the head and tail of the queue of a free lock.
    ///
    /// # Errors
    /// What `owners` is.
    #[inline(always)]
    fn enter_free(&self) -> Result<(), u64> {
        // SYNC window-lock, SYNC window-queue: Acquire pairs with the Release of the holder that
        // has left last; Release: the next one that joins writes to our line, and the last shared
        // holder to our state.
        let (order, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        let owners = &self.target.owners;
        owners.compare_exchange(0, self.only, order, relaxed)?;
        // Relaxed: only the origin changes its state now; others read it for reports.
        let state = LockMode::Exclusive.holds();
        self.line.state.store(state, Ordering::Relaxed);
        Ok(())
    }

    /// Leaves the queue of which it is head and tail; `None` if others are in it.
    #[inline(always)]
    fn leave_free(&self) -> Option<ReadersLeft> {
        // SYNC window-lock, SYNC window-queue: Release pairs with the Acquire in `enter_free` and
        // `join_holders`. SYNC window-readers: before the count of readers is read.
        let (order, relaxed) = (Ordering::SeqCst, Ordering::Relaxed);
        let owners = &self.target.owners;
        let left = owners.compare_exchange(self.only, 0, order, relaxed);
        left.ok()?;
        #[cfg(loom)]
        fence(Ordering::SeqCst);
        // SYNC window-readers: after the holder's name was taken out of `owners`.
        match self.target.waits.readers.load(Ordering::SeqCst) {
            0 => Some(ReadersLeft::None),
            _ => Some(ReadersLeft::Some),
        }
    }
}
