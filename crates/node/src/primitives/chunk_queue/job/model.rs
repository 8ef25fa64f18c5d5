//! loom models of a job: it completes once, and its owner is woken and sees all of its work and the
//! first error.

use super::*;
use crate::sync::UnsafeCell;
use loom::thread::{JoinHandle, spawn};
use std::sync::atomic::AtomicU32;

/// A job of [`CHUNKS`] chunks with memory for each.
struct Copy {
    job: ChunkedJob,
    chunks: [UnsafeCell<u32>; CHUNKS],
    /// Calls of `notify`. Not part of the model: a loom atomic would add ordering that the model
    /// must not rely on.
    ends: Arc<AtomicU32>,
}
// SAFETY: the job under test orders the accesses to the chunks; loom reports a violation.
unsafe impl Sync for Copy {}
// SAFETY: as above.
unsafe impl Send for Copy {}

const CHUNKS: usize = 2;

impl Copy {
    fn new() -> Arc<Copy> {
        let ends = Arc::new(AtomicU32::new(0));
        let count = ends.clone();
        let notify: Notify = Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        Arc::new(Copy {
            job: ChunkedJob::new(CHUNKS as u32, Some(notify)),
            chunks: std::array::from_fn(|_| UnsafeCell::new(0)),
            ends,
        })
    }

    /// Copies a chunk, if one is left, as a worker. The chunks in `failing` fail, each with its own
    /// error number. Returns the error that the job has after that, or 0.
    fn copy_chunk(&self, failing: &[u32]) -> Option<i32> {
        let chunk = self.job.claim()?;
        let mut kept = 0;
        // SAFETY: the chunk belongs to this worker until it settles it.
        self.chunks[chunk as usize].with_mut(|bytes| unsafe { *bytes += 1 });
        if failing.contains(&chunk) {
            self.job.stop(errno(chunk));
            kept = self.job.errno.load(Ordering::Relaxed);
            assert!(self.job.is_stopped());
        }
        self.job.settle();
        Some(kept)
    }

    /// Works as the job's owner until the job is complete.
    fn wait(&self, failing: &[u32]) -> Result<(), i32> {
        loop {
            if let Some(outcome) = self.job.outcome() {
                return outcome;
            }
            if self.copy_chunk(failing).is_none() {
                self.job.sleep();
            }
        }
    }

    /// Copies all chunks that it can get, as a helper. Returns the last error that it has seen, or
    /// 0.
    fn help(self: Arc<Copy>, failing: &'static [u32]) -> JoinHandle<i32> {
        spawn(move || {
            let mut last = 0;
            while let Some(errno) = self.copy_chunk(failing) {
                last = errno;
            }
            last
        })
    }

    /// Reuses the memory of the job, as its owner may when the job is complete. Returns the
    /// previous contents.
    fn reuse(&self) -> [u32; CHUNKS] {
        std::array::from_fn(|chunk| {
            // SAFETY: the job is settled: the models check this.
            self.chunks[chunk].with_mut(|bytes| unsafe { std::mem::replace(&mut *bytes, 9) })
        })
    }
}

fn errno(chunk: u32) -> i32 {
    10 + chunk as i32
}

fn bounded() -> loom::model::Builder {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model
}

/// A helper and the owner copy; the chunks in `failing` fail. Passes the owner's results to
/// `check`.
fn run(failing: &'static [u32], check: fn(Result<(), i32>, [u32; CHUNKS])) {
    bounded().check(move || {
        let copy = Copy::new();
        let helper = copy.clone().help(failing);
        let outcome = copy.wait(failing);
        check(outcome, copy.reuse());
        let seen = helper.join().expect("helper");
        assert!(seen == 0 || outcome == Err(seen), "the first error stays");
        assert_eq!(copy.ends.load(Ordering::Relaxed), 1, "one notification");
        assert_eq!(copy.job.outcome(), Some(outcome), "the outcome is final");
    });
}

#[test]
fn an_owner_sees_the_work_of_all() {
    run(&[], |outcome, chunks| {
        assert_eq!((outcome, chunks), (Ok(()), [1, 1]));
    });
}

#[test]
fn a_chunk_that_fails_ends_the_job() {
    run(&[0], |outcome, chunks| {
        assert_eq!((outcome, chunks[0]), (Err(errno(0)), 1));
        assert!(chunks[1] <= 1, "it may have been abandoned");
    });
}

/// Both chunks may fail at once.
#[test]
fn of_two_errors_the_first_is_kept() {
    run(&[0, 1], |outcome, _| {
        assert!(outcome == Err(errno(0)) || outcome == Err(errno(1)));
    });
}

/// The owner drops the job: it stops the job, and may reuse the memory when the helper has
/// finished.
#[test]
fn a_dropped_job_leaves_its_memory_alone() {
    bounded().check(|| {
        let copy = Copy::new();
        let helper = copy.clone().help(&[]);
        copy.job.stop(99);
        while !copy.job.is_settled() {
            copy.job.sleep();
        }
        assert!(copy.reuse().iter().all(|&bytes| bytes <= 1));
        assert_eq!(copy.job.outcome(), Some(Err(99)));
        helper.join().expect("helper");
        assert_eq!(copy.ends.load(Ordering::Relaxed), 1, "one notification");
    });
}
