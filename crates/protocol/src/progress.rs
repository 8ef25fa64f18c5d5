//! Progress: taking in what has arrived, sending what waits.
//!
//! The rings are looked at in every round. Where there are FIFOs as well, that is a second channel, and `mica_policy`'s schedule
//! says in which rounds it is looked at (chai-2009, 7.1). Every packet counts as a message there, as each has to be discovered.
//! Under the basic design the FIFOs are the one channel that brings anything, and are looked at in every round.
//!
//! A rank that is about to park looks at all channels; what it finds there it takes in in its next round, whatever the schedule
//! says, so that nobody goes round on the brink of sleep.

use crate::packet;
use crate::{Fault, State};
use mica_channel::Messages;
use mica_policy::{PollPolicy, PollSchedule};

/// Packets that one round takes in before it looks at the waiting operation again.
const ROUND: usize = 32;

/// Numbers of the channels in the schedule.
const RINGS: usize = 0;
const FIFOS: usize = 1;

/// Which channels are looked at beside the rings, and when.
#[derive(Debug)]
pub(crate) struct Polling {
    schedule: PollSchedule,
    /// Something is there: the next round looks at all.
    hastened: bool,
}

impl Polling {
    pub fn new(policy: PollPolicy) -> Polling {
        Polling {
            schedule: PollSchedule::new(policy, FIFOS + 1),
            hastened: false,
        }
    }

    /// A round in which `taken` packets came by the first channel: whether the FIFOs are to be looked at in it.
    fn is_due(&mut self, taken: usize) -> bool {
        let due = self.schedule.begin_round().contains(FIFOS);
        self.note(RINGS, taken);
        std::mem::take(&mut self.hastened) || due
    }

    fn note(&mut self, channel: usize, taken: usize) {
        for _ in 0..taken {
            self.schedule.arrived(channel);
        }
    }
}

impl State {
    /// One round of progress. True when something arrived.
    ///
    /// # Errors
    /// When memory for a message cannot be had.
    #[inline]
    pub fn progress(&mut self) -> Result<bool, Fault> {
        if self.shm.has_fifos() {
            return self.progress_with_fifos();
        }
        let mut arrived = false;
        for _ in 0..ROUND {
            let Some((source, packet)) = self.shm.peek() else {
                break;
            };
            arrived = true;
            self.take_in(source, &packet)?;
        }
        self.shm.next_turn();
        self.go_on(arrived)
    }

    /// A round where rings are not all.
    #[cold]
    fn progress_with_fifos(&mut self) -> Result<bool, Fault> {
        let by_rings = self.take_in_from(RINGS)?;
        self.shm.next_turn();
        let mut arrived = by_rings > 0;
        if self
            .polling
            .as_mut()
            .is_none_or(|polling| polling.is_due(by_rings))
        {
            let by_fifos = self.take_in_from(FIFOS)?;
            arrived |= by_fifos > 0;
            if let Some(polling) = &mut self.polling {
                polling.note(FIFOS, by_fifos);
            }
        }
        self.go_on(arrived)
    }

    /// Takes in what one channel has, up to a round's packets. Returns how many there were.
    #[inline(never)]
    fn take_in_from(&mut self, channel: usize) -> Result<usize, Fault> {
        for taken in 0..ROUND {
            let found = match channel {
                RINGS => self.shm.peek(),
                _ => self.shm.fifos().and_then(Messages::peek),
            };
            let Some((source, packet)) = found else {
                return Ok(taken);
            };
            self.take_in(source, &packet)?;
        }
        Ok(ROUND)
    }

    /// The rest of a round, in which something has `arrived` or not: what does not wait for packets.
    #[inline(always)]
    fn go_on(&mut self, mut arrived: bool) -> Result<bool, Fault> {
        if self.looks_after_offload() {
            arrived |= self.follow_offload()?;
        }
        if !self.backlog.is_empty() {
            self.advance_backlog()?;
        }
        if self.completed && !(self.under_way.is_empty() && self.reactions.is_empty()) {
            self.follow_up();
        }
        Ok(arrived)
    }

    /// Takes in what `source` has sent for receives that were started before, so that the next one may find its message first in
    /// the ring and need not be posted.
    #[inline]
    pub(crate) fn take_in_posted(&mut self, source: u32) -> Result<(), Fault> {
        while !self.posted.is_empty()
            && let Some(packet) = self.shm.peek_from(source)
        {
            self.take_in(source, &packet)?;
        }
        Ok(())
    }

    /// True when any channel has something. For the last look before parking.
    pub(crate) fn has_arrivals(&mut self) -> bool {
        let arrived = self.shm.has_arrivals();
        if arrived && let Some(polling) = &mut self.polling {
            polling.hastened = true;
        }
        arrived
    }

    /// Handles the packet that was just peeked from `source`, and removes it.
    #[inline(always)]
    pub(crate) fn take_in(
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
            packet::REQUEST => self.on_request(source, packet),
            packet::REQUEST_MORE => self.on_request_more(source, packet),
            packet::CLEAR => self.on_clear(packet),
            packet::DONE => {
                self.on_done(packet);
                Ok(())
            }
            packet::JOIN => self.on_join(packet),
            packet::SKEW => {
                self.on_skew(source, packet);
                Ok(())
            }
            packet::PUSHED => self.on_pushed(source, packet),
            kind => {
                debug_assert!(false, "packet of unknown kind {kind} from rank {source}");
                Ok(())
            }
        };
        self.shm.consume(source, packet);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds until the FIFOs are due, with `taken` packets through rings in each.
    fn rounds(polling: &mut Polling, taken: usize) -> u32 {
        let mut rounds = 1;
        while !polling.is_due(taken) {
            rounds += 1;
        }
        rounds
    }

    #[test]
    fn the_fifos_are_looked_at_in_every_round_that_the_ratio_says() {
        for ratio in [1, 50, 1000] {
            let mut polling = Polling::new(PollPolicy::Static { ratio });
            for taken in [0, 1, ROUND] {
                assert_eq!(rounds(&mut polling, taken), ratio);
            }
        }
    }

    #[test]
    fn the_dynamic_ratio_counts_what_came_by_each_channel() {
        let mut polling = Polling::new(PollPolicy::Dynamic { history: 10 });
        assert_eq!(rounds(&mut polling, 0), 2, "it begins as if even");
        polling.note(RINGS, 8);
        polling.note(FIFOS, 2);
        assert_eq!(polling.schedule.ratio(FIFOS), 5);
        rounds(&mut polling, 0);
        assert_eq!(rounds(&mut polling, 0), 5);
        polling.note(FIFOS, 10);
        rounds(&mut polling, 0);
        assert_eq!(rounds(&mut polling, 0), 1);
    }

    #[test]
    fn a_rank_that_would_park_looks_in_its_next_round() {
        let mut polling = Polling::new(PollPolicy::Static { ratio: 1000 });
        assert!(!polling.is_due(0));
        polling.hastened = true;
        assert!(polling.is_due(0));
        assert_eq!(rounds(&mut polling, 0), 998, "its turn stays where it was");
    }
}
