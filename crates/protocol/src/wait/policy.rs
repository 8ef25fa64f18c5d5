//! How long a thread polls, yields and sleeps before it does the next of them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mica_node::ticks;
use mica_node::tunables::{self, BadValue, Tunable};
use mica_policy::select::CoreUse;

/// Nanoseconds. A yield that takes longer has given the core to a thread that computes, for at
/// least one time slice of the scheduler; ranks that poll pass the core on within microseconds. It
/// is then better to sleep until woken: a woken thread soon gets a core, a thread that yields waits
/// for the time slices of all others before each poll.
const LONG_YIELD_NS: u64 = 1_000_000;

/// A rank that waits this long checks whether the ranks that it waits for still exist, and again
/// after each further interval. Not a bound on one sleep: other traffic, or a network with
/// something in progress, may end each sleep sooner.
pub(crate) const LIVENESS_INTERVAL: Duration = Duration::from_secs(1);

/// Polls of its sender's ring alone that a blocking receive makes before it is posted and polls
/// everything.
const DIRECT_POLLS: u32 = 200;

/// The same where ranks share cores.
const DIRECT_POLLS_SHARED: u32 = 4;

/// How a thread polls, yields and parks while it waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitPolicy {
    /// Polls of a blocking receive of its sender alone; none where polling follows a schedule.
    pub direct_polls: u32,
    /// Ranks outnumber cores: between two direct polls the core is yielded.
    pub shares_core: bool,
    /// For a thread that waits alone.
    pub alone: WaitLimits,
    /// While several threads wait: they share this rank's core.
    pub crowded: WaitLimits,
}

/// How long a thread waits awake.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitLimits {
    /// Polls before it yields.
    pub polls: u32,
    /// Yields before it parks.
    pub yields: u32,
}

impl WaitPolicy {
    /// The policy from the environment.
    ///
    /// # Errors
    /// When a tunable's value is wrong.
    pub fn from_environment(cores: CoreUse) -> Result<WaitPolicy, BadValue> {
        let crowded = WaitLimits::new(&tunables::SPIN_SHARED, &tunables::YIELDS_SHARED)?;
        let alone = match cores {
            CoreUse::Shared => crowded,
            CoreUse::Own => WaitLimits::new(&tunables::SPIN, &tunables::YIELDS)?,
        };
        let direct_polls = match cores {
            CoreUse::Shared => DIRECT_POLLS_SHARED,
            CoreUse::Own => DIRECT_POLLS.min(alone.polls.max(DIRECT_POLLS_SHARED)),
        };
        Ok(WaitPolicy { direct_polls, shares_core: cores == CoreUse::Shared, alone, crowded })
    }

    /// The same without polls of a single peer.
    pub fn without_direct_polls(self) -> WaitPolicy {
        WaitPolicy { direct_polls: 0, ..self }
    }
}

impl WaitLimits {
    fn new(polls: &Tunable, yields: &Tunable) -> Result<WaitLimits, BadValue> {
        let times = |tunable: &Tunable| Ok::<_, BadValue>(tunable.number()?.min(1 << 30) as u32);
        Ok(WaitLimits { polls: times(polls)?, yields: times(yields)? })
    }
}

/// A yield of the core, by its nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CoreYield(pub u64);

impl CoreYield {
    /// It took so long that the next wait had better be asleep.
    pub fn took_long(self) -> bool {
        self.0 >= LONG_YIELD_NS
    }
}

/// Waits that do without yields after one that lost the core: so at most one time slice in this
/// many waits is lost.
const WAITS_WITHOUT_YIELDS: u32 = 32;

/// The yields of a rank's waiting threads, and whether they pay.
///
/// Where threads that compute, or that spin and are not Mica's, keep the cores, each yield costs
/// their time slices, while a thread that sleeps gets a core soon after it is woken. One wait does
/// not show that to the next, so it is remembered here for some waits.
#[derive(Debug, Default)]
pub(crate) struct CoreYields {
    /// Waits that are still to do without. Relaxed everywhere: it only tunes how a thread waits.
    waits_without: AtomicU32,
}

impl CoreYields {
    /// Whether a yield has lost the core lately.
    #[inline]
    pub fn lose_the_core(&self) -> bool {
        self.waits_without.load(Ordering::Relaxed) != 0
    }

    /// To be called before the first yield of a wait. True if the wait is to do without yields.
    pub fn skip_wait(&self) -> bool {
        let left = self.waits_without.load(Ordering::Relaxed);
        // Of two threads that count down at once one is not counted.
        self.waits_without.store(left.saturating_sub(1), Ordering::Relaxed);
        left != 0
    }

    /// Yields the core.
    pub fn yield_core(&self) -> CoreYield {
        let began = ticks::now_ns();
        std::thread::yield_now();
        self.note(CoreYield(ticks::now_ns().saturating_sub(began)))
    }

    fn note(&self, yielded: CoreYield) -> CoreYield {
        if yielded.took_long() {
            self.waits_without.store(WAITS_WITHOUT_YIELDS, Ordering::Relaxed);
        }
        yielded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_yield_that_loses_the_core_is_the_last_for_some_waits() {
        let yields = CoreYields::default();
        assert!(!yields.note(CoreYield(LONG_YIELD_NS - 1)).took_long());
        assert!(!yields.skip_wait() && !yields.lose_the_core());
        assert!(yields.note(CoreYield(LONG_YIELD_NS)).took_long());
        let skipped = (0..1000).filter(|_| yields.lose_the_core() && yields.skip_wait()).count();
        assert_eq!(skipped as u32, WAITS_WITHOUT_YIELDS);
        assert!(!yields.skip_wait());
    }
}
