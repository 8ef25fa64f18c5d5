//! The ports of an adapter in the LogGP model (Alexandrov et al., LogGP, 1995).
//!
//! A message of `b` bytes leaves its sender when the sending port is free, which is then busy for
//! `g + (b - 1) G`, or until its last byte is there if the sender brings the bytes more slowly than
//! the port takes them. At the receiver its bytes pass a port at `G` each, which is then busy for
//! another `g`; `L` later they are there. Two messages of one sender are `g + (b - 1) G` apart; one
//! that is alone needs `L + (b - 1) G`.
//!
//! A [`Port`] serves in the order in which it is asked. That is the order of departure for a
//! sending port. `network` receives by a calendar instead, since packets are known in that order
//! and arrive in another; the replayer receives by a port, in the order in which its ranks wait.

use crate::time::{ByteTimes, SimTime};

/// `L`, `g` and `G`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortTiming {
    /// `L`.
    pub latency: SimTime,
    /// `g`.
    pub gap: SimTime,
    /// `G`, in picoseconds.
    byte_gap: f64,
}

impl PortTiming {
    /// Of a channel with this `L`, `g` and `G` in nanoseconds.
    pub fn new(latency_ns: f64, gap_ns: f64, gap_per_byte_ns: f64) -> PortTiming {
        PortTiming {
            latency: SimTime::from_ns(latency_ns),
            gap: SimTime::from_ns(gap_ns),
            byte_gap: gap_per_byte_ns * 1e3,
        }
    }

    /// The time from the first byte to the last at a port.
    pub fn transfer(&self, bytes: u64) -> SimTime {
        bytes_time(bytes.saturating_sub(1), self.byte_gap)
    }
}

/// `bytes` at `gap` picoseconds each, to the nearest picosecond.
pub(super) fn bytes_time(bytes: u64, gap: f64) -> SimTime {
    SimTime((bytes as f64 * gap).round() as u64)
}

/// A port that serves messages in the order in which it is asked.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Port {
    free: SimTime,
}

impl Port {
    /// Sends a message that is there at `at`, with its last byte at `last`. Returns when its bytes
    /// leave.
    pub fn send(
        &mut self,
        at: SimTime,
        last: SimTime,
        bytes: u64,
        timing: &PortTiming,
    ) -> ByteTimes {
        let first = at.max(self.free);
        let through = first + timing.transfer(bytes);
        let last = through.max(last);
        // What is sent next leaves after the last byte: messages of a pair stay in order.
        self.free = last.max(through + timing.gap);
        ByteTimes { first, last }
    }

    /// Takes in a message whose first byte is at the port at `head`. Returns when its last byte is
    /// through, `L` before it is there.
    pub fn receive(&mut self, head: SimTime, bytes: u64, timing: &PortTiming) -> SimTime {
        let done = head.max(self.free) + timing.transfer(bytes);
        self.free = done + timing.gap;
        done
    }

    /// Is busy until this moment at least.
    pub fn occupy_until(&mut self, at: SimTime) {
        self.free = self.free.max(at);
    }
}
