//! Yield policy: when a thread whose tests and probes fail yields its core.
//!
//! If ranks share cores, the message that a test waits for may be sent by a rank that waits for
//! this very core, so a program that only polls must yield the core at once. A program that
//! computes between its tests must not: a switch of ranks costs more than the computation between
//! two tests, and evicts the program's data from the caches. The library sees both as failing
//! tests. They are distinguished by the gap between the end of one poll and the beginning of the
//! next:
//!
//! | gap | what the program does | rule |
//! |---|---|---|
//! | as long as a call takes, [`gap_of_calls`] | only polls | yields at nearly every poll |
//! | longer | computes as well | yields after its slice of polling |
//! | [`LONG_GAP_NS`] | computes; or the core served others | the polling times are reset |
//!
//! A useful event (a test that succeeds, a message that arrives) also resets the polling times.
//!
//! **Spin limit.** A program that tests ten requests in a row and then computes appears at first as
//! if it only polled. Each time that it is seen to compute after it has yielded, the pure polling
//! time that a yield requires (`spin_limit_ns`) doubles; many yields without that halve it again.
//! The gap after a yield is not judged, because the other ranks have evicted the caches; so that
//! there are other gaps to judge, one yield in [`CHECK_EVERY`] is skipped.
//!
//! **Slice.** For a program that computes, each yield costs cache content and, if other jobs
//! compete for the core, the duration of one of their time slices. So each yield after which the
//! next poll fails lengthens the slice by an eighth, from [`SLICE_MIN_NS`] to [`SLICE_MAX_NS`]; a
//! yield that is followed by a useful event resets it to the minimum.
//!
//! **Alone.** A yield that returns at once has found no other thread to run: for [`ALONE_NS`] it is
//! assumed that there is none.
//!
//! The struct holds no clock: every call gets the time in nanoseconds, of any clock. If the clock
//! jumps (it may differ between cores), one decision is wrong: only differences count, and they are
//! never below 0.

/// Minimum of the spin limit, in nanoseconds of pure polling before the thread yields: one poll.
pub const SPIN_LIMIT_MIN_NS: u32 = 50;

/// Pure polling time is counted up to this many nanoseconds beyond the spin limit, so that
/// computing soon outweighs a long wait.
const PURE_BEYOND_NS: u32 = 300;

/// Maximum of the spin limit, in nanoseconds: some 15 switches between ranks.
pub const SPIN_LIMIT_MAX_NS: u32 = 20_000;

/// Yields after which the spin limit halves, if the program was not seen to compute meanwhile.
const LONG_WAIT: u32 = 256;

/// One yield in this many of a program that only polls is skipped, so that the gap after it can be
/// judged.
const CHECK_EVERY: u32 = 4;

/// Minimum of the slice: nanoseconds of polling after which a thread that computes between polls
/// yields. A switch (1 to 1.5 us) is 3 % of it.
pub const SLICE_MIN_NS: u32 = 50_000;

/// Maximum of the slice, in nanoseconds: less than the scheduler gives a thread that never yields
/// (3 ms).
pub const SLICE_MAX_NS: u32 = 1_000_000;

/// A gap counts as polling time up to this many times the duration of the poll before it.
const GAP_SHARE: u64 = 2;

/// Weight with which the excess of a gap over that of calls is subtracted from the pure polling
/// time.
const COMPUTED_WEIGHT: u64 = 8;

/// A gap of at least this many nanoseconds is useful work, or the core served others meanwhile.
pub const LONG_GAP_NS: u64 = 20_000;

/// Maximum duration of a poll that is counted, in nanoseconds: a longer one was interrupted, or
/// copied bytes.
const POLL_MAX_NS: u64 = 1_000;

/// A yield shorter than this, in nanoseconds, has found no other thread to run: two switches take
/// longer.
pub const EMPTY_YIELD_NS: u64 = 700;

/// Nanoseconds after an empty yield for which the core is assumed to have no other thread.
pub const ALONE_NS: u64 = 2_000;

/// The recent history of a thread's failing polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollYield {
    /// When the current poll began, or the yield before it ended.
    began_ns: u64,
    /// When the last failing poll ended, and its duration.
    ended_ns: u64,
    poll_ns: u32,
    /// Until then, a yield is useless.
    alone_until_ns: u64,
    /// Time for which the program has only polled.
    pure_ns: u32,
    /// Time of polling since the last useful event or yield.
    idle_ns: u32,
    spin_limit_ns: u32,
    slice_ns: u32,
    /// The last poll began at the end of a slice.
    is_new_slice: bool,
    /// Yields since the program was last seen to compute between polls, less than [`LONG_WAIT`].
    yields: u32,
    /// Pseudorandom sequence that selects the yields to skip, see [`is_due`](Self::is_due).
    due: u32,
    /// The gap after the last poll shows what the program does: the poll has failed, and did not
    /// begin with a yield.
    is_gap_clear: bool,
    /// The current poll began with a yield.
    has_yielded: bool,
}

