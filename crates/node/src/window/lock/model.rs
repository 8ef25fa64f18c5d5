//! loom models of all designs: exclusion, shared holders together, first come first served, and
//! no lost wake-up.

use crate::park::{Fencing, ParkingSpot};
use crate::sync::{AtomicU32, Ordering, UnsafeCell, yield_now};
use crate::window::*;
use LockMode::{Exclusive, Shared as Together};
use loom::sync::Arc;

const RANKS: usize = 3;

struct Shared {
    target: TargetLine,
    origins: [OriginLine; RANKS],
    spots: [ParkingSpot; RANKS],
    data: UnsafeCell<u32>,
    inside: AtomicU32,
    fencing: Fencing,
}
// SAFETY: the lock under test orders the accesses; loom reports a violation.
unsafe impl Sync for Shared {}

fn shared() -> Arc<Shared> {
    shared_with(Fencing::Sender)
}

fn shared_with(fencing: Fencing) -> Arc<Shared> {
    Arc::new(Shared {
        target: TargetLine::new(),
        origins: std::array::from_fn(|_| OriginLine::new()),
        spots: std::array::from_fn(|_| ParkingSpot::default()),
        data: UnsafeCell::new(0),
        inside: AtomicU32::new(0),
        fencing,
    })
}

impl Shared {
    fn lock(&self, design: LockDesign) -> WindowLock<'_> {
        WindowLock::new(design, self.fencing, &self.target, &self.origins)
    }

    fn wake(&self, rank: u32) {
        self.spots[rank as usize].wake(Fencing::Sender);
    }

    /// The ticket, and the lock as the rank gives it back that has taken it without waiting.
    fn acquire(
        &self,
        design: LockDesign,
        rank: u32,
        mode: LockMode,
    ) -> (LockTicket, Option<OwnLock<'_>>) {
        let lock = self.lock(design);
        let own = lock.own(rank).filter(|_| mode == Exclusive);
        if let Some(own) = own.filter(|own| own.take_free()) {
            return (own.held_ticket(), Some(own));
        }
        let mut ticket = lock.begin(rank, mode);
        while !lock.poll(&mut ticket) {
            match (design, self.fencing) {
                // Sleeps for a limited time only, which loom does not have; or only behind a
                // membarrier, which it has not either.
                (LockDesign::TestAndSet, _) | (_, Fencing::Parker) => yield_now(),
                // Sleeps without a limit: a lost wake-up is a deadlock, which loom reports.
                (LockDesign::Mcs | LockDesign::Barging, Fencing::Sender) => {
                    let held = || {
                        ticket.end_pause();
                        lock.poll(&mut ticket)
                    };
                    self.spots[rank as usize].park(Fencing::Sender, None, held);
                }
            }
        }
        (ticket, None)
    }

    fn turn(&self, design: LockDesign, rank: u32, mode: LockMode) {
        let (ticket, own) = self.acquire(design, rank, mode);
        match mode {
            // SAFETY: the model checks that no other thread is inside.
            Exclusive => self.data.with_mut(|data| unsafe { *data += 1 }),
            // SAFETY: the model checks that no thread writes.
            Together => self.data.with(|data| assert!(unsafe { *data } <= 4)),
        }
        let lock = self.lock(design);
        match own.and_then(|own| own.give_back()) {
            Some(WaitersLeft::None) => {}
            Some(WaitersLeft::Some) => lock.serve_waiters(rank, &mut |next| self.wake(next)),
            None => _ = lock.release(ticket, |next| self.wake(next)),
        }
    }
}

/// Each rank takes its turns, on a thread of its own.
fn run(design: LockDesign, turns: &'static [&'static [LockMode]], preemptions: Option<usize>) {
    run_with(Fencing::Sender, design, turns, preemptions);
}

fn run_with(
    fencing: Fencing,
    design: LockDesign,
    turns: &'static [&'static [LockMode]],
    preemptions: Option<usize>,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(move || {
        let shared = shared_with(fencing);
        let take_turns = |rank: usize| {
            let shared = shared.clone();
            move || {
                for &mode in turns[rank] {
                    shared.turn(design, rank as u32, mode);
                }
            }
        };
        let others: Vec<_> =
            (1..turns.len()).map(|rank| loom::thread::spawn(take_turns(rank))).collect();
        take_turns(0)();
        for other in others {
            other.join().expect("rank");
        }
        let added = turns.iter().flat_map(|t| t.iter());
        let added = added.filter(|&&mode| mode == Exclusive).count() as u32;
        // SAFETY: no other thread is left.
        assert_eq!(shared.data.with(|data| unsafe { *data }), added);
        assert_eq!(shared.lock(design).holders().count(), 0);
    });
}

#[test]
fn mcs_excludes_and_wakes_over_two_turns() {
    run(LockDesign::Mcs, &[&[Exclusive, Exclusive], &[Exclusive, Exclusive]], Some(3));
}

