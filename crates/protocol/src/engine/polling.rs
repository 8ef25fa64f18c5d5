//! In which progress iterations the channels besides the rings are polled.

use mica_policy::{PollPolicy, PollSchedule};

/// Index of the rings in the schedule; the further channels follow.
const RINGS: usize = 0;

/// A channel that delivers packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketChannel {
    Rings,
    Fifos,
    Network,
}

/// The channels that are polled besides the rings, and when.
#[derive(Debug)]
pub(crate) struct Polling {
    pub further: Vec<PacketChannel>,
    /// `None`: all are polled in every iteration.
    schedule: Option<PollSchedule>,
    /// The next iteration polls all: something has arrived, or the rank has nothing else to do.
    polls_all_next: bool,
}

impl Polling {
    /// For these channels besides the rings; `None` if there are none. `schedule` says how often
    /// they are polled; `None` if nothing arrives through the rings: in every iteration.
    pub fn new(further: Vec<PacketChannel>, schedule: Option<PollPolicy>) -> Option<Polling> {
        let channels = further.len() + 1;
        (!further.is_empty()).then(|| Polling {
            further,
            schedule: schedule.map(|policy| PollSchedule::new(policy, channels)),
            polls_all_next: false,
        })
    }

    /// Makes the next iteration poll all channels.
    pub fn poll_all_next(&mut self) {
        self.polls_all_next = true;
    }

    /// Begins an iteration in which `taken` packets came through the rings. Returns the further
    /// channels to poll in it, as a bit mask by position.
    pub fn begin_iteration(&mut self, taken: usize) -> u32 {
        let all = (1 << self.further.len()) - 1;
        let Some(schedule) = &mut self.schedule else {
            return all;
        };
        let due = schedule.begin_round().iter().fold(0, |due, channel| due | 1 << (channel - 1));
        self.note(RINGS, taken);
        if std::mem::take(&mut self.polls_all_next) { all } else { due }
    }

    pub fn note(&mut self, channel: usize, taken: usize) {
        if let Some(schedule) = &mut self.schedule {
            for _ in 0..taken {
                schedule.arrived(channel);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polling(policy: PollPolicy) -> Polling {
        Polling::new(vec![PacketChannel::Network], Some(policy)).expect("a further channel")
    }

    /// Iterations until the network is due, with `taken` packets through the rings in each.
    fn iterations(polling: &mut Polling, taken: usize) -> u32 {
        let mut iterations = 1;
        while polling.begin_iteration(taken) == 0 {
            iterations += 1;
        }
        iterations
    }

    #[test]
    fn static_ratio_sets_the_polling_interval() {
        for ratio in [1, 50, 1000] {
            let mut polling = polling(PollPolicy::Static { ratio });
            for taken in [0, 1, 32] {
                assert_eq!(iterations(&mut polling, taken), ratio);
            }
        }
    }

    #[test]
    fn polls_all_channels_without_rings() {
        let policy = PollPolicy::Static { ratio: 50 };
        let mut polling = Polling::new(vec![PacketChannel::Fifos, PacketChannel::Network], None)
            .expect("further channels");
        assert!(polling.schedule.is_none());
        for _ in 0..3 {
            assert_eq!(polling.begin_iteration(0), 0b11);
        }
        assert!(Polling::new(Vec::new(), Some(policy)).is_none());
    }

    #[test]
    fn dynamic_ratio_follows_arrivals() {
        let mut polling = polling(PollPolicy::Dynamic { history: 10 });
        let ratio = |polling: &Polling| polling.schedule.as_ref().expect("scheduled").ratio(1);
        assert_eq!(iterations(&mut polling, 0), 2, "it begins as if even");
        polling.note(RINGS, 8);
        polling.note(1, 2);
        assert_eq!(ratio(&polling), 5);
        iterations(&mut polling, 0);
        assert_eq!(iterations(&mut polling, 0), 5);
        polling.note(1, 10);
        iterations(&mut polling, 0);
        assert_eq!(iterations(&mut polling, 0), 1);
    }

    #[test]
    fn polls_all_channels_before_parking() {
        let mut polling = polling(PollPolicy::Static { ratio: 1000 });
        assert_eq!(polling.begin_iteration(0), 0);
        polling.poll_all_next();
        assert_eq!(polling.begin_iteration(0), 1);
        assert_eq!(iterations(&mut polling, 0), 998, "its turn stays where it was");
    }
}
