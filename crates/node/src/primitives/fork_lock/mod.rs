//! `ForkLock`: a lock that fork handlers hold across `fork`: taken before it, and released in the
//! parent and in the child.
//!
//! A mutex of std cannot be released in a child. This one is the mutex of Drepper, "Futexes Are
//! Tricky" (2011), section 5:
//!
//! | state | meaning | who makes it |
//! |---|---|---|
//! | FREE | no thread holds it | the holder, when it releases (Release) |
//! | HELD | a thread holds it | a thread that finds it FREE at its first attempt (Acquire) |
//! | WANTED | as HELD, and others may sleep | a waiter, before it sleeps; owner if FREE (Acquire) |
//!
//! The thread that releases a WANTED lock wakes one other. That thread makes the state WANTED again
//! when it takes the lock, since more may sleep. A child has a copy of the state in which its only
//! thread, the copy of the one that forked, is the holder: no thread sleeps there, and a
//! superfluous wake-up is harmless.
//!
//! The registry of `channel`'s mapped buffers is under such a lock. Its holder waits for no other
//! lock of the library and never calls back into the program, so acquiring it in a fork handler
//! cannot deadlock, and a thread holds at most one such lock.

#[cfg(all(test, loom))]
mod model;

use crate::futex::{self, FutexScope};
use crate::sync::{AtomicU32, Ordering, UnsafeCell};
use std::ops::{Deref, DerefMut};

const FREE: u32 = 0;
const HELD: u32 = 1;
const WANTED: u32 = 2;

/// A value behind a lock that can be held across `fork`.
#[derive(Debug)]
pub struct ForkLock<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: access is by one thread at a time, as the state says.
unsafe impl<T: Send> Sync for ForkLock<T> {}

/// Access to the value of a [`ForkLock`].
#[derive(Debug)]
pub struct ForkGuard<'a, T>(&'a ForkLock<T>);

impl<T> ForkLock<T> {
    /// A free lock.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> ForkLock<T> {
        ForkLock { state: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// A free lock.
    #[cfg(loom)]
    pub fn new(value: T) -> ForkLock<T> {
        ForkLock { state: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Acquires the lock and returns the value. A thread must not lock twice.
    #[inline]
    pub fn lock(&self) -> ForkGuard<'_, T> {
        self.acquire();
        ForkGuard(self)
    }

    /// Whether this thread holds the lock. In a signal handler, true means that the signal
    /// interrupted the library's own work.
    #[inline]
    pub fn is_mine(&self) -> bool {
        held::get() == self.key()
    }

    /// Acquires the lock, and leaves it held until [`release`](Self::release).
    #[inline]
    pub fn acquire(&self) {
        // SYNC held: Acquire pairs with the Release in `release`.
        if self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            // SYNC held
            while self.state.swap(WANTED, Ordering::Acquire) != FREE {
                futex::wait(&self.state, WANTED, FutexScope::Process, None);
            }
        }
        held::set(self.key());
    }

    /// The value, for the thread that has acquired the lock.
    ///
    /// # Safety
    /// 1. The calling thread (or the one that forked it) has acquired the lock;
    /// 2. it uses one such reference at a time.
    #[allow(clippy::mut_from_ref)]
    #[inline]
    pub unsafe fn value(&self) -> &mut T {
        // SAFETY: obligations 1 and 2.
        self.value.with_mut(|value| unsafe { &mut *value })
    }

    /// Releases the lock after [`acquire`](Self::acquire).
    ///
    /// # Safety
    /// 1. The calling thread (or the one that forked it) has acquired the lock, and has no guard of
    ///    it;
    /// 2. references that it has from [`value`](Self::value) are used no more.
    #[inline]
    pub unsafe fn release(&self) {
        held::set(0);
        // SYNC held
        if self.state.swap(FREE, Ordering::Release) == WANTED {
            futex::wake_one(&self.state, FutexScope::Process);
        }
    }

    /// The key of this lock in [`held`].
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl<T> Drop for ForkGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard has acquired the lock, and references to the value do not outlive it.
        unsafe { self.0.release() };
    }
}

impl<T> Deref for ForkGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard has acquired the lock.
        self.0.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for ForkGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        self.0.value.with_mut(|value| unsafe { &mut *value })
    }
}

/// The lock that this thread holds: its address, or 0.
#[cfg(not(loom))]
mod held {
    use std::cell::Cell;

    thread_local! {
        static HELD: Cell<usize> = const { Cell::new(0) };
    }

    #[inline]
    pub fn get() -> usize {
        HELD.get()
    }

    #[inline]
    pub fn set(lock: usize) {
        HELD.set(lock);
    }
}

/// As above, for the threads of a model.
#[cfg(loom)]
mod held {
    use std::cell::Cell;

    loom::thread_local! {
        static HELD: Cell<usize> = Cell::new(0);
    }

    pub fn get() -> usize {
        HELD.with(Cell::get)
    }

    pub fn set(lock: usize) {
        HELD.with(|held| held.set(lock));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns() {
        const TURNS: u64 = if cfg!(miri) { 100 } else { 10_000 };
        static LOCK: ForkLock<u64> = ForkLock::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..TURNS).for_each(|_| *LOCK.lock() += 1));
            }
        });
        assert_eq!(*LOCK.lock(), 4 * TURNS);
        assert!(!LOCK.is_mine());
    }

    #[test]
    fn a_lock_is_mine_while_this_thread_holds_it() {
        static LOCK: ForkLock<()> = ForkLock::new(());
        static OTHER: ForkLock<()> = ForkLock::new(());
        let guard = LOCK.lock();
        assert!(LOCK.is_mine() && !OTHER.is_mine());
        std::thread::scope(|s| {
            s.spawn(|| assert!(!LOCK.is_mine()));
        });
        drop(guard);
        assert!(!LOCK.is_mine());
    }
}
