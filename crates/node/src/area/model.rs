//! loom models: of one turn, whose lines and cells are used again by the next operation.

use super::*;
use crate::lock::ThreadMode;
use crate::sync::UnsafeCell;
use loom::sync::Arc;

/// One turn of an area: what members write, with a cell for each.
struct Turn<const N: usize> {
    lines: [Line; N],
    cells: [UnsafeCell<u64>; N],
    marks: [Mark; N],
}
// SAFETY: the protocol under test orders the accesses to the cells; loom reports it when it does not.
unsafe impl<const N: usize> Sync for Turn<N> {}

impl<const N: usize> Turn<N> {
    fn new() -> Arc<Turn<N>> {
        Arc::new(Turn {
            lines: std::array::from_fn(|_| Line::new()),
            cells: std::array::from_fn(|_| UnsafeCell::new(0)),
            marks: std::array::from_fn(|_| Mark::new()),
        })
    }

    /// Writes `value` as member `me` for operation `s`, once all have finished the one before.
    fn write(&self, me: usize, s: u64, value: u64) {
        for mark in &self.marks {
            until(|| mark.finished() >= s - 1);
        }
        let line = &self.lines[me];
        line.set_word(value);
        // SAFETY: all have finished what they read here, as the marks say.
        line.with_data_mut(|data| unsafe { (*data)[0] = value });
        // SAFETY: as above.
        self.cells[me].with_mut(|cell| unsafe { *cell = value });
        line.publish(s << 24);
    }

    /// What `member` wrote for operation `s`.
    fn read(&self, member: usize, s: u64) -> u64 {
        let line = &self.lines[member];
        until(|| line.stamp() >= s << 24);
        // SAFETY: published, and not overwritten before our mark says that we have finished.
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
        let turn = Turn::<2>::new();
        let run = |turn: Arc<Turn<2>>, me: usize| {
            for s in 1..=2 {
                turn.write(me, s, 10 * s + me as u64);
                let peer = 1 - me;
                assert_eq!(turn.read(peer, s), 10 * s + peer as u64);
                turn.marks[me].set_finished(s);
            }
        };
        let theirs = turn.clone();
        let peer = loom::thread::spawn(move || run(theirs, 1));
        run(turn, 0);
        peer.join().expect("peer");
    });
}

/// Looks once in the place of waiting, which three threads have too many ways of.
#[test]
fn a_root_overwrites_only_what_all_have_read() {
    loom::model(|| {
        let turn = Turn::<3>::new();
        let leaves = [1, 2].map(|me| {
            let turn = turn.clone();
            loom::thread::spawn(move || {
                if turn.lines[0].stamp() == 1 << 24 {
                    assert_eq!(turn.read(0, 1), 7);
                    turn.marks[me].set_finished(1);
                }
            })
        });
        turn.write(0, 1, 7);
        turn.marks[0].set_finished(1);
        if turn.marks.iter().all(|mark| mark.finished() == 1) {
            turn.write(0, 2, 8);
        }
        for leaf in leaves {
            leaf.join().expect("leaf");
        }
    });
}

/// Two threads of one member complete two operations at once, in either order; a peer overwrites what they have read when the
/// member's mark says that both are complete. The mark comes to that, and the reads of both threads happen before.
#[test]
fn a_mark_covers_the_reads_of_all_threads() {
    loom::model(|| {
        struct Shared {
            account: Completions,
            mode: ThreadMode,
            mark: Mark,
            cells: [UnsafeCell<u64>; 2],
        }
        // SAFETY: the protocol under test orders the accesses to the cells; loom reports it when it does not.
        unsafe impl Sync for Shared {}
        let shared = Arc::new(Shared {
            account: Completions::new(),
            mode: ThreadMode::new(),
            mark: Mark::new(),
            cells: [UnsafeCell::new(1), UnsafeCell::new(2)],
        });
        let threads = [1, 2].map(|number: u64| {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                // SAFETY: the peer overwrites it when the mark says that this operation is complete.
                let seen = shared.cells[number as usize - 1].with(|cell| unsafe { *cell });
                assert_eq!(seen, number);
                shared.account.complete(number, &shared.mark, &shared.mode);
            })
        });
        let finished = shared.mark.finished();
        for cell in &shared.cells[..finished as usize] {
            // SAFETY: as above.
            cell.with_mut(|cell| unsafe { *cell = 9 });
        }
        for thread in threads {
            thread.join().expect("thread");
        }
        assert_eq!((shared.mark.finished(), shared.account.all_up_to()), (2, 2));
    });
}

/// One thread learns that all have completed an operation, another one overwrites what they have read.
#[test]
fn what_one_thread_has_learned_another_may_rely_on() {
    loom::model(|| {
        let (account, mark) = (Arc::new(Completions::new()), Arc::new(Mark::new()));
        let cell = Arc::new(UnsafeCell::new(1u64));
        let (theirs, read) = (mark.clone(), cell.clone());
        let peer = loom::thread::spawn(move || {
            // SAFETY: it is overwritten when the mark says so.
            assert_eq!(read.with(|cell| unsafe { *cell }), 1);
            theirs.set_finished(1);
        });
        let learner = {
            let (account, mark) = (account.clone(), mark.clone());
            loom::thread::spawn(move || {
                until(|| mark.finished() == 1);
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
