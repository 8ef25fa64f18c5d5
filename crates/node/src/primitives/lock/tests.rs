use super::*;

#[test]
fn threads_take_turns() {
    const OPERATION_SLOTS: u64 = if cfg!(miri) { 100 } else { 10_000 };
    let lock = ThreadLock::new(0u64);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..OPERATION_SLOTS).for_each(|_| *lock.lock() += 1));
        }
    });
    assert_eq!(*lock.lock(), 4 * OPERATION_SLOTS);
}

#[test]
fn an_elided_lock_still_gives_access() {
    let lock = ThreadLock::new(1);
    // SAFETY: one thread only.
    lock.elide(unsafe { OneThreadAtATime::promised() });
    *lock.lock() += 1;
    lock.share();
    assert_eq!(*lock.lock(), 2);
}

#[test]
fn sharing_waits_until_a_guard_without_the_mutex_is_dropped() {
    use std::sync::atomic::AtomicBool;
    let lock = ThreadLock::new(0);
    // SAFETY: the other thread enters only after `share`.
    lock.elide(unsafe { OneThreadAtATime::promised() });
    let mut guard = lock.lock();
    if guard.is_shared() {
        return eprintln!("skipped: membarrier is refused here, so the mutex stays in force");
    }
    let is_shared = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            lock.share();
            is_shared.store(true, Ordering::SeqCst);
            assert_eq!(*lock.lock(), 1);
        });
        while !lock.is_shared() {
            std::thread::yield_now();
        }
        // Enough time for `share` to return if it did not wait.
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!is_shared.load(Ordering::SeqCst), "a guard is held");
        *guard = 1;
        drop(guard);
    });
    assert!(lock.lock().is_shared());
}
