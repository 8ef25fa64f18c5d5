//! loom models of one operation slot, whose lines and cells the next operation uses again; of the
//! head of an area, from its opening to its closing; and of the budget.

use super::*;
use crate::lock::ThreadMode;
use crate::segment::AreaBudget;
use crate::sync::{AtomicU64, Ordering, UnsafeCell};
use loom::sync::Arc;
use loom::thread::spawn;

/// One operation slot of an area: what members write, with a cell for each.
struct ModelTurn<const N: usize> {
    lines: [FlagLine; N],
    cells: [UnsafeCell<u64>; N],
    finished_numbers: [FinishedNumber; N],
}
// SAFETY: the protocol under test orders the accesses to the cells; loom reports a violation.
unsafe impl<const N: usize> Sync for ModelTurn<N> {}

impl<const N: usize> ModelTurn<N> {
    fn new() -> Arc<ModelTurn<N>> {
        Arc::new(ModelTurn {
            lines: std::array::from_fn(|_| FlagLine::new()),
            cells: std::array::from_fn(|_| UnsafeCell::new(0)),
            finished_numbers: std::array::from_fn(|_| FinishedNumber::new()),
        })
    }

    /// Writes `value` as member `me` for operation `s`, once all have finished the previous one.
    fn write(&self, me: usize, s: u64, value: u64) {
        for finished_number in &self.finished_numbers {
            until(|| finished_number.finished() >= s - 1);
        }
        let line = &self.lines[me];
        line.set_word(value);
        // SAFETY: the finished numbers show that all have finished reading here.
        line.with_data_mut(|data| unsafe { (*data)[0] = value });
        // SAFETY: as above.
        self.cells[me].with_mut(|cell| unsafe { *cell = value });
        line.publish(s << 24);
    }

    /// What `member` wrote for operation `s`.
    fn read(&self, member: usize, s: u64) -> u64 {
        let line = &self.lines[member];
        until(|| line.stamp() >= s << 24);
        // SAFETY: published, and not overwritten before our finished number announces that we have
        // finished.
        let data = line.with_data(|data| unsafe { (*data)[0] });
        // SAFETY: as above.
        let cell = self.cells[member].with(|cell| unsafe { *cell });
        assert_eq!((data, line.word()), (cell, cell));
        cell
    }
}

fn until(holds: impl Fn() -> bool) {
    while !holds() {
        loom::thread::yield_now();
    }
}

#[test]
fn all_see_what_the_others_wrote_and_a_turn_can_be_used_again() {
    loom::model(|| {
        let slot = ModelTurn::<2>::new();
        let run = |slot: Arc<ModelTurn<2>>, me: usize| {
            for s in 1..=2 {
                slot.write(me, s, 10 * s + me as u64);
                let peer = 1 - me;
                assert_eq!(slot.read(peer, s), 10 * s + peer as u64);
                slot.finished_numbers[me].set_finished(s);
            }
        };
        let theirs = slot.clone();
        let peer = loom::thread::spawn(move || run(theirs, 1));
        run(slot, 0);
        peer.join().expect("peer");
    });
}

/// Polls once instead of waiting: three threads that wait have too many interleavings.
#[test]
fn a_root_overwrites_only_what_all_have_read() {
    loom::model(|| {
        let slot = ModelTurn::<3>::new();
        let leaves = [1, 2].map(|me| {
            let slot = slot.clone();
            loom::thread::spawn(move || {
                if slot.lines[0].stamp() == 1 << 24 {
                    assert_eq!(slot.read(0, 1), 7);
                    slot.finished_numbers[me].set_finished(1);
                }
            })
        });
        slot.write(0, 1, 7);
        slot.finished_numbers[0].set_finished(1);
        if slot.finished_numbers.iter().all(|finished_number| finished_number.finished() == 1) {
            slot.write(0, 2, 8);
        }
        for leaf in leaves {
            leaf.join().expect("leaf");
        }
    });
}

