use crate::park::{Fencing, ParkingSpot, membarrier_register};
use crate::window::forked;
use crate::window::lock::ticket::LOOK_EVERY;
use crate::window::*;
use proptest::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const DESIGNS: [LockDesign; 3] = [LockDesign::TestAndSet, LockDesign::Mcs, LockDesign::Barging];
const RANKS: usize = 8;
const OPERATION_SLOTS: u32 = if cfg!(miri) { 20 } else { 2000 };

/// A lock, where its origins sleep, and what it protects. Valid when zeroed.
struct Shared {
    target: TargetLine,
    origins: [OriginLine; RANKS],
    spots: [ParkingSpot; RANKS],
    /// Sum of two numbers that an exclusive origin changes one after the other.
    first: AtomicU64,
    second: AtomicU64,
    /// Set by a rank that finds the two unequal, or another rank inside.
    is_broken: AtomicU32,
    inside: AtomicU32,
    /// Not 0: ranks that park fence for all.
    parker_fences: AtomicU32,
}

impl Shared {
    fn new() -> Shared {
        Shared {
            target: TargetLine::new(),
            origins: std::array::from_fn(|_| OriginLine::new()),
            spots: std::array::from_fn(|_| ParkingSpot::default()),
            first: AtomicU64::new(0),
            second: AtomicU64::new(0),
            is_broken: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            parker_fences: AtomicU32::new(0),
        }
    }

    /// Has ranks that park fence for all, from now on.
    fn set_parker_fences(&self) {
        self.parker_fences.store(1, Ordering::Relaxed);
    }

    fn fencing(&self) -> Fencing {
        match self.parker_fences.load(Ordering::Relaxed) {
            0 => Fencing::Sender,
            _ => Fencing::Parker,
        }
    }

    fn lock(&self, design: LockDesign) -> WindowLock<'_> {
        WindowLock::new(design, self.fencing(), &self.target, &self.origins)
    }

    fn wake(&self, rank: u32) {
        self.spots[rank as usize].wake(self.fencing());
    }

    /// Waits as a rank does, but parks as soon as it may.
    fn acquire(&self, design: LockDesign, rank: u32, mode: LockMode) -> LockTicket {
        let lock = self.lock(design);
        let mut ticket = lock.begin(rank, mode);
        while !lock.poll(&mut ticket) {
            let limit = lock.sleep_limit(&ticket);
            let held = || {
                ticket.end_pause();
                lock.poll(&mut ticket)
            };
            self.spots[rank as usize].park(self.fencing(), limit, held);
        }
        ticket
    }

    fn release(&self, design: LockDesign, ticket: LockTicket) {
        self.lock(design).release(ticket, |next| self.wake(next));
    }

    /// One turn of a rank that adds to both numbers, or compares them.
    fn turn(&self, design: LockDesign, rank: u32, mode: LockMode) {
        let ticket = self.acquire(design, rank, mode);
        let relaxed = Ordering::Relaxed;
        match mode {
            LockMode::Exclusive => {
                let alone = self.inside.fetch_add(1, relaxed) == 0;
                let first = self.first.load(relaxed) + 1;
                self.first.store(first, relaxed);
                self.second.store(self.second.load(relaxed) + 1, relaxed);
                if !alone || self.second.load(relaxed) != first {
                    self.is_broken.store(1, relaxed);
                }
                self.inside.fetch_sub(1, relaxed);
            }
            LockMode::Shared => {
                if self.first.load(relaxed) != self.second.load(relaxed) {
                    self.is_broken.store(1, relaxed);
                }
            }
        }
        self.release(design, ticket);
    }

    /// All turns of a rank: every third is shared.
    fn turns(&self, design: LockDesign, rank: u32) {
        for turn in 0..OPERATION_SLOTS {
            self.turn(design, rank, mode_of(turn + rank));
        }
    }

    /// Checks what all ranks have left behind after their turns: each that was not shared adds.
    fn check_turns(&self, design: LockDesign) {
        let adds = |rank| {
            let turns = 0..OPERATION_SLOTS;
            turns.filter(move |turn| mode_of(turn + rank) == LockMode::Exclusive)
        };
        self.check(design, (0..RANKS as u32).flat_map(adds).count() as u64);
    }

    fn check(&self, design: LockDesign, expected: u64) {
        assert_eq!(self.is_broken.load(Ordering::Relaxed), 0, "{design:?}");
        assert_eq!(self.first.load(Ordering::Relaxed), expected, "{design:?}");
        assert_eq!(self.lock(design).holders().count(), 0, "{design:?}");
        assert_eq!(self.lock(design).waiters().count(), 0, "{design:?}");
    }
}

