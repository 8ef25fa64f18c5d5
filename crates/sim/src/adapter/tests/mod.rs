//! Adapters over a network in one process: a [`Cluster`] of [`Node`]s whose memory is an array.

mod cluster;
mod loggp;
mod matching;
mod operations;
mod policies;
mod programs;
mod timing;
mod two_nodes;

use mica_node::adapter::{
    ANY_SOURCE, ANY_TAG, CommandKind, DEVICE_BYTES, EVENTS, EVENTS_OFFSET, Event,
};

use super::policy::Policy;
use super::{
    Adapter, AdapterHost, AdapterPacket, AdapterRequest, AdapterSetup, InjectionCounts,
    PacketHeader, RequestCompletion,
};
use crate::machine::{NetworkTopology, SimulatedMachine, WriteMode};
use crate::memory::{InjectTarget, NodeMemory};
use crate::network::{Network, PacketHead};
use crate::port::{Departure, PacketArrival};
use crate::time::{ByteTimes, SimTime};

/// Where the device is mapped; buffers come after it.
const DEVICE: u64 = 0x10_0000;
const BUFFERS: u64 = DEVICE + DEVICE_BYTES as u64;
const BUFFER_BYTES: usize = 1 << 18;

/// A machine with round numbers.
fn machine() -> SimulatedMachine {
    let mut machine = SimulatedMachine::named("power5-redstorm").expect("a shipped machine");
    machine.adapter.eager_max = 1024;
    machine.adapter.command_ns = 100.0;
    machine.adapter.arrival_ns = 200.0;
    machine.adapter.event_ns = 50.0;
    machine.adapter.loopback_ns = 500.0;
    machine.network.latency_ns = 1000.0;
    machine.network.gap_ns = 300.0;
    machine.network.gap_per_byte_ns = 0.25;
    machine.network.bandwidth_factor = 1.0;
    machine.network.topology = NetworkTopology::Crossbar;
    machine
}

fn policy(name: &str) -> Policy {
    Policy::named(name, &machine()).expect("a policy")
}

/// The memory of a process.
struct TestHost {
    memory: Vec<u8>,
    /// What transfers take; no time without.
    model: Option<(NodeMemory, WriteMode)>,
    /// Whether a cache has a line, for `in-cache`.
    holds: fn(u64, InjectTarget) -> bool,
    /// What was written to buffers: address, bytes, target.
    writes: Vec<(u64, u64, InjectTarget)>,
    /// Targets of events.
    event_targets: Vec<InjectTarget>,
}

impl TestHost {
    fn new() -> TestHost {
        TestHost {
            memory: vec![0; DEVICE_BYTES + BUFFER_BYTES],
            model: None,
            holds: |_, _| false,
            writes: Vec::new(),
            event_targets: Vec::new(),
        }
    }

    fn part(&mut self, address: u64, length: usize) -> &mut [u8] {
        let offset = (address - DEVICE) as usize;
        &mut self.memory[offset..offset + length]
    }
}

impl AdapterHost for TestHost {
    fn read(&mut self, at: SimTime, address: u64, out: &mut [u8]) -> SimTime {
        out.copy_from_slice(self.part(address, out.len()));
        match &mut self.model {
            Some((memory, _)) => memory.adapter_read(at, address, out.len() as u64),
            None => at,
        }
    }

    fn write(&mut self, at: SimTime, address: u64, bytes: &[u8], to: InjectTarget) -> SimTime {
        self.part(address, bytes.len()).copy_from_slice(bytes);
        match address < BUFFERS {
            true => self.event_targets.push(to),
            false => self.writes.push((address, bytes.len() as u64, to)),
        }
        match &mut self.model {
            Some((memory, mode)) => {
                memory.adapter_write(at, address, bytes.len() as u64, to, *mode)
            }
            None => at,
        }
    }

    fn holds(&self, address: u64, cache: InjectTarget) -> bool {
        (self.holds)(address / 128, cache)
    }

    fn injections(&self) -> InjectionCounts {
        match &self.model {
            Some((memory, _)) => InjectionCounts::of(&memory.counts().injected),
            None => InjectionCounts::default(),
        }
    }
}

/// An adapter and its process.
struct Node {
    adapter: Adapter,
    host: TestHost,
    out: Vec<Departure>,
    /// Events that the process has taken.
    taken: u64,
}