/// Two threads of one member complete two operations at once, in either order. A peer overwrites
/// what they have read when the member's finished number covers both operations. The finished
/// number reaches that value, and the reads of both threads happen before it.
#[test]
fn finished_number_covers_reads_of_all_threads() {
    loom::model(|| {
        struct SharedModel {
            account: Completions,
            mode: ThreadMode,
            finished_number: FinishedNumber,
            cells: [UnsafeCell<u64>; 2],
        }
        // SAFETY: the protocol under test orders the accesses to the cells; loom reports a
        // violation.
        unsafe impl Sync for SharedModel {}
        let shared = Arc::new(SharedModel {
            account: Completions::new(),
            mode: ThreadMode::new(),
            finished_number: FinishedNumber::new(),
            cells: [UnsafeCell::new(1), UnsafeCell::new(2)],
        });
        let threads = [1, 2].map(|number: u64| {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                // SAFETY: the peer overwrites it only when the finished number covers this
                // operation.
                let seen = shared.cells[number as usize - 1].with(|cell| unsafe { *cell });
                assert_eq!(seen, number);
                shared.account.complete(number, &shared.finished_number, &shared.mode);
            })
        });
        let finished = shared.finished_number.finished();
        for cell in &shared.cells[..finished as usize] {
            // SAFETY: as above.
            cell.with_mut(|cell| unsafe { *cell = 9 });
        }
        for thread in threads {
            thread.join().expect("thread");
        }
        assert_eq!((shared.finished_number.finished(), shared.account.all_up_to()), (2, 2));
    });
}

/// One thread learns that all have completed an operation; another thread overwrites what they have
/// read.
#[test]
fn what_one_thread_has_learned_another_may_rely_on() {
    loom::model(|| {
        let (account, finished_number) =
            (Arc::new(Completions::new()), Arc::new(FinishedNumber::new()));
        let cell = Arc::new(UnsafeCell::new(1u64));
        let (theirs, read) = (finished_number.clone(), cell.clone());
        let peer = loom::thread::spawn(move || {
            // SAFETY: it is overwritten only when the finished number covers this operation.
            assert_eq!(read.with(|cell| unsafe { *cell }), 1);
            theirs.set_finished(1);
        });
        let learner = {
            let (account, finished_number) = (account.clone(), finished_number.clone());
            loom::thread::spawn(move || {
                until(|| finished_number.finished() == 1);
                account.raise_safe(1);
            })
        };
        until(|| account.is_safe(1));
        // SAFETY: as above.
        cell.with_mut(|cell| unsafe { *cell = 2 });
        peer.join().expect("peer");
        learner.join().expect("learner");
    });
}

/// A head, and a stand-in for the memory that is allocated for the area.
#[derive(Default)]
struct OpenedModel {
    head: AreaHead,
    /// Number of calls of `grant`.
    grants: AtomicU64,
    /// Written by `grant` before it returns.
    lines: Cell64,
    /// One for each member that closes the area.
    parts: [Cell64; 3],
}

#[derive(Debug)]
struct Cell64(UnsafeCell<u64>);
// SAFETY: the head under test orders the accesses to the cells; loom reports a violation.
unsafe impl Sync for Cell64 {}

impl Default for Cell64 {
    fn default() -> Cell64 {
        Cell64(UnsafeCell::new(0))
    }
}

impl Cell64 {
    fn get(&self) -> u64 {
        // SAFETY: ordered by the head: the models check this.
        self.0.with(|value| unsafe { *value })
    }

    fn set(&self, to: u64) {
        // SAFETY: as above.
        self.0.with_mut(|value| unsafe { *value = to });
    }
}

impl OpenedModel {
    /// Calls `is_granted` as one member; `grant` returns `answer`.
    fn ask(&self, answer: bool) -> bool {
        let granted = self.head.is_granted(|| {
            self.grants.fetch_add(1, Ordering::Relaxed);
            self.lines.set(7);
            answer
        });
        assert_eq!(self.lines.get(), 7, "the answer came after the memory");
        granted
    }
}

/// Two members call at once, and a third when the first has returned: one decides, and all get its
/// decision and see what it did. (loom does not terminate where two threads wait for a third.)
#[test]
fn one_member_decides_for_all_whether_an_area_is_granted() {
    for answer in [true, false] {
        loom::model(move || {
            let opened = Arc::new(OpenedModel::default());
            let [first, second] = [1, 2].map(|_| {
                let opened = opened.clone();
                spawn(move || opened.ask(answer))
            });
            assert_eq!(first.join().expect("member"), answer);
            assert_eq!(opened.ask(answer), answer);
            assert_eq!(second.join().expect("member"), answer);
            assert_eq!(opened.grants.load(Ordering::Relaxed), 1);
        });
    }
}

