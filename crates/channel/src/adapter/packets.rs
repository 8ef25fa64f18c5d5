//! Packets over an adapter that matches: each is a message of a context of its own, for which
//! receives are kept posted.
//!
//! A packet's header and payload are copied to a buffer of this side, and from a posted buffer of
//! the other: both stay where they are until the message has left, or the packet is consumed. A
//! packet for which no receive is posted waits in the adapter.
//!
//! The tag is the packet's number among those of its pair. Messages are matched in order, but a
//! long one may be complete after a short one that was sent later: a packet that is early waits for
//! those before it. They have receives already, since theirs were posted first.

use std::collections::VecDeque;

use super::queue::{AdapterCommand, AdapterEvent, AdapterQueue};
use crate::shm::{INLINE, Packet};
use mica_memory::{Block, OutOfMemory, Region, View};
use mica_node::adapter::{CommandKind, OperationStatus};
use mica_node::peer_table::PeerTable;

/// Context of packets; no communicator has it.
pub(super) const PACKET_CONTEXT: u64 = u64::MAX;

/// In tokens: a send of a packet, with the number of its buffer.
pub(super) const PACKET_SEND: u64 = 1 << 62;
/// In tokens: a receive of a packet, with the number of its buffer.
pub(super) const PACKET_RECEIVE: u64 = 1 << 63;

/// Bytes of a packet with its payload: a page.
const PACKET_BYTES: usize = 4096;
/// Bytes of the header.
const HEADER: usize = 64;
/// Largest payload.
pub(super) const PAYLOAD_MAX: usize = PACKET_BYTES - HEADER;

/// Packets that may be leaving at a time: few, since their buffers are cleared at the start.
pub(super) const SENDS: usize = 4;

/// The numbers of the packets between this rank and one other.
#[derive(Debug, Clone, Copy, Default)]
struct PairNumbers {
    sent: u32,
    received: u32,
}

/// A packet that has arrived, in its buffer.
#[derive(Debug, Clone, Copy)]
struct Arrived {
    source: u32,
    number: u32,
    buffer: usize,
    packet: Packet,
}

/// The packets of a rank that are in progress.
#[derive(Debug)]
pub(super) struct Packets {
    sends: Vec<Region>,
    free_sends: Vec<usize>,
    receives: Vec<Region>,
    pairs: PeerTable<PairNumbers>,
    /// In order.
    found: VecDeque<Arrived>,
    /// Those that have overtaken others.
    early: Vec<Arrived>,
}

impl Packets {
    /// Allocates buffers, and posts `receives` receives.
    pub fn open(queue: &mut AdapterQueue, receives: usize) -> Result<Packets, OutOfMemory> {
        let block = Block::allocate((SENDS + receives) * PACKET_BYTES)?;
        let buffer = |at: usize| block.offset((at * PACKET_BYTES) as isize);
        let packets = Packets {
            sends: (0..SENDS).map(buffer).collect(),
            free_sends: (0..SENDS).collect(),
            receives: (SENDS..SENDS + receives).map(buffer).collect(),
            pairs: PeerTable::default(),
            found: VecDeque::new(),
            early: Vec::new(),
        };
        for at in 0..receives {
            packets.post_receive(queue, at);
        }
        Ok(packets)
    }

    fn post_receive(&self, queue: &mut AdapterQueue, at: usize) {
        let posted = queue.post(&AdapterCommand {
            peer: None,
            context: PACKET_CONTEXT,
            tag: None,
            buffer: (self.receives[at].address(), PACKET_BYTES),
            ..AdapterCommand::of(CommandKind::Receive, PACKET_RECEIVE | at as u64)
        });
        debug_assert!(posted, "messages leave room for packets");
    }

    /// Whether a packet can be sent now.
    pub fn has_room(&self) -> bool {
        !self.free_sends.is_empty()
    }

    /// Whether all packets have left.
    pub fn is_drained(&self) -> bool {
        self.free_sends.len() == SENDS
    }

