//! Adapters of several ranks in one process, which follow the contract of `mica_node::adapter` and
//! match by plain lists: for tests. No clock and no emulation: a command is carried out in the call
//! that rings its doorbell.
//!
//! Messages travel on one link for each pair, in order. [`FakeDelivery::AtOnce`] delivers them and
//! their events at once: ranks may be threads, which wait for each other.
//! [`FakeDelivery::Stepped`] keeps both back until the test [brings](FakeNetwork::bring) them, in
//! an order that the test chooses: ranks are then stepped by one thread.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::packets::PACKET_CONTEXT;
use super::registers::AdapterRegisters;
use mica_node::adapter::{
    ANY_SOURCE, ANY_TAG, AdapterMemory, CommandKind, EVENTS, OperationStatus,
};

/// A rank that waits longer for something new waits for ever.
const DEADLOCK: Duration = Duration::from_secs(60);

/// When messages and events arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FakeDelivery {
    /// As soon as they are sent.
    AtOnce,
    /// When the test brings them, or their receiver waits.
    Stepped,
}

/// A message as it arrived at its receiver's adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FakeArrival {
    /// The receiver.
    pub receiver: u32,
    /// The sender.
    pub source: u32,
    /// Context.
    pub context: u64,
    /// Tag.
    pub tag: i32,
    /// Length in bytes.
    pub bytes: usize,
}

/// The adapters of all ranks, and the network between them.
#[derive(Debug, Clone)]
pub struct FakeNetwork(Arc<SharedNetwork>);

#[derive(Debug)]
struct SharedNetwork {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inner {
    delivery: FakeDelivery,
    /// Longer messages stay at their sender until they are matched.
    eager_max: usize,
    ports: Vec<FakePort>,
    /// By sender, then by receiver.
    links: Vec<VecDeque<FakeMessage>>,
    arrivals: Vec<FakeArrival>,
}

/// One rank's adapter.
#[derive(Debug)]
struct FakePort {
    memory: Arc<AdapterMemory>,
    /// Events written.
    written: u64,
    /// Events that are not written yet.
    due: Vec<DueEvent>,
    posted: Vec<Posted>,
    unexpected: Vec<FakeMessage>,
    extracted: HashMap<u64, FakeMessage>,
    /// An unexpected message has come since the last probe, extract or wait.
    has_news: bool,
    hints: Vec<u64>,
    marks: Vec<u64>,
    waits: u64,
}

/// An event to be written.
#[derive(Debug, Clone, Copy)]
struct DueEvent {
    token: u64,
    status: OperationStatus,
    source: u32,
    tag: i32,
    bytes: usize,
}

impl DueEvent {
    fn plain(token: u64, status: OperationStatus) -> DueEvent {
        DueEvent { token, status, source: 0, tag: 0, bytes: 0 }
    }

    fn of_message(token: u64, message: &FakeMessage) -> DueEvent {
        DueEvent {
            token,
            status: OperationStatus::Done,
            source: message.source,
            tag: message.tag,
            bytes: message.body.len(),
        }
    }
}

/// Memory of a process: address and length.
type Buffer = (u64, usize);

/// What a receive or probe asks for.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    context: u64,
    /// Or [`ANY_SOURCE`].
    source: u32,
    tag: Option<i32>,
}

impl Wanted {
    fn matches(&self, message: &FakeMessage) -> bool {
        self.context == message.context
            && (self.source == ANY_SOURCE || self.source == message.source)
            && self.tag.is_none_or(|tag| tag == message.tag)
    }
}

#[derive(Debug)]
struct Posted {
    wanted: Wanted,
    buffer: Buffer,
    token: u64,
}

#[derive(Debug)]
struct FakeMessage {
    source: u32,
    context: u64,
    tag: i32,
    body: FakeBody,
    /// The send that completes when this is matched.
    completes: Option<u64>,
}

#[derive(Debug)]
enum FakeBody {
    Here(Vec<u8>),
    AtSender(Buffer),
}

impl FakeBody {
    fn len(&self) -> usize {
        match self {
            FakeBody::Here(bytes) => bytes.len(),
            FakeBody::AtSender((_, bytes)) => *bytes,
        }
    }
}

