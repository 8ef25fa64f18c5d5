//! Copy jobs: what is to be copied, divided into chunks, and its progress.
//!
//! **Memory.** A job accesses this process's memory only through [`View`]s, so the promise of
//! [`Region::user`](mica_memory::Region::user) covers it: the bytes stay valid, and nothing else
//! touches those that are written, until the operation completes. The operation that started a job
//! completes only when its [`Cookie`](super::Cookie) reports so or is gone: until then another
//! thread or a device may touch the memory. The job itself keeps our own blocks alive. Source and
//! destination must not overlap.
//!
//! **Chunks.** Each has `CHUNK` bytes and is claimed through [`ChunkedJob`] by the helper thread,
//! by the waiting rank, or for the device. A chunk that fails records its error number, abandons
//! the unclaimed chunks, and is settled like any other.

use super::error::CopyError;
use super::fork;
use super::peer::{PeerCopyDirection, PeerMemory};
use mica_memory::View;
use mica_node::chunk_queue::ChunkedJob;
use std::ops::Range;
use std::sync::Arc;

pub use mica_node::chunk_queue::Notify;

/// Bytes of a chunk: some 10 us of copying, so that polling a job stays short and a helper can stop
/// soon.
pub(super) const CHUNK: usize = 128 << 10;

/// Bytes to copy: `icopy` (chai-2009, Table 5.1), `iread` or `iwrite` (Table 5.2), depending on
/// where the two sides lie.
#[derive(Debug, Clone)]
pub struct CopyJob {
    sides: JobSides,
    bytes: usize,
}

#[derive(Debug, Clone)]
enum JobSides {
    /// Both in this address space: our own buffers, or a window onto a peer's memory.
    Own {
        from: View,
        to: View,
    },
    Read {
        from: PeerMemory,
        to: View,
    },
    Write {
        from: View,
        to: PeerMemory,
    },
}

impl CopyJob {
    /// Copies the first `bytes` bytes of `from` to `to`, both in this process's address space. This
    /// includes a window through which a peer's memory is mapped here.
    ///
    /// # Panics
    /// If one of them is shorter than `bytes`.
    pub fn copy(from: View, to: View, bytes: usize) -> CopyJob {
        CopyJob::new(from.len().min(to.len()), bytes, JobSides::Own { from, to })
    }

    /// Copies the first `bytes` bytes of a peer's memory `from` to `to`. If the peer's memory is
    /// shorter the job fails.
    ///
    /// # Panics
    /// If `to` is shorter than `bytes`.
    pub fn read(from: PeerMemory, to: View, bytes: usize) -> CopyJob {
        CopyJob::new(to.len(), bytes, JobSides::Read { from, to })
    }

    /// Copies the first `bytes` bytes of `from` to a peer's memory `to`. If the peer's memory is
    /// shorter the job fails.
    ///
    /// # Panics
    /// If `from` is shorter than `bytes`.
    pub fn write(from: View, to: PeerMemory, bytes: usize) -> CopyJob {
        CopyJob::new(from.len(), bytes, JobSides::Write { from, to })
    }

    /// A job whose sides in this process have `own` bytes. What a peer announces of its memory is
    /// not an invariant of this process, so it is not asserted.
    fn new(own: usize, bytes: usize, sides: JobSides) -> CopyJob {
        assert!(bytes <= own, "a copy of {bytes} bytes of a view of {own}");
        CopyJob { sides, bytes }
    }

    /// Bytes to copy.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if both sides are in this process's address space, where a device can reach them.
    pub fn is_own_memory(&self) -> bool {
        matches!(self.sides, JobSides::Own { .. })
    }

    /// Copies one part with the CPU.
    fn copy_part(&self, part: Range<usize>) -> Result<(), i32> {
        let (at, bytes) = (part.start, part.len());
        match &self.sides {
            JobSides::Own { from, to } => {
                copy_own(from, to, at, bytes);
                Ok(())
            }
            JobSides::Read { from, to } => {
                from.transfer(PeerCopyDirection::FromPeer, at, to.runs(at), bytes)
            }
            JobSides::Write { from, to } => {
                to.transfer(PeerCopyDirection::ToPeer, at, from.runs(at), bytes)
            }
        }
    }

    /// The first stretch of `part` that is contiguous on both sides: source and destination
    /// address, and length. `None` unless both sides are in this address space.
    pub(super) fn stretch(&self, part: Range<usize>) -> Option<(usize, usize, usize)> {
        let JobSides::Own { from, to } = &self.sides else {
            return None;
        };
        let (source, target) = (from.runs(part.start).next()?, to.runs(part.start).next()?);
        let len = part.len().min(source.len).min(target.len);
        Some((source.address, target.address, len))
    }
}

