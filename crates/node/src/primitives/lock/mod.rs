//! The lock around a rank's engine: a mutex without cost where the program has promised one thread
//! at a time.
//!
//! A program that requests a thread level below `MPI_THREAD_MULTIPLE` promises that its threads are
//! inside the library one at a time (MPI 5.0, 11.6), so the mutex is elided. The promise ends
//! during the run when a second thread opens a session, which promises nothing (MPI 5.0, 11.3):
//! [`ThreadMode::share`] then puts the mutex in force, and must not return while a thread is still
//! inside without it. The protocol is Dekker's mutual exclusion, with the cost on the side that
//! runs once per job:
//!
//! | the thread that the promise covers | the thread that ends the promise |
//! |---|---|
//! | increments `sole` | sets `shared` |
//! | (compiler fence) | fences both cores by `membarrier` |
//! | reads `shared`; if set, decrements `sole` and takes the mutex | waits until `sole` is 0 |
//! | decrements `sole` (Release) when it leaves | sees what was done in the section (Acquire) |
//!
//! A short section in which no other [leaf section](ThreadMode::leaf) of the mode begins has a flag
//! instead, `leaf`, which is set and cleared and never read. To count up and down takes the value
//! of the last store each time, 2 ns on the way through the store buffer, and calls one after
//! another waited for that.
//!
//! Where `membarrier` is refused the mutex is never elided.

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use std::borrow::Borrow;
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use crate::sync::{AtomicBool, AtomicU32, Mutex, MutexGuard, Ordering, yield_now};

/// A promise that at most one thread at a time is inside the library. A program gives it by
/// requesting a thread level below `MPI_THREAD_MULTIPLE` (MPI 5.0, 11.6).
#[derive(Debug, Clone, Copy)]
pub struct OneThreadAtATime(());

impl OneThreadAtATime {
    /// Gives the promise.
    ///
    /// # Safety
    /// 1. Until [`ThreadMode::share`] is called, no two threads are inside what is given the
    ///    promise at the same time, and what one thread did there happens before another enters.
    ///    The thread that calls `share` is not inside.
    pub unsafe fn promised() -> OneThreadAtATime {
        OneThreadAtATime(())
    }
}

/// Whether several threads may be inside the library at once.
#[derive(Debug)]
pub struct ThreadMode {
    /// True while threads exclude one another by locks and atomic updates.
    shared: AtomicBool,
    /// The thread that the promise covers is in a leaf section. Only that thread writes it.
    leaf: AtomicBool,
    /// The nesting depth of the other [`SoleThread`] sections of the thread that the promise
    /// covers. Only that thread writes it.
    sole: AtomicU32,
}

/// A section of the only thread that is inside the library. It ends when this is dropped.
#[derive(Debug)]
pub struct SoleThread<'a> {
    mode: &'a ThreadMode,
}

/// As [`SoleThread`], announced by `leaf`.
#[derive(Debug)]
pub struct LeafSection<'a> {
    /// Never dropped: `sole` does not count it.
    section: ManuallyDrop<SoleThread<'a>>,
}

impl ThreadMode {
    /// Several threads may be inside.
    #[cfg(not(loom))]
    pub const fn new() -> ThreadMode {
        ThreadMode {
            shared: AtomicBool::new(true),
            leaf: AtomicBool::new(false),
            sole: AtomicU32::new(0),
        }
    }

    /// Several threads may be inside.
    #[cfg(loom)]
    pub fn new() -> ThreadMode {
        ThreadMode {
            shared: AtomicBool::new(true),
            leaf: AtomicBool::new(false),
            sole: AtomicU32::new(0),
        }
    }

    /// True when several threads may be inside, so that they must exclude one another.
    #[inline(always)]
    pub fn is_shared(&self) -> bool {
        // Relaxed: `sole` provides the ordering, and is the precise check.
        self.shared.load(Ordering::Relaxed)
    }

    /// Elides the exclusion from now on, since the program has promised to serialize its threads.
    /// Has no effect where `membarrier` is unavailable, because the promise could not be ended
    /// safely there.
    pub fn elide(&self, _promise: OneThreadAtATime) {
        if fence::register() {
            self.shared.store(false, Ordering::Relaxed);
        }
    }

