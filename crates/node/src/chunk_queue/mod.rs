//! `ChunkQueue`: work divided in numbered chunks that several threads take, and the count that
//! tells when all of it is over.
//!
//! A copy job (chai-2009, chapter 5) is divided so that the helper that copies and the rank that
//! waits can share it. Whoever wants work *claims* the next chunk; whoever is through with a chunk
//! *settles* it, whatever came of it. To stop, somebody *abandons* the chunks that nobody has
//! claimed: they count as settled at once, claimed ones when their claimants are through. So "all
//! settled" means that nobody touches the job's memory any more.
//!
//! | who | writes |
//! |---|---|
//! | a claimant | `next`, once for each chunk; `settled` after its last access to the chunk's memory |
//! | who abandons | `next` to the end, once; `settled` by as many chunks as that skipped |

mod job;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

pub use job::{ChunkedJob, Notify};

use crate::sync::{AtomicU32, Ordering};

/// Which chunks of a job are taken, and how many are over.
#[derive(Debug)]
pub struct ChunkQueue {
    total: u32,
    next: AtomicU32,
    settled: AtomicU32,
}

impl ChunkQueue {
    /// A job of `total` chunks, numbered from 0. A job of none is settled from the start.
    pub fn new(total: u32) -> ChunkQueue {
        ChunkQueue {
            total,
            next: AtomicU32::new(0),
            settled: AtomicU32::new(0),
        }
    }

    /// Number of chunks.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Takes the next chunk, which is then nobody else's; `None` when all are taken or abandoned.
    /// Every chunk taken must be [settled](ChunkQueue::settle).
    #[inline]
    pub fn claim(&self) -> Option<u32> {
        // Relaxed: the number alone decides who has the chunk; what the job is came to the claimant
        // with the job itself.
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

    /// Says that the caller is through with a chunk that it claimed. True for the one call that
    /// settles the job.
    #[inline]
    pub fn settle(&self) -> bool {
        self.add_settled(1)
    }

    /// Takes all chunks that nobody has claimed, and settles them undone. True if that settles the
    /// job.
    pub fn abandon(&self) -> bool {
        let first = self.next.swap(self.total, Ordering::Relaxed);
        let skipped = self.total - first;
        skipped > 0 && self.add_settled(skipped)
    }

    fn add_settled(&self, chunks: u32) -> bool {
        // SYNC settled: pairs with the load in `is_settled`. Release: what the claimant did to the
        // chunk's memory comes before. The additions form one release sequence, so that who reads
        // the last sees the work of all. Acquire: the one who settles the job, and tells others,
        // has seen it too.
        self.settled.fetch_add(chunks, Ordering::AcqRel) + chunks == self.total
    }

    /// True when every chunk is settled: the work of all claimants is visible, and none touches the
    /// job's memory again.
    #[inline]
    pub fn is_settled(&self) -> bool {
        // SYNC settled
        self.settled.load(Ordering::Acquire) == self.total
    }
}
