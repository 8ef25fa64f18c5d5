//! [`AccumulateGate`]: makes accumulates atomic for each element of one target, by whichever of two
//! ways is cheaper (MPI 5.0, 12.7.1).
//!
//! - A **atomic** update changes one element by one processor atomic. Any number of origins do that
//!   at a time.
//! - A **locked** update changes several elements by plain loads and stores, or elements that no
//!   processor atomic can do: pairs, unaligned ones, memory that only the kernel reaches.
//!   It excludes all other updates of the target.
//!
//! So a window needs no agreement on which elements are updated in which way: each origin decides
//! for each operation.
//!
//! The protocol is Dekker's: each side announces itself, and then checks for the other.
//!
//! | atomic | locked |
//! |---|---|
//! | counts itself in its own [`OriginLine`] | takes the target's [`AccumulateLock`] |
//! | checks that the lock is free | waits until the count of every origin is 0 |
//!
//! Announcements and checks are sequentially consistent, so that at least one side sees the other
//! (SYNC accumulate-gate). A atomic update that sees the lock taken withdraws its count and takes
//! the lock itself; it need not wait for the other atomic ones then.
//!
//! The count lies in a line that its origin alone writes while it holds no window lock, so that
//! atomic updates of several origins share no line but that of the element. The check reads the
//! lock's line, which nothing writes between locked updates.
//!
//! **Until the first locked update** an atomic one needs no fence between its announcement and its
//! check, which would cost more than the element's own atomic (two locked instructions of 6 ns).
//! The first locked update of a target says in the lock's line that fences are needed from now on,
//! and then fences the cores of all ranks, by `membarrier`. A atomic update that had read the line
//! before has announced itself before that fence, so its count is seen; one that reads the line
//! later fences. This is for origins that run one thread at a time
//! ([`OwnGate`]), whose count needs no atomic update either; others fence always.

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::lock::{SoleThread, fence as asymmetric};
#[cfg(loom)]
use crate::sync::fence;
use crate::sync::{Ordering, spin_loop, yield_now};
use crate::window::accumulate_lock::{AccumulateGuard, AccumulateLock};
use crate::window::lock::words::OriginLine;

/// Polls of an origin's count before the first yield; an atomic update takes less than 1 us unless
/// its rank has lost the core.
const POLLS: u32 = if cfg!(loom) { 0 } else { 64 };

/// The gate of one target: a view of words in shared memory.
#[derive(Debug, Clone, Copy)]
pub struct AccumulateGate<'a> {
    lock: &'a AccumulateLock,
    origins: &'a [OriginLine],
}

/// A atomic update is in progress until this is dropped.
#[derive(Debug)]
pub struct AtomicUpdate<'a>(Admission<'a>);

/// The gate of one target as one origin uses it that runs one thread at a time: the words that it
/// needs until the first locked update.
#[derive(Debug, Clone, Copy)]
pub struct OwnGate<'a> {
    lock: &'a AccumulateLock,
    line: &'a OriginLine,
}

/// A atomic update of the only thread is in progress until this is dropped.
#[derive(Debug)]
pub struct SingleThreadUpdate<'a>(&'a OriginLine);

#[derive(Debug)]
enum Admission<'a> {
    Counted(&'a OriginLine),
    Locked(#[expect(dead_code, reason = "held until the update ends")] AccumulateGuard<'a>),
}

/// A locked update is in progress until this is dropped.
#[derive(Debug)]
pub struct LockedUpdate<'a> {
    _guard: AccumulateGuard<'a>,
}

