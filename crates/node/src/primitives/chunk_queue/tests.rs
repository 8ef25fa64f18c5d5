use super::*;

#[test]
fn chunks_are_claimed_in_order_and_counted_once() {
    let claims = ChunkQueue::new(3);
    assert_eq!(claims.claim(), Some(0));
    assert_eq!(claims.claim(), Some(1));
    assert!(!claims.settle() && claims.has_unclaimed());
    assert_eq!(claims.claim(), Some(2));
    assert_eq!(claims.claim(), None);
    assert!(!claims.has_unclaimed() && !claims.settle() && !claims.is_settled());
    assert!(claims.settle(), "the last one settles the job");
    assert!(claims.is_settled());
}

#[test]
fn abandoned_chunks_are_settled_and_claimed_ones_awaited() {
    let claims = ChunkQueue::new(5);
    assert_eq!(claims.claim(), Some(0));
    assert!(!claims.abandon() && !claims.is_settled());
    assert!(!claims.abandon(), "nothing is left to abandon");
    assert_eq!(claims.claim(), None);
    assert!(claims.settle() && claims.is_settled());
    let untouched = ChunkQueue::new(4);
    assert!(untouched.abandon() && untouched.is_settled());
}

#[test]
fn a_job_of_no_chunks_is_settled() {
    let claims = ChunkQueue::new(0);
    assert!(claims.is_settled() && !claims.has_unclaimed() && claims.claim().is_none());
    assert!(!claims.abandon());
}

#[test]
fn the_first_error_stays_and_the_end_is_announced_once() {
    use std::sync::{Arc, Mutex};
    let ends = Arc::new(Mutex::new(0));
    let count = ends.clone();
    let job = ChunkedJob::new(3, Some(Arc::new(move || *count.lock().unwrap() += 1)));
    assert_eq!((job.claim(), job.claim()), (Some(0), Some(1)));
    job.stop(5);
    job.settle();
    assert!(job.is_stopped() && job.outcome().is_none());
    job.stop(7);
    job.settle();
    assert_eq!(job.outcome(), Some(Err(5)));
    job.sleep();
    assert_eq!(*ends.lock().unwrap(), 1);
}
