//! Polling schedule: which channel is polled in which progress iteration (chai-2009, 7.1).
//!
//! Polling one channel may cost more than polling another, and delays the messages of the others.
//! The first channel, shared memory, is polled in every iteration; each further one in every
//! `ratio`-th, its *priority ratio*. A static policy sets the ratio once. A dynamic one follows the
//! traffic: if of the last `h` messages `m` came by the first channel and `n` by this one, the
//! ratio becomes m/n + 1, and the count starts again. With n = 0 it becomes m + 1, as for n = 1:
//! thus no channel waits for more than `h` + 1 iterations, and none has priority over the first.

use mica_node::tunables::{self, BadValue};

/// How the priority ratio is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollPolicy {
    /// It is constant.
    Static {
        /// Iterations per poll of a further channel; 0 counts as 1.
        ratio: u32,
    },
    /// It follows the traffic.
    Dynamic {
        /// Messages after which it is recomputed; 0 counts as 1.
        history: u32,
    },
}

impl PollPolicy {
    /// The policy from `MICA_POLL`, `MICA_POLL_RATIO` and `MICA_POLL_HISTORY`.
    ///
    /// # Errors
    /// If one of them has an invalid value.
    pub fn from_environment() -> Result<PollPolicy, BadValue> {
        let count = |tunable: &tunables::Tunable| {
            let value = tunable.number()?;
            Ok::<_, BadValue>(u32::try_from(value).unwrap_or(u32::MAX))
        };
        let ratio = count(&tunables::POLL_RATIO)?;
        let history = count(&tunables::POLL_HISTORY)?;
        Ok(match tunables::POLL.choice()? {
            "dynamic" => PollPolicy::Dynamic { history },
            _ => PollPolicy::Static { ratio },
        })
    }
}

/// A channel other than the first.
#[derive(Debug, Clone, Copy)]
struct Further {
    ratio: u32,
    /// Iterations until it is polled, counted from the last iteration that polled any further
    /// channel.
    rounds: u32,
    /// Its messages in the current history.
    messages: u32,
}

/// Determines for each progress iteration which channels to poll. Channels are numbered from 0,
/// which is the first channel.
#[derive(Debug, Clone)]
pub struct PollSchedule {
    policy: PollPolicy,
    further: Vec<Further>,
    /// Iterations until any of `further` is polled, and the value to which that was set.
    countdown: u32,
    stride: u32,
    /// Messages of the first channel in the current history, and of all channels.
    first: u32,
    all: u32,
}

/// The channels to poll in an iteration, other than the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DueChannels(u32);

impl DueChannels {
    /// The channels' numbers.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let channel = rest.trailing_zeros();
            rest &= rest.wrapping_sub(1);
            (channel < 32).then_some(channel as usize)
        })
    }

    /// Whether the channel is to be polled.
    #[inline]
    pub const fn contains(self, channel: usize) -> bool {
        channel < 32 && self.0 & (1 << channel) != 0
    }
}

impl PollSchedule {
    /// A schedule for `channels` channels, from 1 to 32. A dynamic one starts as if the traffic had
    /// been even: each channel is polled in every second iteration.
    ///
    /// # Panics
    /// If `channels` is not from 1 to 32.
    pub fn new(policy: PollPolicy, channels: usize) -> PollSchedule {
        assert!((1..=32).contains(&channels), "{channels} channels: expected 1 to 32");
        let ratio = match policy {
            PollPolicy::Static { ratio } => ratio.max(1),
            PollPolicy::Dynamic { .. } => 2,
        };
        let further = Further { ratio, rounds: ratio, messages: 0 };
        let mut schedule = PollSchedule {
            policy,
            further: vec![further; channels - 1],
            countdown: 0,
            stride: 0,
            first: 0,
            all: 0,
        };
        schedule.wind();
        schedule
    }

