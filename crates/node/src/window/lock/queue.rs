//! The queue of a [`WindowLock`]: exclusive origins that wait, how one of them gets the lock, and
//! bounded barging.
//!
//! | step | by | in |
//! |---|---|---|
//! | becomes the tail, behind the one before it | who finds the lock taken | `join_queue` |
//! | hands the lock to the first | the holder that leaves | `pass_on` |
//! | takes the free lock | the first | `take_as_first` |
//! | leaves the queue; the next is the first | who was, and has the lock now | `leave_queue` |
//!
//! So only exclusive holders move the queue on, one at a time, and the words for that need no
//! atomic changes. `first` is written by a holder, or by who joins an empty queue.
//!
//! **Barging.** A hand-over to the next in the queue costs the transfer of cache lines to its core,
//! and where ranks share cores a switch to it, while the rank that leaves often comes back at once
//! (an MPI program that adds to a table in a loop). So the holder that leaves leaves the lock
//! *open*: a rank that begins may take it before the queue (barge), and the first in the queue may
//! take it as well. This is the usual compromise of locks between throughput and order (Dice,
//! "Malthusian locks", EuroSys 2017, 2; Linux's qspinlock lets one waiter compete for the lock
//! word, too).
//!
//! **Bound.** The lock is left open [`MOST_OPENINGS`] times in a row at most, and only for
//! [`MOST_NS`] after the first of them; then the holder hands over to the first in the queue. So
//! each origin in the queue waits for as many turns more, but not without end, and whose turns are
//! long gets no second one before others.
//!
//! **Waiting.** The first looks at `owners` only now and then, since each look takes the line from
//! the core that works with it; and at the last poll before it parks
//! ([`LockTicket::end_pause`]). An opening wakes it if it has parked: the lock is open before it is
//! asked whether the first is parked, and a rank that parks announces that before its last poll, so
//! one of the two sees the other (SYNC window-waiters, SYNC park).

use super::ticket::{LOOK_EVERY, LockTicket};
use super::words::{IS_FIRST, LockMode, ONE_SHARED, exclusive};
use super::{LockDesign, OwnLock, TurnOrder, WaitersLeft, WindowLock};
use crate::park::Fencing;
#[cfg(loom)]
use crate::sync::fence;
use crate::sync::{Ordering, yield_now};
#[cfg(not(loom))]
use crate::ticks;

/// How often in a row the lock is left open. A turn of lock, put of 8 bytes and unlock takes 40 ns,
/// a hand-over 250 ns between two cores and 3 us where ranks share one: with as many turns to one
/// hand-over that is little beside the turns.
const MOST_OPENINGS: u32 = if cfg!(loom) { 1 } else { 256 };

/// Nanoseconds after the first opening from which on the lock is handed over: some times a
/// hand-over between ranks that share a core.
const MOST_NS: u64 = 20_000;

