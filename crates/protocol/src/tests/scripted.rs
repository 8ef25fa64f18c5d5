//! A transport whose script determines when things happen: which pair's packet arrives next, which
//! sends find no room, how each remote read completes, which peer is lost.
//!
//! All ranks live in one process and share one [`Fabric`]. A packet is first on the *link* of its
//! pair, where it stays in order behind earlier ones, then in the *inbox* of its receiver, where
//! polls find it. It moves from one to the other in a poll by the receiver, as the script's random
//! numbers determine, or when a test calls [`Fabric::deliver`]. The fabric follows the contract of
//! [`Transport`] and guarantees no more: what a test finds here may happen over a real network.
//!
//! The fabric records what it sees: the headers of messages that were consumed, in order
//! ([`Fabric::take_heads`]), memory that is exposed, reads in progress. It panics if a rank breaks
//! the contract, for example by a read of memory that is not exposed.

use std::collections::{HashMap, VecDeque};
use std::io::PipeReader;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use mica_channel::shm::{INLINE, Packet};
use mica_channel::transport::{LostPeer, NetError};
use mica_channel::transport::{ReadableRegion, Transport, TransportCompletion, WaitMode};
use mica_channel::{Capabilities, ChannelError, PacketSource, RemoteMemory, RemoteRegion};
use mica_memory::{Block, Region, Shape, View};

use super::program::ObservedNetwork;
use crate::channels::packet;
use crate::matching::MatchEnvelope;
use crate::rma::RmaDirection;

/// What the fabric does on its own.
#[derive(Debug, Clone, Copy)]
pub struct Script {
    /// Largest payload of a packet.
    pub payload_max: usize,
    /// Packets that a link has room for.
    pub link_room: usize,
    /// One send in this many finds no room; 0: a send finds no room only if the link is full.
    pub refuses_sends: usize,
    /// Maximum number of packets that one poll brings. 0: only [`Fabric::deliver`] brings any.
    pub brings: usize,
    /// Whether a peer's memory can be read.
    pub reads: bool,
    /// One read in this many is refused; 0: none.
    pub refuses_reads: usize,
    /// How long a rank that waits for this transport may sleep.
    pub wait_at_most: Option<Duration>,
}

impl Script {
    /// Everything goes well, a few packets at a time.
    pub const PLAIN: Script = Script {
        payload_max: 200,
        link_room: 1000,
        refuses_sends: 0,
        brings: 3,
        reads: true,
        refuses_reads: 0,
        wait_at_most: Some(Duration::from_millis(1)),
    };
}

/// Packets that an inbox has room for: the number of receives that the network channel posts.
const INBOX: usize = 64;

/// A packet with its payload.
#[derive(Debug)]
struct Parcel {
    source: u32,
    packet: Packet,
    payload: Vec<u8>,
}

/// A copy from or to a peer's memory in progress.
#[derive(Debug)]
struct Read {
    direction: RmaDirection,
    peer: u32,
    from: RemoteRegion,
    view: View,
    len: usize,
    token: u64,
}

/// The header of a message, as its receiver consumed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub receiver: u32,
    pub envelope: MatchEnvelope,
    pub len: usize,
}

/// The fabric's state of one rank.
#[derive(Debug, Default)]
struct Port {
    inbox: VecDeque<Parcel>,
    /// By receiver: a send has found no room since the last poll.
    stuck: Vec<bool>,
    reads: Vec<Read>,
    ends: VecDeque<TransportCompletion>,
    /// By peer: this rank knows that it is lost.
    knows_lost: Vec<bool>,
    losses: VecDeque<LostPeer>,
    /// The program's buffers from which it may send.
    buffers: Vec<(Region, usize)>,
    exposed: HashMap<u64, Region>,
}

#[derive(Debug)]
struct Inner {
    script: Script,
    random: Rng,
    ranks: usize,
    /// By sender, then by receiver.
    links: Vec<VecDeque<Parcel>>,
    ports: Vec<Port>,
    lost: Vec<bool>,
    next_key: u64,
    heads: Vec<Head>,
    /// By kind: packets sent so far.
    sent: [u64; 256],
    polls: u64,
    polls_max: u64,
}