/// The members would decide differently: the decision of the first counts.
#[test]
fn a_refusal_is_shared_as_a_grant_is() {
    loom::model(|| {
        let opened = Arc::new(OpenedModel::default());
        let theirs = opened.clone();
        let peer = spawn(move || theirs.ask(false));
        let granted = opened.ask(true);
        assert_eq!(peer.join().expect("member"), granted);
        assert_eq!(opened.grants.load(Ordering::Relaxed), 1);
    });
}

/// The last of three members gives the memory back: no member uses it after that, and exactly one
/// member is the last.
#[test]
fn the_last_member_to_leave_comes_after_all_that_the_others_did() {
    loom::model(|| {
        let opened = Arc::new(OpenedModel::default());
        let run = |opened: &OpenedModel, me: usize| {
            opened.parts[me].set(1);
            let is_last = opened.head.leave(3);
            if is_last {
                opened.parts.iter().for_each(|part| {
                    assert_eq!(part.get(), 1);
                    part.set(0);
                });
            }
            u32::from(is_last)
        };
        let members = [1, 2].map(|me| {
            let opened = opened.clone();
            spawn(move || run(&opened, me))
        });
        let mut last = run(&opened, 0);
        for member in members {
            last += member.join().expect("member");
        }
        assert_eq!(last, 1, "one member is the last");
    });
}

/// Two threads of one member wait, each for a different operation. A peer that finishes both wakes
/// the member only if a thread may wait for it.
#[test]
fn waiting_member_is_woken_by_finished_numbers() {
    #[derive(Debug)]
    struct SharedModel {
        awaited: Awaited,
        finished_number: FinishedNumber,
        spot: ParkingSpot,
    }
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Arc::new(SharedModel {
            awaited: Awaited::default(),
            finished_number: FinishedNumber::new(),
            spot: ParkingSpot::default(),
        });
        let waiters = [1, 2].map(|operation: u64| {
            let shared = shared.clone();
            spawn(move || {
                let is_finished = || shared.finished_number.finished() >= operation;
                shared.awaited.raise(operation);
                while !is_finished() {
                    shared.spot.park(Fencing::Sender, None, is_finished);
                }
            })
        });
        for operation in 1..=2 {
            shared.finished_number.set_finished(operation);
            if shared.awaited.is_after(operation - 1, Fencing::Sender) {
                shared.spot.wake_fenced();
            }
        }
        for waiter in waiters {
            waiter.join().expect("thread");
        }
    });
}

/// Requests that fit together are granted together, in any order of arrival, and given back.
#[test]
fn a_budget_grants_what_fits() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let used = Arc::new(AtomicU64::new(0));
        let areas = [3, 4].map(|bytes| {
            let used = used.clone();
            spawn(move || {
                let budget = AreaBudget::new(&used, 9, 9);
                assert!(budget.take(bytes), "there is room for all");
                assert!((bytes as u64..=9).contains(&budget.used()));
                budget.give_back(bytes);
            })
        });
        let budget = AreaBudget::new(&used, 9, 9);
        assert!(budget.take(2), "there is room for all");
        budget.give_back(2);
        for area in areas {
            area.join().expect("thread");
        }
        assert_eq!(budget.used(), 0);
    });
}

/// Requests that do not fit together are not granted together, and a refusal reserves nothing.
#[test]
fn a_budget_is_never_exceeded() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let used = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let round = |used: &(AtomicU64, AtomicU64)| {
            let budget = AreaBudget::new(&used.0, 9, 9);
            let taken = budget.take(5);
            assert!(budget.used() <= 9);
            if taken {
                let holders = used.1.fetch_add(1, Ordering::Relaxed);
                assert_eq!(holders, 0, "two areas of 5 bytes within 9");
                used.1.fetch_sub(1, Ordering::Relaxed);
                budget.give_back(5);
            }
            taken
        };
        let areas = [1, 2].map(|_| {
            let used = used.clone();
            spawn(move || round(&used))
        });
        let mut granted = round(&used);
        for area in areas {
            granted |= area.join().expect("thread");
        }
        assert!(granted, "the first to ask had room");
        let budget = AreaBudget::new(&used.0, 9, 9);
        assert_eq!(budget.used(), 0);
        assert!(budget.take(9) && !budget.take(1) && !budget.take(usize::MAX));
    });
}
