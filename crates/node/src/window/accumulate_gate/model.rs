//! The gate under loom: a bulk update is alone; brief ones see what it wrote, and it what they
//! wrote.

use crate::lock::{OneThreadAtATime, ThreadMode};
use crate::sync::{AtomicU32, Ordering, UnsafeCell};
use crate::window::accumulate_gate::AccumulateGate;
use crate::window::accumulate_lock::AccumulateLock;
use crate::window::lock::words::OriginLine;
use loom::sync::Arc;

const RANKS: usize = 3;

struct Shared {
    lock: AccumulateLock,
    origins: [OriginLine; RANKS],
    /// What bulk updates change by plain loads and stores.
    plain: UnsafeCell<u32>,
    /// What brief updates change by atomics, and bulk updates in two steps.
    element: AtomicU32,
}
// SAFETY: the gate under test orders the accesses; loom reports a violation.
unsafe impl Sync for Shared {}

#[derive(Clone, Copy)]
enum Update {
    Brief,
    /// By the only thread of a rank.
    Alone,
    Bulk,
}
use Update::{Alone, Brief, Bulk};

fn run(updates: &'static [&'static [Update]], preemptions: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let shared = Arc::new(Shared {
            lock: AccumulateLock::new(),
            origins: std::array::from_fn(|_| OriginLine::new()),
            plain: UnsafeCell::new(0),
            element: AtomicU32::new(0),
        });
        let act = |rank: usize| {
            let shared = shared.clone();
            move || {
                let gate = AccumulateGate::new(&shared.lock, &shared.origins);
                for update in updates[rank] {
                    match update {
                        Brief => {
                            let _update = gate.brief(rank as u32);
                            // SAFETY: the model checks that no bulk update is in progress.
                            shared.plain.with(|plain| unsafe { *plain });
                            shared.element.fetch_add(1, Ordering::Relaxed);
                        }
                        Alone => {
                            let mode = ThreadMode::new();
                            // SAFETY: only this thread uses the mode.
                            mode.elide(unsafe { OneThreadAtATime::promised() });
                            let alone = mode.sole().expect("elided");
                            let sole = gate.own(rank as u32).brief(&alone);
                            let _counted = sole.is_none().then(|| gate.brief(rank as u32));
                            // SAFETY: the model checks that no bulk update is in progress.
                            shared.plain.with(|plain| unsafe { *plain });
                            shared.element.fetch_add(1, Ordering::Relaxed);
                        }
                        Bulk => {
                            let _update = gate.bulk(rank as u32);
                            // SAFETY: the model checks that no other update is in progress.
                            shared.plain.with_mut(|plain| unsafe { *plain += 1 });
                            let element = shared.element.load(Ordering::Relaxed);
                            shared.element.store(element + 1, Ordering::Relaxed);
                        }
                    }
                }
            }
        };
        let others: Vec<_> =
            (1..updates.len()).map(|rank| loom::thread::spawn(act(rank))).collect();
        act(0)();
        for other in others {
            other.join().expect("rank");
        }
        let all = updates.iter().map(|updates| updates.len()).sum::<usize>();
        assert_eq!(shared.element.load(Ordering::Relaxed), all as u32);
    });
}

#[test]
fn bulk_excludes_brief_over_two_turns() {
    run(&[&[Bulk, Brief], &[Brief, Bulk]], 3);
}

#[test]
fn bulk_excludes_two_brief() {
    run(&[&[Bulk], &[Brief], &[Brief]], 2);
}

#[test]
fn two_bulk_exclude_each_other_and_brief() {
    run(&[&[Bulk], &[Bulk], &[Brief]], 2);
}

#[test]
fn the_first_bulk_excludes_brief_of_sole_threads() {
    run(&[&[Bulk, Alone], &[Alone, Alone]], 3);
    run(&[&[Alone, Bulk], &[Alone, Bulk]], 3);
}

#[test]
fn bulk_excludes_brief_of_sole_and_of_several_threads() {
    run(&[&[Bulk], &[Alone], &[Brief]], 2);
}
