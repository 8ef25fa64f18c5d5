//! Packets that stay where they are, at the head of a ring or a transport, as there is no memory
//! for them ([`PacketEnd::Left`](crate::receive::PacketEnd)): how long, before the call that finds
//! them fails.

use std::time::Duration;

/// How long memory may be short before the call fails: others may free some meanwhile, or the
/// packet's receive be posted. By the clock, not by a number of tries: a pause of a rank that
/// shares its core can take a hundred times as long.
const SHORT_AT_MOST: Duration = Duration::from_millis(100);

/// Memory is short all the time while packets are left within this of one another.
const NEXT_WITHIN: Duration = Duration::from_secs(1);

/// So long a packet is tried again at once, then after pauses.
const LEFT_AT_ONCE: Duration = Duration::from_micros(100);
const PAUSE: Duration = Duration::from_micros(50);

/// What to do with a packet that is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaveVerdict {
    TryAgain,
    TryAfter(Duration),
    /// The call fails. The packet is still there, for the next call.
    GiveUp,
}

/// The packets that a rank has left.
#[derive(Debug, Default)]
pub(crate) struct LeftPackets {
    count: u64,
    /// Since when memory is short.
    since_ns: u64,
    last_ns: u64,
}

impl LeftPackets {
    /// How often one was left.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// One is left now.
    pub fn leave(&mut self, now_ns: u64) -> LeaveVerdict {
        let since = |then: u64| Duration::from_nanos(now_ns.saturating_sub(then));
        if self.count == 0 || since(self.last_ns) > NEXT_WITHIN {
            self.since_ns = now_ns;
        }
        self.count += 1;
        self.last_ns = now_ns;
        match since(self.since_ns) {
            lasts if lasts >= SHORT_AT_MOST => {
                self.since_ns = now_ns;
                LeaveVerdict::GiveUp
            }
            lasts if lasts > LEFT_AT_ONCE => LeaveVerdict::TryAfter(PAUSE),
            _ => LeaveVerdict::TryAgain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_up_by_the_clock_and_not_after_a_number_of_tries() {
        let mut left = LeftPackets::default();
        let mut leave_at_ms = |ms: u64| left.leave(ms * 1_000_000);
        assert_eq!(leave_at_ms(5000), LeaveVerdict::TryAgain);
        assert_eq!(leave_at_ms(5001), LeaveVerdict::TryAfter(PAUSE));
        // Three tries are as patient as thousands.
        assert_eq!(leave_at_ms(5100), LeaveVerdict::GiveUp);
        assert_eq!(leave_at_ms(5101), LeaveVerdict::TryAfter(PAUSE), "the next call");
        assert_eq!(leave_at_ms(6050), LeaveVerdict::GiveUp);
        // Another packet, later.
        assert_eq!(leave_at_ms(9000), LeaveVerdict::TryAgain);
    }
}
