//! The points in time at which the launcher acts without an event from outside.

use std::time::{Duration, Instant};

/// What is done when a time has come. Of several that have passed, the first in this list is
/// handled first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Number of kinds of deadlines.
const COUNT: usize = Deadline::Heartbeat as usize + 1;

const ALL: [Deadline; COUNT] = [
    Deadline::HangReport,
    Deadline::Timeout,
    Deadline::AgentAnswers,
    Deadline::HostsLost,
    Deadline::HostsRefused,
    Deadline::Suspicion,
    Deadline::Departed,
    Deadline::WithoutInit,
    Deadline::Lingering,
    Deadline::AgentsConnected,
    Deadline::Kill,
    Deadline::GiveUp,
    Deadline::PartialLine,
    Deadline::Heartbeat,
];

/// The deadlines that are set, at most one of each kind.
#[derive(Debug, Default)]
pub struct Deadlines([Option<Instant>; COUNT]);

impl Deadlines {
    /// Sets a deadline, in place of an earlier or later one of its kind.
    pub fn set(&mut self, deadline: Deadline, at: Instant) {
        self.0[deadline as usize] = Some(at);
    }

    /// Sets a deadline unless an earlier one of its kind is set.
    pub fn set_earlier(&mut self, deadline: Deadline, at: Instant) {
        let slot = &mut self.0[deadline as usize];
        *slot = Some(slot.map_or(at, |other| other.min(at)));
    }

    /// Cancels a deadline.
    pub fn clear(&mut self, deadline: Deadline) {
        self.0[deadline as usize] = None;
    }

    /// When a deadline is, if it is set.
    pub fn get(&self, deadline: Deadline) -> Option<Instant> {
        self.0[deadline as usize]
    }

    /// Time until the next one; `None` if none is set.
    pub fn time_left(&self, now: Instant) -> Option<Duration> {
        let next = self.0.iter().flatten().min()?;
        Some(next.saturating_duration_since(now))
    }

    /// Takes the first deadline that has passed out of the set.
    pub fn take_passed(&mut self, now: Instant) -> Option<Deadline> {
        let passed = |&deadline: &Deadline| self.get(deadline).is_some_and(|at| at <= now);
        let first = ALL.into_iter().find(passed)?;
        self.clear(first);
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

    #[test]
    fn every_kind_has_its_place() {
        for (place, deadline) in ALL.into_iter().enumerate() {
            assert_eq!(deadline as usize, place);
        }
    }
}