impl Default for PollYield {
    fn default() -> PollYield {
        PollYield::new()
    }
}

/// The longest gap that is only the return from one call and the entry into the next. Both together
/// take about as long as a poll, on slow and on fast processors; the bounds prevent that a poll of
/// many requests is taken for a slow processor.
fn gap_of_calls(poll_ns: u64) -> u64 {
    poll_ns.clamp(60, 150)
}

impl PollYield {
    /// The state before any poll.
    pub const fn new() -> PollYield {
        PollYield {
            began_ns: 0,
            ended_ns: 0,
            poll_ns: 0,
            alone_until_ns: 0,
            pure_ns: 0,
            idle_ns: 0,
            spin_limit_ns: SPIN_LIMIT_MIN_NS,
            slice_ns: SLICE_MIN_NS,
            is_new_slice: false,
            yields: 0,
            due: 0,
            is_gap_clear: false,
            has_yielded: false,
        }
    }

    /// A poll begins: returns whether to yield first. If so, the caller must call
    /// [`yielded`](Self::yielded) afterwards.
    #[inline]
    pub fn begin(&mut self, now_ns: u64) -> bool {
        self.began_ns = now_ns;
        self.has_yielded = false;
        let gap_ns = now_ns.saturating_sub(self.ended_ns);
        if gap_ns >= LONG_GAP_NS {
            self.useful();
            return false;
        }
        let poll_ns = u64::from(self.poll_ns);
        let charged_ns = poll_ns + gap_ns.min(GAP_SHARE * poll_ns);
        self.idle_ns = self.idle_ns.saturating_add(charged_ns as u32);
        self.judge(gap_ns, poll_ns);
        // A remainder that exceeds the maximum comes from a clock that jumped back.
        let alone_ns = self.alone_until_ns.saturating_sub(now_ns);
        !(1..=ALONE_NS).contains(&alone_ns) && self.is_due()
    }

    /// The poll has failed.
    #[inline]
    pub fn failed(&mut self, now_ns: u64) {
        self.poll_ns = now_ns.saturating_sub(self.began_ns).min(POLL_MAX_NS) as u32;
        self.ended_ns = now_ns;
        self.is_gap_clear = !self.has_yielded;
        if std::mem::take(&mut self.is_new_slice) {
            self.slice_ns = (self.slice_ns + self.slice_ns / 8).min(SLICE_MAX_NS);
        }
    }

    /// Accounts for what the program did between two polls.
    #[inline]
    fn judge(&mut self, gap_ns: u64, poll_ns: u64) {
        if !std::mem::take(&mut self.is_gap_clear) {
            return;
        }
        let allowed_ns = gap_of_calls(poll_ns);
        let computed_ns = gap_ns.saturating_sub(allowed_ns);
        let spent_ns = (poll_ns + gap_ns.min(allowed_ns)) as u32;
        self.pure_ns = (self.pure_ns + spent_ns)
            .min(self.spin_limit_ns + PURE_BEYOND_NS)
            .saturating_sub((COMPUTED_WEIGHT * computed_ns) as u32);
        // Twice the time of calls is more than a call that was slow once.
        if computed_ns > allowed_ns {
            self.computed();
        }
    }

    fn is_due(&mut self) -> bool {
        if self.pure_ns >= self.spin_limit_ns {
            // Multiples of the golden ratio scatter the skipped yields: at regular intervals they
            // might always hit the same one of the polls between two computations.
            self.due = self.due.wrapping_add(0x9e37_79b9);
            return self.due >= u32::MAX / CHECK_EVERY;
        }
        self.idle_ns >= self.slice_ns
    }

    /// The thread has yielded, until `now_ns`.
    #[inline]
    pub fn yielded(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.began_ns) < EMPTY_YIELD_NS {
            self.alone_until_ns = now_ns + ALONE_NS;
        }
        self.began_ns = now_ns;
        self.idle_ns = 0;
        self.has_yielded = true;
        self.is_new_slice = self.pure_ns < self.spin_limit_ns;
        if self.is_new_slice {
            return;
        }
        self.yields += 1;
        if self.yields == LONG_WAIT {
            self.yields = 0;
            self.spin_limit_ns = (self.spin_limit_ns / 2).max(SPIN_LIMIT_MIN_NS);
        }
    }

    /// A poll has succeeded, or something else has arrived meanwhile.
    #[inline]
    pub fn useful(&mut self) {
        if std::mem::take(&mut self.is_new_slice) {
            self.slice_ns = SLICE_MIN_NS;
        }
        self.pure_ns = 0;
        self.idle_ns = 0;
        self.is_gap_clear = false;
    }

    /// The program was seen to compute between two polls.
    fn computed(&mut self) {
        self.pure_ns = 0;
        if self.yields > 0 {
            self.yields = 0;
            self.spin_limit_ns = (2 * self.spin_limit_ns).min(SPIN_LIMIT_MAX_NS);
        }
    }
}

#[cfg(test)]
mod tests;
