//! Process skew: a receiver that lags behind notices it and tells the sender (chai-2009, 6.3.2).
//!
//! The receiver watches its unexpected queue, one [`SkewMonitor`] for each sender. If the queue stays long over many
//! arrivals, the sender is told to let medium messages go through shared memory without waiting ([`SkewChange::Skewed`]);
//! if it stays short for longer still, the sender is told to go back ([`SkewChange::Even`]). The lengths at which it counts as
//! long and as short differ, and so do the periods, so that it does not flap.

use mica_node::tunables::{self, BadValue};

/// When a queue is long, and how long it must be so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkewPolicy {
    /// More unexpected messages than these are many.
    pub many: u32,
    /// Not more than these are few; less than `many`.
    pub few: u32,
    /// Observations of many, one after the other, that make a connection skewed; at least 1.
    pub rise: u32,
    /// Observations of few, one after the other, that make it even; at least 1.
    pub fall: u32,
}

impl SkewPolicy {
    /// `many` messages over `period` observations make a connection skewed; half as many over four times as long make it
    /// even. A period of 0 counts as 1.
    pub fn new(many: u32, period: u32) -> SkewPolicy {
        let period = period.max(1);
        SkewPolicy {
            many: many.max(1),
            few: many / 2,
            rise: period,
            fall: period.saturating_mul(4),
        }
    }

    /// That of `MICA_SKEW`, `MICA_SKEW_LENGTH` and `MICA_SKEW_PERIOD`; `None` if skew is not to be watched.
    ///
    /// # Errors
    /// When a value there does not fit.
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

/// What the sender is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkewChange {
    /// The receiver lags behind: do not wait for it with medium messages.
    Skewed,
    /// It has caught up.
    Even,
}

/// What a receiver knows of one sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SkewMonitor {
    skewed: bool,
    /// Observations in a row that speak for a change.
    run: u32,
}

impl SkewMonitor {
    /// Whether the sender was told last that this receiver lags behind.
    pub const fn is_skewed(&self) -> bool {
        self.skewed
    }

    /// Takes note that `unexpected` messages of this sender wait for their receives: to be called whenever one of its
    /// messages (or requests) arrives. Answers what the sender is to be told, if anything.
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
        Some(if self.skewed {
            SkewChange::Skewed
        } else {
            SkewChange::Even
        })
    }
}
