//! The bound on what this rank keeps of messages without a receive (`MICA_UNEXPECTED_MAX`).
//!
//! A receiver that keeps too much of a sender's messages, by `mica_policy`'s [`HoldPolicy`], holds
//! that sender's messages back. On a node it does so by a word beside the credits of the ring or
//! FIFO, which the sender sees when it looks for room, at the latest after one lap; over the
//! network by a packet (`HOLD`). A sender whose messages are held back announces each of them
//! instead (`REQUEST`), in their order, whatever its length: an announcement takes the receiver
//! some hundred bytes, and there are as many as the sender has sends that have not ended. A
//! blocking send thus waits for its receive, which the standard allows (MPI 5.0, 3.4). When the
//! receiver has taken most of what it kept, the sender may go on as before.
//!
//! What comes beyond the bound is what was on its way: the ring and cells of a sender, or its FIFO;
//! over the network what the provider and the system hold between two nodes. Nothing is left in a
//! ring: a message that matches a posted receive behind others that do not is found as ever. Over
//! the network a window of messages that the receiver has taken in keeps that small (`CREDIT`,
//! [`crate::channels`]).
//!
//! Memory goes back to the system when most of a large backlog has been taken.

use crate::Fault;
use crate::packet;
use crate::state::EngineState;
use mica_channel::memory;
use mica_node::counters::Counter;
use mica_policy::HoldPolicy;

/// A backlog from which on memory is given back when it is gone.
const LARGE: u64 = 8 << 20;

/// What this rank holds back.
#[derive(Debug)]
pub(crate) struct Holds {
    policy: HoldPolicy,
    /// Senders whose messages are held back.
    held: Vec<u32>,
    /// Most bytes that were kept since memory was given back.
    peak: u64,
}

impl Holds {
    pub fn new(policy: HoldPolicy) -> Holds {
        Holds {
            policy,
            held: Vec::new(),
            peak: 0,
        }
    }

    /// Whether nobody is held back.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

impl EngineState {
    /// A message of `source` is kept that has no receive.
    #[inline]
    pub(crate) fn watch_backlog_from(&mut self, source: u32) -> Result<(), Fault> {
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
        self.tell_hold(source, true)
    }

    fn tell_hold(&mut self, source: u32, on: bool) -> Result<(), Fault> {
        match self.channels.shm.hold(source, on) {
            true => Ok(()),
            false => self.send_control(source, packet::hold(on)),
        }
    }

    /// A message of `source` that was kept has been taken.
    #[inline]
    pub(crate) fn has_taken_from(&mut self, source: u32) -> Result<(), Fault> {
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
            memory::give_back();
        }
        if self.holds.policy.releases(of_source, total)
            && let Some(at) = self.holds.held.iter().position(|&s| s == source)
        {
            self.holds.held.swap_remove(at);
            self.tell_hold(source, false)?;
        }
        Ok(())
    }

    /// Whether a message of so many bytes to this rank itself may be kept.
    pub(crate) fn may_keep_own(&self, bytes: usize) -> bool {
        let (of_me, total) = self.matching.unexpected.bytes_from(self.me);
        let bytes = bytes as u64;
        !self.holds.policy.holds(of_me + bytes, total + bytes)
    }
}
