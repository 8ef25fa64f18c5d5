//! The channels that deliver messages, combined: selects the one that reaches a peer.
//!
//! A peer on the same node is reached through the job segment, all others by a [`Transport`] over
//! the network, which a job has only if it spans nodes or if that was requested. The shared-memory
//! channel is checked first: it knows which peers it does not reach, so a job on one node does not
//! pay for the check. What follows calls all peers of a transport remote.
//!
//! A transport has packets like the rings, with longer payloads, but no cells: long messages that
//! cannot be read from their sender's memory are sent in chunks, as through the FIFOs of the basic
//! design.
//!
//! **Credit.** A ring bounds what is in flight by its size; over a transport the sender of a pair
//! counts its messages, and the receiver reports how many it has received, after each quarter of a
//! window:
//!
//! | word of [`RemotePeer`] | written by |
//! |---|---|
//! | `sent` | a message leaves: if `sent - acknowledged` < [`WINDOW`], and not `held` |
//! | `acknowledged`, `held` | `CREDIT` and `HOLD` of the peer, in order with its other packets |
//! | `received`, `reported` | a message of the peer was handled; a `CREDIT` was sent for it |
//!
//! A sender that always finds room receives nothing, so it polls for these packets itself, once in
//! [`UNPOLLED_SENDS`] messages; other packets that it finds are handled later. Control packets need
//! no credit: they are bounded by the operations that they belong to.

#[doc(hidden)]
pub mod packet;

use mica_channel::shm::{Packet, Shm, inline_packet};
use mica_channel::transport::{LostPeer, MatchingAdapter, Transport, TransportCompletion};
use mica_channel::{ChannelError, RemoteMemory};
use mica_memory::View;
use mica_node::counters::{Counter, CounterRef, TrafficClass};
use mica_node::peer_table::PeerTable;

#[derive(Debug)]
pub(crate) struct Channels {
    pub shm: Shm,
    /// The network, if there is one.
    pub network: Option<Box<dyn Transport>>,
    /// The state of the peers that are reached by it.
    remote: PeerTable<RemotePeer>,
}

/// The state of a peer that is reached over the network.
#[derive(Debug, Clone, Copy, Default)]
struct RemotePeer {
    /// It holds this rank's messages back.
    held: bool,
    /// Messages sent to it, and how many of them it is known to have received.
    sent: u64,
    acknowledged: u64,
    /// Messages received from it, and how many of them have been reported to it.
    received: u64,
    reported: u64,
}

impl RemotePeer {
    fn has_credit(&self) -> bool {
        self.sent - self.acknowledged < WINDOW
    }

    /// Handles a packet of flow control.
    fn note_flow_control(&mut self, packet: &Packet) {
        match packet.kind {
            packet::HOLD => self.held = packet::read_hold(packet),
            packet::CREDIT => {
                self.acknowledged = self.acknowledged.max(packet.word(0)).min(self.sent)
            }
            _ => {}
        }
    }
}

/// Maximum number of messages over the network that one peer has not received: it bounds what
/// provider and system buffer for a pair of ranks, as the ring does on a node. (The tcp provider
/// takes 16 KiB for each message, however short.)
const WINDOW: u64 = 256;

/// Messages that are sent to one peer over the network between two polls for its flow control.
const UNPOLLED_SENDS: u64 = 32;

/// Number of arrived packets of the network that wait to be handled, from which on no message is
/// sent: half of the capacity.
const WAITING_MAX: usize = 32;

impl Channels {
    pub fn new(shm: Shm, network: Option<Box<dyn Transport>>) -> Channels {
        Channels { shm, network, remote: PeerTable::default() }
    }

    /// Whether `peer` is known to hold this rank's messages back: then only an RTS may be sent for
    /// each.
    pub fn is_held(&mut self, peer: u32) -> bool {
        match self.is_remote(peer) {
            true => self.remote.get(peer).is_some_and(|remote| remote.held),
            false => self.shm.is_held(peer),
        }
    }

    /// Handles a packet of flow control from the remote peer `peer`.
    pub fn note_flow_control(&mut self, peer: u32, packet: &Packet) {
        if self.is_remote(peer) {
            self.remote.entry(peer).note_flow_control(packet);
        }
    }

    /// Whether messages to the remote peer `peer` must wait until it has
    /// received earlier ones.
    pub fn lacks_credit(&self, peer: u32) -> bool {
        let remote = self.remote.get(peer);
        remote.is_some_and(|remote| !remote.has_credit())
    }