/// Origins that wait.
impl WindowLock<'_> {
    /// Joins the queue, and looks once whether the lock is free meanwhile.
    #[cold]
    #[inline(never)]
    pub(super) fn join_queue(&self, origin: u32) -> LockTicket {
        let (line, waits) = (&self.origins[origin as usize], &self.target.waits);
        // Relaxed: published by the swap.
        line.state.store(LockMode::Exclusive.waits(), Ordering::Relaxed);
        // SYNC window-waiters: before `owners` is read. SYNC window-queue: Release pairs with the
        // Acquire of the swap of the next one, which writes to our line; Acquire with the Release
        // in `leave_queue`, so that our `first` comes after that of who has emptied the queue.
        let before = waits.tail.swap(origin + 1, Ordering::SeqCst);
        let mut ticket = LockTicket::new(origin, LockMode::Exclusive, false);
        ticket.pause(LOOK_EVERY);
        if let Some(last) = before.checked_sub(1) {
            // SYNC window-queue: pairs with the Acquire in `leave_queue`.
            self.origins[last as usize].next.store(origin + 1, Ordering::Release);
            return ticket;
        }
        line.state.store(IS_FIRST, Ordering::Relaxed);
        // SYNC window-queue: pairs with the Acquire in `next_holder`, which writes our state.
        waits.first.store(origin + 1, Ordering::Release);
        #[cfg(loom)]
        fence(Ordering::SeqCst);
        if self.take_as_first(origin) {
            ticket.set_held();
        }
        ticket
    }

    /// A poll of an origin in the queue: whether the lock was handed to it. With barging the first
    /// looks at the lock now and then, and takes it if it is free.
    pub(super) fn poll_queue(&self, ticket: &mut LockTicket) -> bool {
        let origin = ticket.origin();
        // SYNC window-lock: pairs with the Release in `pass_on`.
        let state = self.origins[origin as usize].state.load(Ordering::Acquire);
        if state == LockMode::Exclusive.holds() {
            self.leave_queue(origin);
            return true;
        }
        if self.design != LockDesign::Barging || !ticket.ends_pause() {
            return false;
        }
        ticket.pause(LOOK_EVERY);
        state == IS_FIRST && self.take_as_first(origin)
    }

    /// Takes the lock for the first in the queue, if it is free.
    fn take_as_first(&self, origin: u32) -> bool {
        let owners = &self.target.owners;
        // SYNC window-waiters
        if owners.load(Ordering::SeqCst) != 0 {
            return false;
        }
        // SYNC window-lock: Acquire pairs with the Release of the holder that has left.
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let is_held = owners.compare_exchange(0, exclusive(origin), acquire, relaxed).is_ok();
        if is_held {
            let line = &self.origins[origin as usize];
            // Relaxed: only the origin changes its state now; others read it for reports.
            line.state.store(LockMode::Exclusive.holds(), Ordering::Relaxed);
            self.leave_queue(origin);
        }
        is_held
    }

    /// The first in the queue, which holds the lock now, leaves the queue.
    fn leave_queue(&self, origin: u32) {
        let (line, waits) = (&self.origins[origin as usize], &self.target.waits);
        // Relaxed: only the exclusive holder writes this.
        waits.openings.store(0, Ordering::Relaxed);
        // SYNC window-queue: pairs with the Release in `join_queue`.
        let mut next = line.next.load(Ordering::Acquire);
        if next == 0 {
            // Relaxed: the exchange releases it to who joins next.
            waits.first.store(0, Ordering::Relaxed);
            // SYNC window-queue: as said in `join_queue`.
            let (order, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
            if waits.tail.compare_exchange(origin + 1, 0, order, relaxed).is_ok() {
                return;
            }
            // The next one is between its swap and its store.
            while next == 0 {
                yield_now();
                next = line.next.load(Ordering::Acquire);
            }
        }
        // Relaxed: for our next turn, which begins with a swap.
        line.next.store(0, Ordering::Relaxed);
        // SYNC window-queue: it finds its place when it polls; who holds the lock then may wake it.
        self.origins[next as usize - 1].state.store(IS_FIRST, Ordering::Release);
        waits.first.store(next, Ordering::Release);
    }
}

