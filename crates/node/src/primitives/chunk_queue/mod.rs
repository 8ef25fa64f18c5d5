//! `ChunkQueue`: work divided into numbered chunks that several threads claim, and a count that
//! shows when all of it is complete.
//!
//! A copy job (chai-2009, chapter 5) is divided so that the helper that copies and the rank that
//! waits can share it. A thread *claims* the next chunk, and *settles* it when it has finished with
//! it, whatever the result. To stop the job, a thread *abandons* the unclaimed chunks: they count
//! as settled at once, and claimed ones when their claimants have finished. So "all settled" means
//! that no thread accesses the job's memory any more.
//!
//! | who | writes |
//! |---|---|
//! | a claimant | `next`, once per chunk; `settled`, after its last access to the chunk's memory |
//! | an abandoning thread | `next`, once, to the end; `settled`, by the number of chunks skipped |

mod job;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

pub use job::{ChunkedJob, Notify};

use crate::sync::{AtomicU32, Ordering};

/// Which chunks of a job are claimed, and how many are settled.
#[derive(Debug)]
pub struct ChunkQueue {
    total: u32,
    next: AtomicU32,
    settled: AtomicU32,
}

impl ChunkQueue {
    /// A job of `total` chunks, numbered from 0. A job of no chunks is settled from the start.
    pub fn new(total: u32) -> ChunkQueue {
        ChunkQueue { total, next: AtomicU32::new(0), settled: AtomicU32::new(0) }
    }

    /// Number of chunks.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Claims the next chunk for the caller alone; `None` when all are claimed or abandoned. Every
    /// claimed chunk must be [settled](ChunkQueue::settle).
    #[inline]
    pub fn claim(&self) -> Option<u32> {
        // Relaxed: the number alone determines which claimant has the chunk; the job's description
        // reached the claimant with the job itself.
        self.next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                (next < self.total).then_some(next + 1)
            })
            .ok()
    }

    /// True while there is a chunk to claim. Only a hint: another thread may take it.
    #[inline]
    pub fn has_unclaimed(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.total
    }

    /// Settles a chunk that the caller has claimed. Returns true for the one call that settles the
    /// job.
    #[inline]
    pub fn settle(&self) -> bool {
        self.add_settled(1)
    }

    /// Claims all unclaimed chunks, and settles them without work. Returns true if that settles the
    /// job.
    pub fn abandon(&self) -> bool {
        let first = self.next.swap(self.total, Ordering::Relaxed);
        let skipped = self.total - first;
        skipped > 0 && self.add_settled(skipped)
    }

    fn add_settled(&self, chunks: u32) -> bool {
        // SYNC settled: pairs with the load in `is_settled`. Release: the claimant's accesses to
        // the chunk's memory happened before. The additions form one release sequence, so that a
        // thread that reads the last sees the work of all. Acquire: the thread that settles the
        // job, and announces it, has seen it too.
        self.settled.fetch_add(chunks, Ordering::AcqRel) + chunks == self.total
    }

    /// True when every chunk is settled: the work of all claimants is visible, and none accesses
    /// the job's memory again.
    #[inline]
    pub fn is_settled(&self) -> bool {
        // SYNC settled
        self.settled.load(Ordering::Acquire) == self.total
    }
}