impl<'a> AccumulateGate<'a> {
    /// The gate in these words. `origins` has one line for each rank that may update the target.
    pub fn new(lock: &'a AccumulateLock, origins: &'a [OriginLine]) -> AccumulateGate<'a> {
        AccumulateGate { lock, origins }
    }

    /// Begins an atomic update of rank `origin`. Blocks while a locked update is in progress.
    /// Several threads of the rank may do this at once.
    ///
    /// # Panics
    /// If there is no line for `origin`.
    #[inline]
    pub fn atomic(&self, origin: u32) -> AtomicUpdate<'a> {
        let line = &self.origins[origin as usize];
        // SYNC accumulate-gate: announced before it is read whether the lock is free, so that of
        // this update and a locked one at least one sees the other.
        line.updates.fetch_add(1, Ordering::SeqCst);
        // loom's sequentially consistent accesses are only acquire and release.
        #[cfg(loom)]
        fence(Ordering::SeqCst);
        // SYNC accumulate-gate: acquires what the last locked update has written.
        match self.lock.is_free(Ordering::SeqCst) {
            true => AtomicUpdate(Admission::Counted(line)),
            false => self.atomic_under_lock(origin),
        }
    }

    /// The gate as rank `origin` uses it.
    ///
    /// # Panics
    /// As [`atomic`](Self::atomic).
    pub fn own(&self, origin: u32) -> OwnGate<'a> {
        OwnGate { lock: self.lock, line: &self.origins[origin as usize] }
    }

    #[cold]
    fn atomic_under_lock(&self, origin: u32) -> AtomicUpdate<'a> {
        let line = &self.origins[origin as usize];
        // Relaxed: nothing was done under the count.
        line.updates.fetch_sub(1, Ordering::Relaxed);
        AtomicUpdate(Admission::Locked(self.lock.lock(origin)))
    }

    /// Begins a locked update of rank `origin`. Blocks while another update is in progress. Not to
    /// be called by a thread that has an update in progress at this target.
    #[inline]
    pub fn locked(&self, origin: u32) -> LockedUpdate<'a> {
        let guard = self.lock.lock(origin);
        if self.lock.needs_fences() {
            #[cfg(loom)]
            fence(Ordering::SeqCst);
        } else {
            self.lock.demand_fences();
            // SYNC accumulate-gate: an atomic update of a sole thread has announced itself before
            // this, or sees the demand.
            asymmetric::heavy();
        }
        for line in self.origins {
            let mut polls = 0;
            // SYNC accumulate-gate: acquires what the atomic update has written.
            while line.updates.load(Ordering::SeqCst) != 0 {
                if polls < POLLS {
                    polls += 1;
                    spin_loop();
                } else {
                    yield_now();
                }
            }
        }
        LockedUpdate { _guard: guard }
    }

    /// The rank that holds the lock of locked updates; a snapshot, for reports.
    pub fn holder(&self) -> Option<u32> {
        self.lock.holder()
    }
}

impl<'a> OwnGate<'a> {
    /// Begins an atomic update; `None` from the first locked update on: [`AccumulateGate::atomic`]
    /// does it then. Does not block. This rank has no other update of the target in progress.
    #[inline(always)]
    pub fn atomic(&self, _alone: &SoleThread<'_>) -> Option<SingleThreadUpdate<'a>> {
        let updates = &self.line.updates;
        debug_assert_eq!(updates.load(Ordering::Relaxed), 0);
        // A plain store: no other thread writes it, and this one has no other update in progress.
        // To count would take the value of the last store, on its way through the store buffer.
        updates.store(1, Ordering::Relaxed);
        // SYNC accumulate-gate: the first locked update's membarrier makes this a full fence.
        asymmetric::light();
        // Dropped if fences are needed, which takes the announcement back.
        let update = SingleThreadUpdate(self.line);
        // SYNC accumulate-gate: a lock that was ever taken needs fences, so this says that it is
        // free as well.
        (!self.lock.needs_fences()).then_some(update)
    }
}

impl Drop for SingleThreadUpdate<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // SYNC accumulate-gate: Release pairs with the load in `locked`.
        self.0.updates.store(0, Ordering::Release);
    }
}

impl Drop for AtomicUpdate<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // SYNC accumulate-gate: Release pairs with the load in `locked`.
        match self.0 {
            Admission::Counted(line) => {
                line.updates.fetch_sub(1, Ordering::Release);
            }
            Admission::Locked(_) => {}
        }
    }
}
