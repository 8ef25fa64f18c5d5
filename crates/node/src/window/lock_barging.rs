//! Bounded barging: the queue of a [`WindowLock`] whose holder may leave the lock open.
//!
//! A hand-over to the next in the queue costs the transfer of cache lines to its core, and where
//! ranks share cores a switch to it, while the rank that leaves often comes back at once (an MPI
//! program that adds to a table in a loop). So the holder that leaves does not name the next one at
//! first. It leaves the lock *open*: a rank that begins may take it before the queue (barge),
//! and the first in the queue may take it as well. This is the usual compromise of locks between
//! throughput and order (Dice, "Malthusian locks", EuroSys 2017, 2; Linux's qspinlock lets one
//! waiter compete for the lock word, too).
//!
//! **Bound.** The lock is left open [`MOST_OPENINGS`] times in a row at most, and only for
//! [`MOST_NS`] after the first of them; then the holder hands over to the first in the queue. So
//! each origin in the queue waits for as many turns more, but not without end, and whose turns are
//! long gets no second one before others.
//!
//! | `owners` | means | becomes |
//! |---|---|---|
//! | head, tail | held, or granted | open, or the next head (`leave_queue`) |
//! | tail, [`OPEN`] | open | head, tail, by who barges (`barge`) or by the first (`try_as_first`) |
//! | tail | the holder leaves and will name a head | head, tail |
//!
//! A holder that has barged is not in the queue. It knows the first one by `first`, which is
//! written before each opening and read after `owners` was acquired (SYNC window-open).
//!
//! **Waiting.** The first looks at `owners` only now and then, since each look takes the line from
//! the core that works with it; with time more often, and from
//! [`MOST_BLIND_POLLS`](super::MOST_BLIND_POLLS) polls on always, before it may park. An opening
//! wakes it if it has parked: it makes the lock open before it asks whether the first is parked,
//! and a rank that parks announces that before its last poll, so one of the two sees the other
//! (SYNC window-lock-wake, as with all wake-ups of `park`).

use super::lock::WindowLock;
use super::lock_ticket::LockTicket;
use super::lock_words::{LockMode, OPEN, exclusive, shared_holders};
use crate::sync::Ordering;
#[cfg(not(loom))]
use crate::ticks;

/// How often in a row the lock is left open. A turn of lock, put of 8 bytes and unlock takes 40 ns,
/// a hand-over 250 ns between two cores and 3 us where ranks share one: with as many turns to one
/// hand-over that is little beside the turns.
const MOST_OPENINGS: u32 = if cfg!(loom) { 1 } else { 256 };

/// Nanoseconds after the first opening from which on the lock is handed over: some times a
/// hand-over between ranks that share a core.
const MOST_NS: u64 = 20_000;

impl WindowLock<'_> {
    /// Takes the open lock before those that are in the queue, if `owners` is still `before`.
    ///
    /// # Errors
    /// What `owners` is.
    #[cold]
    pub(super) fn barge(&self, origin: u32, before: u64) -> Result<(), u64> {
        self.close(origin, before)?;
        self.note_holder(origin);
        Ok(())
    }

    /// From `before`, which is open, to an exclusive `head`.
    fn close(&self, head: u32, before: u64) -> Result<(), u64> {
        // SYNC window-lock, SYNC window-open: Acquire pairs with the Release in `leave_open`;
        // Release: the last shared holder finds the head's state.
        let (order, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        let held = before - OPEN + exclusive(head);
        let owners = &self.target.owners;
        owners.compare_exchange(before, held, order, relaxed).map(|_| ())
    }

    fn note_holder(&self, origin: u32) {
        let line = &self.origins[origin as usize];
        // Relaxed: only the origin changes its state now; others read it for reports.
        line.state.store(LockMode::Exclusive.holds(), Ordering::Relaxed);
    }

    /// A poll of an exclusive origin in the queue: takes the lock if it is open, and this origin
    /// the first.
    pub(super) fn try_as_first(&self, ticket: &mut LockTicket) -> bool {
        if ticket.mode() == LockMode::Shared || !ticket.ends_pause() {
            return false;
        }
        ticket.pause((ticket.interval() - 1).max(1));
        let origin = ticket.origin();
        // SYNC window-lock-wake: after the rank has announced that it parks. SYNC window-open:
        // Acquire pairs with the Release in `leave_open`.
        let mut before = self.target.owners.load(Ordering::SeqCst);
        while before & OPEN != 0 && self.first_in_queue() == origin {
            match self.close(origin, before) {
                Err(found) => before = found,
                Ok(()) => {
                    // Relaxed: it is the exclusive holder, or will be, and no other writes this.
                    self.target.waits.openings.store(0, Ordering::Relaxed);
                    if shared_holders(before) > 0 {
                        // The last of them grants the lock.
                        return false;
                    }
                    self.note_holder(origin);
                    return true;
                }
            }
        }
        false
    }

    /// The exclusive holder leaves the lock open, lets the shared origins in that wait, and wakes
    /// the first in the queue if it is asleep. False if it has done nothing: the lock was open for
    /// long enough, so it must be handed over.
    pub(super) fn leave_open(&self, ticket: &LockTicket, wake: &mut impl FnMut(u32)) -> bool {
        if !self.may_open() {
            return false;
        }
        let first = self.next_after(ticket);
        let (owners, waits) = (&self.target.owners, &self.target.waits);
        // SYNC window-open: before the lock is open.
        waits.first.store(first + 1, Ordering::Relaxed);
        // SYNC window-lock, SYNC window-open: Release pairs with the Acquire in `close`,
        // `try_as_first` and `join_holders`. SYNC window-readers: before the count of readers is
        // read. SYNC window-lock-wake: before it is asked whether the first is parked.
        owners.fetch_add(OPEN - exclusive(ticket.origin()), Ordering::SeqCst);
        self.let_readers_in(wake);
        wake(first);
        true
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

    /// The first in the queue of a lock that is open, or that an origin has taken when it was.
    pub(super) fn first_in_queue(&self) -> u32 {
        // Relaxed: `owners` was acquired before (SYNC window-open).
        self.target.waits.first.load(Ordering::Relaxed) - 1
    }
}

/// The time; none under loom, where only the count bounds.
fn now_ns() -> u64 {
    #[cfg(not(loom))]
    return ticks::now_ns();
    #[cfg(loom)]
    0
}
