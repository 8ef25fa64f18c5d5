use super::*;

/// A simulated thread with its own clock.
struct Thread {
    now: u64,
    history: PollYield,
    /// Duration of a poll, and the time from one call to the next.
    poll: u64,
    call: u64,
    /// Duration of a yield, and the additional time to the next call after it.
    switch: u64,
    cold: u64,
    is_cold: bool,
    yields: u32,
    polls: u64,
}

impl Thread {
    fn new() -> Thread {
        Thread {
            now: 1 << 40,
            history: PollYield::new(),
            poll: 60,
            call: 40,
            switch: 1500,
            cold: 500,
            is_cold: false,
            yields: 0,
            polls: 0,
        }
    }

    fn compute(&mut self, ns: u64) {
        self.now += ns;
    }

    /// A failing poll; whether it yielded first.
    fn poll(&mut self) -> bool {
        self.begin();
        self.history.failed(self.now);
        self.is_cold
    }

    /// The poll up to its result. The durations of calls vary, as in reality.
    fn begin(&mut self) {
        let jitter = [0, 10, 0, 0, 25, 5][self.polls as usize % 6];
        let cold = if self.is_cold { self.cold } else { 0 };
        self.polls += 1;
        self.now += self.call + jitter + cold;
        self.is_cold = self.history.begin(self.now);
        if self.is_cold {
            self.now += self.switch;
            self.history.yielded(self.now);
            self.yields += 1;
        }
        self.now += self.poll;
    }

    /// Computes and polls until the poll that succeeds: the one after `yields` yields.
    fn wait(&mut self, yields: u32, compute: u64) {
        let last = self.yields + yields;
        loop {
            self.compute(compute);
            self.begin();
            if self.yields == last {
                return self.history.useful();
            }
            self.history.failed(self.now);
        }
    }

    /// Number of polls that yielded.
    fn yields_of(&mut self, polls: u32) -> u32 {
        (0..polls).map(|_| u32::from(self.poll())).sum()
    }

    /// The fraction of the time of `rounds` calls of `round` that is spent in yields.
    fn share(&mut self, rounds: u32, mut round: impl FnMut(&mut Thread)) -> f64 {
        let (began, yields) = (self.now, self.yields);
        (0..rounds).for_each(|_| round(self));
        f64::from(self.yields - yields) * self.switch as f64 / (self.now - began) as f64
    }
}

#[test]
fn yields_at_nearly_every_poll_when_the_program_only_polls() {
    let mut thread = Thread::new();
    let first = (1..20).find(|_| thread.poll());
    assert!(first.is_some_and(|n| n <= 6), "{first:?}");
    assert!(thread.yields_of(100) >= 70);
}

#[test]
fn a_slow_processor_that_only_polls_yields_as_well() {
    let mut thread = Thread::new();
    (thread.poll, thread.call) = (300, 110);
    thread.yields_of(5);
    assert!(thread.yields_of(100) >= 70);
}

#[test]
fn computing_between_polls_costs_few_yields() {
    // 0.3 us between polls; an update of a table that takes 50 ns; 5 us of computation.
    for compute in [300, 50, 5_000] {
        let mut thread = Thread::new();
        let round = |thread: &mut Thread| {
            thread.compute(compute);
            thread.poll();
        };
        let share = thread.share(100_000, round);
        assert!(share < 0.035, "{compute} ns: {share}");
        assert!(share > 0.0, "{compute} ns: peers never get the core");
        // By now it has learned that yields are not useful.
        thread.share(1_000_000, round);
        let share = thread.share(100_000, round);
        assert!(share > 0.0 && share < 0.002, "{compute} ns: {share}");
    }
}

#[test]
fn polls_that_end_unseen_are_no_computation() {
    let mut thread = Thread::new();
    for _ in 0..1000 {
        thread.wait(5, 0);
        // A test of something else, whose end is not reported.
        thread.compute(200);
        thread.begin();
        thread.compute(200);
    }
    assert_eq!(thread.history.spin_limit_ns, SPIN_LIMIT_MIN_NS);
}

