//! The channels that bring messages, as one: which of them reaches whom.
//!
//! A peer on the node is reached through shared memory, all others over the network, which a job
//! has only if it spans nodes or if that was asked for. The shared-memory channel is asked first:
//! it knows those that it does not reach, and so a job on one node does not pay for the question.
//!
//! The network has packets like the rings do, with longer payloads, and no cells: long messages
//! that cannot be read from their sender's memory come in chunks, as through the FIFOs of the basic
//! design.

use crate::packet;
use mica_channel::ChannelError;
use mica_channel::memory::View;
use mica_channel::shm::{Packet, Shm, inline_packet};
use mica_channel::transport::Transport;
use mica_node::counters::TrafficClass;

#[derive(Debug)]
pub(crate) struct Channels {
    pub shm: Shm,
    pub net: Option<Box<dyn Transport>>,
    /// By rank, where there is a network: what is known of those who are reached over it.
    far: Vec<RemotePeer>,
}

/// What is known of a peer that is reached over the network.
#[derive(Debug, Clone, Copy, Default)]
struct RemotePeer {
    /// It holds this rank's messages back.
    held: bool,
    /// Messages sent to it, and those of them that it is known to have taken in.
    sent: u64,
    taken: u64,
    /// Messages that it has sent and this rank has taken in, and those of them that it was told of.
    taken_in: u64,
    told: u64,
}

impl RemotePeer {
    fn has_credit(&self) -> bool {
        self.sent - self.taken < WINDOW
    }

    /// Takes note of a packet that is about messages in general.
    fn note(&mut self, packet: &Packet) {
        match packet.kind {
            packet::HOLD => self.held = packet::read_hold(packet),
            packet::CREDIT => self.taken = self.taken.max(packet.word(0)).min(self.sent),
            _ => {}
        }
    }
}

/// Messages over the network that one peer has not taken in, at most: what provider and system hold
/// for a pair of ranks stays bounded by it, as it does by the ring on a node. (tcp's provider takes
/// 16 KiB for a message, however short.)
const WINDOW: u64 = 256;

/// Messages over the network that are sent to one peer without a look at what it says of them.
const UNPOLLED_SENDS: u64 = 32;

/// Packets of the network that have come and wait to be taken in, from which on no message is sent:
/// half of what there is room for.
const WAITING_MAX: usize = 32;

impl Channels {
    pub fn new(shm: Shm, net: Option<Box<dyn Transport>>, ranks: u32) -> Channels {
        let far = match &net {
            None => Vec::new(),
            Some(_) => vec![RemotePeer::default(); ranks as usize],
        };
        Channels { shm, net, far }
    }

    /// Whether `peer` is known to hold this rank's messages back: then they are to be announced
    /// only.
    pub fn is_held(&mut self, peer: u32) -> bool {
        match self.is_remote(peer) {
            true => self.far[peer as usize].held,
            false => self.shm.is_held(peer),
        }
    }

    /// `peer`, who is reached over the network, has said something about messages in general.
    pub fn note_flow_control(&mut self, peer: u32, packet: &Packet) {
        if let Some(far) = self.far.get_mut(peer as usize) {
            far.note(packet);
        }
    }

    /// Whether the network has a message of this rank to `peer` wait until `peer` has taken in
    /// earlier ones.
    pub fn lacks_credit(&self, peer: u32) -> bool {
        let far = self.far.get(peer as usize);
        far.is_some_and(|far| !far.has_credit())
    }

    /// A message of `source` has been taken in, which came over the network. Answers what `source`
    /// is to be told of that.
    pub fn count_received(&mut self, source: u32) -> Option<Packet> {
        let far = self.far.get_mut(source as usize)?;
        far.taken_in += 1;
        (far.taken_in - far.told >= WINDOW / 4).then(|| {
            far.told = far.taken_in;
            packet::credit(far.taken_in)
        })
    }

    /// Whether a message may go to `peer` over the network now. A sender that always finds room
    /// would take in nothing, so it looks from time to time; what it finds is taken in later, in
    /// its turn.
    fn has_remote_credit(&mut self, peer: u32) -> bool {
        let (Some(far), Some(net)) = (self.far.get_mut(peer as usize), self.net.as_deref_mut())
        else {
            return true;
        };
        if !far.has_credit() || far.sent.is_multiple_of(UNPOLLED_SENDS) {
            net.poll();
            net.for_each_waiting(peer, &mut |packet| far.note(packet));
            if net.waiting() >= WAITING_MAX {
                // What it says may lie behind this: first that is to be taken in.
                return false;
            }
        }
        !far.held && far.has_credit()
    }