fn mode_of(turn: u32) -> LockMode {
    match turn % 3 {
        0 => LockMode::Shared,
        _ => LockMode::Exclusive,
    }
}

#[test]
fn threads_exclude_one_another() {
    for design in DESIGNS {
        let shared = Shared::new();
        std::thread::scope(|scope| {
            for rank in 0..RANKS as u32 {
                let shared = &shared;
                scope.spawn(move || shared.turns(design, rank));
            }
        });
        shared.check_turns(design);
    }
}

/// Holders that leave do not fence then: no wake-up is lost all the same, and none waits for ever.
#[test]
#[cfg_attr(miri, ignore = "Miri has no membarrier")]
fn processes_exclude_one_another_where_parkers_fence() {
    assert!(membarrier_register(), "this kernel has membarrier");
    processes_take_turns(Shared::set_parker_fences);
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no fork")]
fn processes_exclude_one_another() {
    processes_take_turns(|_| ());
}

fn processes_take_turns(prepare: impl Fn(&Shared)) {
    for design in DESIGNS {
        // SAFETY: all of it is valid when zeroed, as its documentation says.
        let shared: &'static Shared = unsafe { forked::shared() };
        prepare(shared);
        let ranks: Vec<_> = (0..RANKS as u32)
            .map(|rank| {
                forked::fork(|| {
                    let is_fenced = shared.fencing() == Fencing::Sender || membarrier_register();
                    assert!(is_fenced, "rank {rank}");
                    shared.turns(design, rank);
                })
            })
            .collect();
        forked::join(&ranks);
        shared.check_turns(design);
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no fork")]
fn names_a_holder_that_was_killed() {
    for design in DESIGNS {
        // SAFETY: as above.
        let shared: &'static Shared = unsafe { forked::shared() };
        let child = forked::fork(|| {
            let _ticket = shared.acquire(design, 5, LockMode::Exclusive);
            shared.inside.store(1, Ordering::Release);
            loop {
                // SAFETY: sleeps until it is killed.
                unsafe { libc::pause() };
            }
        });
        while shared.inside.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        forked::kill(child);
        let lock = shared.lock(design);
        let mut ticket = lock.begin(2, LockMode::Shared);
        assert!(!lock.poll(&mut ticket), "{design:?}");
        let (holders, waiters): (Vec<_>, Vec<_>) =
            (lock.holders().collect(), lock.waiters().collect());
        assert_eq!(holders, [(5, LockMode::Exclusive)], "{design:?}");
        assert_eq!(waiters, [(2, LockMode::Shared)], "{design:?}");
    }
}

#[test]
fn shared_holders_are_inside_together() {
    for design in DESIGNS {
        let shared = Shared::new();
        let held: Vec<_> =
            (0..4).map(|rank| shared.acquire(design, rank, LockMode::Shared)).collect();
        assert_eq!(shared.lock(design).holders().count(), 4, "{design:?}");
        held.into_iter().for_each(|ticket| {
            assert_eq!(ticket.mode(), LockMode::Shared);
            shared.release(design, ticket);
        });
        shared.check(design, 0);
    }
}

#[test]
fn mcs_grants_shared_together_and_exclusive_in_order_and_wakes_only_those() {
    use LockMode::{Exclusive, Shared as Together};
    let shared = Shared::new();
    let lock = shared.lock(LockDesign::Mcs);
    let modes = [Exclusive, Together, Together, Exclusive, Together];
    let mut tickets: Vec<_> =
        (0..5).map(|rank| Some(lock.begin(rank, modes[rank as usize]))).collect();
    let mut release = |rank: usize| {
        let mut ticket = tickets[rank].take().expect("held once");
        assert!(lock.poll(&mut ticket), "rank {rank}");
        let mut woken = Vec::new();
        lock.release(ticket, |next| woken.push(next));
        woken
    };
    assert_eq!(release(0), [1, 2, 4], "all shared ones");
    assert_eq!(release(2), [], "two shared holders are left");
    assert_eq!(release(4), [], "one shared holder is left");
    assert_eq!(release(1), [3], "the last shared holder grants");
    assert_eq!(release(3), []);
    shared.check(LockDesign::Mcs, 0);
}

#[test]
fn shared_origins_that_hold_other_locks_never_wait_for_exclusive_ones() {
    for design in DESIGNS {
        let locks = [Shared::new(), Shared::new()];
        let lock = |at: usize| locks[at].lock(design);
        let first = lock(0).begin(0, LockMode::Shared);
        let second = lock(1).begin(1, LockMode::Shared);
        let waiting = [0, 1].map(|at| lock(at).begin(2 + at as u32, LockMode::Exclusive));
        // Crosswise, each behind an exclusive origin that waits.
        let mut crossed = [0, 1].map(|at| lock(1 - at).begin(at as u32, LockMode::Shared));
        for (at, ticket) in crossed.iter_mut().enumerate() {
            let is_held = (0..2000).any(|_| lock(1 - at).poll(ticket));
            assert!(is_held, "{design:?}");
        }
        for (at, ticket) in crossed.into_iter().enumerate() {
            lock(1 - at).release(ticket, |_| ());
        }
        lock(0).release(first, |_| ());
        lock(1).release(second, |_| ());
        for (at, mut ticket) in waiting.into_iter().enumerate() {
            assert!((0..2000).any(|_| lock(at).poll(&mut ticket)), "{design:?}");
            lock(at).release(ticket, |_| ());
        }
    }
}

#[test]
fn test_and_set_pauses_for_longer_each_time_and_up_to_a_limit() {
    let shared = Shared::new();
    let lock = shared.lock(LockDesign::TestAndSet);
    let held = shared.acquire(LockDesign::TestAndSet, 0, LockMode::Exclusive);
    let mut ticket = lock.begin(1, LockMode::Exclusive);
    let mut last = lock.sleep_limit(&ticket);
    for _ in 0..10_000 {
        assert!(!lock.poll(&mut ticket));
        let limit = lock.sleep_limit(&ticket);
        assert!(limit >= last && limit < Some(std::time::Duration::from_millis(2)));
        last = limit;
    }
    shared.release(LockDesign::TestAndSet, held);
    // At most one pause later.
    assert!((0..2000).any(|_| lock.poll(&mut ticket)));
    shared.release(LockDesign::TestAndSet, ticket);
}

#[test]
#[should_panic(expected = "rank 1: lock not held")]
fn a_ticket_that_waits_cannot_be_released() {
    let shared = Shared::new();
    let _held = shared.acquire(LockDesign::Mcs, 0, LockMode::Exclusive);
    let lock = shared.lock(LockDesign::Mcs);
    let ticket = lock.begin(1, LockMode::Exclusive);
    lock.release(ticket, |_| ());
}

/// Rank 0 gives the lock back and takes it again until rank 1, which waits, has it.
fn turns_before_another(shared: &Shared, pause: impl Fn()) -> usize {
    let lock = shared.lock(LockDesign::Barging);
    let mut held = lock.begin(0, LockMode::Exclusive);
    let mut other = lock.begin(1, LockMode::Exclusive);
    let mut turns = 0;
    loop {
        assert!(lock.poll(&mut held), "turn {turns}");
        assert!(!lock.poll(&mut other), "turn {turns}");
        pause();
        let mut woken = Vec::new();
        let turn = lock.release(held, |next| woken.push(next));
        assert_eq!(turn == TurnOrder::Barged, turns > 0);
        assert_eq!(woken, [1], "the first in the queue may sleep");
        held = lock.begin(0, LockMode::Exclusive);
        if lock.waiters().any(|(rank, _)| rank == 0) {
            break;
        }
        turns += 1;
    }
    assert!(lock.poll(&mut other));
    let mut woken = Vec::new();
    lock.release(other, |next| woken.push(next));
    assert_eq!(woken, [0]);
    assert!((0..LOOK_EVERY).any(|_| lock.poll(&mut held)));
    shared.release(LockDesign::Barging, held);
    shared.check(LockDesign::Barging, 0);
    turns
}

#[test]
fn barging_comes_before_who_waits_for_a_bounded_number_of_turns() {
    let shared = Shared::new();
    for _ in 0..3 {
        let turns = turns_before_another(&shared, || ());
        assert!((1..=256).contains(&turns), "{turns} turns");
    }
}

#[test]
fn barging_with_long_turns_comes_before_who_waits_once() {
    let shared = Shared::new();
    let turn = || std::thread::sleep(std::time::Duration::from_micros(50));
    assert_eq!(turns_before_another(&shared, turn), 1);
}

#[test]
fn the_first_in_the_queue_takes_an_open_lock_for_which_no_other_comes() {
    let shared = Shared::new();
    let lock = shared.lock(LockDesign::Barging);
    let held = lock.begin(0, LockMode::Exclusive);
    let mut waiting = [1, 2].map(|rank| lock.begin(rank, LockMode::Exclusive));
    shared.release(LockDesign::Barging, held);
    assert_eq!(lock.holders().count(), 0, "open");
    for ticket in &mut waiting[1..] {
        assert!((0..100).all(|_| !lock.poll(ticket)), "rank 1 is before it");
    }
    for mut ticket in waiting {
        assert!((0..LOOK_EVERY).any(|_| lock.poll(&mut ticket)));
        shared.release(LockDesign::Barging, ticket);
    }
    shared.check(LockDesign::Barging, 0);
}

#[test]
fn the_last_shared_holder_of_an_open_lock_wakes_the_first_in_the_queue() {
    let shared = Shared::new();
    let lock = shared.lock(LockDesign::Barging);
    let held = lock.begin(0, LockMode::Exclusive);
    let mut waiting = lock.begin(1, LockMode::Exclusive);
    shared.release(LockDesign::Barging, held);
    let together = [2, 3].map(|rank| shared.acquire(LockDesign::Barging, rank, LockMode::Shared));
    // The first in the queue has the lock when the last of them has gone; an exclusive origin that
    // comes now is behind it.
    assert!((0..100).all(|_| !lock.poll(&mut waiting)));
    let mut last = lock.begin(4, LockMode::Exclusive);
    let mut woken = Vec::new();
    for ticket in together {
        assert!(!lock.poll(&mut waiting));
        lock.release(ticket, |next| woken.push(next));
    }
    assert_eq!(woken, [1]);
    assert!((0..LOOK_EVERY).any(|_| lock.poll(&mut waiting)));
    shared.release(LockDesign::Barging, waiting);
    assert!((0..LOOK_EVERY).any(|_| lock.poll(&mut last)));
    shared.release(LockDesign::Barging, last);
    shared.check(LockDesign::Barging, 0);
}

/// What the lock does, in one thread: who waits, in the order of arrival, and who is inside.
#[derive(Default)]
struct Model {
    inside: Vec<(u32, LockMode)>,
    waiting: Vec<(u32, LockMode)>,
}

impl Model {
    /// Lets in who may enter: all shared ones, by rank, then the first exclusive one. Returns them.
    fn admit(&mut self) -> Vec<u32> {
        let is_shared = |&(_, mode): &(u32, LockMode)| mode == LockMode::Shared;
        let mut admitted = Vec::new();
        if self.inside.iter().all(is_shared) {
            admitted.extend(self.waiting.iter().copied().filter(is_shared));
            admitted.sort_by_key(|&(rank, _)| rank);
            self.waiting.retain(|waiter| !is_shared(waiter));
            self.inside.extend(&admitted);
        }
        if self.inside.is_empty() && !self.waiting.is_empty() {
            let first = self.waiting.remove(0);
            self.inside.push(first);
            admitted.push(first);
        }
        admitted.into_iter().map(|(rank, _)| rank).collect()
    }
}

proptest! {
    /// Random turns of the ranks against the model: who is inside, and who is woken.
    #[test]
    fn mcs_does_what_the_model_does(
        steps in prop::collection::vec((0..RANKS as u32, any::<bool>()), 1..200),
    ) {
        let shared = Shared::new();
        let lock = shared.lock(LockDesign::Mcs);
        let mut tickets: [Option<LockTicket>; RANKS] = Default::default();
        let mut model = Model::default();
        for (rank, is_shared) in steps {
            let woken = Cell::new(Vec::new());
            let wake = |next| {
                let mut list = woken.take();
                list.push(next);
                woken.set(list);
            };
            let slot = &mut tickets[rank as usize];
            let mut expected = match slot.take() {
                None => {
                    let mode = if is_shared { LockMode::Shared } else { LockMode::Exclusive };
                    *slot = Some(lock.begin(rank, mode));
                    model.waiting.push((rank, mode));
                    model.admit()
                }
                Some(mut ticket) => {
                    let is_held = lock.poll(&mut ticket);
                    prop_assert_eq!(is_held, model.inside.iter().any(|&(r, _)| r == rank));
                    if is_held {
                        lock.release(ticket, wake);
                        model.inside.retain(|&(r, _)| r != rank);
                        model.admit()
                    } else {
                        *slot = Some(ticket);
                        Vec::new()
                    }
                }
            };
            // A rank that gets in with its own call is not woken.
            expected.retain(|&r| r != rank);
            prop_assert_eq!(woken.take(), expected);
            let mut inside = model.inside.clone();
            inside.sort_by_key(|&(r, _)| r);
            prop_assert_eq!(lock.holders().collect::<Vec<_>>(), inside);
        }
    }

    /// Random turns of the ranks: never two inside of which one is exclusive, and each gets in.
    #[test]
    fn barging_excludes_and_serves_all(
        steps in prop::collection::vec((0..RANKS as u32, any::<bool>()), 1..200),
    ) {
        let shared = Shared::new();
        let lock = shared.lock(LockDesign::Barging);
        let mut tickets: [Option<LockTicket>; RANKS] = Default::default();
        let drain = (0..RANKS as u32).cycle().take(40 * RANKS * RANKS).map(|rank| (rank, None));
        let steps = steps.into_iter().map(|(rank, is_shared)| (rank, Some(is_shared)));
        for (rank, begins) in steps.chain(drain) {
            let slot = &mut tickets[rank as usize];
            match (slot.take(), begins) {
                (None, None) => {}
                (None, Some(is_shared)) => {
                    let mode = if is_shared { LockMode::Shared } else { LockMode::Exclusive };
                    *slot = Some(lock.begin(rank, mode));
                }
                (Some(mut ticket), _) => match lock.poll(&mut ticket) {
                    true => _ = lock.release(ticket, |_| ()),
                    false => *slot = Some(ticket),
                },
            }
            let inside: Vec<_> = lock.holders().collect();
            let is_shared = |&(_, mode): &(u32, LockMode)| mode == LockMode::Shared;
            prop_assert!(inside.len() < 2 || inside.iter().all(is_shared), "{:?}", inside);
        }
        prop_assert!(tickets.iter().all(Option::is_none), "{:?}", tickets);
        shared.check(LockDesign::Barging, 0);
    }
}

#[test]
fn an_origin_takes_and_gives_back_by_itself_while_no_other_wants_the_lock() {
    for design in [LockDesign::Mcs, LockDesign::Barging] {
        let shared = Shared::new();
        let lock = shared.lock(design);
        let own = lock.own(3).expect("a queue");
        assert!(own.take_free(), "free");
        assert_eq!(lock.holders().collect::<Vec<_>>(), [(3, LockMode::Exclusive)]);
        assert!(!lock.own(4).expect("a queue").take_free());
        assert_eq!(own.give_back(), Some(WaitersLeft::None));
        assert_eq!(lock.holders().count(), 0);

        assert!(own.take_free(), "free again");
        let mut reader = lock.begin(5, LockMode::Shared);
        assert!(!lock.poll(&mut reader));
        assert_eq!(own.give_back(), Some(WaitersLeft::Some));
        let mut woken = Vec::new();
        lock.serve_waiters(3, &mut |rank| woken.push(rank));
        assert_eq!(woken, [5]);
        assert!(lock.poll(&mut reader));
        assert!(!own.take_free(), "held shared");
        lock.release(reader, |_| ());

        assert!(own.take_free(), "free again");
        let mut next = lock.begin(6, LockMode::Exclusive);
        assert_eq!(own.give_back(), None, "6 is in the queue");
        assert!(!lock.poll(&mut next));
        lock.release(own.held_ticket(), |_| ());
        while !lock.poll(&mut next) {}
        lock.release(next, |_| ());
        assert_eq!(lock.holders().count(), 0);
    }
    let shared = Shared::new();
    assert!(shared.lock(LockDesign::TestAndSet).own(3).is_none());
}
