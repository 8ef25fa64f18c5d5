//! The queues in which this rank's receives and the messages for it find each other, with what they
//! hold: receives by their id, and messages that came first in one of the forms of
//! [`UnexpectedMessage`]. [`matching`](crate::matching) has the queues themselves.
//!
//! Written by receives, probes and cancels, and by packets that bring messages; nothing else
//! matches.

use crate::channels::packet::RtsPacket;
use crate::engine::{EngineEventKind, report};
use crate::matching::{MatchEnvelope, MatchPattern, PostedQueue, UnexpectedQueue};
use crate::pt2pt::{ProbedMessage, RecvId};
use crate::wait::pending::QueuedMessage;
use mica_memory::{Block, View};
use mica_node::counters::{Counter, CounterRef};
use slab::Slab;

/// A message that arrived before its receive.
#[derive(Debug)]
pub(crate) enum UnexpectedMessage {
    /// Its bytes are here, or still arriving: `arrived` of them so far.
    Buffered {
        /// Our copy.
        copy: View,
        /// Bytes of the message that are here.
        arrived: usize,
        /// The sender's op, if it waits for the match.
        acknowledge: Option<u32>,
    },
    /// Its bytes are still at the sender.
    Announced(RtsPacket),
    /// An adapter that matches has it, and an `Extract` has taken it.
    AtAdapter {
        /// The token of the `Extract`.
        extract: u64,
        /// Length of the message.
        bytes: usize,
    },
    /// A message of this rank to itself, in the buffer of this send.
    FromSelf {
        /// The send.
        send: u32,
        /// Length of the message.
        bytes: usize,
    },
}

impl UnexpectedMessage {
    /// Length of the message.
    pub fn bytes(&self) -> usize {
        match self {
            UnexpectedMessage::Buffered { copy, .. } => copy.len(),
            UnexpectedMessage::Announced(rts) => rts.len as usize,
            UnexpectedMessage::AtAdapter { bytes, .. }
            | UnexpectedMessage::FromSelf { bytes, .. } => *bytes,
        }
    }

    /// Our copy of a message whose cells arrive.
    pub fn copy(&self) -> View {
        match self {
            UnexpectedMessage::Buffered { copy, .. } => copy.clone(),
            UnexpectedMessage::Announced(_)
            | UnexpectedMessage::AtAdapter { .. }
            | UnexpectedMessage::FromSelf { .. } => {
                unreachable!("cells belong to a buffered message")
            }
        }
    }

    /// Cells have arrived: `position` bytes are here now.
    pub fn set_arrived(&mut self, position: usize) {
        if let UnexpectedMessage::Buffered { arrived, .. } = self {
            *arrived = position;
        }
    }
}

/// The queues, and the messages that are in none any more.
#[derive(Debug, Default)]
pub(crate) struct MatchQueues {
    pub posted: PostedQueue<RecvId>,
    pub unexpected: UnexpectedQueue<UnexpectedMessage>,
    /// Messages that a matched probe has taken out of the queue.
    pub probed: Slab<(MatchEnvelope, UnexpectedMessage)>,
    /// How often a packet was left in its ring, as there was no memory for it, since a call has
    /// failed for that.
    pub left_packets: u32,
}

impl MatchQueues {
    /// Keeps a message that has just arrived without a receive.
    pub fn insert(
        &mut self,
        envelope: MatchEnvelope,
        message: UnexpectedMessage,
        counters: &CounterRef,
    ) -> u32 {
        let before = self.unexpected.len() as u64;
        let len = message.bytes();
        let heap = match &message {
            UnexpectedMessage::Buffered { copy, .. } => {
                self.left_packets = 0; // there is memory again
                Block::heap_bytes(copy.len())
            }
            _ => 0,
        };
        let ticket = self.unexpected.insert(envelope, heap, message);
        counters.count(Counter::UnexpectedMessages);
        counters.add(Counter::UnexpectedDepth, before);
        counters.set(Counter::UnexpectedQueue, before + 1);
        counters.raise(Counter::UnexpectedQueueLongest, before + 1);
        report(EngineEventKind::Arrived, &envelope, len, 0);
        report(EngineEventKind::Unexpected, &envelope, len, before + 1);
        ticket
    }

    /// Takes a message out of the queue.
    pub fn remove(
        &mut self,
        ticket: u32,
        counters: &CounterRef,
    ) -> (MatchEnvelope, UnexpectedMessage) {
        let message = self.unexpected.remove(ticket);
        counters.set(Counter::UnexpectedQueue, self.unexpected.len() as u64);
        message
    }

    /// The first message that matches `pattern`, if one has arrived; it remains in the queue.
    pub fn probe(&mut self, pattern: &MatchPattern) -> Option<ProbedMessage> {
        let ticket = self.unexpected.find(pattern)?;
        let (envelope, message) = self.unexpected.get(ticket);
        Some(ProbedMessage { envelope: *envelope, bytes: message.bytes() })
    }

    /// The first `count` messages that have arrived and are not matched yet, in order of arrival;
    /// of one context alone, if it is given.
    pub fn first_unexpected(&self, context: Option<u64>, count: usize) -> Vec<QueuedMessage> {
        let queued = |(envelope, message): (&MatchEnvelope, &UnexpectedMessage)| QueuedMessage {
            source: envelope.source,
            tag: envelope.tag,
            context: envelope.context,
            bytes: message.bytes(),
        };
        self.unexpected.first(context, count).into_iter().map(queued).collect()
    }
}
