//! The adapter's state, and the calls of its node. What commands and packets do is in `operations`
//! and `arrivals`; `mod.rs` has the times.
//!
//! States of an operation, which its token names. Commands of the process and packets of other
//! adapters move it, each at its time; nothing else does.
//!
//! ```text
//! send, eager          -> payload read -> departed: complete
//! send, synchronous    -> departed -> in `sends` for an Acknowledge: complete
//! send, announced      -> in `sends` for a Pull -> payload departed: complete
//! receive              -> posted (`matching`) -> matched: payload written: complete
//!                      -> matched with an announcement: in `pulls` for the Data -> complete
//! probe                -> complete
//! extract              -> complete; the token names a message in `extracted` until it is received
//! ```
//!
//! States of a message at its receiver: unexpected (`matching`), extracted, matched (a
//! [`Delivery`]), delivered. A message is in one of these places, a token in `tokens` from its
//! command until its event is entered. A packet that fits no state is a stray: dropped and counted.
//!
//! Order: commands and packets are processed one after another (`last_processed`), and packets
//! leave one after another (`last_departure`), so that messages of a pair do not overtake each
//! other. What is due later is in the agenda, and only [`Adapter::advance`] carries it out: nothing
//! that the process can see changes before its time.

use std::collections::{HashMap, HashSet};

use mica_node::adapter::{
    COMMANDS, COMMANDS_OFFSET, Command, EVENTS, EVENTS_OFFSET, Event, OperationStatus,
};
use serde::{Deserialize, Serialize};

use super::agenda::Agenda;
use super::host::AdapterHost;
use super::matching::{MatchingLists, UnmatchedMessage};
use super::packet::AdapterPacket;
use super::policy::{CacheSizes, MatchKind, Policy, WrittenLines};
use super::request::{AdapterRequest, REQUEST_BYTES, RequestCompletion};
use crate::machine::SimulatedMachine;
use crate::memory::InjectTarget;
use crate::port::{Departure, PacketArrival};
use crate::time::{ByteTimes, SimTime};

/// Which adapter it is.
#[derive(Debug)]
pub struct AdapterSetup {
    /// Rank of its process in the job.
    pub rank: u32,
    /// Ranks of the job.
    pub size: u32,
    /// Where the process has mapped the adapter's descriptor; 0 before it has, see
    /// [`Adapter::set_device`].
    pub device: u64,
    /// What it injects.
    pub policy: Policy,
}

/// What an adapter has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterCounts {
    /// Commands.
    pub commands: u64,
    /// Events that it has written (leon-2009, Figure 5.3).
    pub events: u64,
    /// Messages whose receive was posted before they came.
    pub preposted: u64,
    /// Messages that came before their receive.
    pub unexpected: u64,
    /// Of both, those that were announced and pulled.
    pub pulled: u64,
    /// Bytes that it has written to receive buffers.
    pub received_bytes: u64,
    /// Packets that belong to no operation and were dropped; 0 unless an adapter is wrong.
    pub strays: u64,
    /// How many times an adaptive policy has changed.
    pub policy_changes: u64,
}

/// A network adapter.
#[derive(Debug)]
pub struct Adapter {
    pub(super) rank: u32,
    pub(super) size: u32,
    device: u64,
    pub(super) timing: AdapterTiming,
    pub(super) caches: CacheSizes,
    pub(super) policy: Policy,
    pub(super) matching: MatchingLists,
    /// Sends that wait for their match, by token.
    pub(super) sends: HashMap<u64, PendingSend>,
    /// Receives whose payload is on its way, by the name of the transfer.
    pub(super) pulls: HashMap<u64, Delivery>,
    pub(super) next_pull: u64,
    /// Messages that were extracted, by the token of the extraction.
    pub(super) extracted: HashMap<u64, UnmatchedMessage>,
    /// Tokens in use: of operations without completion, and of extracted messages.
    pub(super) tokens: HashSet<u64>,
    agenda: Agenda<DueAction>,
    /// When the last command or packet so far is processed. They are in a pipeline.
    last_processed: SimTime,
    /// Packets leave in the order in which they are made: each after the last byte of the one
    /// before it is there.
    last_departure: SimTime,
    /// Probes and extractions so far.
    probes: u64,
    /// An unexpected message has come since the last of them, and since the last wait that ended.
    has_unexpected: bool,
    /// The process waits.
    pub(super) is_awaited: bool,
    pub(super) counts: AdapterCounts,
}

/// Times and limits of the machine's adapter.
#[derive(Debug)]
pub(super) struct AdapterTiming {
    pub eager_max: u64,
    pub command: SimTime,
    pub event: SimTime,
    pub arrival: SimTime,
    pub loopback: SimTime,
}

