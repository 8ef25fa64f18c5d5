//! `ChunkedJob`: a job that several threads work on in chunks, with its first error, and a place
//! where its owner sleeps until it is over.
//!
//! The concurrent part of a copy job (`channel`'s `offload`), which adds what is to be copied.
//! [`ChunkQueue`] hands out the chunks.
//!
//! | who | does |
//! |---|---|
//! | a worker (a helper thread, the owner, a device's feeder) | claims a chunk, works on its memory, settles it |
//! | a worker whose chunk fails | stops the job with an error number before it settles the chunk |
//! | the owner that drops the job | stops it, and sleeps until claimed chunks are settled |
//! | the one call that settles the last chunk | wakes the owner, and calls `notify` |
//!
//! Only the first error number is kept. A worker writes it (Relaxed) before it settles its chunk
//! (Release), so a thread that sees the job settled (Acquire) sees it, and the work of all. The
//! owner checks that the job is settled after it has announced that it sleeps ([`ParkingSpot`]),
//! and the last worker looks for that announcement after it has settled: so the wake-up is not
//! lost.

#[cfg(all(test, loom))]
#[path = "job_model.rs"]
mod model;

use super::ChunkQueue;
use crate::park::{Fencing, ParkingSpot};
use crate::sync::{AtomicI32, Ordering, spin_loop};
use std::sync::Arc;
use std::time::Duration;

/// What is called when a job is over.
pub type Notify = Arc<dyn Fn() + Send + Sync>;

/// Polls before the owner sleeps: fewer than a wake-up takes.
const POLLS: u32 = if cfg!(loom) { 0 } else { 200 };

/// The owner sleeps for so long at most.
const NAP: Duration = Duration::from_millis(100);

/// A job under way, shared by its owner and all who work on it.
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
    /// A job of `chunks` chunks; `notify` is called once, by the call that settles it. A job of
    /// none is settled from the start, and `notify` is not called.
    pub fn new(chunks: u32, notify: Option<Notify>) -> ChunkedJob {
        ChunkedJob {
            claims: ChunkQueue::new(chunks),
            errno: AtomicI32::new(0),
            over: ParkingSpot::default(),
            notify,
        }
    }

    /// Takes a chunk that no worker has. It must be [settled](Self::settle).
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
    /// then be settled undone.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.errno.load(Ordering::Relaxed) != 0
    }

    /// Says that the caller is through with a chunk it claimed, and touches its memory no more.
    #[inline]
    pub fn settle(&self) {
        if self.claims.settle() {
            self.announce_end();
        }
    }

    /// Hands out no more chunks, because of `errno`, which is not 0. To be called by the owner, or
    /// by a worker that has a chunk to settle.
    pub fn stop(&self, errno: i32) {
        // Relaxed: published with the chunks that are settled (SYNC settled).
        let _ = self
            .errno
            .compare_exchange(0, errno, Ordering::Relaxed, Ordering::Relaxed);
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

    /// True when every chunk is settled: no worker touches the job's memory any more.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.claims.is_settled()
    }

    /// How the job ended, with the first error number; `None` while it has not.
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

    /// The owner's part: sleeps until the job is settled, or for a while.
    pub fn sleep(&self) {
        for _ in 0..POLLS {
            if self.is_settled() {
                return;
            }
            spin_loop();
        }
        self.over
            .park(Fencing::Sender, Some(NAP), || self.is_settled());
    }
}