    /// The priority ratio of a channel: iterations per poll of it.
    pub fn ratio(&self, channel: usize) -> u32 {
        match channel {
            0 => 1,
            channel => self.further[channel - 1].ratio,
        }
    }

    /// Begins an iteration; returns the channels to poll in addition to the first. One decrement in
    /// most iterations.
    #[inline]
    pub fn begin_round(&mut self) -> DueChannels {
        self.countdown -= 1;
        if self.countdown > 0 { DueChannels::default() } else { self.due() }
    }

    #[cold]
    fn due(&mut self) -> DueChannels {
        let mut due = 0;
        for (at, channel) in self.further.iter_mut().enumerate() {
            channel.rounds -= self.stride;
            if channel.rounds == 0 {
                channel.rounds = channel.ratio;
                due |= 1 << (at + 1);
            }
        }
        self.wind();
        DueChannels(due)
    }

    /// Sets the countdown to the next poll of any further channel.
    fn wind(&mut self) {
        let rounds = self.further.iter().map(|channel| channel.rounds);
        self.stride = rounds.min().unwrap_or(u32::MAX);
        self.countdown = self.stride;
    }

    /// Records a message that came by `channel`.
    #[inline]
    pub fn arrived(&mut self, channel: usize) {
        let PollPolicy::Dynamic { history } = self.policy else {
            return;
        };
        match channel {
            0 => self.first += 1,
            channel => self.further[channel - 1].messages += 1,
        }
        self.all += 1;
        if self.all >= history {
            self.update();
        }
    }

    /// Recomputes the ratios from the counts. A channel keeps its scheduled poll if that is sooner.
    #[cold]
    fn update(&mut self) {
        let elapsed = self.stride - self.countdown;
        for channel in &mut self.further {
            channel.ratio = self.first / channel.messages.max(1) + 1;
            channel.messages = 0;
            channel.rounds = (channel.rounds - elapsed).min(channel.ratio);
        }
        self.first = 0;
        self.all = 0;
        self.wind();
    }

