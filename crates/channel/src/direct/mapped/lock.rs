//! A lock that `fork` can be told to hold: taken before the fork, given back on both sides of it.
//!
//! A mutex of std cannot be given back in a child. Whoever holds this one never waits for another lock of ours and never calls
//! back into the program, so that taking it from a fork handler cannot deadlock.

use std::cell::{Cell, UnsafeCell};
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const FREE: u32 = 0;
const HELD: u32 = 1;
const WANTED: u32 = 2;

thread_local! {
    static MINE: Cell<bool> = const { Cell::new(false) };
}

#[derive(Debug)]
pub(super) struct ForkLock<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: access is by one thread at a time, as the state says.
unsafe impl<T: Send> Sync for ForkLock<T> {}

pub(super) struct Guard<'a, T>(&'a ForkLock<T>);

impl<T> ForkLock<T> {
    pub const fn new(value: T) -> ForkLock<T> {
        ForkLock {
            state: AtomicU32::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        self.acquire();
        Guard(self)
    }

    /// Whether this thread has the lock: it then was interrupted by a signal handler.
    pub fn is_mine(&self) -> bool {
        MINE.get()
    }

    pub fn acquire(&self) {
        // SYNC held: Acquire pairs with the Release in `release`.
        if self
            .state
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            // SYNC held
            while self.state.swap(WANTED, Ordering::Acquire) != FREE {
                futex_wait(&self.state, WANTED, None);
            }
        }
        MINE.set(true);
    }

    /// The value, for the thread that has acquired the lock.
    ///
    /// # Safety
    /// 1. The calling thread (or the one that forked it) has acquired the lock;
    /// 2. it uses one such reference at a time.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn value(&self) -> &mut T {
        // SAFETY: obligations 1 and 2.
        unsafe { &mut *self.value.get() }
    }

    pub fn release(&self) {
        MINE.set(false);
        // SYNC held
        if self.state.swap(FREE, Ordering::Release) == WANTED {
            futex_wake(&self.state);
        }
    }
}

/// Sleeps while `word` holds `value`, until it is woken or `most` has passed, or for no reason.
pub(super) fn futex_wait(word: &AtomicU32, value: u32, most: Option<Duration>) {
    let most = most.map(|most| libc::timespec {
        tv_sec: most.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(most.subsec_nanos()),
    });
    let time = most.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the word and the time are alive.
    unsafe {
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, time);
    }
}

/// Wakes one thread that sleeps on `word`.
pub(super) fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word is alive.
    unsafe {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1);
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard has acquired the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.0.value.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns() {
        static LOCK: ForkLock<u64> = ForkLock::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..10_000).for_each(|_| *LOCK.lock() += 1));
            }
        });
        assert_eq!(*LOCK.lock(), 40_000);
        assert!(!LOCK.is_mine());
    }
}
