//! The channels that bring messages, as one: which of them reaches whom.
//!
//! A peer on the node is reached through shared memory, all others over the network, which a job has only if it spans nodes
//! or if that was asked for. The shared-memory channel is asked first: it knows those that it does not reach, and so a job on
//! one node does not pay for the question.
//!
//! The network has packets like the rings do, with longer payloads, and no cells: long messages that cannot be read from their
//! sender's memory come in chunks, as through the FIFOs of the basic design.

use crate::traffic::Way;
use mica_channel::memory::View;
use mica_channel::net::Net;
use mica_channel::shm::{Packet, Shm, inline_packet};
use mica_channel::{ChannelError, Messages};

#[derive(Debug)]
pub(crate) struct Channels {
    pub shm: Shm,
    pub net: Option<Box<Net>>,
}

impl Channels {
    /// Whether `peer` is reached over the network.
    #[inline]
    pub fn is_far(&self, peer: u32) -> bool {
        match &self.net {
            None => false,
            Some(net) => net.reaches(peer),
        }
    }

    /// The network, if `peer` is reached over it.
    #[inline]
    pub fn net_to(&mut self, peer: u32) -> Option<&mut Net> {
        self.net.as_deref_mut().filter(|net| net.reaches(peer))
    }

    fn net_from(&self, source: u32) -> Option<&Net> {
        self.net.as_deref().filter(|net| net.reaches(source))
    }

    /// How a message that is sent in one packet of its own goes to `peer`, as it is counted.
    pub fn eager_way(&self, peer: u32) -> Way {
        if self.is_far(peer) {
            Way::Net
        } else {
            Way::Ring
        }
    }

    /// Sends a packet whose payload is all of `view`, short enough for the head. Returns how it went; `None` when there is no
    /// room.
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
    ) -> Result<Option<Way>, ChannelError> {
        match self.shm.send_inline(peer, kind, context, tag, view)? {
            Some(true) => Ok(Some(Way::Inline)),
            Some(false) => Ok(None),
            None => self.send_inline_far(peer, kind, context, tag, view),
        }
    }

    #[cold]
    fn send_inline_far(
        &mut self,
        peer: u32,
        kind: u8,
        context: u64,
        tag: i32,
        view: &View,
    ) -> Result<Option<Way>, ChannelError> {
        let packet = inline_packet(kind, context, tag, view);
        let sent = self.send_far(peer, &packet, None, 0)?;
        Ok(sent.then_some(Way::Net))
    }

    /// Sends `packet`; its `payload` bytes are those of `view` from the start on. False when there is no room.
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
            None => self.send_far(peer, packet, view, 0),
        }
    }

    #[cold]
    fn send_far(
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

    /// Largest payload of a packet to `peer` where everything goes by packets: through a FIFO or over the network. `None` where
    /// there are cells.
    pub fn packet_payload_max(&self, peer: u32) -> Option<usize> {
        match self.net_from(peer) {
            Some(net) => Some(net.payload_max()),
            None => self.shm.fifo_payload_max(peer),
        }
    }

    /// Bytes of a long message that go into one packet to `peer`; `None` where they go through cells.
    pub fn chunk_bytes(&self, peer: u32) -> Option<usize> {
        match self.net_from(peer) {
            Some(net) => Some(net.payload_max()),
            None => self.shm.chunk_bytes(peer),
        }
    }

    /// Sends `packet` with `payload` bytes of `view` from `position` on, where long messages go in chunks. False when there is
    /// no room.
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
        if self.is_far(peer) {
            self.send_far(peer, packet, Some(view), position)
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
        self.is_far(peer) || self.shm.has_cell(peer)
    }

    /// Copies payload bytes of `packet`, the one just peeked from `source`, to `view` from `position` on; as many as the
    /// view has room for. Returns how many.
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
