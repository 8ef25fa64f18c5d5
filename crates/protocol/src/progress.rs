//! Progress: handles the packets that have arrived, and sends what is queued.
//!
//! The rings are polled in every progress iteration. FIFOs and the network, if there are any, are
//! further channels, and `mica_policy`'s schedule determines in which iterations each of them is
//! polled (chai-2009, 7.1). There, every packet counts as a message, since each has to be
//! discovered. If no peer has a ring, the others are polled in every iteration.
//!
//! A rank that is about to yield its core, or to park, polls all channels. What it finds before it
//! parks, it handles in its next iteration, whatever the schedule says; otherwise it could find the
//! same packet before every attempt to park and never handle it.

use crate::packet;
use crate::{EngineState, Fault};
use mica_channel::PacketSource;
use mica_policy::{PollPolicy, PollSchedule};

/// Packets of a channel that one iteration handles before the waiting operation is checked again.
const MAX_PACKETS: usize = 32;

/// Index of the rings in the schedule; the further channels follow.
const RINGS: usize = 0;

/// A channel that delivers packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketChannel {
    Rings,
    Fifos,
    Net,
}

/// The channels that are polled besides the rings, and when.
#[derive(Debug)]
pub(crate) struct Polling {
    further: Vec<PacketChannel>,
    /// `None`: all are polled in every iteration.
    schedule: Option<PollSchedule>,
    /// The next iteration polls all: something has arrived, or the rank has nothing else to do.
    polls_all_next: bool,
}

impl Polling {
    /// For these channels besides the rings. `None` if there are none.
    pub fn new(
        further: Vec<PacketChannel>,
        rings_deliver: bool,
        policy: PollPolicy,
    ) -> Option<Polling> {
        let channels = further.len() + 1;
        (!further.is_empty()).then(|| Polling {
            further,
            schedule: rings_deliver.then(|| PollSchedule::new(policy, channels)),
            polls_all_next: false,
        })
    }

    /// Makes the next iteration poll all channels.
    pub fn poll_all_next(&mut self) {
        self.polls_all_next = true;
    }

    /// Begins an iteration in which `taken` packets came through the rings. Returns the further
    /// channels to poll in it, as a bit mask by position.
    fn begin_iteration(&mut self, taken: usize) -> u32 {
        let all = (1 << self.further.len()) - 1;
        let Some(schedule) = &mut self.schedule else {
            return all;
        };
        let due = schedule
            .begin_round()
            .iter()
            .fold(0, |due, channel| due | 1 << (channel - 1));
        self.note(RINGS, taken);
        if std::mem::take(&mut self.polls_all_next) {
            all
        } else {
            due
        }
    }

    fn note(&mut self, channel: usize, taken: usize) {
        if let Some(schedule) = &mut self.schedule {
            for _ in 0..taken {
                schedule.arrived(channel);
            }
        }
    }
}

impl EngineState {
    /// One progress iteration. True when something arrived.
    ///
    /// # Errors
    /// When memory for a message cannot be allocated, or a peer is lost.
    #[inline]
    pub fn progress(&mut self) -> Result<bool, Fault> {
        if self.polling.is_some() {
            return self.progress_by_schedule();
        }
        let mut arrived = false;
        for _ in 0..MAX_PACKETS {
            let Some((source, packet)) = self.channels.shm.peek() else {
                break;
            };
            arrived = true;
            self.handle_packet(source, &packet)?;
        }
        self.channels.shm.next_turn();
        self.finish_iteration(arrived)
    }

    /// An iteration with further channels besides the rings.
    #[cold]
    fn progress_by_schedule(&mut self) -> Result<bool, Fault> {
        let by_rings = self.handle_packets_of(PacketChannel::Rings)?;
        self.channels.shm.next_turn();
        let mut arrived = by_rings > 0;
        let mut due = self
            .polling
            .as_mut()
            .map_or(0, |p| p.begin_iteration(by_rings));
        while due != 0 {
            let at = due.trailing_zeros() as usize;
            due &= due - 1;
            let Some(&channel) = self.polling.as_ref().and_then(|p| p.further.get(at)) else {
                break;
            };
            let taken = self.handle_packets_of(channel)?;
            arrived |= taken > 0;
            if let Some(polling) = &mut self.polling {
                polling.note(at + 1, taken);
            }
            if channel == PacketChannel::Net {
                arrived |= self.handle_network()?;
            }
        }
        self.finish_iteration(arrived)
    }

