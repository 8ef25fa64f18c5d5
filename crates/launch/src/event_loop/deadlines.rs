//! The points in time at which the launcher acts without an event from outside.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What is done when a time has come. Of several that have passed, the first in this list is
/// handled first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deadline {
    /// Print what every rank waits for (`--hang-report`).
    HangReport,
    /// The job's time is over (`--timeout`).
    Timeout,
    /// Agents have had their time to answer what their ranks wait for.
    AgentAnswers,
    /// The remote shells of lost hosts have had their time to end and to say why.
    HostsLost,
    /// Other hosts have had their time to refuse an agent, after one has.
    HostsRefused,
    /// A failure that may be the consequence of another is taken as the cause.
    Suspicion,
    /// Check whether the others can go on without the ranks that left.
    Departed,
    /// Check whether a rank waits for one that exited without MPI_Init.
    WithoutInit,
    /// Check whether what ended ranks started still runs.
    Lingering,
    /// Check for ranks of other worlds that are lost, and for launchers of spawned jobs.
    Worlds,
    /// All agents must have connected.
    AgentsConnected,
    /// Ranks or agents that have not ended by themselves are killed.
    Kill,
    /// What was killed and has not ended is not waited for any more.
    GiveUp,
    /// A part of a line is passed on.
    PartialLine,
    /// The other sides of connections get a sign of life, and their own is checked.
    Heartbeat,
}

/// The deadlines that are set, at most one of each kind.
#[derive(Debug, Default)]
pub struct Deadlines(BTreeMap<Deadline, Instant>);

impl Deadlines {
    /// Sets a deadline, in place of an earlier or later one of its kind.
    pub fn set(&mut self, deadline: Deadline, at: Instant) {
        self.0.insert(deadline, at);
    }

    /// Sets a deadline unless an earlier one of its kind is set.
    pub fn set_earlier(&mut self, deadline: Deadline, at: Instant) {
        let known = self.0.entry(deadline).or_insert(at);
        *known = at.min(*known);
    }

    /// Cancels a deadline.
    pub fn clear(&mut self, deadline: Deadline) {
        self.0.remove(&deadline);
    }

    /// When a deadline is, if it is set.
    pub fn get(&self, deadline: Deadline) -> Option<Instant> {
        self.0.get(&deadline).copied()
    }

    /// Time until the next one; `None` if none is set.
    pub fn time_left(&self, now: Instant) -> Option<Duration> {
        Some(self.0.values().min()?.saturating_duration_since(now))
    }

    /// Takes the first deadline that has passed out of the set.
    pub fn take_passed(&mut self, now: Instant) -> Option<Deadline> {
        let (&first, _) = self.0.iter().find(|(_, at)| **at <= now)?;
        self.0.remove(&first);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_deadlines_are_taken_in_order_and_once() {
        let now = Instant::now();
        let later = now + Duration::from_secs(5);
        let mut deadlines = Deadlines::default();
        assert_eq!(deadlines.time_left(now), None);
        deadlines.set(Deadline::Kill, now);
        deadlines.set(Deadline::Timeout, now);
        deadlines.set(Deadline::Heartbeat, later);
        assert_eq!(deadlines.time_left(now), Some(Duration::ZERO));
        assert_eq!(deadlines.take_passed(now), Some(Deadline::Timeout));
        assert_eq!(deadlines.take_passed(now), Some(Deadline::Kill));
        assert_eq!(deadlines.take_passed(now), None);
        assert_eq!(deadlines.time_left(now), Some(Duration::from_secs(5)));
        deadlines.set_earlier(Deadline::Heartbeat, later + Duration::from_secs(1));
        assert_eq!(deadlines.get(Deadline::Heartbeat), Some(later));
        deadlines.clear(Deadline::Heartbeat);
        assert_eq!(deadlines.take_passed(later), None);
    }
}
