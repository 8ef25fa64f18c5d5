//! loom models: each chunk has one claimant, and a thread that sees the job settled sees all of its
//! work, abandoned or not.

use super::*;
use crate::sync::UnsafeCell;
use loom::sync::Arc;

struct Job {
    claims: ChunkQueue,
    data: [UnsafeCell<u32>; 2],
}
// SAFETY: the model under test orders the accesses; loom reports a violation.
unsafe impl Sync for Job {}

fn job() -> Arc<Job> {
    Arc::new(Job { claims: ChunkQueue::new(2), data: [UnsafeCell::new(0), UnsafeCell::new(0)] })
}

fn work(job: &Job) -> u32 {
    let mut last = 0;
    while let Some(chunk) = job.claims.claim() {
        // SAFETY: the chunk belongs to this thread until it settles it.
        job.data[chunk as usize].with_mut(|d| unsafe { *d += 1 });
        last += u32::from(job.claims.settle());
    }
    last
}

#[test]
fn a_settled_job_is_done_once_and_seen_whole() {
    loom::model(|| {
        let job = job();
        let theirs = job.clone();
        let helper = loom::thread::spawn(move || work(&theirs));
        let mine = work(&job);
        while !job.claims.is_settled() {
            loom::thread::yield_now();
        }
        for data in &job.data {
            // SAFETY: the job is settled, so no thread writes any more.
            data.with(|d| assert_eq!(unsafe { *d }, 1));
        }
        assert_eq!(mine + helper.join().expect("helper"), 1, "one call settles");
    });
}

#[test]
fn no_worker_touches_memory_after_abandoning() {
    loom::model(|| {
        let job = job();
        let theirs = job.clone();
        let helper = loom::thread::spawn(move || work(&theirs));
        let mine = u32::from(job.claims.abandon());
        while !job.claims.is_settled() {
            loom::thread::yield_now();
        }
        for data in &job.data {
            // SAFETY: as above; loom would report a later write of the helper.
            data.with_mut(|d| unsafe { *d = 7 });
        }
        assert_eq!(mine + helper.join().expect("helper"), 1, "one call settles");
    });
}
