use super::*;

#[test]
fn tokens_are_limited_and_come_back() {
    let tokens = HelperSlots::default();
    assert!(!tokens.try_acquire(0));
    assert!(tokens.try_acquire(2) && tokens.try_acquire(2));
    assert!(!tokens.try_acquire(2));
    assert_eq!(tokens.taken(), 2);
    tokens.release();
    assert!(!tokens.try_acquire(1), "a lower limit counts what others hold");
    assert!(tokens.try_acquire(2));
}
