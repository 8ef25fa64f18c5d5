//! When a thread whose tests and probes find nothing yields its core.
//!
//! Where ranks share cores, the message that a test looks for may be sent by a rank that waits for
//! this very core, so a program that only polls must give the core away at once. A program that
//! computes between its tests must not: a switch of ranks costs more than the computation between
//! two tests, and what the other rank leaves of the caches. The library sees both as tests that
//! fail. What tells them apart is the gap between the end of one poll and the beginning of the
//! next:
//!
//! | gap | what the program does | rule |
//! |---|---|---|
//! | as long as a call takes, [`gap_of_calls`] | nothing but poll | yields at nearly every poll |
//! | longer | computes as well | yields after its slice of polling |
//! | [`LONG_GAP_NS`] | computes; or the core served others | polling begins anew |
//!
//! Something useful, a test that succeeds or a message that arrives, begins all of it anew.
//!
//! **Patience.** A program that tests ten requests in a row and then computes looks for a while as
//! if it only polled. Each time that it is seen to compute after it has yielded, the time of
//! nothing but polls that a yield takes doubles; many yields without that halve it again. The gap
//! after a yield is not judged, since the other ranks have emptied the caches; so that there are
//! others, one yield in [`CHECK_EVERY`] is left out.
//!
//! **Slice.** A program that computes loses by each yield: what is in the caches, and where other
//! jobs compete for the core, a turn of theirs. So each yield after which the next poll finds
//! nothing lengthens the slice by an eighth, from [`SLICE_MIN_NS`] to [`SLICE_MAX_NS`]; one that
//! is followed by something useful makes it short again.
//!
//! **Alone.** A yield that comes back at once has found nobody who needs the core: for
//! [`ALONE_NS`] there is none.
//!
//! The struct holds no clock: every call is given the time in nanoseconds, of any clock. Where the
//! clock jumps (it may differ between cores), a decision is wrong once: only differences count,
//! and they are never below 0.

/// Shortest time of nothing but polls before the thread yields: one poll.
pub const SPIN_LIMIT_MIN_NS: u32 = 50;

/// The time of nothing but polls is counted so far beyond the patience, and no further: computing
/// soon outweighs a long wait.
const PURE_BEYOND_NS: u32 = 300;

/// The longest such time that is learned: some 15 switches between ranks.
pub const SPIN_LIMIT_MAX_NS: u32 = 20_000;

/// Yields after which the patience halves, if the program was not seen to compute meanwhile.
const LONG_WAIT: u32 = 256;

/// One yield in so many of a program that only polls is left out, so that the gap after it can be
/// judged.
const CHECK_EVERY: u32 = 4;

/// Time of polling after which a thread yields that computes between polls: a switch (1 to 1.5 us)
/// is 3 % of it.
pub const SLICE_MIN_NS: u32 = 50_000;

/// The longest such time: less than the scheduler gives a thread that never yields (3 ms).
pub const SLICE_MAX_NS: u32 = 1_000_000;

/// Computing counts as polling up to so many times the poll before it.
const GAP_SHARE: u64 = 2;

/// What a gap is longer than that of calls counts so many times against the time of nothing but
/// polls.
const COMPUTED_WEIGHT: u64 = 8;

/// A gap as long as this is useful work, or the core served others meanwhile.
pub const LONG_GAP_NS: u64 = 20_000;

/// No poll counts for more: it was interrupted, or moved bytes.
const POLL_MAX_NS: u64 = 1_000;

/// A yield that is over sooner has found nobody else to run: two switches take longer.
pub const EMPTY_YIELD_NS: u64 = 700;

/// After an empty yield the core is this thread's own for so long.
pub const ALONE_NS: u64 = 2_000;