    /// A message has left for `peer` over the network, if it was `sent`.
    fn count_sent(&mut self, peer: u32, sent: bool) {
        if let (true, Some(far)) = (sent, self.far.get_mut(peer as usize)) {
            far.sent += 1;
        }
    }

    /// Whether `peer` is reached over the network.
    #[inline]
    pub fn is_remote(&self, peer: u32) -> bool {
        match &self.net {
            None => false,
            Some(net) => net.reaches(peer),
        }
    }

    /// The network, if `peer` is reached over it.
    #[inline]
    pub fn net_to(&mut self, peer: u32) -> Option<&mut (dyn Transport + 'static)> {
        self.net.as_deref_mut().filter(|net| net.reaches(peer))
    }

    fn net_from(&self, source: u32) -> Option<&(dyn Transport + 'static)> {
        self.net.as_deref().filter(|net| net.reaches(source))
    }

    /// How a message that is sent in one packet of its own goes to `peer`, as it is counted.
    pub fn eager_way(&self, peer: u32) -> TrafficClass {
        if self.is_remote(peer) {
            TrafficClass::Net
        } else {
            TrafficClass::Ring
        }
    }

    /// Sends a packet whose payload is all of `view`, short enough for the head. Returns how it
    /// went; `None` when there is no room.
    ///
    /// # Errors
    /// When the first message to `peer` cannot get its memory, or `peer` is lost.
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
        if !self.has_remote_credit(peer) {
            return Ok(None);
        }
        let packet = inline_packet(kind, context, tag, view);
        let sent = self.send_remote(peer, &packet, None, 0)?;
        self.count_sent(peer, sent);
        Ok(sent.then_some(TrafficClass::Net))
    }

    /// Sends `packet`; its `payload` bytes are those of `view` from the start on. False when there
    /// is no room, or it is a message, with a view, and `peer` holds messages back.
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
        self.count_sent(peer, sent && is_message);
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
        let net = self.net.as_deref_mut();
        net.expect("who is not on the node is reached over the network")
            .send(peer, packet, view, position)
    }

    /// Largest payload of a packet to `peer` where everything goes by packets: through a FIFO or
    /// over the network. `None` where there are cells.
    pub fn packet_payload_max(&self, peer: u32) -> Option<usize> {
        match self.net_from(peer) {
            Some(net) => Some(net.payload_max()),
            None => self.shm.fifo_payload_max(peer),
        }
    }

    /// Bytes of a long message that go into one packet to `peer`; `None` where they go through
    /// cells.
    pub fn chunk_bytes(&self, peer: u32) -> Option<usize> {
        match self.net_from(peer) {
            Some(net) => Some(net.payload_max()),
            None => self.shm.chunk_bytes(peer),
        }
    }

    /// Sends `packet` with `payload` bytes of `view` from `position` on, where long messages go in
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

    /// True when a packet with `payload` bytes beside its head can be sent to `peer` now.
    pub fn has_room(&mut self, peer: u32, payload: usize) -> bool {
        match self.net_to(peer) {
            Some(net) => net.has_room(peer, payload),
            None => self.shm.has_room(peer, payload),
        }
    }

    /// True when a cell for `peer` could be had; always if it needs none.
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
        match self.net_from(source) {
            None => self.shm.read_payload(source, packet, view, position),
            Some(net) => net.read_payload(source, packet, view, position),
        }
    }

    /// Removes `packet`, the one just peeked from `source`.
    #[inline]
    pub fn consume(&mut self, source: u32, packet: &Packet) {
        match self.net_to(source) {
            None => self.shm.consume(source, packet),
            Some(net) => net.consume(source, packet),
        }
    }

    /// True when any channel has something. For the last look before parking.
    pub fn has_arrivals(&mut self) -> bool {
        self.shm.has_arrivals() || self.net.as_mut().is_some_and(|net| net.has_arrivals())
    }

    /// True when all that was sent over the network has left.
    pub fn is_drained(&mut self) -> bool {
        self.net.as_mut().is_none_or(|net| net.is_drained())
    }
}
