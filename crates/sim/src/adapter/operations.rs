//! What the commands of the process do. A command is checked first; one that is not valid, or whose
//! token is in use, completes with `Status::Invalid` and changes nothing else. States are those of
//! `engine`.

use mica_node::adapter::{ANY_SOURCE, ANY_TAG, CommandKind, OperationStatus};

use super::engine::{Adapter, Delivery, PendingSend, SendAnswer};
use super::host::AdapterHost;
use super::matching::{PostedReceive, UnmatchedMessage};
use super::packet::{AdapterPacket, PacketHeader};
use super::policy::MatchKind;
use super::request::{AdapterRequest, RequestCompletion};
use super::transfer;
use crate::time::{ByteTimes, SimTime};

/// End of a process's address space.
const ADDRESS_END: u64 = 1 << 47;

impl Adapter {
    /// Starts a command that is at the adapter at `at`.
    pub(super) fn start(
        &mut self,
        at: SimTime,
        request: &AdapterRequest,
        host: &mut dyn AdapterHost,
    ) {
        let at = self.process(at, self.timing.command);
        let operation = request.operation.filter(|op| self.is_valid(*op, request));
        let Some(operation) = operation else {
            self.refuse(at, request.token);
            return;
        };
        self.tokens.insert(request.token);
        match operation {
            CommandKind::Send | CommandKind::SendSynchronous => {
                self.send(at, operation, request, host);
            }
            CommandKind::Receive => self.receive(at, request, host),
            CommandKind::Cancel => self.cancel(at, request),
            CommandKind::Probe => self.probe(at, request),
            CommandKind::Extract => self.extract(at, request),
            CommandKind::ReceiveExtracted => self.receive_extracted(at, request, host),
        }
    }

    fn is_valid(&self, operation: CommandKind, request: &AdapterRequest) -> bool {
        let is_rank = request.peer < self.size;
        let is_source = is_rank || request.peer == ANY_SOURCE;
        let end = request.address.checked_add(request.length);
        let is_buffer = end.is_some_and(|end| end <= ADDRESS_END);
        let is_free = !self.tokens.contains(&request.token);
        let is_pattern = is_source && request.flags & !ANY_TAG == 0;
        is_free
            && match operation {
                CommandKind::Send | CommandKind::SendSynchronous => is_rank && is_buffer,
                CommandKind::Receive => is_pattern && is_buffer,
                CommandKind::Probe | CommandKind::Extract => is_pattern,
                CommandKind::ReceiveExtracted => {
                    is_buffer && self.extracted.contains_key(&request.target)
                }
                CommandKind::Cancel => true,
            }
    }

    fn send(
        &mut self,
        at: SimTime,
        operation: CommandKind,
        request: &AdapterRequest,
        host: &mut dyn AdapterHost,
    ) {
        let is_synchronous = operation == CommandKind::SendSynchronous;
        let AdapterRequest { peer, context, tag, address, length, token, .. } = *request;
        let pending = |waits_for| PendingSend { to: peer, tag, address, length, waits_for };
        if length > self.timing.eager_max {
            self.sends.insert(token, pending(SendAnswer::Pull));
            let send = token;
            let header = PacketHeader::Announce { context, tag, length, send };
            self.send_packet(ByteTimes::at_once(at), peer, AdapterPacket::bare(header));
            return;
        }
        let line = self.caches.line;
        let Some(read) = transfer::read(at, (address, length), line, host) else {
            self.tokens.remove(&token);
            self.refuse(at, token);
            return;
        };
        let header =
            PacketHeader::Eager { context, tag, acknowledge: is_synchronous.then_some(token) };
        let payload = read.bytes;
        self.send_packet(read.times, peer, AdapterPacket { header, payload });
        if is_synchronous {
            self.sends.insert(token, pending(SendAnswer::Acknowledge));
        } else {
            self.complete_send(read.times.last, token, &pending(SendAnswer::Pull));
        }
    }

    /// Completes a send whose buffer is free.
    pub(super) fn complete_send(&mut self, at: SimTime, token: u64, send: &PendingSend) {
        let completion = RequestCompletion {
            token,
            status: OperationStatus::Done,
            source: self.rank,
            tag: send.tag,
            length: send.length,
        };
        self.complete(at, completion);
    }

    fn receive(&mut self, at: SimTime, request: &AdapterRequest, host: &mut dyn AdapterHost) {
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
        request: &AdapterRequest,
        message: UnmatchedMessage,
        host: &mut dyn AdapterHost,
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
        self.deliver(ByteTimes::at_once(at), delivery, message.body, host);
    }

    fn receive_extracted(
        &mut self,
        at: SimTime,
        request: &AdapterRequest,
        host: &mut dyn AdapterHost,
    ) {
        // `is_valid` has found it.
        if let Some(message) = self.extracted.remove(&request.target) {
            self.tokens.remove(&request.target);
            self.receive_unexpected(at, request, message, host);
        }
    }

    fn cancel(&mut self, at: SimTime, request: &AdapterRequest) {
        let status = match self.matching.cancel(request.target) {
            true => {
                let cancelled = RequestCompletion::bare(request.target, OperationStatus::Cancelled);
                self.complete(at, cancelled);
                OperationStatus::Done
            }
            false => OperationStatus::NotFound,
        };
        self.complete(at, RequestCompletion::bare(request.token, status));
    }

    fn probe(&mut self, at: SimTime, request: &AdapterRequest) {
        self.note_probe();
        let found = self.matching.find_unexpected(request.context, request.pattern());
        self.complete(at, probe_result(request.token, found));
    }

    fn extract(&mut self, at: SimTime, request: &AdapterRequest) {
        self.note_probe();
        let found = self.matching.take_unexpected(request.context, request.pattern());
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
fn probe_result(token: u64, found: Option<&UnmatchedMessage>) -> RequestCompletion {
    match found {
        None => RequestCompletion::bare(token, OperationStatus::NotFound),
        Some(message) => RequestCompletion {
            token,
            status: OperationStatus::Done,
            source: message.source,
            tag: message.tag,
            length: message.body.len(),
        },
    }
}