/// What a thread's failing polls have been like lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollYield {
    /// When the poll that goes on began, or the yield before it ended.
    began_ns: u64,
    /// When the last failing poll ended, and what it took.
    ended_ns: u64,
    poll_ns: u32,
    /// Before that a yield is of no use.
    alone_until_ns: u64,
    /// Time for which the program has done nothing but poll.
    pure_ns: u32,
    /// Time of polling since the last useful thing or yield.
    idle_ns: u32,
    patience_ns: u32,
    slice_ns: u32,
    /// The last poll began with the end of a slice.
    is_new_slice: bool,
    /// Yields since the program was last seen to compute between polls, fewer than [`LONG_WAIT`].
    yields: u32,
    /// Which yield is the next to be left out, see [`is_due`](Self::is_due).
    due: u32,
    /// The gap after the last poll tells what the program does: the poll has failed, and did not
    /// begin with a yield.
    is_gap_clear: bool,
    /// The poll that goes on began with a yield.
    has_yielded: bool,
}

impl Default for PollYield {
    fn default() -> PollYield {
        PollYield::new()
    }
}

/// The longest gap that is but the way out of one call and into the next. Both ways together and a
/// poll take about as long, on slow and on fast processors; the bounds keep a poll of many
/// requests from passing for a slow processor.
fn gap_of_calls(poll_ns: u64) -> u64 {
    poll_ns.clamp(60, 150)
}

impl PollYield {
    /// Before any poll.
    pub const fn new() -> PollYield {
        PollYield {
            began_ns: 0,
            ended_ns: 0,
            poll_ns: 0,
            alone_until_ns: 0,
            pure_ns: 0,
            idle_ns: 0,
            patience_ns: SPIN_LIMIT_MIN_NS,
            slice_ns: SLICE_MIN_NS,
            is_new_slice: false,
            yields: 0,
            due: 0,
            is_gap_clear: false,
            has_yielded: false,
        }
    }

    /// A poll begins: whether to yield first. If so, [`yielded`](Self::yielded) is to be called
    /// afterwards.
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
        // A remainder that is longer than it can be is that of a clock that jumped back.
        let alone_ns = self.alone_until_ns.saturating_sub(now_ns);
        !(1..=ALONE_NS).contains(&alone_ns) && self.is_due()
    }

    /// It has found nothing.
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
            .min(self.patience_ns + PURE_BEYOND_NS)
            .saturating_sub((COMPUTED_WEIGHT * computed_ns) as u32);
        // Twice what calls take is more than a call that was slow for once.
        if computed_ns > allowed_ns {
            self.computed();
        }
    }

    fn is_due(&mut self) -> bool {
        if self.pure_ns >= self.patience_ns {
            // Which one is scattered by multiples of the golden ratio: at regular intervals it
            // might always be the same of the polls between two computations.
            self.due = self.due.wrapping_add(0x9e37_79b9);
            return self.due >= u32::MAX / CHECK_EVERY;
        }
        self.idle_ns >= self.slice_ns
    }

    /// After the yield, at this time.
    #[inline]
    pub fn yielded(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.began_ns) < EMPTY_YIELD_NS {
            self.alone_until_ns = now_ns + ALONE_NS;
        }
        self.began_ns = now_ns;
        self.idle_ns = 0;
        self.has_yielded = true;
        self.is_new_slice = self.pure_ns < self.patience_ns;
        if self.is_new_slice {
            return;
        }
        self.yields += 1;
        if self.yields == LONG_WAIT {
            self.yields = 0;
            self.patience_ns = (self.patience_ns / 2).max(SPIN_LIMIT_MIN_NS);
        }
    }

    /// A poll has found something, or something else has arrived meanwhile.
    #[inline]
    pub fn useful(&mut self) {
        if std::mem::take(&mut self.is_new_slice) {
            self.slice_ns = SLICE_MIN_NS;
        }
        self.pure_ns = 0;
        self.idle_ns = 0;
        self.is_gap_clear = false;
    }

    /// The program was seen to do something else between two polls.
    fn computed(&mut self) {
        self.pure_ns = 0;
        if self.yields > 0 {
            self.yields = 0;
            self.patience_ns = (2 * self.patience_ns).min(SPIN_LIMIT_MAX_NS);
        }
    }
}

#[cfg(test)]
mod tests;
