//! Progress: handles the packets that have arrived, and sends what is queued.
//!
//! One iteration, in this order: packets of the rings, of further channels that are due, at most
//! [`MAX_PACKETS`] of each; completions of the network and of the adapter; jobs of the copy engine;
//! the backlog; reactions and schedules, if anything has completed or polls shared memory.
//!
//! The rings are polled in every progress iteration. FIFOs and the network, if there are any, are
//! further channels, and `mica_policy`'s schedule determines in which iterations each of them is
//! polled (chai-2009, 7.1). There, every packet counts as a message, since each has to be
//! discovered. If no peer has a ring, the others are polled in every iteration.
//!
//! A rank that is about to yield its core, or to park, polls all channels. What it finds before it
//! parks, it handles in its next iteration, whatever the schedule says; otherwise it could find the
//! same packet before every attempt to park and never handle it.
//!
//! A packet is consumed after it was handled, so that a message for which there is no memory stays
//! in its ring: its receive may be posted next. Cost of an iteration that finds nothing: a load of
//! the doorbells, whatever the number of ranks.

use crate::channels::packet;
use crate::engine::polling::PacketChannel;
use crate::engine::{EngineState, Fault};
use crate::pt2pt::PacketOutcome;
use mica_channel::PacketSource;
use mica_channel::shm::Packet;
use mica_memory::OutOfMemory;
use std::time::Duration;

/// Packets of a channel that one iteration handles before the waiting operation is checked again.
const MAX_PACKETS: usize = 32;