/// A send that waits for its match.
#[derive(Debug, Clone)]
pub(super) struct PendingSend {
    pub to: u32,
    pub tag: i32,
    pub address: u64,
    pub length: u64,
    pub waits_for: SendAnswer,
}

/// What completes a pending send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendAnswer {
    /// An acknowledgement; the payload has left.
    Acknowledge,
    /// A pull of the payload.
    Pull,
}

/// A receive that has its message.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    pub token: u64,
    pub address: u64,
    /// Bytes of the buffer.
    pub room: u64,
    pub is_hinted: bool,
    pub kind: MatchKind,
    pub source: u32,
    pub tag: i32,
    /// Bytes of the message.
    pub length: u64,
}

/// What happens later.
#[derive(Debug)]
enum DueAction {
    /// An event is written.
    Event(RequestCompletion),
    /// A packet leaves.
    Depart { to: u32, last: SimTime, packet: AdapterPacket },
    /// A packet to the own rank has come.
    LoopBack(AdapterPacket),
    /// The adapter has found out that a message is unexpected; `probes` had been made by then.
    Unexpected { probes: u64 },
}

impl Adapter {
    /// The adapter of a process on this machine.
    pub fn new(machine: &SimulatedMachine, setup: AdapterSetup) -> Adapter {
        let adapter = &machine.adapter;
        Adapter {
            rank: setup.rank,
            size: setup.size,
            device: setup.device,
            timing: AdapterTiming {
                eager_max: adapter.eager_max,
                command: SimTime::from_ns(adapter.command_ns),
                event: SimTime::from_ns(adapter.event_ns),
                arrival: SimTime::from_ns(adapter.arrival_ns),
                loopback: SimTime::from_ns(adapter.loopback_ns),
            },
            caches: CacheSizes::of(machine),
            policy: setup.policy,
            matching: MatchingLists::default(),
            sends: HashMap::new(),
            pulls: HashMap::new(),
            next_pull: 0,
            extracted: HashMap::new(),
            tokens: HashSet::new(),
            agenda: Agenda::new(),
            last_processed: SimTime::default(),
            last_departure: SimTime::default(),
            probes: 0,
            has_unexpected: false,
            is_awaited: false,
            counts: AdapterCounts::default(),
        }
    }

    /// The process has mapped the adapter's descriptor at `device`.
    pub fn set_device(&mut self, device: u64) {
        self.device = device;
    }

    /// The process has stored `place` to the doorbell: reads the command there and starts it.
    pub fn doorbell(
        &mut self,
        now: SimTime,
        place: u64,
        host: &mut dyn AdapterHost,
        out: &mut Vec<Departure>,
    ) {
        let place = place % COMMANDS as u64;
        let commands = self.device + COMMANDS_OFFSET as u64;
        let address = commands + place * size_of::<Command>() as u64;
        let mut bytes = [0; REQUEST_BYTES];
        let read = host.read(now, address, &mut bytes);
        self.begin_command(now, out, host);
        self.start(read.max(now), &AdapterRequest::decode(&bytes), host);
    }

    /// Starts a command that was read by the caller.
    pub fn command(
        &mut self,
        now: SimTime,
        request: &AdapterRequest,
        host: &mut dyn AdapterHost,
        out: &mut Vec<Departure>,
    ) {
        self.begin_command(now, out, host);
        self.start(now, request, host);
    }

    fn begin_command(
        &mut self,
        now: SimTime,
        out: &mut Vec<Departure>,
        host: &mut dyn AdapterHost,
    ) {
        self.advance(now, host, out);
        self.is_awaited = false;
        self.counts.commands += 1;
    }

    /// The last byte of a packet has come from another node.
    pub fn arrive(
        &mut self,
        arrival: PacketArrival,
        host: &mut dyn AdapterHost,
        out: &mut Vec<Departure>,
    ) {
        let PacketArrival { first, at, from, packet } = arrival;
        self.advance(at, host, out);
        self.take_packet(ByteTimes { first, last: at }, from, packet, host);
    }

    /// Does what is due at `now`: events, and packets that leave.
    pub fn advance(&mut self, now: SimTime, host: &mut dyn AdapterHost, out: &mut Vec<Departure>) {
        while let Some((at, action)) = self.agenda.take(now) {
            match action {
                DueAction::Event(completion) => self.write_event(at, completion, host),
                DueAction::Depart { to, last, packet } => {
                    out.push(Departure { at, last, to, packet })
                }
                DueAction::LoopBack(packet) => {
                    self.take_packet(ByteTimes::at_once(at), self.rank, packet, host)
                }
                DueAction::Unexpected { probes } => self.has_unexpected |= probes == self.probes,
            }
        }
    }