    /// Counts a message of the remote peer `source` that was received. Returns the packet that
    /// reports it to `source`, if one is due.
    pub fn count_received(&mut self, source: u32) -> Option<Packet> {
        let remote = self.remote.entry(source);
        remote.received += 1;
        (remote.received - remote.reported >= WINDOW / 4).then(|| {
            remote.reported = remote.received;
            packet::credit(remote.received)
        })
    }

    /// Whether a message may be sent to the remote peer `peer` now. A sender that always finds
    /// room would receive nothing, so it polls from time to time; what it finds is handled later,
    /// in order.
    fn has_remote_credit(&mut self, peer: u32) -> bool {
        let remote = self.remote.entry(peer);
        let Some(network) = self.network.as_mut().filter(|network| network.reaches(peer)) else {
            return true;
        };
        if !remote.has_credit() || remote.sent.is_multiple_of(UNPOLLED_SENDS) {
            network.poll();
            network.for_each_waiting(peer, &mut |packet| remote.note_flow_control(packet));
            if network.waiting() >= WAITING_MAX {
                // Flow control of `peer` may be queued behind these packets: they are handled
                // first.
                return false;
            }
        }
        !remote.held && remote.has_credit()
    }

    /// Whether `peer` is reached over the network.
    #[inline]
    pub fn is_remote(&self, peer: u32) -> bool {
        self.network_from(peer).is_some()
    }

    /// The network, if it reaches `peer`.
    #[inline]
    pub fn network_to(&mut self, peer: u32) -> Option<&mut (dyn Transport + 'static)> {
        let network = self.network.as_deref_mut()?;
        if reaches(network, peer) { Some(network) } else { None }
    }

    #[inline]
    fn network_from(&self, source: u32) -> Option<&(dyn Transport + 'static)> {
        let network = self.network.as_deref()?;
        if reaches(network, source) { Some(network) } else { None }
    }

    /// The operations on registered memory, if the network has them.
    pub fn remote_memory(&mut self) -> Option<&mut dyn RemoteMemory> {
        self.network.as_mut()?.remote_memory()
    }

    /// The adapter that matches the messages of the job, if there is one: it is the network.
    pub fn matching(&mut self) -> Option<&mut dyn MatchingAdapter> {
        self.network.as_mut()?.matching()
    }

    /// Takes in what an adapter that matches has completed.
    pub fn poll_adapter(&mut self) {
        if let Some(network) = &mut self.network {
            network.poll();
        }
    }

    /// The next operation that the network has completed.
    pub fn next_completion(&mut self) -> Option<TransportCompletion> {
        self.network.as_mut()?.next_completion()
    }

    /// The next peer that the network has found to be lost.
    pub fn take_loss(&mut self) -> Option<LostPeer> {
        self.network.as_mut()?.take_loss()
    }

    /// The traffic class of a message that is sent to `peer` in one packet of its own.
    pub fn eager_class(&self, peer: u32) -> TrafficClass {
        match self.network_from(peer) {
            Some(network) => network.traffic_class(),
            None => TrafficClass::Ring,
        }
    }

    /// Sends a packet whose payload is all of `view`, short enough for the header. Returns the
    /// traffic class; `None` when there is no room, or an adapter matches messages.
    ///
    /// # Errors
    /// When memory for the first message to `peer` cannot be allocated, or `peer` is lost.
    #[inline(always)]
    pub fn send_inline(
        &mut self,
        peer: u32,
        kind: u8,
        context: u64,
        tag: i32,
        view: &View,
    ) -> Result<Option<TrafficClass>, ChannelError> {
        match self.shm.send_inline(peer, kind, context, tag, view)? {
            Some(true) => Ok(Some(TrafficClass::Inline)),
            Some(false) => Ok(None),
            None => self.send_inline_remote(peer, kind, context, tag, view),
        }
    }

    #[cold]
    #[inline(never)]
    fn send_inline_remote(
        &mut self,
        peer: u32,
        kind: u8,
        context: u64,
        tag: i32,
        view: &View,
    ) -> Result<Option<TrafficClass>, ChannelError> {
        if self.matching().is_some() || !self.has_remote_credit(peer) {
            return Ok(None);
        }
        let packet = inline_packet(kind, context, tag, view);
        let sent = self.send_remote(peer, &packet, None, 0)?;
        if sent {
            self.remote.entry(peer).sent += 1;
        }
        Ok(sent.then(|| self.eager_class(peer)))
    }