/// How often packets are left in their rings for want of memory, and none is copied, before the
/// call fails: with
/// [`LEFT_PAUSE`] after the first [`LEFT_AT_ONCE`] for about a second in all, or longer where ranks
/// share cores. Meanwhile the rings of other ranks are emptied, and the operation that waits often
/// ends by them: a call that gives up too soon leaves its peers waiting.
const LEFT_MAX: u32 = 10_000;
const LEFT_AT_ONCE: u32 = 500;
const LEFT_PAUSE: Duration = Duration::from_micros(50);

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
        let mut due = self.polling.as_mut().map_or(0, |p| p.begin_iteration(by_rings));
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
            if channel == PacketChannel::Network {
                arrived |= self.handle_network()?;
                if self.adapter.is_some() {
                    arrived |= self.handle_adapter()?;
                }
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
                PacketChannel::Network => return self.handle_packets_of_network(),
            };
            let Some((source, packet)) = found else {
                return Ok(taken);
            };
            self.handle_packet(source, &packet)?;
        }
        Ok(MAX_PACKETS)
    }

    /// Handles the packets of the network, at most `MAX_PACKETS`. Returns how many there were.
    fn handle_packets_of_network(&mut self) -> Result<usize, Fault> {
        for taken in 0..MAX_PACKETS {
            let Some(network) = &mut self.channels.network else { return Ok(0) };
            // Polling a network is expensive: once per iteration.
            let found = match taken {
                0 => network.peek(),
                _ => network.peek_found(),
            };
            let Some((source, packet)) = found else {
                return Ok(taken);
            };
            let left = self.queues.left_packets;
            self.handle_packet(source, &packet)?;
            if self.queues.left_packets != left {
                return Ok(taken + 1);
            }
            if matches!(packet.kind, packet::EAGER | packet::EAGER_SYNC)
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
        if self.rendezvous.polls_copy_jobs(&self.completions) {
            arrived |= self.poll_copy_jobs()?;
        }
        if !self.sends.backlog.is_empty() {
            self.advance_backlog()?;
        }
        if (self.completions.completed || self.schedules.polled_waits > 0)
            && !(self.schedules.active.is_empty() && self.reactions.is_empty())
        {
            self.run_reactions();
            arrived |= self.completions.completed;
            arrived |= std::mem::take(&mut self.schedules.task_completed);
        }
        Ok(arrived)
    }

    /// Runs the reactions and schedules that wait for completions.
    #[cold]
    pub(crate) fn run_reactions(&mut self) {
        self.completions.completed = false;
        let mut reactions = std::mem::take(&mut self.reactions);
        reactions.retain(|reaction| !reaction.react(self));
        reactions.append(&mut self.reactions); // those that the others have added
        self.reactions = reactions;
        self.advance_schedules();
    }

    /// Handles packets of `source` for receives that were posted before, so that the next receive
    /// may find its message first in the ring and need not be posted. What there is no memory for
    /// stays; that is no reason to fail for a call that does not wait.
    #[inline]
    pub(crate) fn handle_packets_for_posted(&mut self, source: u32) -> Result<(), Fault> {
        let left = self.queues.left_packets;
        while !self.queues.posted.is_empty()
            && self.queues.left_packets == left
            && let Some(packet) = self.channels.shm.peek_from(source)
        {
            match self.handle_packet(source, &packet) {
                Err(Fault::OutOfMemory { .. }) => break,
                handled => handled?,
            }
        }
        Ok(())
    }

    /// An iteration that polls all channels, whatever the schedule of polls says: for calls that
    /// are rare, and that a program may make once only.
    ///
    /// # Errors
    /// As [`progress`](Self::progress).
    pub fn progress_on_all(&mut self) -> Result<bool, Fault> {
        self.poll_all_next();
        self.progress()
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
    pub(crate) fn handle_packet(&mut self, source: u32, packet: &Packet) -> Result<(), Fault> {
        let result = match packet.kind {
            packet::EAGER | packet::EAGER_SYNC => self.on_eager(source, packet),
            packet::CELLS => self.on_cells(source, packet),
            _ => self.handle_later_packet(source, packet).map(|()| PacketOutcome::Handled),
        };
        match result {
            Ok(PacketOutcome::Left(no_memory)) => self.leave_packet(no_memory),
            result => {
                self.channels.consume(source, packet);
                result.map(|_| ())
            }
        }
    }

    /// Handles a packet that is no message, or not the first of one.
    #[inline(always)]
    fn handle_later_packet(&mut self, source: u32, packet: &Packet) -> Result<(), Fault> {
        match packet.kind {
            packet::MORE_CELLS | packet::CHUNK => self.on_more_cells(source, packet),
            packet::RTS => self.on_rts(source, packet)?,
            packet::RTS_REST => self.on_rts_rest(source, packet)?,
            packet::CTS => self.on_cts(packet)?,
            packet::FIN => self.on_fin(packet),
            packet::JOIN => self.on_join(packet)?,
            packet::SKEW => self.selection.set_skewed(source, packet::read_skew(packet)),
            packet::HOLD | packet::CREDIT => self.channels.note_flow_control(source, packet),
            packet::PUSHED => self.on_pushed(source, packet)?,
            packet::TARGET_COPY => self.on_target_copy(source, packet),
            packet::MIGRATE => self.on_migrate(packet),
            packet::CANCEL => self.on_cancel(source, packet)?,
            packet::CANCELLED => self.on_cancelled(packet),
            kind => debug_assert!(false, "packet of unknown kind {kind} from rank {source}"),
        }
        Ok(())
    }

    /// Leaves a message without a receive where it is, as there is no memory for a copy: its
    /// receive may be posted next, or memory be freed. Meanwhile what comes behind it waits: in a
    /// ring its sender's further messages, in a transport those of all.
    ///
    /// # Errors
    /// That there is no memory, after some time; the message is not lost.
    #[cold]
    fn leave_packet(&mut self, no_memory: OutOfMemory) -> Result<(), Fault> {
        self.channels.shm.next_turn();
        self.queues.left_packets += 1;
        if self.queues.left_packets > LEFT_AT_ONCE {
            std::thread::sleep(LEFT_PAUSE);
        }
        if self.queues.left_packets < LEFT_MAX {
            return Ok(());
        }
        self.queues.left_packets = 0;
        Err(no_memory.into())
    }
}
