//! loom models: holders exclude one another, and a sleeper is woken.

use crate::sync::UnsafeCell;
use crate::window::AccumulateLock;
use loom::sync::Arc;

struct Shared {
    lock: AccumulateLock,
    sum: UnsafeCell<u32>,
}
// SAFETY: the lock under test orders the accesses; loom reports a violation.
unsafe impl Sync for Shared {}

fn run(ranks: u32, turns: u32, preemptions: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let shared = Arc::new(Shared { lock: AccumulateLock::new(), sum: UnsafeCell::new(0) });
        let add = |me: u32| {
            let shared = shared.clone();
            move || {
                for _ in 0..turns {
                    let _guard = shared.lock.lock(me);
                    // SAFETY: the model checks that no other thread is inside.
                    shared.sum.with_mut(|sum| unsafe { *sum += 1 });
                }
            }
        };
        let others: Vec<_> = (1..ranks).map(|me| loom::thread::spawn(add(me))).collect();
        add(0)();
        for other in others {
            other.join().expect("rank");
        }
        // SAFETY: no other thread is left.
        assert_eq!(shared.sum.with(|sum| unsafe { *sum }), ranks * turns);
        assert_eq!(shared.lock.holder(), None);
    });
}

#[test]
fn two_ranks_exclude_and_wake_over_two_turns() {
    run(2, 2, 3);
}

#[test]
fn three_ranks_exclude_and_wake() {
    run(3, 1, 2);
}
