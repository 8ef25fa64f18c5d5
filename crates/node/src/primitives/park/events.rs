//! What ends a wait besides a wake-up.

use std::os::fd::RawFd;
use std::time::Duration;

/// Further events that end the wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WakeEvents {
    /// A descriptor that becomes readable.
    pub descriptor: Option<RawFd>,
    /// A time limit.
    pub limit: Option<Duration>,
}

impl WakeEvents {
    /// The same events, with the shorter of two time limits.
    pub fn shorter(self, limit: Option<Duration>) -> WakeEvents {
        let limit = match (self.limit, limit) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        WakeEvents { limit, ..self }
    }
}