    /// One iteration: calls `poll` for the first channel and for those that are due. `poll` polls
    /// the channel once and returns the number of messages that it has received; this function
    /// returns their sum.
    #[inline]
    pub fn round(&mut self, mut poll: impl FnMut(usize) -> u32) -> u32 {
        let due = self.begin_round();
        let mut arrived = 0;
        for channel in std::iter::once(0).chain(due.iter()) {
            let messages = poll(channel);
            for _ in 0..messages {
                self.arrived(channel);
            }
            arrived += messages;
        }
        arrived
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// Channels that hold messages, each with the iteration in which it was sent.
    struct Mock {
        channels: Vec<VecDeque<u64>>,
        polls: Vec<u64>,
        round: u64,
        longest_wait: u64,
    }

    impl Mock {
        fn new(channels: usize) -> Mock {
            Mock {
                channels: vec![VecDeque::new(); channels],
                polls: vec![0; channels],
                round: 0,
                longest_wait: 0,
            }
        }

        fn send(&mut self, channel: usize) {
            self.channels[channel].push_back(self.round);
        }

        /// A progress iteration in which each poll receives at most one message.
        fn round(&mut self, schedule: &mut PollSchedule) -> u32 {
            self.round += 1;
            schedule.round(|channel| {
                self.polls[channel] += 1;
                match self.channels[channel].pop_front() {
                    Some(sent) => {
                        self.longest_wait = self.longest_wait.max(self.round - sent);
                        1
                    }
                    None => 0,
                }
            })
        }
    }

    #[test]
    fn static_ratio_is_honoured() {
        let mut schedule = PollSchedule::new(PollPolicy::Static { ratio: 50 }, 2);
        let mut mock = Mock::new(2);
        for _ in 0..5000 {
            mock.round(&mut schedule);
        }
        assert_eq!(mock.polls, [5000, 100]);
        assert_eq!((schedule.ratio(0), schedule.ratio(1)), (1, 50));
    }

    #[test]
    fn one_channel_alone_needs_no_schedule() {
        let mut schedule = PollSchedule::new(PollPolicy::Dynamic { history: 2 }, 1);
        let mut mock = Mock::new(1);
        for _ in 0..100 {
            mock.send(0);
            assert_eq!(mock.round(&mut schedule), 1);
        }
        assert_eq!(mock.polls, [100]);
    }

    #[test]
    fn flood_on_first_channel_does_not_starve_the_others() {
        for policy in [PollPolicy::Static { ratio: 50 }, PollPolicy::Dynamic { history: 10 }] {
            let bound = match policy {
                PollPolicy::Static { ratio } => ratio,
                PollPolicy::Dynamic { history } => history + 1,
            };
            let mut schedule = PollSchedule::new(policy, 2);
            let mut mock = Mock::new(2);
            for n in 0..10_000 {
                mock.send(0);
                if n % 97 == 0 {
                    mock.send(1);
                }
                mock.round(&mut schedule);
            }
            assert!(mock.longest_wait <= u64::from(bound), "{policy:?}: {}", mock.longest_wait);
            assert!(mock.channels[1].len() <= 1);
        }
    }

    #[test]
    fn the_dynamic_ratio_follows_the_traffic() {
        let mut schedule = PollSchedule::new(PollPolicy::Dynamic { history: 10 }, 2);
        let mut take = |first: u32, second: u32| {
            (0..first).for_each(|_| schedule.arrived(0));
            (0..second).for_each(|_| schedule.arrived(1));
            schedule.ratio(1)
        };
        assert_eq!(take(10, 0), 11, "none: as if one");
        assert_eq!(take(8, 2), 5, "m/n + 1");
        assert_eq!(take(5, 5), 2);
        assert_eq!(take(0, 10), 1, "never before the first channel");
        assert_eq!(take(9, 0), 1, "the history is not full");
    }

    #[test]
    fn a_burst_is_discovered_sooner_by_the_dynamic_scheme() {
        let rounds = |policy| {
            let mut schedule = PollSchedule::new(policy, 2);
            let mut mock = Mock::new(2);
            for _ in 0..200 {
                mock.send(1);
                // The next message is sent when this one has been answered (chai-2009, 7.3.1).
                while mock.round(&mut schedule) == 0 {}
            }
            mock.round
        };
        let fixed = rounds(PollPolicy::Static { ratio: 50 });
        let dynamic = rounds(PollPolicy::Dynamic { history: 10 });
        assert_eq!(fixed, 200 * 50);
        assert!(dynamic < 300, "{dynamic}");
    }

    proptest! {
        #[test]
        fn no_channel_waits_longer_than_its_bound(
            policy in prop_oneof![
                (0u32..60).prop_map(|ratio| PollPolicy::Static { ratio }),
                (0u32..20).prop_map(|history| PollPolicy::Dynamic { history }),
            ],
            traffic in prop::collection::vec(0usize..4, 500),
        ) {
            let bound = match policy {
                PollPolicy::Static { ratio } => ratio.max(1),
                PollPolicy::Dynamic { history } => history.max(1) + 1,
            };
            let mut schedule = PollSchedule::new(policy, 4);
            let mut since = [0u32; 4];
            for channel in traffic {
                let due = schedule.begin_round();
                for (at, since) in since.iter_mut().enumerate() {
                    *since += 1;
                    if at == 0 || due.contains(at) {
                        *since = 0;
                    }
                    prop_assert!(*since <= bound, "channel {at}");
                }
                let listed: Vec<_> = due.iter().collect();
                let contained: Vec<_> = (1..4).filter(|&c| due.contains(c)).collect();
                prop_assert_eq!(listed, contained);
                schedule.arrived(channel);
                for at in 1..4 {
                    prop_assert!((1..=bound).contains(&schedule.ratio(at)));
                }
            }
        }
    }
}