impl Node {
    fn new(rank: u32, size: u32, policy: Policy) -> Node {
        Node::on(&machine(), rank, size, policy)
    }

    fn on(machine: &SimulatedMachine, rank: u32, size: u32, policy: Policy) -> Node {
        let setup = AdapterSetup { rank, size, device: DEVICE, policy };
        Node {
            adapter: Adapter::new(machine, setup),
            host: TestHost::new(),
            out: Vec::new(),
            taken: 0,
        }
    }

    fn command(&mut self, now: SimTime, request: &AdapterRequest) {
        self.adapter.command(now, request, &mut self.host, &mut self.out);
    }

    fn arrive(&mut self, at: SimTime, from: u32, packet: AdapterPacket) {
        self.arrive_between(ByteTimes::at_once(at), from, packet);
    }

    fn arrive_between(&mut self, came: ByteTimes, from: u32, packet: AdapterPacket) {
        let arrival = PacketArrival { first: came.first, at: came.last, from, packet };
        self.adapter.arrive(arrival, &mut self.host, &mut self.out);
    }

    fn advance(&mut self, now: SimTime) {
        self.adapter.advance(now, &mut self.host, &mut self.out);
    }

    /// Takes the next event, if there is one.
    fn take_event(&mut self) -> Option<RequestCompletion> {
        let place = self.taken % EVENTS as u64;
        let size = size_of::<Event>();
        let address = DEVICE + EVENTS_OFFSET as u64 + place * size as u64;
        let event: &[u8] = self.host.part(address, size);
        let event = event.try_into().expect("an event's bytes");
        let (number, completion) = RequestCompletion::decode(event)?;
        if number != self.taken {
            assert!(number < self.taken, "events are written in order");
            return None;
        }
        self.taken += 1;
        Some(completion)
    }

    /// All events up to a moment.
    fn events(&mut self, now: SimTime) -> Vec<RequestCompletion> {
        self.advance(now);
        std::iter::from_fn(|| self.take_event()).collect()
    }

    /// Advances to what is due next. Whether there was something.
    fn step(&mut self) -> bool {
        match self.adapter.next_due() {
            SimTime::NEVER => false,
            due => {
                self.advance(due);
                true
            }
        }
    }

    /// Does all that is due without new packets, and takes the events.
    fn finish(&mut self) -> Vec<RequestCompletion> {
        while self.step() {}
        self.events(SimTime::default())
    }
}

/// A request without message.
fn request(operation: CommandKind, token: u64) -> AdapterRequest {
    let operation = Some(operation);
    let any = AdapterRequest { peer: ANY_SOURCE, flags: ANY_TAG, ..AdapterRequest::default() };
    AdapterRequest { operation, token, ..any }
}

fn send(to: u32, tag: i32, (address, length): (u64, u64), token: u64) -> AdapterRequest {
    AdapterRequest { peer: to, tag, flags: 0, address, length, ..request(CommandKind::Send, token) }
}

fn receive(from: u32, tag: i32, (address, length): (u64, u64), token: u64) -> AdapterRequest {
    AdapterRequest {
        peer: from,
        tag,
        flags: 0,
        address,
        length,
        ..request(CommandKind::Receive, token)
    }
}

/// A short message with its payload.
fn eager(tag: i32, payload: &[u8]) -> AdapterPacket {
    AdapterPacket {
        header: PacketHeader::Eager { context: 0, tag, acknowledge: None },
        payload: payload.to_vec(),
    }
}

/// A long message is announced, to be pulled as number `send`.
fn announce(tag: i32, length: u64, send: u64) -> AdapterPacket {
    AdapterPacket::bare(PacketHeader::Announce { context: 0, tag, length, send })
}

/// The payload of a long message.
fn data(receive: u64, payload: Vec<u8>) -> AdapterPacket {
    AdapterPacket { header: PacketHeader::Data { receive }, payload }
}

/// What happens at the nodes by itself: commands at moments.
type Script = Vec<(SimTime, usize, AdapterRequest)>;

