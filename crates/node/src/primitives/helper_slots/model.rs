//! loom model: never more holders than the limit, and no slot is lost.

use super::*;
use loom::sync::Arc;

#[test]
fn holders_stay_within_the_limit() {
    loom::model(|| {
        let shared = Arc::new((HelperSlots(AtomicU32::new(0)), AtomicU32::new(0)));
        let round = |shared: &(HelperSlots, AtomicU32)| {
            if shared.0.try_acquire(1) {
                assert_eq!(shared.1.fetch_add(1, Ordering::Relaxed), 0, "two holders");
                shared.1.fetch_sub(1, Ordering::Relaxed);
                shared.0.release();
            }
        };
        let theirs = shared.clone();
        let other = loom::thread::spawn(move || round(&theirs));
        round(&shared);
        other.join().expect("other");
        assert_eq!(shared.0.taken(), 0);
        assert!(shared.0.try_acquire(1), "the token came back");
    });
}