    /// Sends a packet with its payload, those bytes of `view` from `position` on. False when there
    /// is no room.
    pub fn send(
        &mut self,
        queue: &mut AdapterQueue,
        peer: u32,
        packet: &Packet,
        payload: Option<(&View, usize)>,
    ) -> bool {
        let Some(&at) = self.free_sends.last() else {
            return false;
        };
        let buffer = &self.sends[at];
        buffer.write_bytes(&header(packet));
        if let Some((view, position)) = payload {
            let to = buffer.offset(HEADER as isize);
            view.pack_to(position, &to, packet.payload as usize);
        }
        let numbers = self.pairs.entry(peer);
        let posted = queue.post(&AdapterCommand {
            peer: Some(peer),
            context: PACKET_CONTEXT,
            tag: Some(numbers.sent as i32),
            buffer: (buffer.address(), HEADER + packet.payload as usize),
            ..AdapterCommand::of(CommandKind::Send, PACKET_SEND | at as u64)
        });
        if posted {
            numbers.sent = numbers.sent.wrapping_add(1);
            self.free_sends.pop();
        }
        posted
    }

    /// A send of a packet has completed.
    pub fn finish_send(&mut self, event: &AdapterEvent) {
        debug_assert_eq!(event.status, OperationStatus::Done, "a packet was refused");
        self.free_sends.push((event.token & !PACKET_SEND) as usize);
    }

    /// A packet has arrived.
    pub fn finish_receive(&mut self, queue: &mut AdapterQueue, event: &AdapterEvent) {
        let buffer = (event.token & !PACKET_RECEIVE) as usize;
        let mut bytes = [0; HEADER];
        self.receives[buffer].read_bytes(&mut bytes);
        let packet = parse(&bytes);
        if event.status != OperationStatus::Done || event.bytes != HEADER + packet.payload as usize
        {
            debug_assert!(false, "no packet: {event:?}");
            return self.post_receive(queue, buffer);
        }
        self.early.push(Arrived { source: event.source, number: event.tag as u32, buffer, packet });
        self.admit_early(event.source);
    }

    /// Moves the packets of `source` that are next to those found.
    fn admit_early(&mut self, source: u32) {
        let numbers = self.pairs.entry(source);
        let is_next = |a: &Arrived, next| a.source == source && a.number == next;
        while let Some(at) = self.early.iter().position(|a| is_next(a, numbers.received)) {
            numbers.received = numbers.received.wrapping_add(1);
            self.found.push_back(self.early.swap_remove(at));
        }
    }

    /// The next packet.
    pub fn peek(&self) -> Option<(u32, Packet)> {
        self.found.front().map(|next| (next.source, next.packet))
    }

    /// Number of packets found.
    pub fn waiting(&self) -> usize {
        self.found.len()
    }

    /// Calls `f` with the packets of `source`, in order.
    pub fn for_each_waiting(&self, source: u32, f: &mut dyn FnMut(&Packet)) {
        let of_source = self.found.iter().filter(|next| next.source == source);
        of_source.for_each(|next| f(&next.packet));
    }

    /// Copies the payload of the next packet to `view` from `position` on. Returns how many bytes.
    pub fn read_payload(&self, view: &View, position: usize) -> usize {
        self.found.front().map_or(0, |next| {
            let from = self.receives[next.buffer].offset(HEADER as isize);
            view.unpack_at(position, &from, next.packet.payload as usize)
        })
    }

    /// Removes the next packet.
    pub fn consume(&mut self, queue: &mut AdapterQueue) {
        if let Some(next) = self.found.pop_front() {
            self.post_receive(queue, next.buffer);
        }
    }
}

/// A packet's header as bytes.
fn header(packet: &Packet) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[0..8].copy_from_slice(&packet.context.to_le_bytes());
    bytes[8..12].copy_from_slice(&packet.tag.to_le_bytes());
    bytes[12..16].copy_from_slice(&packet.payload.to_le_bytes());
    bytes[16] = packet.kind;
    bytes[17] = packet.inline_len;
    bytes[18..20].copy_from_slice(&packet.aux.to_le_bytes());
    bytes[HEADER - INLINE..].copy_from_slice(&packet.inline);
    bytes
}

/// The packet of a header.
fn parse(bytes: &[u8; HEADER]) -> Packet {
    let four = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    let low = u64::from(u32::from_le_bytes(four(0)));
    let mut packet = Packet {
        context: low | u64::from(u32::from_le_bytes(four(4))) << 32,
        tag: i32::from_le_bytes(four(8)),
        payload: u32::from_le_bytes(four(12)),
        inline_len: bytes[17].min(INLINE as u8),
        aux: u16::from_le_bytes([bytes[18], bytes[19]]),
        ..Packet::of_kind(bytes[16])
    };
    packet.inline.copy_from_slice(&bytes[HEADER - INLINE..]);
    packet
}