#[test]
fn slices_stay_short_while_yields_bring_messages() {
    let mut thread = Thread::new();
    for _ in 0..1000 {
        // Others on this core use their slices, then the message has arrived.
        thread.wait(4, 150);
        assert!(thread.history.slice_ns < 2 * SLICE_MIN_NS);
    }
}

#[test]
fn never_yields_between_long_computations() {
    let mut thread = Thread::new();
    for _ in 0..10_000 {
        thread.compute(LONG_GAP_NS);
        assert!(!thread.poll());
    }
}

#[test]
fn arrivals_put_off_the_yield_of_a_program_that_computes() {
    let mut thread = Thread::new();
    for round in 1..100_000 {
        thread.compute(50);
        assert!(!thread.poll());
        if round % 300 == 0 {
            thread.history.useful();
        }
    }
}

#[test]
fn two_tests_in_a_row_between_computations_are_no_waiting() {
    let share = Thread::new().share(100_000, |thread| {
        thread.compute(100);
        thread.poll();
        thread.poll();
    });
    assert!(share < 0.035, "{share}");
}

#[test]
fn learns_that_a_program_polls_many_requests_before_it_computes() {
    let mut thread = Thread::new();
    let round = |thread: &mut Thread| {
        thread.yields_of(10);
        thread.compute(300);
    };
    thread.share(1000, round);
    let share = thread.share(10_000, round);
    assert!(share < 0.035, "{share}");
    assert!(thread.history.spin_limit_ns > SPIN_LIMIT_MIN_NS);
    // The same program then only waits, in a ring: the spin limit decreases again.
    for _ in 0..1000 {
        thread.wait(5, 0);
        thread.compute(300);
    }
    assert_eq!(thread.history.spin_limit_ns, SPIN_LIMIT_MIN_NS);
}

#[test]
fn learns_that_a_program_sends_between_tests_that_follow_each_other_closely() {
    let mut thread = Thread::new();
    let round = |thread: &mut Thread| {
        for _ in 0..28 {
            thread.compute(8);
            thread.poll();
        }
        thread.compute(250);
    };
    thread.share(2000, round);
    let share = thread.share(10_000, round);
    assert!(share < 0.035, "{share}");
}

#[test]
fn ring_of_polling_ranks_keeps_the_lowest_spin_limit() {
    let mut thread = Thread::new();
    for _ in 0..1000 {
        // This rank's step in the ring, then the wait for the next one.
        thread.history.useful();
        thread.compute(400);
        let first = (1..10).find(|_| thread.poll());
        assert!(first.is_some_and(|polls| polls <= 6), "{first:?}");
        thread.yields_of(5);
    }
    assert_eq!(thread.history.spin_limit_ns, SPIN_LIMIT_MIN_NS);
}

#[test]
fn stops_yielding_when_computation_resumes() {
    let mut thread = Thread::new();
    thread.yields_of(1000);
    let yields = (0..100)
        .filter(|_| {
            thread.compute(300);
            thread.poll()
        })
        .count();
    assert!(yields <= 4, "{yields}");
}

#[test]
fn yields_seldom_when_no_other_rank_needs_the_core() {
    let mut thread = Thread::new();
    (thread.switch, thread.cold) = (400, 0);
    assert!(thread.yields_of(1000) < 100);
    // As soon as another thread needs the core, it yields at nearly every poll again.
    thread.switch = 1500;
    thread.yields_of(40);
    assert!(thread.yields_of(100) >= 70);
}

#[test]
fn a_clock_that_jumps_does_no_harm() {
    let mut thread = Thread::new();
    thread.yields_of(100);
    for jump in [-1_000_000_000_i64, 3_000_000_000] {
        // Right after a yield that has found no other thread.
        thread.switch = 400;
        while !thread.poll() {}
        thread.now = thread.now.saturating_add_signed(jump);
        thread.switch = 1500;
        thread.yields_of(40);
        assert!(thread.yields_of(100) >= 70, "{jump}");
    }
}