#[test]
fn mcs_excludes_shared_from_exclusive() {
    run(LockDesign::Mcs, &[&[Together, Exclusive], &[Exclusive, Together]], Some(3));
}

#[test]
fn mcs_hands_over_among_three_exclusive() {
    run(LockDesign::Mcs, &[&[Exclusive], &[Exclusive], &[Exclusive]], Some(2));
}

#[test]
fn mcs_grants_exclusive_when_the_last_of_two_shared_leaves() {
    run(LockDesign::Mcs, &[&[Together], &[Exclusive], &[Together]], Some(2));
}

/// A shared origin waits while one exclusive holder leaves and another one comes.
#[test]
fn mcs_lets_shared_in_between_two_exclusive_or_after_them() {
    run(LockDesign::Mcs, &[&[Exclusive], &[Exclusive], &[Together]], Some(3));
}

/// With one opening in a row: the lock is left open, taken before the one that waits, and handed
/// over after that; or the first in the queue takes it.
#[test]
fn barging_excludes_and_wakes_over_two_turns() {
    run(LockDesign::Barging, &[&[Exclusive, Exclusive], &[Exclusive, Exclusive]], Some(3));
}

#[test]
fn barging_excludes_and_wakes_who_waits_while_one_returns() {
    run(LockDesign::Barging, &[&[Exclusive, Exclusive, Exclusive], &[Exclusive]], Some(3));
}

#[test]
fn barging_serves_three_exclusive() {
    run(LockDesign::Barging, &[&[Exclusive, Exclusive], &[Exclusive], &[Exclusive]], Some(2));
}

#[test]
fn barging_excludes_shared_from_exclusive() {
    run(LockDesign::Barging, &[&[Together, Exclusive], &[Exclusive, Together]], Some(3));
}

/// Shared origins join while the lock is open, and the last of them wakes the first in the queue.
#[test]
fn barging_lets_shared_in_while_the_lock_is_open() {
    run(LockDesign::Barging, &[&[Exclusive], &[Exclusive], &[Together]], Some(3));
    run(LockDesign::Barging, &[&[Exclusive, Together], &[Exclusive], &[Together]], Some(2));
}

/// Where parkers fence for all, a holder may leave without seeing who waits: who polls gets in all
/// the same.
#[test]
fn barging_without_fences_serves_who_polls() {
    let modes: [&'static [&'static [LockMode]]; 3] = [
        &[&[Exclusive, Exclusive], &[Exclusive, Exclusive]],
        &[&[Exclusive, Together], &[Together, Exclusive]],
        &[&[Exclusive], &[Exclusive, Exclusive]],
    ];
    for turns in modes {
        run_with(Fencing::Parker, LockDesign::Barging, turns, Some(3));
    }
}

#[test]
fn test_and_set_excludes() {
    run(LockDesign::TestAndSet, &[&[Exclusive], &[Exclusive]], Some(3));
    run(LockDesign::TestAndSet, &[&[Together], &[Exclusive]], Some(3));
}

/// A shared origin behind another one gets in although the one before it never polls.
#[test]
fn mcs_admits_shared_behind_a_shared_origin_that_does_not_poll() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = shared();
        let lock = shared.lock(LockDesign::Mcs);
        let first = shared.acquire(LockDesign::Mcs, 0, Exclusive).0;
        let mut sleeper = lock.begin(1, Together);
        let theirs = shared.clone();
        let second = loom::thread::spawn(move || theirs.turn(LockDesign::Mcs, 2, Together));
        lock.release(first, |next| shared.wake(next));
        second.join().expect("rank 2 gets in");
        assert!(lock.poll(&mut sleeper));
        lock.release(sleeper, |next| shared.wake(next));
    });
}

/// First come, first served: rank 1 has joined the queue before rank 2 begins.
#[test]
fn mcs_serves_in_the_order_of_arrival() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let shared = shared();
        let lock = shared.lock(LockDesign::Mcs);
        let first = shared.acquire(LockDesign::Mcs, 0, Exclusive).0;
        let mut second = lock.begin(1, Exclusive);
        let theirs = shared.clone();
        let third = loom::thread::spawn(move || {
            let ticket = theirs.acquire(LockDesign::Mcs, 2, Exclusive).0;
            assert_eq!(theirs.inside.load(Ordering::Relaxed), 1, "rank 1 was before");
            let lock = theirs.lock(LockDesign::Mcs);
            lock.release(ticket, |next| theirs.wake(next));
        });
        lock.release(first, |next| shared.wake(next));
        assert!(lock.poll(&mut second), "the first in the queue has it");
        shared.inside.store(1, Ordering::Relaxed);
        lock.release(second, |next| shared.wake(next));
        third.join().expect("rank 2");
    });
}
