use super::*;

#[test]
fn chunks_are_claimed_in_order_and_counted_once() {
    let claims = Claims::new(3);
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
    let claims = Claims::new(5);
    assert_eq!(claims.claim(), Some(0));
    assert!(!claims.abandon() && !claims.is_settled());
    assert!(!claims.abandon(), "nothing is left to abandon");
    assert_eq!(claims.claim(), None);
    assert!(claims.settle() && claims.is_settled());
    let untouched = Claims::new(4);
    assert!(untouched.abandon() && untouched.is_settled());
}

#[test]
fn a_job_of_no_chunks_is_settled() {
    let claims = Claims::new(0);
    assert!(claims.is_settled() && !claims.has_unclaimed() && claims.claim().is_none());
    assert!(!claims.abandon());
}