    /// Handles the packets of one channel, at most `MAX_PACKETS`. Returns how many there were.
    #[inline(never)]
    fn handle_packets_of(&mut self, channel: PacketChannel) -> Result<usize, Fault> {
        for taken in 0..MAX_PACKETS {
            let found = match channel {
                PacketChannel::Rings => self.channels.shm.peek(),
                PacketChannel::Fifos => self.channels.shm.fifos().and_then(PacketSource::peek),
                // Polling the network is expensive: once per iteration.
                PacketChannel::Net if taken == 0 => {
                    self.channels.net.as_mut().and_then(|net| net.peek())
                }
                PacketChannel::Net => self.channels.net.as_ref().and_then(|net| net.peek_found()),
            };
            let Some((source, packet)) = found else {
                return Ok(taken);
            };
            self.handle_packet(source, &packet)?;
            let is_message = matches!(packet.kind, packet::EAGER | packet::EAGER_SYNC);
            if channel == PacketChannel::Net
                && is_message
                && let Some(credit) = self.channels.count_received(source)
            {
                self.send_control(source, credit)?;
            }
        }
        Ok(MAX_PACKETS)
    }

    /// The rest of an iteration: what does not depend on packets. `arrived`: whether something has
    /// arrived in it.
    #[inline(always)]
    fn finish_iteration(&mut self, mut arrived: bool) -> Result<bool, Fault> {
        if self.polls_copy_jobs() {
            arrived |= self.poll_copy_jobs()?;
        }
        if !self.backlog.is_empty() {
            self.advance_backlog()?;
        }
        if (self.threads.completed || self.schedules.with_tasks > 0)
            && !(self.schedules.active.is_empty() && self.schedules.reactions.is_empty())
        {
            self.run_reactions();
            arrived |= self.threads.completed;
        }
        Ok(arrived)
    }

    /// Handles packets of `source` for receives that were posted before, so that the next receive
    /// may find its message first in the ring and need not be posted.
    #[inline]
    pub(crate) fn handle_packets_for_posted(&mut self, source: u32) -> Result<(), Fault> {
        while !self.matching.posted.is_empty()
            && let Some(packet) = self.channels.shm.peek_from(source)
        {
            self.handle_packet(source, &packet)?;
        }
        Ok(())
    }

    /// True when any channel has something. For the last check before parking.
    pub(crate) fn has_arrivals(&mut self) -> bool {
        let arrived = self.channels.has_arrivals();
        if arrived {
            self.poll_all_next();
        }
        arrived
    }

    /// Makes the next iteration poll all channels.
    pub(crate) fn poll_all_next(&mut self) {
        if let Some(polling) = &mut self.polling {
            polling.poll_all_next();
        }
    }

    /// Handles the packet that was just peeked from `source`, and removes it.
    #[inline(always)]
    pub(crate) fn handle_packet(
        &mut self,
        source: u32,
        packet: &mica_channel::shm::Packet,
    ) -> Result<(), Fault> {
        let result = match packet.kind {
            packet::EAGER | packet::EAGER_SYNC => self.on_eager(source, packet),
            packet::CELLS => self.on_cells(source, packet),
            packet::MORE_CELLS | packet::CHUNK => {
                self.on_more_cells(source, packet);
                Ok(())
            }
            packet::RTS => self.on_rts(source, packet),
            packet::RTS_REST => self.on_rts_rest(source, packet),
            packet::CTS => self.on_cts(packet),
            packet::FIN => {
                self.on_fin(packet);
                Ok(())
            }
            packet::JOIN => self.on_join(packet),
            packet::SKEW => {
                self.on_skew(source, packet);
                Ok(())
            }
            packet::HOLD | packet::CREDIT => {
                self.channels.note_flow_control(source, packet);
                Ok(())
            }
            packet::PUSHED => self.on_pushed(source, packet),
            kind => {
                debug_assert!(false, "packet of unknown kind {kind} from rank {source}");
                Ok(())
            }
        };
        self.channels.consume(source, packet);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polling(policy: PollPolicy) -> Polling {
        Polling::new(vec![PacketChannel::Net], true, policy).expect("a further channel")
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
            for taken in [0, 1, MAX_PACKETS] {
                assert_eq!(iterations(&mut polling, taken), ratio);
            }
        }
    }

    #[test]
    fn polls_all_channels_without_rings() {
        let policy = PollPolicy::Static { ratio: 50 };
        let mut polling = Polling::new(
            vec![PacketChannel::Fifos, PacketChannel::Net],
            false,
            policy,
        )
        .expect("further channels");
        assert!(polling.schedule.is_none());
        for _ in 0..3 {
            assert_eq!(polling.begin_iteration(0), 0b11);
        }
        assert!(Polling::new(Vec::new(), true, policy).is_none());
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
        assert_eq!(
            iterations(&mut polling, 0),
            998,
            "its turn stays where it was"
        );
    }
}
