//! [`AccumulateLock`]: excludes bulk updates of one target from all others; the lock of an
//! [`AccumulateGate`](super::AccumulateGate) (MPI 5.0, 12.7.1).
//!
//! It is held for the microseconds of one operation, by a thread that does nothing else meanwhile,
//! so that waiting needs no progress on messages: a waiter polls, yields, and then sleeps in a
//! futex on the lock's own word (after Drepper, "Futexes are tricky", 2011, mutex 2; with the
//! holder's name where his has 1).
//!
//! | word | means | becomes | by |
//! |---|---|---|---|
//! | 0 | free | held | who takes it, with its name |
//! | rank + 1 | held; no thread sleeps | `SLEEPERS` added | a waiter, before it sleeps |
//! | rank + 1, `SLEEPERS` | held; some may sleep | 0, and one is woken | the holder |
//!
//! A waiter that has slept takes the lock with `SLEEPERS`, since it cannot know whether it was the
//! last that slept. Taking the lock acquires what the one that released it has written (SYNC
//! accumulate-lock).
//!
//! A holder that dies keeps the lock; [`AccumulateLock::holder`] names it.

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::futex::{self, FutexScope};
use crate::sync::{AtomicU32, Ordering, spin_loop, yield_now};

/// Some thread may sleep on the word.
const SLEEPERS: u32 = 1 << 31;
/// Polls before the first yield; 64 of them with a pause take about 2 us, as long as an operation.
const POLLS: u32 = if cfg!(loom) { 1 } else { 64 };
/// Yields before sleeping; a holder that has lost its core gets it back within a few of them.
const YIELDS: u32 = if cfg!(loom) { 1 } else { 16 };

/// The lock of one target. Zeroed memory is a free lock.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct AccumulateLock {
    word: AtomicU32,
    /// 1 from the first bulk update on: brief ones must fence ([`AccumulateGate`]).
    ///
    /// [`AccumulateGate`]: super::AccumulateGate
    needs_fences: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<AccumulateLock>() == 64);

/// The lock is held until this is dropped.
#[derive(Debug)]
pub struct AccumulateGuard<'a> {
    lock: &'a AccumulateLock,
}

impl AccumulateLock {
    /// A free lock.
    #[allow(clippy::new_without_default)] // no const new under loom; no caller needs Default
    pub fn new() -> AccumulateLock {
        AccumulateLock { word: AtomicU32::new(0), needs_fences: AtomicU32::new(0) }
    }

    /// Whether a bulk update has been made.
    #[inline(always)]
    pub(in crate::window) fn needs_fences(&self) -> bool {
        self.needs_fences.load(Ordering::Relaxed) != 0
    }

    /// From now on brief updates fence; a fence of all cores must follow.
    pub(in crate::window) fn demand_fences(&self) {
        self.needs_fences.store(1, Ordering::Relaxed);
    }

    /// Takes the lock in the name of rank `me`. Blocks while another thread holds it, of whatever
    /// rank. Not to be called by a thread that holds it.
    #[inline]
    pub fn lock(&self, me: u32) -> AccumulateGuard<'_> {
        if !self.try_take(me + 1) {
            self.wait(me + 1);
        }
        AccumulateGuard { lock: self }
    }

    /// Whether no rank holds the lock.
    #[inline]
    pub(in crate::window) fn is_free(&self, ordering: Ordering) -> bool {
        self.word.load(ordering) == 0
    }

    /// The rank that holds the lock; a snapshot, for reports.
    pub fn holder(&self) -> Option<u32> {
        // Relaxed: it may change at any time.
        (self.word.load(Ordering::Relaxed) & !SLEEPERS).checked_sub(1)
    }

    /// Writes `name` to the word if the lock is free.
    #[inline]
    fn try_take(&self, name: u32) -> bool {
        // SYNC accumulate-lock: acquires what was released when the last guard was dropped.
        // SYNC accumulate-gate: sequentially consistent, as the announcement of a bulk update.
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        let word = &self.word;
        word.compare_exchange(0, name, success, failure).is_ok()
    }

    #[cold]
    fn wait(&self, name: u32) {
        for turn in 0..POLLS + YIELDS {
            if self.word.load(Ordering::Relaxed) == 0 && self.try_take(name) {
                return;
            }
            if turn < POLLS {
                spin_loop();
            } else {
                yield_now();
            }
        }
        while !self.try_take(name | SLEEPERS) {
            self.sleep();
        }
    }

    /// Sleeps until a holder releases the lock, unless one has already.
    fn sleep(&self) {
        let seen = self.word.load(Ordering::Relaxed);
        if seen == 0 {
            return;
        }
        let (relaxed, asleep) = (Ordering::Relaxed, seen | SLEEPERS);
        // The kernel lets us sleep only while the word is unchanged, so the holder that is to wake
        // us has not released yet.
        let announced =
            seen == asleep || self.word.compare_exchange(seen, asleep, relaxed, relaxed).is_ok();
        if announced {
            futex::wait(&self.word, asleep, FutexScope::Node, None);
        }
    }
}

impl Drop for AccumulateGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        let word = &self.lock.word;
        // SYNC accumulate-lock: pairs with the Acquire in `try_take`.
        if word.swap(0, Ordering::Release) & SLEEPERS != 0 {
            futex::wake_one(word, FutexScope::Node);
        }
    }
}
