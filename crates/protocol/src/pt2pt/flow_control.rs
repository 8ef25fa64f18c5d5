//! Flow control of unexpected messages: bounds what this rank keeps of messages without a receive
//! (`MICA_UNEXPECTED_MAX`), and tells senders that this rank lags behind.
//!
//! | state of a sender, at its receiver | moves by |
//! |---|---|
//! | free | more is kept of it than [`HoldPolicy`](mica_policy::HoldPolicy) allows: hold |
//! | held back | a quarter of what is free would hold what is kept of it: release |
//!
//! On a node the receiver says so by a word beside the credits of the ring or FIFO, which the
//! sender sees when it checks for room, at the latest after one lap; over the network by a packet
//! (`HOLD`). The word is relaxed: it orders nothing, and a sender that sees it late sends one lap
//! more. A sender whose messages are held back sends an RTS for each of them instead, in order,
//! whatever the length: an RTS costs the receiver some hundred bytes, and there are as many as the
//! sender has pending sends. A blocking send thus waits for its receive, which the standard allows
//! (MPI 5.0, 3.4).
//!
//! What arrives beyond the bound was already in flight: the contents of a sender's ring and cells,
//! or of its FIFO; over the network what the provider and the system buffer between two nodes.
//! Nothing is left in a ring: a message that matches a posted receive is found as usual behind
//! others that match none. Over the network, a window of messages that the receiver has not
//! received yet keeps what is in flight small (`CREDIT`, [`crate::channels`]).
//!
//! Cost: a sender that is not held back pays nothing, a receiver two additions for each message
//! that it keeps. Memory is returned to the system when most of a large backlog has been received
//! ([`holds`](crate::pt2pt::holds)). [`skew`](crate::pt2pt::skew) is chai-2009's (6.3.2), the rest
//! ours.

use crate::channels::packet;
use crate::engine::{EngineState, Fault};
use crate::matching::MatchEnvelope;
use crate::pt2pt::UnexpectedMessage;
use mica_channel::shm::HoldChange;
use mica_memory::Block;
use mica_node::counters::Counter;
use mica_policy::SkewChange;

impl EngineState {
    /// Keeps a message that has just arrived without a receive, and holds its sender back if that
    /// is too much. Returns the message's ticket.
    #[inline]
    pub(crate) fn keep_unexpected(
        &mut self,
        envelope: MatchEnvelope,
        message: UnexpectedMessage,
    ) -> Result<u32, Fault> {
        let ticket = self.queues.insert(envelope, message, &self.counters);
        let (of_source, total) = self.queues.unexpected.bytes_from(envelope.source);
        if self.holds.policy.holds(of_source, total) {
            self.hold(envelope.source)?;
        }
        Ok(ticket)
    }

    #[cold]
    fn hold(&mut self, source: u32) -> Result<(), Fault> {
        if source == self.me || !self.holds.add(source) {
            return Ok(());
        }
        self.counters.count(Counter::HeldSenders);
        self.announce_hold(source, HoldChange::Hold)
    }

    fn announce_hold(&mut self, source: u32, change: HoldChange) -> Result<(), Fault> {
        match self.channels.shm.hold(source, change) {
            true => Ok(()),
            false => self.send_control(source, packet::hold(change == HoldChange::Hold)),
        }
    }

    /// To be called when a kept message of `source` has been received.
    #[inline]
    pub(crate) fn received_unexpected(&mut self, source: u32) -> Result<(), Fault> {
        let (_, total) = self.queues.unexpected.bytes_from(source);
        match self.holds.is_idle(total) {
            true => Ok(()),
            false => self.release(source),
        }
    }

    #[cold]
    fn release(&mut self, source: u32) -> Result<(), Fault> {
        let (of_source, total) = self.queues.unexpected.bytes_from(source);
        match self.holds.release(source, of_source, total) {
            true => self.announce_hold(source, HoldChange::Release),
            false => Ok(()),
        }
    }

    /// Whether a message of `bytes` bytes of this rank to itself may be kept.
    pub(crate) fn may_keep_own(&self, bytes: usize) -> bool {
        let (of_me, total) = self.queues.unexpected.bytes_from(self.me);
        let bytes = Block::heap_bytes(bytes) as u64;
        !self.holds.policy.holds(of_me + bytes, total + bytes)
    }

    /// A message from `source` that was not short has arrived, and is matched or queued.
    #[inline]
    pub(crate) fn watch_skew(&mut self, source: u32) -> Result<(), Fault> {
        match self.skew.observe(source, &self.queues.unexpected) {
            None => Ok(()),
            Some(change) => {
                let lags = change == SkewChange::Skewed;
                self.counters.add(Counter::SkewedSenders, u64::from(lags));
                self.send_control(source, packet::skew(lags))
            }
        }
    }
}
