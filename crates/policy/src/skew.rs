//! Process skew: a receiver that lags behind detects it and notifies the sender (chai-2009, 6.3.2).
//!
//! The receiver watches its unexpected queue, with one [`SkewMonitor`] for each sender. If the
//! queue stays long over many arrivals, the receiver notifies the sender to send medium messages
//! through shared memory without waiting ([`SkewChange::Skewed`]); if it stays short for longer
//! still, it notifies the sender to revert ([`SkewChange::Even`]). The thresholds for long and
//! short differ, and so do the periods, so that the state does not flap.

use mica_node::tunables::{self, BadValue};

/// Thresholds and periods of the skew detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkewPolicy {
    /// The queue is long if it has more than this many unexpected messages.
    pub many: u32,
    /// The queue is short if it has at most this many; less than `many`.
    pub few: u32,
    /// Consecutive observations of a long queue that make a connection skewed; at least 1.
    pub rise: u32,
    /// Consecutive observations of a short queue that make it even; at least 1.
    pub fall: u32,
}

impl SkewPolicy {
    /// `many` messages over `period` observations make a connection skewed; half as many over four
    /// times as long make it even. A period of 0 counts as 1.
    pub fn new(many: u32, period: u32) -> SkewPolicy {
        let period = period.max(1);
        SkewPolicy {
            many: many.max(1),
            few: many / 2,
            rise: period,
            fall: period.saturating_mul(4),
        }
    }

    /// The policy from `MICA_SKEW`, `MICA_SKEW_LENGTH` and `MICA_SKEW_PERIOD`; `None` if skew
    /// detection is off.
    ///
    /// # Errors
    /// If one of them has an invalid value.
    pub fn from_environment() -> Result<Option<SkewPolicy>, BadValue> {
        let count = |tunable: &tunables::Tunable| {
            let value = tunable.number()?;
            Ok::<_, BadValue>(u32::try_from(value).unwrap_or(u32::MAX))
        };
        let many = count(&tunables::SKEW_LENGTH)?;
        let period = count(&tunables::SKEW_PERIOD)?;
        Ok((tunables::SKEW.choice()? == "auto").then(|| SkewPolicy::new(many, period)))
    }
}

/// A change of state that the sender must be notified of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkewChange {
    /// The receiver lags behind: do not wait for it with medium messages.
    Skewed,
    /// It has caught up.
    Even,
}

/// The state that a receiver keeps for one sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SkewMonitor {
    /// Whether the last notification to the sender said that this receiver lags behind.
    skewed: bool,
    /// Consecutive observations that indicate a change.
    run: u32,
}

impl SkewMonitor {
    /// Records that `unexpected` messages of this sender are in the unexpected queue. Must be
    /// called whenever one of its messages (or RTS packets) arrives. Returns the change that the
    /// sender must be notified of, if any.
    #[inline]
    pub fn observe(&mut self, policy: &SkewPolicy, unexpected: u32) -> Option<SkewChange> {
        let (speaks_for_change, needed) = if self.skewed {
            (unexpected <= policy.few, policy.fall)
        } else {
            (unexpected > policy.many, policy.rise)
        };
        if !speaks_for_change {
            self.run = 0;
            return None;
        }
        self.run += 1;
        if self.run < needed {
            return None;
        }
        self.run = 0;
        self.skewed = !self.skewed;
        Some(if self.skewed { SkewChange::Skewed } else { SkewChange::Even })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POLICY: SkewPolicy = SkewPolicy { many: 8, few: 4, rise: 3, fall: 6 };

    fn changes(
        policy: &SkewPolicy,
        lengths: impl IntoIterator<Item = u32>,
    ) -> Vec<(usize, SkewChange)> {
        let mut monitor = SkewMonitor::default();
        let observed = lengths.into_iter().enumerate();
        observed.filter_map(|(at, length)| Some((at, monitor.observe(policy, length)?))).collect()
    }

    #[test]
    fn a_queue_that_stays_long_is_skew_and_one_that_stays_short_is_none() {
        let long = std::iter::repeat_n(9, 10);
        let short = std::iter::repeat_n(4, 10);
        let found = changes(&POLICY, long.chain(short));
        assert_eq!(found, [(2, SkewChange::Skewed), (15, SkewChange::Even)]);
    }

    #[test]
    fn short_bursts_change_nothing() {
        let bursts = [9, 9, 0].into_iter().cycle().take(1000);
        assert_eq!(changes(&POLICY, bursts), []);
        // Nor does a queue between few and many, in either state.
        assert_eq!(changes(&POLICY, std::iter::repeat_n(8, 1000)), []);
        let long = std::iter::repeat_n(9, 3).chain(std::iter::repeat_n(5, 1000));
        assert_eq!(changes(&POLICY, long).len(), 1);
    }

    /// The producer and consumer of chai-2009, 6.2.4: windows of 64 messages meet a receiver that
    /// takes one at a time. There is one notification, in the first window, and the state stays:
    /// the first arrivals of a window, which find the queue short, do not count.
    #[test]
    fn windows_of_a_slow_consumer_do_not_flap() {
        let policy = SkewPolicy::new(8, 16);
        let window = 1..=64;
        let lengths = (0..50).flat_map(|_| window.clone());
        assert_eq!(changes(&policy, lengths), [(23, SkewChange::Skewed)]);
    }

    #[test]
    fn policies_are_sane_whatever_is_asked_for() {
        for (many, period) in [(0, 0), (1, 1), (8, 16), (u32::MAX, u32::MAX)] {
            let policy = SkewPolicy::new(many, period);
            assert!(policy.few < policy.many && policy.rise >= 1 && policy.fall >= policy.rise);
        }
    }

    proptest! {
        #[test]
        fn changes_alternate_and_are_earned(
            lengths in prop::collection::vec(0u32..12, 0..400),
            many in 1u32..8,
            period in 1u32..8,
        ) {
            let policy = SkewPolicy::new(many, period);
            let found = changes(&policy, lengths.iter().copied());
            let mut previous: Option<usize> = None;
            for (n, &(at, change)) in found.iter().enumerate() {
                // Alternating, from Skewed on.
                let rises = n % 2 == 0;
                prop_assert_eq!(change == SkewChange::Skewed, rises);
                // Each after a full run of observations that all indicate it, none of which
                // counted for the previous change.
                let run = if rises { policy.rise } else { policy.fall } as usize;
                let start = (at + 1).checked_sub(run).expect("observations come first");
                prop_assert!(previous.is_none_or(|previous| start > previous));
                for &length in &lengths[start..=at] {
                    let speaks = match rises {
                        true => length > policy.many,
                        false => length <= policy.few,
                    };
                    prop_assert!(speaks);
                }
                previous = Some(at);
            }
        }

        #[test]
        fn a_full_run_is_always_noticed(
            before in prop::collection::vec(0u32..30, 0..100),
            many in 1u32..8,
            period in 1u32..8,
        ) {
            let policy = SkewPolicy::new(many, period);
            let mut monitor = SkewMonitor::default();
            for length in before {
                monitor.observe(&policy, length);
            }
            for _ in 0..policy.rise {
                monitor.observe(&policy, policy.many + 1);
            }
            prop_assert!(monitor.skewed);
            for _ in 0..policy.fall {
                monitor.observe(&policy, 0);
            }
            prop_assert!(!monitor.skewed);
        }
    }
}
