//! The lock around a rank's engine: a mutex that costs nothing where the program promised one thread at a time.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A promise that at most one thread at a time is inside the library: what a program gives that asks for a thread level
/// below `MPI_THREAD_MULTIPLE` (MPI 5.0, 11.6).
#[derive(Debug, Clone, Copy)]
pub struct OneThreadAtATime(());

impl OneThreadAtATime {
    /// Gives the promise.
    ///
    /// # Safety
    /// 1. From now until [`ThreadLock::share`], no two threads are inside the [`ThreadLock`]s that are given the promise at
    ///    the same time, and what one thread did there happens before another enters.
    pub unsafe fn promised() -> OneThreadAtATime {
        OneThreadAtATime(())
    }
}

/// A value behind a mutex that can be switched off.
#[derive(Debug)]
pub struct ThreadLock<T> {
    /// True while the mutex is in force.
    shared: AtomicBool,
    mutex: Mutex<()>,
    value: UnsafeCell<T>,
}

// SAFETY: access is by one thread at a time, by the mutex or by the promise that switched it off.
unsafe impl<T: Send> Sync for ThreadLock<T> {}

/// Access to the value of a [`ThreadLock`].
#[derive(Debug)]
pub struct Guard<'a, T> {
    value: &'a UnsafeCell<T>,
    _locked: Option<MutexGuard<'a, ()>>,
}

impl<T> ThreadLock<T> {
    /// A lock in force.
    pub const fn new(value: T) -> ThreadLock<T> {
        ThreadLock {
            shared: AtomicBool::new(true),
            mutex: Mutex::new(()),
            value: UnsafeCell::new(value),
        }
    }

    /// Switches the mutex off: the program has promised to keep its threads apart itself.
    pub fn elide(&self, _promise: OneThreadAtATime) {
        self.shared.store(false, Ordering::Relaxed);
    }

    /// Puts the mutex in force again.
    pub fn share(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    /// True when several threads may be inside, each waiting its turn.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    /// Waits for the value. A thread must not lock twice: code under the lock never calls back into the program.
    #[inline(always)]
    pub fn lock(&self) -> Guard<'_, T> {
        let locked = if self.is_shared() {
            Some(self.lock_mutex())
        } else {
            None
        };
        Guard {
            value: &self.value,
            _locked: locked,
        }
    }

    #[inline(never)]
    fn lock_mutex(&self) -> MutexGuard<'_, ()> {
        self.mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard has the value to itself, by the mutex or by the program's promise.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.value.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns() {
        const TURNS: u64 = if cfg!(miri) { 100 } else { 10_000 };
        let lock = ThreadLock::new(0u64);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..TURNS).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 4 * TURNS);
    }

    #[test]
    fn an_elided_lock_still_gives_access() {
        let lock = ThreadLock::new(1);
        // SAFETY: one thread only.
        lock.elide(unsafe { OneThreadAtATime::promised() });
        *lock.lock() += 1;
        lock.share();
        assert_eq!(*lock.lock(), 2);
    }
}
