//! The adapter as the protocol sees it: MPI's messages by the adapter's matching
//! ([`MatchingAdapter`]), and packets ([`Transport`]) beside them.
//!
//! One queue of events serves both; a token's two highest bits say whose it is. Packets and what
//! completes at once (probes, cancels) find room in the queue always, because messages leave
//! [`RESERVED`] places.
//!
//! No peer is ever lost, and peers' memory cannot be read: the adapter pulls long messages itself.
//! Other transports are waited for by the kernel; this one by a register
//! ([`MatchingAdapter::wait`]).

use std::collections::VecDeque;
use std::sync::Arc;

use super::packets::{PACKET_RECEIVE, PACKET_SEND, PAYLOAD_MAX, Packets, SENDS};
use super::queue::{AdapterCommand, AdapterEvent, AdapterQueue};
use super::registers::{AdapterRegisters, MappedRegisters};
use crate::shm::Packet;
use crate::transport::{
    MatchCompletion, MatchKey, MatchOperation, MatchOutcome, MatchingAdapter, NetError, TOKENS,
    Transport, WaitMode,
};
use crate::{Capabilities, ChannelError, PacketSource};
use mica_memory::{OutOfMemory, View};
use mica_node::adapter::{AdapterMemory, CommandKind, OperationStatus};

/// Receives of packets that are kept posted: few, as no packet of the protocol is needed between
/// ranks whose messages the adapter matches.
const RECEIVES: usize = 4;
/// The same where packets carry all messages.
const RECEIVES_OF_ALL: usize = 64;

/// Places of the queue of events that messages leave free.
const RESERVED: usize = SENDS + RECEIVES_OF_ALL + 16;

/// One rank's adapter.
#[derive(Debug)]
pub struct AdapterTransport {
    queue: AdapterQueue,
    packets: Packets,
    /// Completed operations that were not taken.
    matches: VecDeque<MatchCompletion>,
    /// The adapter matches the messages of MPI; else packets carry them.
    matches_messages: bool,
}

impl AdapterTransport {
    /// The adapter of this process, which matches its messages.
    ///
    /// # Errors
    /// When memory for packets cannot be allocated.
    pub fn open(memory: AdapterMemory) -> Result<AdapterTransport, OutOfMemory> {
        let memory = Arc::new(memory);
        let registers = Box::new(MappedRegisters(Arc::clone(&memory)));
        AdapterTransport::with_registers(memory, registers)
    }

    /// As [`open`](Self::open), with registers of the caller's.
    ///
    /// # Errors
    /// When memory for packets cannot be allocated.
    pub fn with_registers(
        memory: Arc<AdapterMemory>,
        registers: Box<dyn AdapterRegisters>,
    ) -> Result<AdapterTransport, OutOfMemory> {
        let mut queue = AdapterQueue::new(memory, registers);
        Ok(AdapterTransport {
            packets: Packets::open(&mut queue, RECEIVES)?,
            queue,
            matches: VecDeque::new(),
            matches_messages: true,
        })
    }

    /// An adapter of which only packets are used: the library matches, as over other networks.
    ///
    /// # Errors
    /// When memory for packets cannot be allocated.
    #[cfg(any(test, feature = "fake-adapter"))]
    pub fn of_packets_alone(
        memory: Arc<AdapterMemory>,
        registers: Box<dyn AdapterRegisters>,
    ) -> Result<AdapterTransport, OutOfMemory> {
        let mut queue = AdapterQueue::new(memory, registers);
        Ok(AdapterTransport {
            packets: Packets::open(&mut queue, RECEIVES_OF_ALL)?,
            queue,
            matches: VecDeque::new(),
            matches_messages: false,
        })
    }

    fn take_events(&mut self) {
        while let Some(event) = self.queue.take_event() {
            if event.token < TOKENS {
                self.matches.push_back(completion(&event));
            } else if event.token & PACKET_RECEIVE != 0 {
                self.packets.finish_receive(&mut self.queue, &event);
            } else {
                debug_assert!(event.token & PACKET_SEND != 0);
                self.packets.finish_send(&event);
            }
        }
    }
}

impl MatchingAdapter for AdapterTransport {
    fn post(&mut self, operation: MatchOperation<'_>, token: u64) -> bool {
        debug_assert!(token < TOKENS);
        let completes_at_once = matches!(
            operation,
            MatchOperation::Cancel(_) | MatchOperation::Probe(_) | MatchOperation::Extract(_)
        );
        let needed = if completes_at_once { 1 } else { 1 + RESERVED };
        self.queue.room() >= needed && self.queue.post(&command(&operation, token))
    }

    fn next_match(&mut self) -> Option<MatchCompletion> {
        self.matches.pop_front()
    }

    fn hint(&mut self, token: u64) {
        self.queue.hint(token);
    }

    fn wait(&mut self) {
        self.queue.wait();
    }