/// The network through which the ranks of a test communicate.
#[derive(Debug, Clone)]
pub struct Fabric(Arc<Mutex<Inner>>);

impl Fabric {
    pub fn new(ranks: usize, script: Script, seed: u64) -> Fabric {
        let port = || Port {
            stuck: vec![false; ranks],
            knows_lost: vec![false; ranks],
            ..Port::default()
        };
        Fabric(Arc::new(Mutex::new(Inner {
            script,
            random: Rng::with_seed(seed),
            ranks,
            links: (0..ranks * ranks).map(|_| VecDeque::new()).collect(),
            ports: (0..ranks).map(|_| port()).collect(),
            lost: vec![false; ranks],
            next_key: 1,
            heads: Vec::new(),
            sent: [0; 256],
            polls: 0,
            polls_max: u64::MAX,
        })))
    }

    /// The transport of rank `me`.
    pub fn end(&self, me: u32) -> Box<Scripted> {
        let (pipe, writer) = std::io::pipe().expect("a pipe");
        Box::new(Scripted { me, fabric: self.clone(), pipe, _writer: writer })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no test panics under the lock")
    }

    /// Changes what the fabric does from now on.
    pub fn set_script(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.lock().script);
    }

    /// Panics after this many further polls: some rank waits for ever.
    pub fn limit_polls(&self, polls: u64) {
        let mut inner = self.lock();
        inner.polls_max = inner.polls + polls;
    }

    /// Brings the next packet from `source` to `receiver`. False if there is none.
    pub fn deliver(&self, source: u32, receiver: u32) -> bool {
        self.lock().deliver(source as usize, receiver as usize)
    }

    /// Registers the memory at `region` as one of `rank`'s buffers.
    pub fn add_buffer(&self, rank: u32, region: Region, len: usize) {
        self.lock().ports[rank as usize].buffers.push((region, len));
    }

    /// Removes a buffer: its send has completed.
    pub fn remove_buffer(&self, rank: u32, address: usize) {
        let mut inner = self.lock();
        let port = &mut inner.ports[rank as usize];
        port.buffers.retain(|(region, _)| region.address() != address);
        let open = port.exposed.values().any(|r| r.address() == address);
        assert!(!open, "rank {rank}: a send has completed whose buffer is still exposed");
    }

    /// Headers of messages that were consumed since the last call, in order.
    pub fn take_heads(&self) -> Vec<Head> {
        std::mem::take(&mut self.lock().heads)
    }

    /// Packets of this kind that were sent so far.
    pub fn sent(&self, kind: u8) -> u64 {
        self.lock().sent[usize::from(kind)]
    }

    /// `rank` is gone: what it has not delivered yet is lost with it, and ranks that have something
    /// in progress with it detect the loss.
    pub fn lose(&self, rank: u32) {
        let mut inner = self.lock();
        let gone = rank as usize;
        inner.lost[gone] = true;
        for peer in 0..inner.ranks {
            let (to, from) = (inner.link(peer, gone), inner.link(gone, peer));
            let was_sending = !inner.links[to].is_empty();
            inner.links[to].clear();
            inner.links[from].clear();
            if was_sending || inner.ports[peer].reads.iter().any(|r| r.peer == rank) {
                inner.know_lost(peer, rank);
            }
        }
    }

    /// Panics unless nothing is in flight, and nothing exposed.
    pub fn assert_empty(&self) {
        let inner = self.lock();
        assert!(inner.links.iter().all(VecDeque::is_empty), "packets are in flight");
        for (rank, port) in inner.ports.iter().enumerate() {
            assert!(port.inbox.is_empty(), "rank {rank} has packets");
            assert!(port.exposed.is_empty(), "rank {rank} has exposed memory");
            assert!(port.reads.is_empty() && port.ends.is_empty(), "rank {rank} reads");
        }
    }
}

impl Inner {
    fn link(&self, source: usize, receiver: usize) -> usize {
        source * self.ranks + receiver
    }