    /// Ends the promise. Returns when no thread is in a [`SoleThread`] section, and none will be.
    pub fn share(&self) {
        // SYNC sole-thread: before the fence below.
        if self.shared.swap(true, Ordering::SeqCst) {
            return;
        }
        // SYNC sole-thread: either a thread that enters sees `shared`, or this thread sees its
        // `sole` or `leaf`.
        fence::heavy();
        // SYNC sole-thread: pairs with the Release when a section ends.
        while self.sole.load(Ordering::Acquire) > 0 || self.leaf.load(Ordering::Acquire) {
            yield_now();
        }
    }

    /// Enters a section of the only thread that is inside; returns `None` where there may be
    /// several.
    #[inline(always)]
    pub fn sole(&self) -> Option<SoleThread<'_>> {
        if self.is_shared() {
            return None;
        }
        // A plain load and store: only this thread writes it.
        let outer = self.sole.load(Ordering::Relaxed);
        self.sole.store(outer + 1, Ordering::Relaxed);
        // SYNC sole-thread: `share`'s membarrier makes this a full fence when it matters.
        fence::light();
        // Dropped if the promise has ended, which undoes the increment.
        let section = SoleThread { mode: self };
        (!self.is_shared()).then_some(section)
    }

    /// As [`sole`](Self::sole), for a section in which the thread neither blocks nor calls the
    /// program, nor enters another leaf section of this mode.
    #[inline(always)]
    pub fn leaf(&self) -> Option<LeafSection<'_>> {
        if self.is_shared() {
            return None;
        }
        debug_assert!(!self.leaf.load(Ordering::Relaxed), "a leaf section in one");
        self.leaf.store(true, Ordering::Relaxed);
        // SYNC sole-thread: as in `sole`.
        fence::light();
        // Dropped if the promise has ended, which clears the flag.
        let section = LeafSection { section: ManuallyDrop::new(SoleThread { mode: self }) };
        (!self.is_shared()).then_some(section)
    }
}

impl Default for ThreadMode {
    fn default() -> ThreadMode {
        ThreadMode::new()
    }
}

impl Drop for SoleThread<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let sole = &self.mode.sole;
        // SYNC sole-thread: pairs with the Acquire in `share`.
        sole.store(sole.load(Ordering::Relaxed) - 1, Ordering::Release);
    }
}

impl Drop for LeafSection<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // SYNC sole-thread: pairs with the Acquire in `share`.
        self.section.mode.leaf.store(false, Ordering::Release);
    }
}

/// A value behind a mutex that can be switched off.
///
/// The mode comes first, in one line with the mutex and the start of the value. Otherwise the
/// compiler may put it behind a large value, and each call then keeps a further address: that cost
/// six instructions of `MPI_Send`.
///
/// A lock has a mode of its own, or is [`under`](ThreadLock::under) that of another.
#[derive(Debug)]
#[repr(C)]
pub struct ThreadLock<T, M = ThreadMode> {
    mode: M,
    mutex: Mutex<()>,
    value: UnsafeCell<T>,
}

// SAFETY: the mutex, or the promise that elided it, gives access to one thread at a time.
unsafe impl<T: Send, M: Sync> Sync for ThreadLock<T, M> {}

/// Access to the value of a [`ThreadLock`].
#[derive(Debug)]
pub struct Guard<'a, T> {
    value: &'a UnsafeCell<T>,
    excluded: Excluded<'a>,
}

/// As [`Guard`], without the mutex.
#[derive(Debug)]
pub struct SoleGuard<'a, T> {
    value: &'a UnsafeCell<T>,
    leaf: LeafSection<'a>,
}

/// As [`Guard`], in a section that lasts longer.
#[derive(Debug)]
pub struct SectionGuard<'a, T>(&'a UnsafeCell<T>);

/// What keeps other threads out.
#[derive(Debug)]
enum Excluded<'a> {
    Promised(SoleThread<'a>),
    Locked(#[allow(dead_code)] MutexGuard<'a, ()>),
}

impl<T> ThreadLock<T> {
    /// A lock in force.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> ThreadLock<T> {
        ThreadLock { mode: ThreadMode::new(), mutex: Mutex::new(()), value: UnsafeCell::new(value) }
    }

    /// A lock in force.
    #[cfg(loom)]
    pub fn new(value: T) -> ThreadLock<T> {
        ThreadLock { mode: ThreadMode::new(), mutex: Mutex::new(()), value: UnsafeCell::new(value) }
    }

    /// Whether several threads may be inside.
    #[inline(always)]
    pub fn mode(&self) -> &ThreadMode {
        &self.mode
    }

    /// Elides the mutex: the program has promised to serialize its threads.
    pub fn elide(&self, promise: OneThreadAtATime) {
        self.mode.elide(promise);
    }

    /// Puts the mutex in force again. Waits for a thread that is inside without it.
    pub fn share(&self) {
        let _turn = self.lock_mutex();
        self.mode.share();
    }

    /// True when several threads may be inside, so that the mutex is in force.
    #[inline(always)]
    pub fn is_shared(&self) -> bool {
        self.mode.is_shared()
    }
}

