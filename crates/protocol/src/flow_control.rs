//! Flow control of unexpected messages: bounds what this rank keeps of messages without a receive
//! (`MICA_UNEXPECTED_MAX`).
//!
//! A receiver that keeps too much of a sender's messages, by a
//! [`HoldPolicy`](mica_policy::hold::HoldPolicy), holds
//! that sender's messages back. On a node it does so by a word beside the credits of the ring or
//! FIFO, which the sender sees when it checks for room, at the latest after one lap; over the
//! network by a packet (`HOLD`). A sender whose messages are held back sends an RTS for
//! each of them instead, in order, whatever the length: an RTS costs the receiver some hundred
//! bytes, and there are as many as the sender has pending sends. A blocking send thus waits for its
//! receive, which the standard allows (MPI 5.0, 3.4). When most of what the receiver kept has been
//! received, the sender may continue as before.
//!
//! What arrives beyond the bound was already in flight: the contents of a sender's ring and cells,
//! or of its FIFO; over the network what the provider and the system buffer between two nodes.
//! Nothing is left in a ring: a message that matches a posted receive is found as usual behind
//! others that match none. Over the network, a window of messages that the receiver has not
//! received yet keeps what is in flight small (`CREDIT`, [`crate::channels`]).
//!
//! Memory is returned to the system when most of a large backlog has been received.

use crate::fault::Fault;
use crate::packet;
use crate::state::EngineState;
use mica_channel::shm::HoldChange;
use mica_memory::Block;
use mica_node::counters::Counter;

/// Minimum size in bytes of a backlog whose memory is returned to the system afterwards.
const LARGE: u64 = 8 << 20;

impl EngineState {
    /// To be called when a message of `source` is kept that has no receive.
    #[inline]
    pub(crate) fn check_backlog_of(&mut self, source: u32) -> Result<(), Fault> {
        let (of_source, total) = self.matching.unexpected.bytes_from(source);
        match self.holds.policy.holds(of_source, total) {
            true => self.hold(source),
            false => Ok(()),
        }
    }

    #[cold]
    fn hold(&mut self, source: u32) -> Result<(), Fault> {
        if source == self.me || self.holds.held.contains(&source) {
            return Ok(());
        }
        self.holds.held.push(source);
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
        let (_, total) = self.matching.unexpected.bytes_from(source);
        if self.holds.held.is_empty() && self.holds.peak < LARGE && total < LARGE {
            return Ok(());
        }
        self.release(source)
    }

    #[cold]
    fn release(&mut self, source: u32) -> Result<(), Fault> {
        let (of_source, total) = self.matching.unexpected.bytes_from(source);
        self.holds.peak = self.holds.peak.max(total);
        if self.holds.peak >= LARGE && total <= self.holds.peak / 8 {
            self.holds.peak = total;
            mica_memory::give_back();
        }
        if self.holds.policy.releases(of_source, total)
            && let Some(at) = self.holds.held.iter().position(|&s| s == source)
        {
            self.holds.held.swap_remove(at);
            self.announce_hold(source, HoldChange::Release)?;
        }
        Ok(())
    }

    /// Whether a message of `bytes` bytes of this rank to itself may be kept.
    pub(crate) fn may_keep_own(&self, bytes: usize) -> bool {
        let (of_me, total) = self.matching.unexpected.bytes_from(self.me);
        let bytes = Block::heap_bytes(bytes) as u64;
        !self.holds.policy.holds(of_me + bytes, total + bytes)
    }
}