    fn deliver(&mut self, source: usize, receiver: usize) -> bool {
        let link = self.link(source, receiver);
        if self.ports[receiver].inbox.len() >= INBOX {
            return false;
        }
        let Some(parcel) = self.links[link].pop_front() else {
            return false;
        };
        self.ports[receiver].inbox.push_back(parcel);
        true
    }

    fn know_lost(&mut self, who: usize, lost: u32) {
        let port = &mut self.ports[who];
        if !std::mem::replace(&mut port.knows_lost[lost as usize], true) {
            port.losses.push_back(loss(lost));
        }
    }

    /// An error if `peer` is lost, which `me` knows from now on.
    fn check(&mut self, me: u32, peer: u32) -> Result<(), ChannelError> {
        if !self.lost[peer as usize] {
            return Ok(());
        }
        self.know_lost(me as usize, peer);
        Err(NetError::Lost(loss(peer)).into())
    }

    fn poll_links(&mut self, me: u32) {
        self.polls += 1;
        assert!(self.polls <= self.polls_max, "rank {me} waits for ever");
        let rank = me as usize;
        self.ports[rank].stuck.fill(false);
        for _ in 0..self.random.usize(..self.script.brings + 1) {
            let source = self.random.usize(..self.ranks);
            self.deliver(source, rank);
        }
        let mut at = 0;
        while at < self.ports[rank].reads.len() {
            let peer = self.ports[rank].reads[at].peer;
            if self.lost[peer as usize] || self.random.usize(..2) == 0 {
                let read = self.ports[rank].reads.swap_remove(at);
                self.end_read(rank, &read);
            } else {
                at += 1;
            }
        }
    }

    fn end_read(&mut self, reader: usize, read: &Read) {
        let peer = read.peer as usize;
        let refused =
            self.script.refuses_reads > 0 && self.random.usize(..self.script.refuses_reads) == 0;
        let mut bytes = read.len;
        let result = if self.lost[peer] {
            bytes = 0;
            Err(NetError::Lost(loss(read.peer)))
        } else if refused {
            // Some bytes may have been read before the failure.
            bytes = match read.direction {
                RmaDirection::Get => self.random.usize(..read.len),
                RmaDirection::Put => 0,
            };
            Err(NetError::Call {
                call: "read",
                provider: "script".to_owned(),
                why: "refused".to_owned(),
                code: 1,
            })
        } else {
            Ok(())
        };
        if bytes > 0 {
            let region = self.ports[peer].exposed.get(&read.from.key);
            let region = region.expect("memory is exposed until it has been read");
            let skipped = read.from.address as usize - region.address();
            let from = region.offset(skipped as isize);
            let there = from.view(Shape::Contiguous { bytes });
            match read.direction {
                RmaDirection::Get => read.view.copy_from(&there),
                RmaDirection::Put => there.copy_from(&read.view),
            };
        }
        let token = read.token;
        self.ports[reader].ends.push_back(TransportCompletion { token, result });
    }
}

fn loss(peer: u32) -> LostPeer {
    LostPeer { peer, detail: "by script".to_owned() }
}

/// The transport of one rank.
#[derive(Debug)]
pub struct Scripted {
    me: u32,
    fabric: Fabric,
    /// Never readable: a rank that sleeps on it sleeps for its whole time limit.
    pipe: PipeReader,
    _writer: std::io::PipeWriter,
}

impl Scripted {
    #[expect(clippy::too_many_arguments, reason = "those of put and get, and which it is")]
    fn start_copy(
        &mut self,
        direction: RmaDirection,
        peer: u32,
        from: RemoteRegion,
        view: &View,
        len: usize,
        token: u64,
    ) -> Result<bool, ChannelError> {
        let mut inner = self.fabric.lock();
        inner.check(self.me, peer)?;
        assert!(view.as_contiguous().is_some_and(|(_, bytes)| len <= bytes));
        let refused = inner.script.refuses_sends > 0 && {
            let odds = inner.script.refuses_sends;
            inner.random.usize(..odds) == 0
        };
        if refused {
            return Ok(false);
        }
        inner.ports[self.me as usize].reads.push(Read {
            direction,
            peer,
            from,
            view: view.clone(),
            len,
            token,
        });
        Ok(true)
    }