/// Nodes over a network, driven as `mica sim` drives them: by quanta.
struct Cluster {
    nodes: Vec<Node>,
    network: Network,
    /// On their way: times, sender, number, receiver, packet.
    arrivals: Vec<(ByteTimes, u32, u64, usize, AdapterPacket)>,
    sent: Vec<u64>,
    /// Events of each node, with the moment when each was there.
    events: Vec<Vec<(SimTime, RequestCompletion)>>,
}

impl Cluster {
    fn new(machine: &SimulatedMachine, nodes: u32, policy: &Policy) -> Cluster {
        Cluster {
            nodes: (0..nodes).map(|rank| Node::on(machine, rank, nodes, policy.clone())).collect(),
            network: Network::new(&machine.network, nodes).expect("a network"),
            arrivals: Vec::new(),
            sent: vec![0; nodes as usize],
            events: vec![Vec::new(); nodes as usize],
        }
    }

    /// Runs until nothing is left to do.
    fn run(&mut self, mut script: Script) {
        script.sort_by_key(|(at, ..)| *at);
        script.reverse();
        let quantum = self.network.min_latency();
        let mut until = quantum;
        while self.is_busy(&script) {
            for node in 0..self.nodes.len() {
                self.run_node(node, until, &script);
            }
            while script.last().is_some_and(|(at, ..)| *at < until) {
                script.pop();
            }
            self.exchange();
            until += quantum;
        }
    }

    fn is_busy(&self, script: &Script) -> bool {
        let due = self.nodes.iter().any(|n| n.adapter.next_due() < SimTime::NEVER);
        due || !script.is_empty() || !self.arrivals.is_empty()
    }

    /// Commands, arrivals and what is due at a node before `until`, in order of time.
    fn run_node(&mut self, node: usize, until: SimTime, script: &Script) {
        let mine = |(_, _, _, to, _): &(ByteTimes, u32, u64, usize, AdapterPacket)| *to == node;
        let due = |came: &ByteTimes| came.last < until;
        let mut arrivals: Vec<_> = self.arrivals.extract_if(.., |a| mine(a) && due(&a.0)).collect();
        arrivals.sort_by_key(|(came, from, number, ..)| (came.last, *from, *number));
        let mut arrivals = arrivals.into_iter().peekable();
        let commands = script.iter().rev().filter(|(at, n, _)| *n == node && *at < until);
        let mut commands = commands.peekable();
        let this = &mut self.nodes[node];
        loop {
            let command = commands.peek().map_or(SimTime::NEVER, |c| c.0);
            let arrival = arrivals.peek().map_or(SimTime::NEVER, |a| a.0.last);
            let next = command.min(arrival).min(this.adapter.next_due());
            if next >= until {
                break;
            }
            this.advance(next);
            if arrival == next {
                let (came, from, _, _, packet) = arrivals.next().expect("peeked");
                this.arrive_between(came, from, packet);
            } else if command == next {
                let (at, _, request) = commands.next().expect("peeked");
                this.command(*at, request);
            }
            while let Some(event) = this.take_event() {
                self.events[node].push((next, event));
            }
        }
    }

    fn exchange(&mut self) {
        let mut heads = Vec::new();
        let mut packets = Vec::new();
        for (from, node) in self.nodes.iter_mut().enumerate() {
            for departure in node.out.drain(..) {
                let number = self.sent[from];
                self.sent[from] += 1;
                heads.push(PacketHead {
                    at: departure.at,
                    last: departure.last,
                    from: from as u32,
                    number,
                    to: departure.to,
                    bytes: departure.packet.payload.len() as u64,
                });
                packets.push((from as u32, number, departure.packet));
            }
        }
        let arrivals = self.network.carry(&mut heads);
        for (head, came) in heads.iter().zip(arrivals) {
            let of_head = packets.iter_mut().find(|p| (p.0, p.1) == (head.from, head.number));
            let bare = AdapterPacket::bare(PacketHeader::Data { receive: 0 });
            let packet = std::mem::replace(&mut of_head.expect("its packet").2, bare);
            self.arrivals.push((came, head.from, head.number, head.to as usize, packet));
        }
    }

    /// When the operation with this token was complete, and how.
    fn completion(&self, node: usize, token: u64) -> Option<(SimTime, RequestCompletion)> {
        let mut events = self.events[node].iter();
        events.find(|(_, event)| event.token == token).copied()
    }
}
