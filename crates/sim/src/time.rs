//! Simulated time in picoseconds, the same on all nodes.

use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// A moment of simulated time, or a duration: picoseconds since the start. Reaches 213 days.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct SimTime(pub u64);

impl SimTime {
    /// Beyond every moment.
    pub const NEVER: SimTime = SimTime(u64::MAX);

    /// A duration of `ns` nanoseconds, rounded to the nearest picosecond.
    pub fn from_ns(ns: f64) -> SimTime {
        SimTime((ns * 1e3).round() as u64)
    }

    /// In nanoseconds.
    pub fn ns(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The duration since `earlier`, 0 if that is later.
    pub fn since(self, earlier: SimTime) -> SimTime {
        SimTime(self.0.saturating_sub(earlier.0))
    }
}

/// When the bytes of a packet are there: at its sender, or at the node that it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteTimes {
    /// The first.
    pub first: SimTime,
    /// The last.
    pub last: SimTime,
}

impl ByteTimes {
    /// All at one moment.
    pub fn at_once(at: SimTime) -> ByteTimes {
        ByteTimes { first: at, last: at }
    }
}

impl Add for SimTime {
    type Output = SimTime;

    fn add(self, other: SimTime) -> SimTime {
        SimTime(self.0.saturating_add(other.0))
    }
}

impl AddAssign for SimTime {
    fn add_assign(&mut self, other: SimTime) {
        *self = *self + other;
    }
}

impl Sub for SimTime {
    type Output = SimTime;

    fn sub(self, other: SimTime) -> SimTime {
        SimTime(self.0 - other.0)
    }
}