    /// The process has ended: hands over the packets that have not left yet. No more events are
    /// written.
    pub fn finish(&mut self, out: &mut Vec<Departure>) {
        while let Some((at, action)) = self.agenda.take(SimTime::NEVER) {
            if let DueAction::Depart { to, last, packet } = action {
                out.push(Departure { at, last, to, packet });
            }
        }
    }

    /// When [`Adapter::advance`] has something to do, [`SimTime::NEVER`] if it waits for a command
    /// or packet.
    pub fn next_due(&self) -> SimTime {
        self.agenda.next_due().unwrap_or(SimTime::NEVER)
    }

    /// Whether a process that waits and has taken `taken` events wakes: there are events or
    /// unexpected messages that it has not seen. If not, ask again after what happens next; if so,
    /// the wait ends, and the unexpected messages up to now do not end another. Call
    /// [`Adapter::advance`] before.
    pub fn should_wake(&mut self, taken: u64) -> bool {
        let wakes = self.counts.events > taken || self.has_unexpected;
        self.is_awaited = !wakes;
        self.has_unexpected &= !wakes;
        wakes
    }

    /// The program will use the payload of this receive at once.
    pub fn hint(&mut self, token: u64) {
        if let Some(receive) = self.matching.posted_mut(token) {
            receive.is_hinted = true;
        }
        let mut pulls = self.pulls.values_mut();
        if let Some(delivery) = pulls.find(|delivery| delivery.token == token) {
            delivery.is_hinted = true;
        }
    }

    /// What it has counted.
    pub fn counts(&self) -> AdapterCounts {
        AdapterCounts { policy_changes: self.policy.changes(), ..self.counts }
    }

    /// Its policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Processes something that comes at `at`, in `time`. Returns when that is done: not before
    /// what came earlier.
    pub(super) fn process(&mut self, at: SimTime, time: SimTime) -> SimTime {
        self.last_processed = self.last_processed.max(at + time);
        self.last_processed
    }

    /// Sends a packet whose bytes can leave at these times.
    pub(super) fn send_packet(&mut self, ready: ByteTimes, to: u32, packet: AdapterPacket) {
        let first = ready.first.max(self.last_departure);
        let last = ready.last.max(first);
        self.last_departure = last;
        if to == self.rank {
            self.agenda.enter(last + self.timing.loopback, DueAction::LoopBack(packet));
        } else {
            self.agenda.enter(first, DueAction::Depart { to, last, packet });
        }
    }

    /// Completes an operation that is over at `at`; its token is free.
    pub(super) fn complete(&mut self, at: SimTime, completion: RequestCompletion) {
        self.tokens.remove(&completion.token);
        self.announce(at, completion);
    }

    /// Completes an operation whose token stays in use.
    pub(super) fn announce(&mut self, at: SimTime, completion: RequestCompletion) {
        self.agenda.enter(at + self.timing.event, DueAction::Event(completion));
    }

    /// Completes a command that is not valid.
    pub(super) fn refuse(&mut self, at: SimTime, token: u64) {
        self.announce(at, RequestCompletion::bare(token, OperationStatus::Invalid));
    }

    /// A message that matches no receive is known at `at`.
    pub(super) fn note_unexpected(&mut self, at: SimTime) {
        let probes = self.probes;
        self.agenda.enter(at, DueAction::Unexpected { probes });
    }

    /// The process looks for unexpected messages.
    pub(super) fn note_probe(&mut self) {
        self.probes += 1;
        self.has_unexpected = false;
    }

    fn write_event(
        &mut self,
        at: SimTime,
        completion: RequestCompletion,
        host: &mut dyn AdapterHost,
    ) {
        let number = self.counts.events;
        self.counts.events += 1;
        let place = number % EVENTS as u64;
        let events = self.device + EVENTS_OFFSET as u64;
        let address = events + place * size_of::<Event>() as u64;
        let target = self.policy.current().event();
        let event = completion.encode(number);
        // One line, whole: caches do not take parts of lines.
        let bytes = event.len().min(self.caches.line.max(64) as usize);
        host.write(at, address, &event[..bytes], target);
        self.count_lines([(1, target)], host);
    }

    /// Reports lines that were written to the policy.
    pub(super) fn count_lines(
        &mut self,
        lines: impl IntoIterator<Item = (u64, InjectTarget)>,
        host: &dyn AdapterHost,
    ) {
        let mut written = WrittenLines::default();
        for (lines, target) in lines {
            match target {
                InjectTarget::Memory => written.memory += lines,
                InjectTarget::L2 { .. } => written.l2 += lines,
                InjectTarget::L3 => written.l3 += lines,
            }
        }
        self.policy.observe(written, || host.injections());
    }
}
