//! Accounts for the time of waits, by reason (`mica_node::counters::WaitReason`).
//!
//! A wait that ends within its first polls takes no clock and is not counted: that is the fast
//! path. Where ranks share cores, such polls yield the core, which may take longer than all else: a
//! yield is timed anyway, and its time is counted ([`Engine::yield_in_wait`]). From the
//! [`tick`](WaitAccount::tick) after `QUESTION_EVERY` failed polls on, and after every sleep, the
//! time since the last tick goes to the reason that held then. What this rank
//! copied itself meanwhile is counted where it copies ([`timed_copy`](EngineState::timed_copy)),
//! and is not counted here again.
//!
//! Called by `Engine::drive` and `Engine::watch_for` alone; `yield_in_wait` also by a blocking
//! receive before it is posted.

use crate::engine::{Engine, EngineState};
use crate::wait::policy::CoreYield;
use mica_node::counters::WaitReason;
use mica_node::segment::monotonic_ns;

/// The time of one wait.
#[derive(Debug)]
pub(crate) struct WaitAccount<'a> {
    engine: &'a Engine,
    /// When time was accounted for last; 0: the wait has taken no clock yet.
    last_ns: u64,
    /// What the time since then goes to.
    reason: WaitReason,
    /// The time of copying at that moment.
    copied_ns: u64,
}

impl<'a> WaitAccount<'a> {
    pub fn new(engine: &'a Engine) -> WaitAccount<'a> {
        WaitAccount { engine, last_ns: 0, reason: WaitReason::Peer, copied_ns: 0 }
    }

    /// The wait's time is accounted for from here on, with all that it contains.
    pub fn has_begun(&self) -> bool {
        self.last_ns != 0
    }

    /// Something has arrived.
    #[inline(always)]
    pub fn note_progress(&mut self) {
        if self.last_ns != 0 && self.reason != WaitReason::Progress {
            self.turn_to(WaitReason::Progress);
        }
    }

    /// Polls have found nothing for a while, or the thread has slept.
    #[cold]
    pub fn tick(&mut self) {
        let reason = self.engine.enter(|state| state.wait_reason());
        self.turn_to(reason);
    }

    #[cold]
    fn turn_to(&mut self, reason: WaitReason) {
        let begins = self.last_ns == 0;
        self.close();
        if begins || reason != self.reason {
            self.engine.counters.count_wait(reason);
        }
        self.reason = reason;
        self.copied_ns = self.engine.counters.wait_time(WaitReason::Copying);
    }

    /// Accounts for the time so far.
    fn close(&mut self) {
        let (counters, now) = (&self.engine.counters, monotonic_ns());
        if self.last_ns != 0 {
            let copied = counters.wait_time(WaitReason::Copying) - self.copied_ns;
            let spent = (now - self.last_ns).saturating_sub(copied);
            counters.add_wait_time(self.reason, spent);
        }
        self.last_ns = now;
    }
}

impl Drop for WaitAccount<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.last_ns != 0 {
            self.close();
        }
    }
}

impl Engine {
    /// Yields the core in a wait whose time is not accounted for yet, and counts that of the yield.
    #[cold]
    #[inline(never)]
    pub(crate) fn yield_in_wait(&self) -> CoreYield {
        let yielded = self.yields.yield_core();
        self.counters.count_wait(WaitReason::Peer);
        self.counters.add_wait_time(WaitReason::Peer, yielded.0);
        yielded
    }
}

impl EngineState {
    /// Why this rank waits, if it waits now.
    fn wait_reason(&self) -> WaitReason {
        if !self.sends.backlog.is_empty() {
            WaitReason::QueueFull
        } else if self.rendezvous.polls_copy_jobs(&self.completions) {
            WaitReason::Copying
        } else {
            WaitReason::Peer
        }
    }

    /// Calls `copy`, which copies bytes of a message of `len` bytes, and accounts for its time if
    /// the message is long.
    pub(crate) fn timed_copy<R>(
        &mut self,
        len: usize,
        copy: impl FnOnce(&mut EngineState) -> R,
    ) -> R {
        if len < TIMED_COPY_MIN {
            return copy(self);
        }
        let start = monotonic_ns();
        let result = copy(self);
        self.counters.count_wait(WaitReason::Copying);
        self.counters.add_wait_time(WaitReason::Copying, monotonic_ns() - start);
        result
    }
}

/// Minimum length in bytes of a message whose copy is timed: it takes 5 us or more, two readings of
/// the clock 50 ns.
const TIMED_COPY_MIN: usize = 64 * 1024;