impl FakeNetwork {
    /// Adapters of `ranks` ranks. Messages longer than `eager_max` stay at their sender until they
    /// are matched.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub fn new(ranks: u32, eager_max: usize, delivery: FakeDelivery) -> io::Result<FakeNetwork> {
        let port = |rank| {
            Ok(FakePort {
                memory: Arc::new(AdapterMemory::create(rank, ranks)?.1),
                written: 0,
                due: Vec::new(),
                posted: Vec::new(),
                unexpected: Vec::new(),
                extracted: HashMap::new(),
                has_news: false,
                hints: Vec::new(),
                marks: Vec::new(),
                waits: 0,
            })
        };
        let inner = Inner {
            delivery,
            eager_max,
            ports: (0..ranks).map(port).collect::<io::Result<_>>()?,
            links: (0..ranks * ranks).map(|_| VecDeque::new()).collect(),
            arrivals: Vec::new(),
        };
        Ok(FakeNetwork(Arc::new(SharedNetwork {
            inner: Mutex::new(inner),
            changed: Condvar::new(),
        })))
    }

    /// The memory of a rank's adapter, and its registers.
    pub fn end(&self, rank: u32) -> (Arc<AdapterMemory>, Box<dyn AdapterRegisters>) {
        let memory = Arc::clone(&self.lock().ports[rank as usize].memory);
        let registers = FakeRegisters { rank: rank as usize, network: self.clone() };
        (memory, Box::new(registers))
    }

    /// Delivers some of the messages to `rank`, and writes some of its events: `pick(n)` is a
    /// number below `n`.
    pub fn bring(&self, rank: u32, pick: &mut dyn FnMut(usize) -> usize) {
        let mut inner = self.lock();
        let (rank, ranks) = (rank as usize, inner.ports.len());
        for source in 0..ranks {
            for _ in 0..pick(4) {
                inner.deliver_next(source, rank);
            }
        }
        while !inner.ports[rank].due.is_empty() && pick(4) > 0 {
            let at = pick(inner.ports[rank].due.len());
            let due = inner.ports[rank].due.remove(at);
            inner.ports[rank].write(due);
        }
    }

    /// The messages of MPI that have arrived since the last call, in order.
    pub fn take_arrivals(&self) -> Vec<FakeArrival> {
        std::mem::take(&mut self.lock().arrivals)
    }

    /// The tokens that `rank` has hinted at.
    pub fn hints(&self, rank: u32) -> Vec<u64> {
        self.lock().ports[rank as usize].hints.clone()
    }

    /// The levels that `rank` has marked.
    pub fn marks(&self, rank: u32) -> Vec<u64> {
        self.lock().ports[rank as usize].marks.clone()
    }

    /// How often `rank` has waited.
    pub fn waits(&self, rank: u32) -> u64 {
        self.lock().ports[rank as usize].waits
    }

    /// Panics if a message of MPI, or a receive of one, is left, or an event of any kind.
    pub fn assert_empty(&self) {
        let inner = self.lock();
        assert!(inner.links.iter().all(VecDeque::is_empty), "messages on links");
        for (rank, port) in inner.ports.iter().enumerate() {
            let receives = port.posted.iter();
            let receives = receives.filter(|p| p.wanted.context != PACKET_CONTEXT).count();
            let kept = port.unexpected.len() + port.extracted.len();
            assert_eq!((receives, kept, port.due.len()), (0, 0, 0), "rank {rank}");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct FakeRegisters {
    rank: usize,
    network: FakeNetwork,
}

impl AdapterRegisters for FakeRegisters {
    fn ring(&self, number: u64) {
        self.network.lock().carry_out(self.rank, number);
        self.network.0.changed.notify_all();
    }

    fn wait(&self, taken: u64) {
        let SharedNetwork { inner, changed } = &*self.network.0;
        let mut inner = inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.ports[self.rank].waits += 1;
        loop {
            inner.bring_all(self.rank);
            let port = &mut inner.ports[self.rank];
            if port.written > taken || std::mem::take(&mut port.has_news) {
                return;
            }
            let (next, end) =
                changed.wait_timeout(inner, DEADLOCK).unwrap_or_else(PoisonError::into_inner);
            assert!(!end.timed_out(), "rank {} waits for ever", self.rank);
            inner = next;
        }
    }

    fn hint(&self, token: u64) {
        self.network.lock().ports[self.rank].hints.push(token);
    }

    fn mark(&self, level: u64) {
        self.network.lock().ports[self.rank].marks.push(level);
    }
}

impl FakePort {
    fn write(&mut self, due: DueEvent) {
        let event = self.memory.event(self.written);
        let is_free = event.sequence.load(Ordering::Relaxed) + EVENTS as u64 == self.written + 1
            || self.written < EVENTS as u64;
        assert!(is_free, "the ring of events is overrun");
        event.token.store(due.token, Ordering::Relaxed);
        event.status.store(due.status as u32, Ordering::Relaxed);
        event.source.store(due.source, Ordering::Relaxed);
        event.tag.store(due.tag as u32, Ordering::Relaxed);
        event.length.store(due.bytes as u64, Ordering::Relaxed);
        self.written += 1;
        // Release: the process may be another thread; pairs with `AdapterQueue::take_event`.
        event.sequence.store(self.written, Ordering::Release);
    }
}

impl Inner {
    /// Reads and carries out a command.
    fn carry_out(&mut self, rank: usize, number: u64) {
        let memory = Arc::clone(&self.ports[rank].memory);
        let command = memory.command(number);
        let token = command.token.load(Ordering::Relaxed);
        let target = command.target.load(Ordering::Relaxed);
        let peer = command.peer.load(Ordering::Relaxed);
        let tag = command.tag.load(Ordering::Relaxed) as i32;
        let any_tag = command.flags.load(Ordering::Relaxed) & ANY_TAG != 0;
        let wanted = Wanted {
            context: command.context.load(Ordering::Relaxed),
            source: peer,
            tag: (!any_tag).then_some(tag),
        };
        let address = command.address.load(Ordering::Relaxed);
        let buffer = (address, command.length.load(Ordering::Relaxed) as usize);
        let operation = CommandKind::from_code(command.operation.load(Ordering::Relaxed));
        match operation {
            Some(CommandKind::Send | CommandKind::SendSynchronous) if !any_tag => {
                let synchronous = operation == Some(CommandKind::SendSynchronous);
                self.send(rank, peer as usize, (wanted.context, tag), buffer, (token, synchronous));
            }
            Some(CommandKind::Receive) => self.receive(rank, wanted, buffer, token),
            Some(CommandKind::Cancel) => self.cancel(rank, token, target),
            Some(CommandKind::Probe) => self.probe(rank, &wanted, token, None),
            Some(CommandKind::Extract) => self.probe(rank, &wanted, token, Some(token)),
            Some(CommandKind::ReceiveExtracted) => match self.ports[rank].extracted.remove(&target)
            {
                Some(message) => self.complete(rank, buffer, token, &message),
                None => self.ports[rank].write(DueEvent::plain(token, OperationStatus::Invalid)),
            },
            _ => self.ports[rank].write(DueEvent::plain(token, OperationStatus::Invalid)),
        }
    }

    fn send(
        &mut self,
        rank: usize,
        peer: usize,
        (context, tag): (u64, i32),
        buffer: Buffer,
        (token, synchronous): (u64, bool),
    ) {
        if peer >= self.ports.len() {
            return self.ports[rank].write(DueEvent::plain(token, OperationStatus::Invalid));
        }
        let is_eager = buffer.1 <= self.eager_max;
        let message = FakeMessage {
            source: rank as u32,
            context,
            tag,
            body: match is_eager {
                true => FakeBody::Here(read(buffer)),
                false => FakeBody::AtSender(buffer),
            },
            completes: (!is_eager || synchronous).then_some(token),
        };
        if message.completes.is_none() {
            self.announce(rank, DueEvent::plain(token, OperationStatus::Done));
        }
        self.links[rank * self.ports.len() + peer].push_back(message);
        if rank == peer || self.delivery == FakeDelivery::AtOnce {
            self.deliver_next(rank, peer);
        }
    }

    fn receive(&mut self, rank: usize, wanted: Wanted, buffer: Buffer, token: u64) {
        let port = &mut self.ports[rank];
        match port.unexpected.iter().position(|m| wanted.matches(m)) {
            Some(at) => {
                let message = port.unexpected.remove(at);
                self.complete(rank, buffer, token, &message);
            }
            None => port.posted.push(Posted { wanted, buffer, token }),
        }
    }

    fn cancel(&mut self, rank: usize, token: u64, target: u64) {
        let port = &mut self.ports[rank];
        let at = port.posted.iter().position(|posted| posted.token == target);
        let status = match at.map(|at| port.posted.remove(at)) {
            Some(_) => OperationStatus::Done,
            None => OperationStatus::NotFound,
        };
        port.write(DueEvent::plain(token, status));
        if status == OperationStatus::Done {
            port.write(DueEvent::plain(target, OperationStatus::Cancelled));
        }
    }

    fn probe(&mut self, rank: usize, wanted: &Wanted, token: u64, extract: Option<u64>) {
        let port = &mut self.ports[rank];
        port.has_news = false;
        let Some(at) = port.unexpected.iter().position(|m| wanted.matches(m)) else {
            return port.write(DueEvent::plain(token, OperationStatus::NotFound));
        };
        port.write(DueEvent::of_message(token, &port.unexpected[at]));
        if let Some(name) = extract {
            let message = port.unexpected.remove(at);
            port.extracted.insert(name, message);
        }
    }

    /// Delivers the next message from `source` to `rank`, if there is one.
    fn deliver_next(&mut self, source: usize, rank: usize) {
        let link = source * self.ports.len() + rank;
        let Some(message) = self.links[link].pop_front() else {
            return;
        };
        if message.context != PACKET_CONTEXT {
            self.arrivals.push(FakeArrival {
                receiver: rank as u32,
                source: message.source,
                context: message.context,
                tag: message.tag,
                bytes: message.body.len(),
            });
        }
        let port = &mut self.ports[rank];
        match port.posted.iter().position(|p| p.wanted.matches(&message)) {
            Some(at) => {
                let posted = port.posted.remove(at);
                self.complete(rank, posted.buffer, posted.token, &message);
            }
            None => {
                port.unexpected.push(message);
                port.has_news = true;
            }
        }
    }

    /// Moves a matched message to its buffer.
    fn complete(&mut self, rank: usize, buffer: Buffer, token: u64, message: &FakeMessage) {
        let bytes = match &message.body {
            FakeBody::Here(bytes) => bytes.clone(),
            FakeBody::AtSender(buffer) => read(*buffer),
        };
        let n = bytes.len().min(buffer.1);
        write(buffer.0, &bytes[..n]);
        let status = match n < bytes.len() {
            true => OperationStatus::Truncated,
            false => OperationStatus::Done,
        };
        let due = DueEvent::of_message(token, message);
        self.announce(rank, DueEvent { status, ..due });
        if let Some(send) = message.completes {
            self.announce(message.source as usize, DueEvent::plain(send, OperationStatus::Done));
        }
    }

    /// Writes an event, or keeps it back.
    fn announce(&mut self, rank: usize, due: DueEvent) {
        match self.delivery {
            FakeDelivery::AtOnce => self.ports[rank].write(due),
            FakeDelivery::Stepped => self.ports[rank].due.push(due),
        }
    }

    /// Brings all that is on the way to `rank`.
    fn bring_all(&mut self, rank: usize) {
        for source in 0..self.ports.len() {
            while !self.links[source * self.ports.len() + rank].is_empty() {
                self.deliver_next(source, rank);
            }
        }
        for due in std::mem::take(&mut self.ports[rank].due) {
            self.ports[rank].write(due);
        }
    }
}

/// The bytes of a buffer that a process has posted.
fn read((address, bytes): Buffer) -> Vec<u8> {
    let mut copy = vec![0; bytes];
    let from = std::ptr::with_exposed_provenance::<u8>(address as usize);
    if bytes > 0 {
        // SAFETY: a process posts only buffers that stay valid and unchanged until the operation
        // completes, and this one has not.
        unsafe { from.copy_to_nonoverlapping(copy.as_mut_ptr(), bytes) };
    }
    copy
}

/// Writes to a posted buffer, which has room for `bytes`.
fn write(address: u64, bytes: &[u8]) {
    let to = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
    if !bytes.is_empty() {
        // SAFETY: as in `read`; nothing else accesses the buffer of a pending receive.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}