    fn port<R>(&self, f: impl FnOnce(&mut Port) -> R) -> R {
        f(&mut self.fabric.lock().ports[self.me as usize])
    }
}

impl PacketSource for Scripted {
    fn peek(&mut self) -> Option<(u32, Packet)> {
        if self.waiting() == 0 {
            self.poll();
        }
        self.peek_found()
    }

    fn has_arrivals(&mut self) -> bool {
        self.peek().is_some()
    }
}

impl Transport for Scripted {
    fn name(&self) -> &'static str {
        "script"
    }

    fn capabilities(&self) -> Capabilities {
        let reads = self.fabric.lock().script.reads;
        let rma = Capabilities::READ | Capabilities::WRITE;
        Capabilities::MESSAGES
            | rma.intersection(match reads {
                true => Capabilities::all(),
                false => Capabilities::empty(),
            })
    }

    fn reaches(&self, peer: u32) -> bool {
        peer != self.me
    }

    fn payload_max(&self) -> usize {
        self.fabric.lock().script.payload_max
    }

    fn send(
        &mut self,
        peer: u32,
        packet: &Packet,
        view: Option<&View>,
        position: usize,
    ) -> Result<bool, ChannelError> {
        let mut inner = self.fabric.lock();
        inner.check(self.me, peer)?;
        let script = inner.script;
        assert!(
            packet.payload as usize <= script.payload_max
                && usize::from(packet.inline_len) <= INLINE
        );
        let link = inner.link(self.me as usize, peer as usize);
        let is_stuck = inner.ports[self.me as usize].stuck[peer as usize];
        let is_full = inner.links[link].len() >= script.link_room;
        let refused = script.refuses_sends > 0 && inner.random.usize(..script.refuses_sends) == 0;
        if is_stuck || is_full || refused {
            inner.ports[self.me as usize].stuck[peer as usize] = true;
            return Ok(false);
        }
        let mut payload = vec![0; packet.payload as usize];
        if let Some(view) = view.filter(|_| !payload.is_empty()) {
            assert_eq!(view.pack(position, &mut payload), payload.len());
        }
        inner.sent[usize::from(packet.kind)] += 1;
        inner.links[link].push_back(Parcel { source: self.me, packet: *packet, payload });
        Ok(true)
    }

    fn has_room(&mut self, peer: u32, _payload: usize) -> bool {
        let inner = self.fabric.lock();
        let link = inner.link(self.me as usize, peer as usize);
        let is_stuck = inner.ports[self.me as usize].stuck[peer as usize];
        inner.lost[peer as usize]
            || !(is_stuck || inner.links[link].len() >= inner.script.link_room)
    }

    fn poll(&mut self) {
        self.fabric.lock().poll_links(self.me);
    }

    fn peek_found(&self) -> Option<(u32, Packet)> {
        self.port(|port| port.inbox.front().map(|p| (p.source, p.packet)))
    }

    fn waiting(&self) -> usize {
        self.port(|port| port.inbox.len())
    }

    fn for_each_waiting(&self, source: u32, f: &mut dyn FnMut(&Packet)) {
        self.port(|port| {
            let of_source = port.inbox.iter().filter(|p| p.source == source);
            of_source.for_each(|p| f(&p.packet));
        });
    }

    fn read_payload(&self, source: u32, packet: &Packet, view: &View, position: usize) -> usize {
        self.port(|port| {
            let first = port.inbox.front().expect("peeked");
            assert_eq!((first.source, first.packet), (source, *packet));
            view.unpack(position, &first.payload)
        })
    }

    fn consume(&mut self, source: u32, packet: &Packet) {
        let mut inner = self.fabric.lock();
        let port = &mut inner.ports[self.me as usize];
        let first = port.inbox.pop_front().expect("peeked");
        assert_eq!((first.source, first.packet), (source, *packet));
        let len = match packet.kind {
            packet::EAGER => usize::from(packet.inline_len).max(packet.payload as usize),
            packet::EAGER_SYNC => packet.payload as usize,
            packet::RTS => packet::read_rts(packet).len as usize,
            _ => return,
        };
        inner.heads.push(Head {
            receiver: self.me,
            envelope: MatchEnvelope { context: packet.context, source, tag: packet.tag },
            len,
        });
    }

    fn is_drained(&mut self) -> bool {
        let inner = self.fabric.lock();
        (0..inner.ranks).all(|to| inner.links[inner.link(self.me as usize, to)].is_empty())
    }

    fn expose(&mut self, address: usize, len: usize) -> Result<ReadableRegion, ChannelError> {
        let mut inner = self.fabric.lock();
        let key = inner.next_key;
        inner.next_key += 1;
        let port = &mut inner.ports[self.me as usize];
        let buffer = port.buffers.iter().find(|(region, bytes)| {
            let start = region.address();
            start <= address && address + len <= start + bytes
        });
        let (region, _) = buffer.expect("exposed memory belongs to a send in progress");
        let region = region.clone();
        let named = RemoteRegion { key, address: address as u64 };
        port.exposed.insert(key, region);
        Ok(ReadableRegion::new(named, Some(key)))
    }

    fn conceal(&mut self, exposed: ReadableRegion) {
        let key = exposed.id().expect("exposed here");
        let had = self.port(|port| port.exposed.remove(&key));
        assert!(had.is_some(), "concealed once");
    }

    fn start_read(
        &mut self,
        peer: u32,
        from: RemoteRegion,
        view: &View,
        len: usize,
        token: u64,
    ) -> Result<bool, ChannelError> {
        self.start_copy(RmaDirection::Get, peer, from, view, len, token)
    }

    fn remote_memory(&mut self) -> Option<&mut dyn RemoteMemory> {
        Some(self)
    }

    fn next_completion(&mut self) -> Option<TransportCompletion> {
        self.port(|port| port.ends.pop_front())
    }

    fn take_loss(&mut self) -> Option<LostPeer> {
        self.port(|port| port.losses.pop_front())
    }

    fn prepare_to_wait(&mut self) -> WaitMode {
        let is_ready = self.port(|port| {
            !(port.inbox.is_empty() && port.ends.is_empty() && port.losses.is_empty())
        });
        match is_ready {
            true => WaitMode::Ready,
            false => WaitMode::Descriptor(self.pipe.as_raw_fd()),
        }
    }

    fn wait_at_most(&self) -> Option<Duration> {
        self.fabric.lock().script.wait_at_most
    }

    fn probe(&mut self, peer: u32) -> Result<(), ChannelError> {
        self.fabric.lock().check(self.me, peer)
    }
}

