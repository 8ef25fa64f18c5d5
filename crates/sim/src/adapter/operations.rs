//! What the commands do.

use mica_node::adapter::{ANY_SOURCE, ANY_TAG, Operation, Status};

use super::engine::{Adapter, Delivery, PendingSend, SendAnswer};
use super::host::Host;
use super::matching::{PostedReceive, UnexpectedMessage};
use super::packet::{Packet, PacketHeader};
use super::policy::MatchKind;
use super::request::{Completion, Request};
use crate::time::SimTime;

/// End of a process's address space.
const ADDRESS_END: u64 = 1 << 47;

impl Adapter {
    /// Starts a command that is at the adapter at `at`.
    pub(super) fn start(&mut self, at: SimTime, request: &Request, host: &mut dyn Host) {
        let at = self.process(at, self.timing.command);
        let operation = request.operation.filter(|op| self.is_valid(*op, request));
        let Some(operation) = operation else {
            self.refuse(at, request.token);
            return;
        };
        self.tokens.insert(request.token);
        match operation {
            Operation::Send | Operation::SendSynchronous => {
                self.send(at, operation, request, host);
            }
            Operation::Receive => self.receive(at, request, host),
            Operation::Cancel => self.cancel(at, request),
            Operation::Probe => self.probe(at, request),
            Operation::Extract => self.extract(at, request),
            Operation::ReceiveExtracted => self.receive_extracted(at, request, host),
        }
    }

    fn is_valid(&self, operation: Operation, request: &Request) -> bool {
        let is_rank = request.peer < self.size;
        let is_source = is_rank || request.peer == ANY_SOURCE;
        let end = request.address.checked_add(request.length);
        let is_buffer = end.is_some_and(|end| end <= ADDRESS_END);
        let is_free = !self.tokens.contains(&request.token);
        let is_pattern = is_source && request.flags & !ANY_TAG == 0;
        is_free
            && match operation {
                Operation::Send | Operation::SendSynchronous => is_rank && is_buffer,
                Operation::Receive => is_pattern && is_buffer,
                Operation::Probe | Operation::Extract => is_pattern,
                Operation::ReceiveExtracted => {
                    is_buffer && self.extracted.contains_key(&request.target)
                }
                Operation::Cancel => true,
            }
    }

    fn send(&mut self, at: SimTime, operation: Operation, request: &Request, host: &mut dyn Host) {
        let is_synchronous = operation == Operation::SendSynchronous;
        let Request {
            peer,
            context,
            tag,
            address,
            length,
            token,
            ..
        } = *request;
        let pending = |waits_for| PendingSend {
            to: peer,
            tag,
            address,
            length,
            waits_for,
        };
        if length > self.timing.eager_max {
            self.sends.insert(token, pending(SendAnswer::Pull));
            let send = token;
            let header = PacketHeader::Announce {
                context,
                tag,
                length,
                send,
            };
            self.send_packet(at, peer, Packet::bare(header));
            return;
        }
        let Some(read) = self.wire.read(at, address, length, host) else {
            self.tokens.remove(&token);
            self.refuse(at, token);
            return;
        };
        let header = PacketHeader::Eager {
            context,
            tag,
            acknowledge: is_synchronous.then_some(token),
        };
        let payload = read.bytes;
        self.send_packet(read.can_leave, peer, Packet { header, payload });
        if is_synchronous {
            self.sends.insert(token, pending(SendAnswer::Acknowledge));
        } else {
            self.complete_send(read.done, token, &pending(SendAnswer::Pull));
        }
    }

    /// Completes a send whose buffer is free.
    pub(super) fn complete_send(&mut self, at: SimTime, token: u64, send: &PendingSend) {
        let completion = Completion {
            token,
            status: Status::Done,
            source: self.rank,
            tag: send.tag,
            length: send.length,
        };
        self.complete(at, completion);
    }

    fn receive(&mut self, at: SimTime, request: &Request, host: &mut dyn Host) {
        let pattern = request.pattern();
        match self.matching.take_unexpected(request.context, pattern) {
            Some(message) => self.receive_unexpected(at, request, message, host),
            None => {
                let receive = PostedReceive {
                    token: request.token,
                    pattern,
                    address: request.address,
                    room: request.length,
                    is_hinted: false,
                };
                self.matching.post(request.context, receive);
            }
        }
    }

    fn receive_unexpected(
        &mut self,
        at: SimTime,
        request: &Request,
        message: UnexpectedMessage,
        host: &mut dyn Host,
    ) {
        let delivery = Delivery {
            token: request.token,
            address: request.address,
            room: request.length,
            is_hinted: false,
            kind: MatchKind::Unexpected,
            source: message.source,
            tag: message.tag,
            length: message.body.len(),
        };
        self.deliver((at, at), delivery, message.body, host);
    }

    fn receive_extracted(&mut self, at: SimTime, request: &Request, host: &mut dyn Host) {
        // `is_valid` has found it.
        if let Some(message) = self.extracted.remove(&request.target) {
            self.tokens.remove(&request.target);
            self.receive_unexpected(at, request, message, host);
        }
    }

    fn cancel(&mut self, at: SimTime, request: &Request) {
        let status = match self.matching.cancel(request.target) {
            true => {
                let cancelled = Completion::bare(request.target, Status::Cancelled);
                self.complete(at, cancelled);
                Status::Done
            }
            false => Status::NotFound,
        };
        self.complete(at, Completion::bare(request.token, status));
    }

    fn probe(&mut self, at: SimTime, request: &Request) {
        self.note_probe();
        let pattern = request.pattern();
        let found = self.matching.find_unexpected(request.context, pattern);
        let completion = probe_result(request.token, found);
        self.complete(at, completion);
    }

    fn extract(&mut self, at: SimTime, request: &Request) {
        self.note_probe();
        let pattern = request.pattern();
        let found = self.matching.take_unexpected(request.context, pattern);
        let completion = probe_result(request.token, found.as_ref());
        match found {
            Some(message) => {
                self.extracted.insert(request.token, message);
                self.announce(at, completion);
            }
            None => self.complete(at, completion),
        }
    }
}

/// The completion of a probe that has found this.
fn probe_result(token: u64, found: Option<&UnexpectedMessage>) -> Completion {
    match found {
        None => Completion::bare(token, Status::NotFound),
        Some(message) => Completion {
            token,
            status: Status::Done,
            source: message.source,
            tag: message.tag,
            length: message.body.len(),
        },
    }
}
