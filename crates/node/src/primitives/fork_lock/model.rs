//! loom models: one thread at a time has the value, none sleeps for ever, and both sides of a fork
//! continue.

use super::*;
use loom::sync::Arc;
use loom::thread::spawn;

/// The value is loom's cell, which reports two threads inside at once, or a thread that does not
/// see what another has done.
type Counter = ForkLock<loom::cell::UnsafeCell<u32>>;

fn counter() -> Arc<Counter> {
    Arc::new(ForkLock::new(loom::cell::UnsafeCell::new(0)))
}

/// Increments the value and returns it.
fn add(value: &loom::cell::UnsafeCell<u32>) -> u32 {
    // SAFETY: the lock excludes others: the models check this.
    value.with_mut(|value| unsafe {
        *value += 1;
        *value
    })
}

fn bounded(preemptions: usize) -> loom::model::Builder {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model
}

#[test]
fn two_threads_take_turns_more_than_once() {
    bounded(3).check(|| {
        let lock = counter();
        let theirs = lock.clone();
        let peer = spawn(move || {
            for _ in 0..2 {
                add(&theirs.lock());
            }
        });
        for _ in 0..2 {
            let guard = lock.lock();
            assert!(lock.is_mine());
            add(&guard);
        }
        assert!(!lock.is_mine());
        peer.join().expect("thread");
        assert_eq!(add(&lock.lock()), 5);
    });
}

/// Two may sleep at once: the one that is woken wakes the other.
#[test]
fn of_three_threads_none_sleeps_for_ever() {
    bounded(3).check(|| {
        let lock = counter();
        let peers = [1, 2].map(|_| {
            let lock = lock.clone();
            spawn(move || {
                add(&lock.lock());
                assert!(!lock.is_mine());
            })
        });
        add(&lock.lock());
        for peer in peers {
            peer.join().expect("thread");
        }
        assert_eq!(add(&lock.lock()), 4);
    });
}

/// `fork`, with another thread that waits for the lock: the child has a copy of the lock at the
/// time of the fork, and releases that copy.
#[test]
fn both_sides_of_a_fork_release_the_lock() {
    bounded(3).check(|| {
        let lock = counter();
        let theirs = lock.clone();
        let contender = spawn(move || add(&theirs.lock()));
        lock.acquire();
        // SAFETY: just acquired; the only reference.
        let value = add(unsafe { lock.value() });
        // A stand-in for the kernel: the memory of the process as the forking thread sees it.
        let state = lock.state.load(Ordering::Relaxed);
        assert!(state == HELD || state == WANTED);
        let child = spawn(move || {
            let copy = ForkLock {
                state: AtomicU32::new(state),
                value: UnsafeCell::new(loom::cell::UnsafeCell::new(value)),
            };
            // SAFETY: acquired by the thread that this one is a copy of; the only reference.
            let value = add(unsafe { copy.value() });
            // SAFETY: as above, and the reference is gone.
            unsafe { copy.release() };
            assert_eq!(add(&copy.lock()), value + 1);
        });
        // SAFETY: acquired above; the reference is gone.
        unsafe { lock.release() };
        assert!(!lock.is_mine());
        contender.join().expect("thread");
        child.join().expect("child");
        assert_eq!(add(&lock.lock()), 3);
    });
}

/// The lock passes from the thread that acquires it to another that releases it, as a fork passes
/// it to the child's thread.
#[test]
fn another_thread_releases_what_one_has_acquired() {
    bounded(3).check(|| {
        let lock = counter();
        let theirs = lock.clone();
        let contender = spawn(move || {
            add(&theirs.lock());
        });
        lock.acquire();
        let theirs = lock.clone();
        let child = spawn(move || {
            // SAFETY: acquired by the thread that has started this one; the only reference.
            add(unsafe { theirs.value() });
            // SAFETY: as above, and the reference is gone.
            unsafe { theirs.release() };
        });
        contender.join().expect("thread");
        child.join().expect("child");
        // SAFETY: all other threads have ended.
        let total = lock.value.with(|value| unsafe { &*value }.with(|value| unsafe { *value }));
        assert_eq!(total, 2);
    });
}