/// Puts and gets; they are refused as reads are.
impl RemoteMemory for Scripted {
    fn register(&mut self, address: usize, len: usize) -> Result<RemoteRegion, ChannelError> {
        Ok(RemoteRegion::from(&self.expose(address, len)?))
    }

    fn unregister(&mut self, region: RemoteRegion) {
        self.conceal(ReadableRegion::new(region, Some(region.key)));
    }

    fn put(
        &mut self,
        peer: u32,
        to: RemoteRegion,
        view: &View,
        len: usize,
        token: u64,
    ) -> Result<bool, ChannelError> {
        self.start_copy(RmaDirection::Put, peer, to, view, len, token)
    }

    fn get(
        &mut self,
        peer: u32,
        from: RemoteRegion,
        view: &View,
        len: usize,
        token: u64,
    ) -> Result<bool, ChannelError> {
        self.start_copy(RmaDirection::Get, peer, from, view, len, token)
    }
}

/// `bytes` bytes of memory.
pub fn memory(bytes: usize) -> Region {
    Block::allocate(bytes.max(1)).expect("memory")
}

impl ObservedNetwork for Fabric {
    fn add_buffer(&self, rank: u32, region: Region, bytes: usize) {
        Fabric::add_buffer(self, rank, region, bytes);
    }

    fn remove_buffer(&self, rank: u32, address: usize) {
        Fabric::remove_buffer(self, rank, address);
    }

    fn take_heads(&self) -> Vec<Head> {
        Fabric::take_heads(self)
    }

    fn assert_empty(&self) {
        Fabric::assert_empty(self);
    }
}
