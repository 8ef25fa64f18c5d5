//! What the packets do that arrive, and how a matched message gets into its buffer.
//!
//! The protocol between two adapters, as MPI libraries have it (eager, rendezvous by a read):
//!
//! ```text
//! eager         Eager ------------------> matched or kept; written; event
//!               <------------ Acknowledge if the send is synchronous, when it is matched
//! rendezvous    Announce ---------------> matched or kept
//!               <------------------- Pull when it is matched, for as much as there is room
//!               Data -------------------> written; event
//! ```
//!
//! Both ends have an event of their own: the sender when its buffer is free, the receiver when the
//! payload is written. An answer names the operation by the token that came with the question, and
//! is checked against the rank that it was sent to. States are those of `engine`.

use mica_node::adapter::OperationStatus;

use super::engine::{Adapter, Delivery, SendAnswer};
use super::host::AdapterHost;
use super::matching::{MessageBody, UnmatchedMessage};
use super::packet::{AdapterPacket, PacketHeader};
use super::policy::{Incoming, MatchKind};
use super::request::RequestCompletion;
use super::transfer;
use crate::time::{ByteTimes, SimTime};

impl Adapter {
    /// Processes a packet.
    pub(super) fn take_packet(
        &mut self,
        came: ByteTimes,
        from: u32,
        packet: AdapterPacket,
        host: &mut dyn AdapterHost,
    ) {
        // It is matched when its first byte has come.
        let first = self.process(came.first, self.timing.arrival);
        let received = ByteTimes { first, ..came };
        let AdapterPacket { header, payload } = packet;
        match header {
            PacketHeader::Eager { context, tag, acknowledge } => {
                let body = MessageBody::Here { payload, acknowledge };
                let message = UnmatchedMessage { source: from, tag, body };
                self.take_message(received, context, message, host);
            }
            PacketHeader::Announce { context, tag, length, send } => {
                let body = MessageBody::Announced { length, send };
                let message = UnmatchedMessage { source: from, tag, body };
                self.take_message(received, context, message, host);
            }
            PacketHeader::Pull { send, length, receive } => {
                self.answer_pull(received.first, (from, send), (length, receive), host)
            }
            PacketHeader::Data { receive } => {
                self.take_data(received, from, (receive, payload), host)
            }
            PacketHeader::Acknowledge { send } => self.take_acknowledge(received.first, from, send),
        }
    }

    /// Matches a message, or keeps it.
    fn take_message(
        &mut self,
        received: ByteTimes,
        context: u64,
        message: UnmatchedMessage,
        host: &mut dyn AdapterHost,
    ) {
        let UnmatchedMessage { source, tag, .. } = message;
        let Some(receive) = self.matching.take_posted(context, source, tag) else {
            self.counts.unexpected += 1;
            self.matching.keep(context, message);
            self.note_unexpected(received.first.max(received.last));
            return;
        };
        self.counts.preposted += 1;
        let delivery = Delivery {
            token: receive.token,
            address: receive.address,
            room: receive.room,
            is_hinted: receive.is_hinted,
            kind: MatchKind::Preposted,
            source,
            tag,
            length: message.body.len(),
        };
        self.deliver(received, delivery, message.body, host);
    }

    /// Writes a matched message to its buffer, or asks for it.
    pub(super) fn deliver(
        &mut self,
        received: ByteTimes,
        delivery: Delivery,
        body: MessageBody,
        host: &mut dyn AdapterHost,
    ) {
        match body {
            MessageBody::Here { payload, acknowledge } => {
                if let Some(send) = acknowledge {
                    let header = PacketHeader::Acknowledge { send };
                    let at = ByteTimes::at_once(received.first.max(received.last));
                    self.send_packet(at, delivery.source, AdapterPacket::bare(header));
                }
                self.write_payload(received, delivery, &payload, host);
            }
            MessageBody::Announced { length, send } => {
                self.counts.pulled += 1;
                let receive = self.next_pull;
                self.next_pull += 1;
                let header =
                    PacketHeader::Pull { send, length: length.min(delivery.room), receive };
                let at = ByteTimes::at_once(received.first);
                self.send_packet(at, delivery.source, AdapterPacket::bare(header));
                self.pulls.insert(receive, delivery);
            }
        }
    }

    /// Writes the payload of a matched message, as much as there is room for.
    fn write_payload(
        &mut self,
        received: ByteTimes,
        delivery: Delivery,
        payload: &[u8],
        host: &mut dyn AdapterHost,
    ) {
        let bytes = &payload[..payload.len().min(delivery.room as usize)];
        let incoming = Incoming {
            address: delivery.address,
            bytes: bytes.len() as u64,
            kind: delivery.kind,
            is_awaited: self.is_awaited,
            is_hinted: delivery.is_hinted,
        };
        let policy = self.policy.current();
        let holds = |address, cache| host.holds(address, cache);
        let runs = policy.payload(&incoming, &self.caches, holds);
        let written = transfer::write(received.first, delivery.address, bytes, &runs, host);
        let line = self.caches.line;
        self.count_lines(runs.iter().map(|run| (run.bytes.div_ceil(line), run.target)), host);
        self.counts.received_bytes += incoming.bytes;
        let status = match delivery.length > delivery.room {
            true => OperationStatus::Truncated,
            false => OperationStatus::Done,
        };
        let completion = RequestCompletion {
            token: delivery.token,
            status,
            source: delivery.source,
            tag: delivery.tag,
            length: delivery.length,
        };
        self.complete(written.max(received.last), completion);
    }

    /// Sends the payload of a message that was announced.
    fn answer_pull(
        &mut self,
        at: SimTime,
        (from, token): (u32, u64),
        (length, receive): (u64, u64),
        host: &mut dyn AdapterHost,
    ) {
        let Some(send) = self.sends.get(&token).cloned() else {
            self.counts.strays += 1;
            return;
        };
        if send.to != from || send.waits_for != SendAnswer::Pull {
            self.counts.strays += 1;
            return;
        }
        self.sends.remove(&token);
        let length = length.min(send.length);
        let line = self.caches.line;
        let Some(read) = transfer::read(at, (send.address, length), line, host) else {
            self.complete(at, RequestCompletion::bare(token, OperationStatus::Invalid));
            return;
        };
        let header = PacketHeader::Data { receive };
        let payload = read.bytes;
        self.send_packet(read.times, from, AdapterPacket { header, payload });
        self.complete_send(read.times.last, token, &send);
    }

    /// Takes the payload of a message that was pulled.
    fn take_data(
        &mut self,
        received: ByteTimes,
        from: u32,
        (receive, payload): (u64, Vec<u8>),
        host: &mut dyn AdapterHost,
    ) {
        match self.pulls.get(&receive) {
            Some(delivery) if delivery.source == from => {}
            _ => {
                self.counts.strays += 1;
                return;
            }
        }
        if let Some(delivery) = self.pulls.remove(&receive) {
            self.write_payload(received, delivery, &payload, host);
        }
    }

    /// Completes a synchronous send.
    fn take_acknowledge(&mut self, at: SimTime, from: u32, token: u64) {
        let answered = self.sends.get(&token).cloned().filter(|send| send.to == from);
        match answered.filter(|send| send.waits_for == SendAnswer::Acknowledge) {
            Some(send) => {
                self.sends.remove(&token);
                self.complete_send(at, token, &send);
            }
            None => self.counts.strays += 1,
        }
    }
}