    /// Sends `packet`; its `payload` bytes are those of `view` from the start on. False when there
    /// is no room, or if it is a message (it has a view) and `peer` holds messages back.
    ///
    /// # Errors
    /// As for [`send_inline`](Self::send_inline).
    #[inline]
    pub fn send(
        &mut self,
        peer: u32,
        packet: &Packet,
        view: Option<&View>,
    ) -> Result<bool, ChannelError> {
        match self.shm.send(peer, packet, view)? {
            Some(sent) => Ok(sent),
            None => self.send_message_remote(peer, packet, view),
        }
    }

    #[cold]
    fn send_message_remote(
        &mut self,
        peer: u32,
        packet: &Packet,
        view: Option<&View>,
    ) -> Result<bool, ChannelError> {
        let is_message = view.is_some();
        if is_message && !self.has_remote_credit(peer) {
            return Ok(false);
        }
        let sent = self.send_remote(peer, packet, view, 0)?;
        if sent && is_message {
            self.remote.entry(peer).sent += 1;
        }
        Ok(sent)
    }

    #[cold]
    fn send_remote(
        &mut self,
        peer: u32,
        packet: &Packet,
        view: Option<&View>,
        position: usize,
    ) -> Result<bool, ChannelError> {
        self.network_to(peer)
            .expect("a peer that is not in the job segment is reached over the network")
            .send(peer, packet, view, position)
    }

    /// Largest payload of a packet to `peer` if all data goes in packets: through a FIFO or over
    /// the network. `None` if there are cells.
    pub fn packet_payload_max(&self, peer: u32) -> Option<usize> {
        match self.network_from(peer) {
            Some(network) => Some(network.payload_max()),
            None => self.shm.fifo_payload_max(peer),
        }
    }

    /// Bytes of a long message that go into one packet to `peer`; `None` if they go through cells.
    pub fn chunk_bytes(&self, peer: u32) -> Option<usize> {
        match self.network_from(peer) {
            Some(network) => Some(network.payload_max()),
            None => self.shm.chunk_bytes(peer),
        }
    }

    /// Sends `packet` with `payload` bytes of `view` from `position` on, if long messages go in
    /// chunks. False when there is no room.
    ///
    /// # Errors
    /// When `peer` is lost.
    pub fn send_chunk(
        &mut self,
        peer: u32,
        packet: &Packet,
        view: &View,
        position: usize,
    ) -> Result<bool, ChannelError> {
        if self.is_remote(peer) {
            self.send_remote(peer, packet, Some(view), position)
        } else {
            Ok(self.shm.send_chunk(peer, packet, view, position))
        }
    }

    /// True when a packet with `payload` bytes beside its header can be sent to `peer` now.
    pub fn has_room(&mut self, peer: u32, payload: usize) -> bool {
        match self.network_to(peer) {
            Some(network) => network.has_room(peer, payload),
            None => self.shm.has_room(peer, payload),
        }
    }

    /// True when a cell for `peer` is available, or `peer` needs none.
    pub fn has_cell(&mut self, peer: u32) -> bool {
        self.is_remote(peer) || self.shm.has_cell(peer)
    }

    /// Copies payload bytes of `packet`, the one just peeked from `source`, to `view` from
    /// `position` on; as many as the view has room for. Returns how many.
    #[inline]
    pub fn read_payload(
        &self,
        source: u32,
        packet: &Packet,
        view: &View,
        position: usize,
    ) -> usize {
        match self.network_from(source) {
            None => self.shm.read_payload(source, packet, view, position),
            Some(network) => network.read_payload(source, packet, view, position),
        }
    }

    /// Removes `packet`, the one just peeked from `source`.
    #[inline]
    pub fn consume(&mut self, source: u32, packet: &Packet) {
        match self.network_to(source) {
            None => self.shm.consume(source, packet),
            Some(network) => network.consume(source, packet),
        }
    }

    /// Publishes what the network has counted.
    pub fn publish_counters(&self, counters: &CounterRef) {
        let Some(network) = &self.network else { return };
        let counted = network.counters();
        for counter in
            [Counter::ForeignArrivals, Counter::MalformedArrivals, Counter::FailedArrivals]
        {
            counters.set(counter, counted.get(counter));
        }
    }

    /// True when any channel has something. For the last check before parking.
    pub fn has_arrivals(&mut self) -> bool {
        self.shm.has_arrivals() || self.network.as_mut().is_some_and(|net| net.has_arrivals())
    }

    /// True when all that was sent over the network has left. Polls it.
    pub fn is_drained(&mut self) -> bool {
        self.network.as_mut().is_none_or(|network| network.is_drained())
    }
}

/// Out of line: where there is no network, nothing of it is in the way.
#[cold]
fn reaches(network: &(dyn Transport + 'static), peer: u32) -> bool {
    network.reaches(peer)
}