/// The exclusive holder that leaves.
impl WindowLock<'_> {
    /// Gives the lock back, or hands it over.
    #[inline]
    pub(super) fn leave(&self, me: u32, wake: &mut dyn FnMut(u32)) -> TurnOrder {
        match self.own_line(me).give_back() {
            None => return self.leave_to_others(me, wake),
            Some(WaitersLeft::Some) => self.serve_waiters(me, wake),
            Some(WaitersLeft::None) => {}
        }
        TurnOrder::Own
    }

    /// As [`leave`](Self::leave), where others are in the queue.
    #[cold]
    #[inline(never)]
    fn leave_to_others(&self, me: u32, wake: &mut dyn FnMut(u32)) -> TurnOrder {
        let waits = &self.target.waits;
        // The first in the queue sets it to 0 when it gets the lock.
        let turn = match waits.openings.load(Ordering::Relaxed) {
            0 => TurnOrder::Own,
            _ => TurnOrder::Barged,
        };
        // Relaxed: of those that come now, who gets the lock next takes care.
        if waits.readers.load(Ordering::Relaxed) == 0 {
            self.pass_on(me, wake);
            return turn;
        }
        // It stays as a shared holder until they are in, so that no exclusive origin comes first.
        // SYNC window-lock: Release pairs with the Acquire in `join_holders`.
        self.target.owners.store(ONE_SHARED, Ordering::Release);
        self.let_readers_in(me, wake);
        self.leave_holders(me, wake);
        turn
    }

    /// Hands the lock, which the caller holds exclusive, to the first in the queue, or leaves it
    /// open.
    pub(super) fn pass_on(&self, me: u32, wake: &mut dyn FnMut(u32)) {
        match self.next_holder() {
            Some(first) => {
                // SYNC window-lock: Release pairs with the Acquire in `poll_queue`.
                self.target.owners.store(exclusive(first), Ordering::Release);
                let line = &self.origins[first as usize];
                line.state.store(LockMode::Exclusive.holds(), Ordering::Release);
                wake(first);
            }
            None => match self.own_line(me).free() {
                WaitersLeft::None => {}
                WaitersLeft::Some => self.serve_waiters(me, wake),
            },
        }
    }

    /// To whom the lock is handed over; `None` if it is left open, or none waits.
    fn next_holder(&self) -> Option<u32> {
        if self.design == LockDesign::Barging && self.may_open() {
            return None;
        }
        loop {
            // SYNC window-queue: pairs with the Release in `join_queue` and `leave_queue`.
            let first = self.target.waits.first.load(Ordering::Acquire).checked_sub(1);
            if first.is_some() || self.target.waits.tail.load(Ordering::Relaxed) == 0 {
                return first;
            }
            // It is between its swap and its store.
            yield_now();
        }
    }

    /// Whether the lock may be left open once more, which is counted; otherwise the count begins
    /// anew.
    fn may_open(&self) -> bool {
        // Relaxed: only the exclusive holder reads and writes these words.
        let relaxed = Ordering::Relaxed;
        let waits = &self.target.waits;
        let (openings, now) = (waits.openings.load(relaxed), now_ns());
        if openings == 0 {
            waits.since.store(now, relaxed);
        }
        // A clock that jumps, between sockets, ends it early at worst.
        let lasted = now.wrapping_sub(waits.since.load(relaxed));
        let may = openings < MOST_OPENINGS && lasted <= MOST_NS;
        waits.openings.store(if may { openings + 1 } else { 0 }, relaxed);
        may
    }

    /// After the origin `me` has given the lock back: lets the shared origins in that wait, and
    /// sees to the queue. Calls `wake` with each rank that gets the lock, or may take it now.
    pub fn serve_waiters(&self, me: u32, wake: &mut dyn FnMut(u32)) {
        let waits = &self.target.waits;
        // Relaxed: fenced by `free`.
        if waits.readers.load(Ordering::Relaxed) > 0 {
            self.let_readers_in(me, wake);
        }
        if waits.tail.load(Ordering::Relaxed) != 0 {
            self.serve_queue(me, wake);
        }
    }

    /// After the origin `me` has given the lock back, while others joined the queue.
    pub(super) fn serve_queue(&self, me: u32, wake: &mut dyn FnMut(u32)) {
        if self.design == LockDesign::Barging {
            // Relaxed: a first one that is just joining has not parked, and will look by itself; a
            // former one is woken for nothing.
            let first = self.target.waits.first.load(Ordering::Relaxed);
            return first.checked_sub(1).into_iter().for_each(wake);
        }
        // The first may have looked before the lock was free, and does not look again. If another
        // origin has the lock, that one passes it on.
        // SYNC window-lock: Acquire, to pass on what former holders have done.
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        if self.target.owners.compare_exchange(0, exclusive(me), acquire, relaxed).is_ok() {
            self.pass_on(me, wake);
        }
    }
}

impl OwnLock<'_> {
    /// Takes the lock if it is free; false if it is not. Does not block.
    #[inline(always)]
    #[must_use = "the lock may be held from here on"]
    pub fn take_free(&self) -> bool {
        // SYNC window-lock: Acquire pairs with the Release of the holder that has left.
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        self.target.owners.compare_exchange(0, self.held, acquire, relaxed).is_ok()
    }

    /// The ticket of the lock, which this origin has [taken](Self::take_free).
    #[inline(always)]
    pub fn held_ticket(&self) -> LockTicket {
        LockTicket::new(self.origin, LockMode::Exclusive, true)
    }

    /// Gives the lock back that this origin has [taken](Self::take_free); `None` if others are in
    /// the queue: nothing was done, and [`WindowLock::release`] does it. Does not block.
    #[inline(always)]
    pub fn give_back(&self) -> Option<WaitersLeft> {
        // Relaxed: of who joins now, `free` takes care.
        if self.target.waits.tail.load(Ordering::Relaxed) != 0 {
            return None;
        }
        Some(self.free())
    }

    /// Makes the lock free that this origin holds exclusive, and looks who waits.
    #[inline(always)]
    fn free(&self) -> WaitersLeft {
        let (owners, waits) = (&self.target.owners, &self.target.waits);
        // SYNC window-lock: no other origin writes while an exclusive one holds. Release: pairs
        // with the Acquire in `take_free`, `take_as_first` and `join_holders`. SYNC window-waiters:
        // before it is read who waits.
        if self.fences != 0 {
            owners.swap(0, Ordering::SeqCst);
            #[cfg(loom)]
            fence(Ordering::SeqCst);
        } else {
            owners.store(0, Ordering::Release);
            Fencing::Parker.before_waking();
        }
        let tail = waits.tail.load(Ordering::SeqCst);
        match tail | waits.readers.load(Ordering::SeqCst) {
            0 => WaitersLeft::None,
            _ => WaitersLeft::Some,
        }
    }
}

/// The time; none under loom, where only the count bounds.
fn now_ns() -> u64 {
    #[cfg(not(loom))]
    return ticks::now_ns();
    #[cfg(loom)]
    0
}