    fn mark(&mut self, level: i32) {
        self.queue.mark(i64::from(level) as u64);
    }
}

/// An operation as the adapter reads it.
fn command(operation: &MatchOperation<'_>, token: u64) -> AdapterCommand {
    let message = |operation, key: &MatchKey, view: Option<&View>| AdapterCommand {
        peer: key.peer,
        context: key.context,
        tag: key.tag,
        buffer: view.map_or((0, 0), buffer),
        ..AdapterCommand::of(operation, token)
    };
    match operation {
        MatchOperation::Send(to, view) => message(CommandKind::Send, to, Some(view)),
        MatchOperation::SendSynchronous(to, view) => {
            message(CommandKind::SendSynchronous, to, Some(view))
        }
        MatchOperation::Receive(from, view) => message(CommandKind::Receive, from, Some(view)),
        MatchOperation::Probe(from) => message(CommandKind::Probe, from, None),
        MatchOperation::Extract(from) => message(CommandKind::Extract, from, None),
        &MatchOperation::Cancel(target) => {
            AdapterCommand { target, ..AdapterCommand::of(CommandKind::Cancel, token) }
        }
        &MatchOperation::ReceiveExtracted(target, view) => AdapterCommand {
            target,
            buffer: buffer(view),
            ..AdapterCommand::of(CommandKind::ReceiveExtracted, token)
        },
    }
}

fn buffer(view: &View) -> (usize, usize) {
    let place = view.as_contiguous();
    place.expect("the caller packs what is not contiguous")
}

fn completion(event: &AdapterEvent) -> MatchCompletion {
    MatchCompletion {
        token: event.token,
        outcome: match event.status {
            OperationStatus::Done | OperationStatus::Truncated => MatchOutcome::Done,
            OperationStatus::Cancelled => MatchOutcome::Cancelled,
            OperationStatus::NotFound => MatchOutcome::NotFound,
            OperationStatus::Invalid => MatchOutcome::Refused,
        },
        source: event.source,
        tag: event.tag,
        bytes: event.bytes,
    }
}

impl PacketSource for AdapterTransport {
    fn peek(&mut self) -> Option<(u32, Packet)> {
        if self.packets.waiting() == 0 {
            self.take_events();
        }
        self.packets.peek()
    }

    fn has_arrivals(&mut self) -> bool {
        self.packets.waiting() > 0 || !self.matches.is_empty() || self.queue.has_event()
    }
}

impl Transport for AdapterTransport {
    fn name(&self) -> &'static str {
        "adapter"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::MESSAGES
    }

    fn reaches(&self, peer: u32) -> bool {
        peer < self.queue.size() && peer != self.queue.rank()
    }

    fn payload_max(&self) -> usize {
        PAYLOAD_MAX
    }

    fn send(
        &mut self,
        peer: u32,
        packet: &Packet,
        view: Option<&View>,
        position: usize,
    ) -> Result<bool, ChannelError> {
        let payload = packet.payload as usize;
        let available = view.map_or(0, |view| view.len().saturating_sub(position));
        if payload > PAYLOAD_MAX || payload > available {
            return Err(ChannelError::Net(NetError::Argument {
                operation: "send",
                why: format!("{payload} bytes of payload, of {available}, at most {PAYLOAD_MAX}"),
            }));
        }
        let payload = view.map(|view| (view, position));
        Ok(self.packets.send(&mut self.queue, peer, packet, payload))
    }

    fn has_room(&mut self, _peer: u32, _payload: usize) -> bool {
        self.packets.has_room()
    }

    fn poll(&mut self) {
        self.take_events();
    }

    fn peek_found(&self) -> Option<(u32, Packet)> {
        self.packets.peek()
    }

    fn waiting(&self) -> usize {
        self.packets.waiting()
    }

    fn for_each_waiting(&self, source: u32, f: &mut dyn FnMut(&Packet)) {
        self.packets.for_each_waiting(source, f);
    }

    fn read_payload(&self, _source: u32, _packet: &Packet, view: &View, position: usize) -> usize {
        self.packets.read_payload(view, position)
    }

    fn consume(&mut self, _source: u32, _packet: &Packet) {
        self.packets.consume(&mut self.queue);
    }

    fn is_drained(&mut self) -> bool {
        self.take_events();
        self.packets.is_drained()
    }

    fn matching(&mut self) -> Option<&mut dyn MatchingAdapter> {
        match self.matches_messages {
            true => Some(self),
            false => None,
        }
    }

    /// Nothing sleeps here: a rank waits by [`MatchingAdapter::wait`].
    fn prepare_to_wait(&mut self) -> WaitMode {
        match self.has_arrivals() {
            true => WaitMode::Ready,
            false => WaitMode::Poll,
        }
    }

    fn probe(&mut self, _peer: u32) -> Result<(), ChannelError> {
        Ok(())
    }
}
