//! The fast path from a handle to the peers of its communicator.
//!
//! Most communicators' ranks are consecutive ranks of the job, and all that a message needs of such
//! a communicator fits a cache line. A table of these lines is filled as communicators come into
//! use; a message finds its line by the handle, without a lock, a reference or thread-local memory.
//! Communicators without a line take [`with`](super::with).
//!
//! A line is written once in the life of its communicator. The thread that claims it writes its
//! fields and then the handle (SYNC route: Release, paired with the Acquire in [`Route::of`]); the
//! thread that frees the communicator removes the handle. A program that still sends on that
//! communicator is erroneous, and may see either state.
//!
//! A line may be suspended for a time, while a tool counts the communicator's messages: the
//! complement of the handle stands in its place, and the other fields stay. A lock
//! ([`MADE_AND_SUSPENDED`]) keeps that apart from the making of a line.

use super::counts::CommCounts;
use super::object::Comm;
use crate::constants as c;
use crate::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Number of lines. Handles count up, so this many consecutive communicators have a line each.
const LINES: usize = 64;

/// In place of a handle: the line is free, or being written.
const FREE: u32 = 0;
const CLAIMED: u32 = 1;

/// Held while a line is made, suspended or resumed, so that the line of a communicator is out of
/// use exactly while its messages are counted.
pub(super) static MADE_AND_SUSPENDED: Mutex<()> = Mutex::new(());

#[derive(Debug)]
#[repr(align(64))]
struct RouteLine {
    handle: AtomicU32,
    first: AtomicU32,
    reach: AtomicU32,
    context: AtomicU64,
}

static TABLE: [RouteLine; LINES] = [const {
    RouteLine {
        handle: AtomicU32::new(FREE),
        first: AtomicU32::new(0),
        reach: AtomicU32::new(0),
        context: AtomicU64::new(0),
    }
}; LINES];

/// What a message of the program needs to know of its communicator.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    context: u64,
    first: u32,
    reach: u32,
}

#[inline(always)]
fn line(handle: u32) -> &'static RouteLine {
    &TABLE[handle as usize % LINES]
}

impl Route {
    /// The route of the communicator `handle`, if it has a line.
    #[inline(always)]
    pub fn of(handle: u32) -> Option<Route> {
        let line = line(handle);
        // SYNC route
        if line.handle.load(Ordering::Acquire) != handle {
            return None;
        }
        Some(Route {
            context: line.context.load(Ordering::Relaxed),
            first: line.first.load(Ordering::Relaxed),
            reach: line.reach.load(Ordering::Relaxed),
        })
    }

    /// Context of the program's messages.
    #[inline(always)]
    pub fn context(&self) -> u64 {
        self.context
    }

    /// Job-wide rank of `rank`, if there is such a rank.
    #[inline(always)]
    pub fn peer(&self, rank: i32) -> Option<u32> {
        let rank = rank as u32;
        (rank < self.reach).then(|| self.first.wrapping_add(rank))
    }

    /// Rank of the process with this job-wide rank.
    #[inline(always)]
    pub fn rank_of(&self, peer: u32) -> i32 {
        peer.wrapping_sub(self.first) as i32
    }

    /// Takes the line of the communicator `handle` out of use, and keeps it from others: a thread
    /// that has just found the line reads what is still true. The caller holds
    /// [`MADE_AND_SUSPENDED`].
    pub(super) fn suspend(handle: u32) {
        // Relaxed: messages at the same time may take either path. The complement of a handle
        // belongs to another line, so it is no other communicator's.
        let _ = line(handle).handle.compare_exchange(
            handle,
            !handle,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Puts it to use again, under the same lock.
    pub(super) fn resume(handle: u32) {
        // SYNC route: the fields have not changed.
        let _ = line(handle).handle.compare_exchange(
            !handle,
            handle,
            Ordering::Release,
            Ordering::Relaxed,
        );
    }

    /// Gives a communicator a line, if its ranks are consecutive and the line is free.
    pub(super) fn remember(comm: &Comm) {
        let handle = comm.handle();
        let Some((first, reach)) = comm.peers().as_run() else {
            return;
        };
        if handle == c::COMM_NULL || handle <= CLAIMED {
            return;
        }
        let line = line(handle);
        // Relaxed: a line that is freed at the same time is for the next call.
        if line.handle.load(Ordering::Relaxed) != FREE {
            return;
        }
        let _guard = lock(&MADE_AND_SUSPENDED);
        // Relaxed: the claim orders nothing; the store of the handle does.
        let claimed =
            line.handle.compare_exchange(FREE, CLAIMED, Ordering::Relaxed, Ordering::Relaxed);
        if claimed.is_ok() {
            line.context.store(comm.context(), Ordering::Relaxed);
            line.first.store(first, Ordering::Relaxed);
            line.reach.store(reach, Ordering::Relaxed);
            // SYNC route
            line.handle.store(handle, Ordering::Release);
            let observers = |counts: &CommCounts| counts.sent_observers.load(Ordering::Relaxed);
            if comm.0.counts.get().is_some_and(|counts| observers(counts) > 0) {
                Route::suspend(handle);
            }
        }
    }

    /// Removes the communicator `handle`, which is being freed.
    pub(super) fn forget(handle: u32) {
        let line = line(handle);
        for owned in [handle, !handle] {
            // Relaxed: the program must order the free against uses.
            let _ = line.handle.compare_exchange(owned, FREE, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}
