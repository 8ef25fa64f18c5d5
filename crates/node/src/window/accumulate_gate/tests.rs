use crate::lock::{OneThreadAtATime, ThreadMode};
use crate::window::accumulate_gate::AccumulateGate;
use crate::window::accumulate_lock::AccumulateLock;
use crate::window::forked;
use crate::window::lock::words::OriginLine;
use std::sync::atomic::{AtomicU64, Ordering};

const RANKS: usize = 6;
const OPERATION_SLOTS: u64 = if cfg!(miri) { 20 } else { 5000 };

/// A gate, and the elements behind it. Valid when zeroed.
struct Shared {
    lock: AccumulateLock,
    origins: [OriginLine; RANKS],
    elements: [AtomicU64; 4],
}

impl Shared {
    fn new() -> Shared {
        Shared {
            lock: AccumulateLock::new(),
            origins: std::array::from_fn(|_| OriginLine::new()),
            elements: Default::default(),
        }
    }

    fn update(&self, me: u32) {
        let gate = AccumulateGate::new(&self.lock, &self.origins);
        for turn in 0..OPERATION_SLOTS {
            if (turn + u64::from(me)).is_multiple_of(5) {
                let _update = gate.locked(me);
                for element in &self.elements {
                    let value = element.load(Ordering::Relaxed);
                    if turn % 64 == 0 {
                        // Long enough for others to begin an update.
                        std::thread::yield_now();
                    }
                    element.store(value + 1, Ordering::Relaxed);
                }
            } else {
                let _update = gate.atomic(me);
                for element in &self.elements {
                    element.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn check(&self) {
        for element in &self.elements {
            assert_eq!(element.load(Ordering::Relaxed), RANKS as u64 * OPERATION_SLOTS);
        }
        assert_eq!(self.lock.holder(), None);
    }
}

/// Each rank in a thread.
fn in_threads(update: impl Fn(u32) + Sync) {
    std::thread::scope(|scope| {
        for me in 0..RANKS as u32 {
            let update = &update;
            scope.spawn(move || update(me));
        }
    });
}

/// Each rank in a process.
fn in_processes(update: impl Fn(u32)) {
    let ranks: Vec<_> = (0..RANKS as u32).map(|me| forked::fork(|| update(me))).collect();
    forked::join(&ranks);
}

#[test]
fn no_update_of_several_threads_is_lost() {
    let shared = Shared::new();
    in_threads(|me| shared.update(me));
    shared.check();
}

#[test]
fn threads_of_one_rank_update_at_once() {
    let shared = Shared::new();
    std::thread::scope(|scope| {
        for _ in 0..RANKS {
            scope.spawn(|| shared.update(2));
        }
    });
    shared.check();
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no fork")]
fn no_update_of_several_processes_is_lost() {
    // SAFETY: all of it is valid when zeroed, as its documentation says.
    let shared: &'static Shared = unsafe { forked::shared() };
    in_processes(|me| shared.update(me));
    shared.check();
}

/// Targets of which each has its first locked update in the midst of atomic ones. Valid when
/// zeroed.
struct ManyTargets([(AccumulateLock, [OriginLine; RANKS], AtomicU64); TARGETS]);

const TARGETS: usize = if cfg!(miri) { 2 } else { 500 };
const BRIEF_UPDATES: u64 = 40;

impl ManyTargets {
    /// A rank of one thread: atomic updates, and one locked update after some of them.
    fn update(&self, me: u32) {
        let mode = ThreadMode::new();
        // SAFETY: only this thread uses the mode.
        mode.elide(unsafe { OneThreadAtATime::promised() });
        for (number, (lock, origins, element)) in self.0.iter().enumerate() {
            let gate = AccumulateGate::new(lock, origins);
            let first = (number as u64 * 7 + u64::from(me) * 11) % BRIEF_UPDATES;
            for turn in 0..BRIEF_UPDATES {
                if turn == first {
                    let _update = gate.locked(me);
                    let value = element.load(Ordering::Relaxed);
                    std::thread::yield_now();
                    element.store(value + 1, Ordering::Relaxed);
                }
                let alone = mode.sole().expect("elided");
                let sole = gate.own(me).atomic(&alone);
                let _counted = sole.is_none().then(|| gate.atomic(me));
                element.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn check(&self) {
        for (lock, _, element) in &self.0 {
            let updates = RANKS as u64 * (BRIEF_UPDATES + 1);
            assert_eq!(element.load(Ordering::Relaxed), updates);
            assert_eq!(lock.holder(), None);
        }
    }
}

#[test]
fn the_first_locked_update_excludes_atomic_ones_without_fences() {
    let targets = std::array::from_fn(|_| {
        let origins = std::array::from_fn(|_| OriginLine::new());
        (AccumulateLock::new(), origins, AtomicU64::new(0))
    });
    let shared = Box::new(ManyTargets(targets));
    in_threads(|me| shared.update(me));
    shared.check();
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no fork")]
fn the_first_locked_update_excludes_atomic_ones_of_other_processes() {
    // SAFETY: all of it is valid when zeroed, as its documentation says.
    let shared: &'static ManyTargets = unsafe { forked::shared() };
    in_processes(|me| shared.update(me));
    shared.check();
}

#[test]
fn locked_waits_for_a_atomic_update_in_progress() {
    let mode = ThreadMode::new();
    // SAFETY: only this thread uses the mode.
    mode.elide(unsafe { OneThreadAtATime::promised() });
    let alone = mode.sole().expect("elided");
    locked_waits_for(|gate| gate.atomic(1));
    locked_waits_for(|gate| gate.own(1).atomic(&alone).expect("no locked update yet"));
}

fn locked_waits_for<B>(atomic: impl FnOnce(AccumulateGate<'static>) -> B) {
    let shared: &'static Shared = Box::leak(Box::new(Shared::new()));
    let gate = AccumulateGate::new(&shared.lock, &shared.origins);
    let atomic = atomic(gate);
    std::thread::scope(|scope| {
        let locked = scope.spawn(|| {
            let _update = gate.locked(0);
            assert_eq!(shared.elements[0].load(Ordering::Relaxed), 7);
        });
        while gate.holder() != Some(0) {
            std::thread::yield_now();
        }
        shared.elements[0].store(7, Ordering::Relaxed);
        drop(atomic);
        locked.join().expect("the locked update sees what the atomic one wrote");
    });
}