impl<T> ThreadLock<T, &'static ThreadMode> {
    /// A lock that is elided while `mode` is: one promise and its end cover both.
    pub fn under(mode: &'static ThreadMode, value: T) -> Self {
        ThreadLock { mode, mutex: Mutex::new(()), value: UnsafeCell::new(value) }
    }
}

impl<T, M: Borrow<ThreadMode>> ThreadLock<T, M> {
    /// Acquires the lock. A thread must not lock twice: code under the lock never calls back into
    /// the program.
    #[inline(always)]
    pub fn lock(&self) -> Guard<'_, T> {
        match self.mode.borrow().sole() {
            Some(section) => self.guard(Excluded::Promised(section)),
            None => self.guard(Excluded::Locked(self.lock_mutex())),
        }
    }

    /// Acquires the lock without the mutex, for a [leaf section](ThreadMode::leaf); `None` where
    /// the mutex is in force.
    #[inline(always)]
    pub fn lock_if_sole(&self) -> Option<SoleGuard<'_, T>> {
        let leaf = self.mode.borrow().leaf()?;
        Some(SoleGuard { value: &self.value, leaf })
    }

    /// Acquires the lock in a section of the same mode that the caller is in already; `None` in one
    /// of another mode. As with [`lock`](Self::lock), a thread must not lock twice.
    #[inline(always)]
    pub fn lock_in<'a>(&'a self, section: &'a SoleThread<'_>) -> Option<SectionGuard<'a, T>> {
        std::ptr::eq(section.mode, self.mode.borrow()).then_some(SectionGuard(&self.value))
    }

    #[inline(always)]
    fn guard<'a>(&'a self, excluded: Excluded<'a>) -> Guard<'a, T> {
        Guard { value: &self.value, excluded }
    }

    #[inline(never)]
    fn lock_mutex(&self) -> MutexGuard<'_, ()> {
        self.mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Guard<'_, T> {
    /// Whether other threads may wait for this guard to be dropped.
    #[inline(always)]
    pub fn is_shared(&self) -> bool {
        self.sole_thread().is_none()
    }

    /// The section of the only thread that is inside the library, if the mutex is elided.
    #[inline(always)]
    pub fn sole_thread(&self) -> Option<&SoleThread<'_>> {
        match &self.excluded {
            Excluded::Promised(section) => Some(section),
            Excluded::Locked(_) => None,
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the mutex or the program's promise gives the guard exclusive access to the value.
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

impl<T> SoleGuard<'_, T> {
    /// The section of the only thread that is inside the library.
    #[inline(always)]
    pub fn section(&self) -> &SoleThread<'_> {
        &self.leaf.section
    }
}

impl<T> Deref for SoleGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the program's promise gives the guard exclusive access to the value.
        unsafe { &*self.value.get() }
    }
}

impl<T> Deref for SectionGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the section is under the lock's mode, so no other thread is inside; and no other
        // guard of this thread lives.
        unsafe { &*self.0.get() }
    }
}

impl<T> DerefMut for SectionGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.0.get() }
    }
}

/// The two halves of an asymmetric full fence.
#[cfg(not(any(loom, miri)))]
pub(crate) mod fence {
    use crate::park::{membarrier_register, membarrier_run};
    use core::sync::atomic::{Ordering, compiler_fence};
    use std::time::Duration;

    pub fn register() -> bool {
        membarrier_register()
    }

    #[inline(always)]
    pub fn light() {
        compiler_fence(Ordering::SeqCst);
    }

    pub fn heavy() {
        if !membarrier_run() {
            // Refused although it was granted before, by a seccomp filter that the program
            // installed. A store leaves its core's store buffer within microseconds, and at the
            // latest when the core takes an interrupt.
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// loom and Miri have no membarrier; a fence on both sides has the same effect.
#[cfg(any(loom, miri))]
pub(crate) mod fence {
    use crate::sync::{Ordering, fence};

    pub fn register() -> bool {
        true
    }

    pub fn light() {
        fence(Ordering::SeqCst);
    }

    pub fn heavy() {
        fence(Ordering::SeqCst);
    }
}
