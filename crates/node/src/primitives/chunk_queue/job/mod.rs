//! `ChunkedJob`: a job that several threads work on in chunks, with its first error, and a place
//! where its owner sleeps until it is complete.
//!
//! The concurrent part of a copy job (`channel`'s `offload`), which adds the description of the
//! copy. [`ChunkQueue`] hands out the chunks.
//!
//! | who | does |
//! |---|---|
//! | a worker (helper, owner or device feeder) | claims a chunk, works on its memory, settles it |
//! | a worker whose chunk fails | stops the job with an error number before it settles the chunk |
//! | the owner that drops the job | stops it, and sleeps until the claimed chunks are settled |
//! | the one call that settles the last chunk | wakes the owner, and calls `notify` |
//!
//! Only the first error number is kept. A worker writes it (Relaxed) before it settles its chunk
//! (Release), so a thread that sees the job settled (Acquire) sees the error, and the work of all.
//! The owner checks whether the job is settled after it has announced that it sleeps
//! ([`ParkingSpot`]), and the last worker checks for that announcement after it has settled, so no
//! wake-up is lost.

#[cfg(all(test, loom))]
mod model;

use super::ChunkQueue;
use crate::park::{Fencing, ParkingSpot};
use crate::sync::{AtomicI32, Ordering, spin_loop};
use std::sync::Arc;
use std::time::Duration;

/// Called when a job is complete.
pub type Notify = Arc<dyn Fn() + Send + Sync>;

/// Polls before the owner sleeps. They take less time than a wake-up.
const POLLS: u32 = if cfg!(loom) { 0 } else { 200 };

/// Maximum of one sleep of the owner.
const NAP: Duration = Duration::from_millis(100);

/// A job in progress, shared by its owner and all threads that work on it.
pub struct ChunkedJob {
    claims: ChunkQueue,
    /// The first error number, 0 if none.
    errno: AtomicI32,
    /// Where the owner sleeps.
    over: ParkingSpot,
    notify: Option<Notify>,
}

impl std::fmt::Debug for ChunkedJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkedJob")
            .field("claims", &self.claims)
            .field("errno", &self.errno)
            .finish_non_exhaustive()
    }
}

impl ChunkedJob {
    /// A job of `chunks` chunks. The call that settles the job calls `notify`, once. A job of no
    /// chunks is settled from the start, and `notify` is not called.
    pub fn new(chunks: u32, notify: Option<Notify>) -> ChunkedJob {
        ChunkedJob {
            claims: ChunkQueue::new(chunks),
            errno: AtomicI32::new(0),
            over: ParkingSpot::default(),
            notify,
        }
    }

    /// Claims a chunk that no worker has. The caller must [settle](Self::settle) it.
    #[inline]
    pub fn claim(&self) -> Option<u32> {
        self.claims.claim()
    }

    /// True while there is a chunk to claim. Only a hint: another thread may take it.
    #[inline]
    pub fn has_unclaimed(&self) -> bool {
        self.claims.has_unclaimed()
    }

    /// True when the job needs no more work: it failed, or its owner has dropped it. A chunk may
    /// then be settled without work.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.errno.load(Ordering::Relaxed) != 0
    }

    /// Settles a chunk that the caller has claimed. The caller must not access its memory any more.
    #[inline]
    pub fn settle(&self) {
        if self.claims.settle() {
            self.announce_end();
        }
    }

    /// Stops handing out chunks, because of the nonzero error number `errno`. To be called by the
    /// owner, or by a worker that has a chunk to settle.
    pub fn stop(&self, errno: i32) {
        // Relaxed: published with the chunks that are settled (SYNC settled).
        let _ = self.errno.compare_exchange(0, errno, Ordering::Relaxed, Ordering::Relaxed);
        if self.claims.abandon() {
            self.announce_end();
        }
    }

    fn announce_end(&self) {
        self.over.wake(Fencing::Sender);
        if let Some(notify) = &self.notify {
            notify();
        }
    }

    /// True when every chunk is settled: no worker accesses the job's memory any more.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.claims.is_settled()
    }

    /// The result of the job, with the first error number; `None` while it is in progress.
    #[inline]
    pub fn outcome(&self) -> Option<Result<(), i32>> {
        if !self.is_settled() {
            return None;
        }
        // Relaxed: see `stop`.
        Some(match self.errno.load(Ordering::Relaxed) {
            0 => Ok(()),
            errno => Err(errno),
        })
    }

    /// For the owner: sleeps until the job is settled or a time limit expires.
    pub fn sleep(&self) {
        for _ in 0..POLLS {
            if self.is_settled() {
                return;
            }
            spin_loop();
        }
        self.over.park(Fencing::Sender, Some(NAP), || self.is_settled());
    }
}