/// Copies `bytes` bytes from position `at` on between two messages in this address space.
fn copy_own(from: &View, to: &View, at: usize, bytes: usize) {
    match (from.as_contiguous(), to.as_contiguous()) {
        // SAFETY: the destination promises `at + bytes` bytes, disjoint from the source's by the
        // job's contract.
        (_, Some((address, _))) => unsafe {
            let target = std::ptr::with_exposed_provenance_mut::<u8>(address);
            from.pack_into(at, target.wrapping_add(at), bytes);
        },
        // SAFETY: as above, with the sides exchanged.
        (Some((address, _)), None) => unsafe {
            let source = std::ptr::with_exposed_provenance::<u8>(address);
            to.unpack_from(at, source.wrapping_add(at), bytes);
        },
        (None, None) => {
            let mut done = 0;
            for run in from.runs(at) {
                let len = run.len.min(bytes - done);
                let source = std::ptr::with_exposed_provenance(run.address);
                // SAFETY: the run's bytes are promised by `from`, and disjoint from the
                // destination's.
                unsafe { to.unpack_from(at + done, source, len) };
                done += len;
                if done == bytes {
                    break;
                }
            }
        }
    }
}

/// A job under way, shared by its cookie and its workers.
pub(super) struct OffloadJob {
    pub(super) plan: CopyJob,
    chunks: ChunkedJob,
    /// Fork generation of the process that owns the memory.
    generation: u32,
}

impl std::fmt::Debug for OffloadJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("plan", &self.plan)
            .field("chunks", &self.chunks)
            .finish_non_exhaustive()
    }
}

/// A claimed chunk: the range of message positions that it covers.
pub(super) type Chunk = Range<usize>;

impl OffloadJob {
    pub(super) fn new(plan: CopyJob, notify: Option<Notify>) -> Arc<OffloadJob> {
        let chunks = u32::try_from(plan.bytes.div_ceil(CHUNK)).expect("fewer than 2^32 chunks");
        Arc::new(OffloadJob {
            plan,
            chunks: ChunkedJob::new(chunks, notify),
            generation: fork::generation(),
        })
    }

    /// Claims a chunk. The caller must settle it.
    pub(super) fn claim(&self) -> Option<Chunk> {
        let start = self.chunks.claim()? as usize * CHUNK;
        Some(start..self.plan.bytes.min(start + CHUNK))
    }

    pub(super) fn has_unclaimed(&self) -> bool {
        self.chunks.has_unclaimed()
    }

    /// True if the job needs no more bytes, because it failed or its cookie is gone. A chunk may
    /// then be settled without being copied.
    pub(super) fn is_stopped(&self) -> bool {
        self.chunks.is_stopped()
    }

    /// Copies `part` of a claimed chunk with the CPU; a failure stops the job.
    pub(super) fn copy_part(&self, part: Chunk) {
        if let Err(errno) = self.plan.copy_part(part) {
            self.stop(errno);
        }
    }

    /// Settles a chunk that the caller claimed: the caller no longer touches its memory.
    pub(super) fn settle(&self) {
        self.chunks.settle();
    }

    /// Hands out no more chunks, because of `errno`.
    pub(super) fn stop(&self, errno: i32) {
        self.chunks.stop(errno);
    }

    /// Claims and copies one chunk with the CPU; false if there is none left.
    pub(super) fn copy_chunk(&self) -> bool {
        let Some(chunk) = self.claim() else {
            return false;
        };
        self.copy_part(chunk);
        self.settle();
        true
    }

    pub(super) fn is_settled(&self) -> bool {
        self.chunks.is_settled()
    }

    /// The result of the job; `None` while it is not complete.
    pub(super) fn outcome(&self) -> Option<Result<(), CopyError>> {
        let outcome = self.chunks.outcome()?;
        Some(outcome.map_err(|errno| CopyError::Kernel {
            errno,
            bytes: self.plan.bytes,
            pid: match &self.plan.sides {
                JobSides::Own { .. } => None,
                JobSides::Read { from, .. } => Some(from.pid()),
                JobSides::Write { to, .. } => Some(to.pid()),
            },
        }))
    }

    /// False in a child that was forked after the job was started: its threads and devices belong
    /// to the parent.
    pub(super) fn is_ours(&self) -> bool {
        self.generation == fork::generation()
    }

    /// Sleeps until the job is settled, or for a limited time.
    pub(super) fn sleep(&self) {
        self.chunks.sleep();
    }
}
