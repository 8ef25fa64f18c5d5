use crate::window::AccumulateLock;
use crate::window::forked;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const RANKS: u32 = 6;
const TURNS: u64 = if cfg!(miri) { 20 } else { 5000 };

/// A lock, and what it protects. Valid when zeroed.
struct Shared {
    lock: AccumulateLock,
    sum: AtomicU64,
    is_held: AtomicU32,
}

impl Shared {
    fn new() -> Shared {
        Shared { lock: AccumulateLock::new(), sum: AtomicU64::new(0), is_held: AtomicU32::new(0) }
    }

    fn add(&self, me: u32) {
        for turn in 0..TURNS {
            let _guard = self.lock.lock(me);
            let sum = self.sum.load(Ordering::Relaxed);
            if turn % 64 == 0 {
                // Long enough for others to fall asleep.
                std::thread::yield_now();
            }
            self.sum.store(sum + 1, Ordering::Relaxed);
        }
    }

    fn check(&self) {
        let sum = self.sum.load(Ordering::Relaxed);
        assert_eq!(sum, u64::from(RANKS) * TURNS);
        assert_eq!(self.lock.holder(), None);
    }
}

#[test]
fn threads_exclude_one_another() {
    let shared = Shared::new();
    std::thread::scope(|scope| {
        for me in 0..RANKS {
            let shared = &shared;
            scope.spawn(move || shared.add(me));
        }
    });
    shared.check();
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no fork")]
fn processes_exclude_one_another() {
    // SAFETY: all of it is valid when zeroed, as its documentation says.
    let shared: &'static Shared = unsafe { forked::shared() };
    let ranks: Vec<_> = (0..RANKS).map(|me| forked::fork(|| shared.add(me))).collect();
    forked::join(&ranks);
    shared.check();
}

#[test]
fn a_sleeper_is_woken() {
    let shared = Shared::new();
    std::thread::scope(|scope| {
        let guard = shared.lock.lock(3);
        let sleeper = scope.spawn(|| drop(shared.lock.lock(4)));
        // Time to fall asleep; nothing depends on it.
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(shared.lock.holder(), Some(3));
        drop(guard);
        sleeper.join().expect("sleeper");
    });
    assert_eq!(shared.lock.holder(), None);
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no fork")]
fn names_a_holder_that_was_killed() {
    // SAFETY: as above.
    let shared: &'static Shared = unsafe { forked::shared() };
    let child = forked::fork(|| {
        let _guard = shared.lock.lock(4);
        shared.is_held.store(1, Ordering::Release);
        loop {
            // SAFETY: sleeps until it is killed.
            unsafe { libc::pause() };
        }
    });
    while shared.is_held.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    forked::kill(child);
    assert_eq!(shared.lock.holder(), Some(4));
}
