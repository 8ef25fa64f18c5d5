use super::*;
use loom::sync::Arc;
use loom::thread;

/// The promise ends while its thread is inside or about to enter: two threads are never inside
/// (loom's cell reports it).
#[test]
fn sharing_waits_for_the_thread_that_is_inside() {
    loom::model(|| {
        let lock = Arc::new(ThreadLock::new(loom::cell::UnsafeCell::new(0)));
        // SAFETY: the other thread enters only after `share`.
        lock.elide(unsafe { OneThreadAtATime::promised() });
        let add = |lock: &ThreadLock<loom::cell::UnsafeCell<i32>>| {
            let guard = lock.lock();
            // SAFETY: the guard excludes others: the model checks this.
            guard.with_mut(|value| unsafe { *value += 1 });
        };
        let theirs = lock.clone();
        let second = thread::spawn(move || {
            theirs.share();
            add(&theirs);
        });
        add(&lock);
        add(&lock);
        second.join().expect("thread");
        // SAFETY: no other thread is left.
        let total = lock.lock().with(|value| unsafe { *value });
        assert_eq!(total, 3);
    });
}

/// The same for leaf sections, one after another.
#[test]
fn sharing_waits_for_a_leaf_section() {
    loom::model(|| {
        let mode = Arc::new(ThreadMode::new());
        // SAFETY: the other thread is inside only after `share`.
        mode.elide(unsafe { OneThreadAtATime::promised() });
        let inside = Arc::new(loom::cell::UnsafeCell::new(0));
        let (their_mode, theirs) = (mode.clone(), inside.clone());
        let second = thread::spawn(move || {
            their_mode.share();
            assert!(their_mode.leaf().is_none());
            // SAFETY: `share` has waited for the section to end: the model checks this.
            theirs.with_mut(|value| unsafe { *value += 1 });
        });
        for _ in 0..2 {
            if let Some(_leaf) = mode.leaf() {
                // SAFETY: as above.
                inside.with_mut(|value| unsafe { *value += 1 });
            }
        }
        second.join().expect("thread");
    });
}

/// Leaving a nested section does not end the outer one.
#[test]
fn an_inner_section_leaves_the_outer_one_in_force() {
    loom::model(|| {
        let mode = Arc::new(ThreadMode::new());
        // SAFETY: the other thread is inside only after `share`.
        mode.elide(unsafe { OneThreadAtATime::promised() });
        let inside = Arc::new(loom::cell::UnsafeCell::new(0));
        let (their_mode, theirs) = (mode.clone(), inside.clone());
        let second = thread::spawn(move || {
            their_mode.share();
            assert!(their_mode.sole().is_none());
            // SAFETY: `share` has waited for the section to end: the model checks this.
            theirs.with_mut(|value| unsafe { *value += 1 });
        });
        if let Some(_outer) = mode.sole() {
            drop(mode.sole());
            // SAFETY: as above.
            inside.with_mut(|value| unsafe { *value += 1 });
        }
        second.join().expect("thread");
    });
}
