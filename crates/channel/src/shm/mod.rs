//! The shared-memory channel, in the two designs of chai-2009, chapter 3.
//!
//! - [`advanced`]: rings for short messages, cells of the sender's pool for longer ones, doorbells
//!   to find the senders (3.2). This is the default.
//! - [`baselines::basic`]: one large FIFO for each pair (3.1), for comparison (`MICA_SHM=basic`).
//!
//! Where they are mixed (`MICA_SHM=mixed`), ranks of the same parity communicate through FIFOs and
//! all others through rings: two channels to be polled, as in chapter 7.
//!
//! The launcher chooses for the whole job and records the choice in the segment. A rank asks the
//! advanced design first. For a peer with a FIFO the advanced design never has an outlet or an
//! inlet, and the branch that handles a missing one leads to the FIFOs. So the choice costs the
//! advanced design nothing.
//!
//! Both carry packets in order from one rank to another, and wake a parked peer after each step
//! that may unblock it.

mod advanced;
mod baselines;
mod hold;
mod inline;

#[cfg(test)]
mod tests;

pub use hold::HoldChange;
pub use inline::inline_packet;
pub use mica_node::ring::{INLINE, PAYLOAD_MAX, Packet};

use crate::{ChannelError, PacketSource};
use advanced::AdvancedShm;
use baselines::basic::BasicShm;
use mica_memory::View;
use mica_node::doorbell::NewSenders;
use mica_node::park::Fencing;
use mica_node::segment::{JobSegment, SegmentRef};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// One rank's endpoint of the shared-memory channel.
#[derive(Debug)]
pub struct Shm {
    advanced: AdvancedShm,
    /// Present if any peers have FIFOs; `advanced` stays empty for those.
    basic: Option<Box<BasicShm>>,
    /// The senders that have announced themselves, each before its first message.
    new_senders: NewSenders<SegmentRef<[AtomicU64]>>,
    segment: Arc<JobSegment>,
    me: u32,
    /// Whether the ranks of this node use this channel; the same for all of them.
    on: bool,
}

/// How messages between the ranks of one node go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeTraffic {
    /// Through the job segment.
    SharedMemory,
    /// By the network, as between nodes (`MICA_NET=loopback`).
    Network,
}

impl Shm {
    /// The channel of rank `me`, which has [claimed](JobSegment::claim) it, in the segment's
    /// design. It reaches the other ranks of the node if `traffic` goes through shared memory, or
    /// none.
    ///
    /// # Errors
    /// Under the basic design, when memory for the FIFOs to the other ranks cannot be allocated.
    pub fn new(
        segment: &Arc<JobSegment>,
        me: u32,
        fencing: Fencing,
        traffic: NodeTraffic,
    ) -> Result<Shm, ChannelError> {
        let on = traffic == NodeTraffic::SharedMemory;
        let basic = if on && segment.geometry().has_fifos() {
            Some(Box::new(BasicShm::open(segment, me, fencing)?))
        } else {
            None
        };
        Ok(Shm {
            advanced: AdvancedShm::new(segment, me, fencing),
            basic,
            new_senders: NewSenders::new(segment.project(|segment| segment.new_sender_bits(me))),
            segment: Arc::clone(segment),
            me,
            on,
        })
    }

    /// Forgets a peer that has ended, unless what is known is of the holder of its number since the
    /// world of generation `generation`. True if it was forgotten: then nothing of that holder has
    /// been received yet.
    pub fn forget(&mut self, peer: u32, generation: u32) -> bool {
        let forgotten = self.advanced.forget(peer, generation);
        if forgotten {
            self.new_senders.forget(self.segment.index(peer));
        }
        forgotten
    }

    /// Whether `peer` is reached by this channel.
    pub fn reaches(&self, peer: u32) -> bool {
        self.on && self.segment.is_member(peer)
    }

    /// Bytes of a cell.
    #[inline]
    pub fn cell_bytes(&self) -> usize {
        self.advanced.cell_bytes()
    }

    /// True where some peers have FIFOs and others have rings.
    pub fn is_mixed(&self) -> bool {
        self.segment.geometry().is_mixed()
    }

    /// The FIFOs to `peer` and others, if `peer` has one.
    fn fifo_to(&mut self, peer: u32) -> Option<&mut BasicShm> {
        self.basic.as_deref_mut().filter(|basic| basic.has_outlet(peer))
    }

    /// Where there is a FIFO to `peer`, the largest payload of a packet that fits it. `None` under
    /// the advanced design, where the largest payload is [`PAYLOAD_MAX`] and longer messages go
    /// through cells.
    pub fn fifo_payload_max(&self, peer: u32) -> Option<usize> {
        let basic = self.basic.as_ref()?;
        basic.has_outlet(peer).then(|| basic.payload_max())
    }

    /// Where there is a FIFO to `peer`, how many bytes of a long message go into one packet: as
    /// many as a cell holds at most, so that the two designs differ in where the bytes lie and not
    /// in how a message is split. `None` under the advanced design.
    pub fn chunk_bytes(&self, peer: u32) -> Option<usize> {
        self.fifo_payload_max(peer).map(|max| max.min(self.cell_bytes()))
    }

    /// Sends a packet whose payload is all of `view`, at most [`INLINE`] bytes. False when there is
    /// no room: try again after the receiver has made progress. `None` when `peer` is not
    /// [reached](Shm::reaches).
    ///
    /// # Errors
    /// When memory for the first message to `peer` cannot be allocated.
    #[inline(always)]
    pub fn send_inline(
        &mut self,
        peer: u32,
        kind: u8,
        context: u64,
        tag: i32,
        view: &View,
    ) -> Result<Option<bool>, ChannelError> {
        match self.advanced.send_inline(peer, kind, context, tag, view) {
            Some(sent) => Ok(Some(sent)),
            None => self.send_inline_elsewhere(peer, kind, context, tag, view),
        }
    }

    #[cold]
    fn send_inline_elsewhere(
        &mut self,
        peer: u32,
        kind: u8,
        context: u64,
        tag: i32,
        view: &View,
    ) -> Result<Option<bool>, ChannelError> {
        if let Some(basic) = self.fifo_to(peer) {
            return Ok(Some(basic.send_inline(peer, kind, context, tag, view)));
        }
        if !self.reaches(peer) {
            return Ok(None);
        }
        self.advanced.open_outlet(peer)?;
        let sent = self.advanced.send_inline(peer, kind, context, tag, view);
        Ok(Some(sent.expect("just opened")))
    }

    /// Sends `packet`; its `payload` bytes, at most [`PAYLOAD_MAX`] (through a FIFO
    /// [`Shm::fifo_payload_max`]), are those of `view` from the start on. False when there is no
    /// room, or it is a message, with a view, and `peer` [holds messages back](Shm::hold); `None`
    /// when `peer` is not [reached](Shm::reaches).
    ///
    /// # Errors
    /// When memory for the first message to `peer` cannot be allocated.
    #[inline]
    pub fn send(
        &mut self,
        peer: u32,
        packet: &Packet,
        view: Option<&View>,
    ) -> Result<Option<bool>, ChannelError> {
        if self.advanced.has_outlet(peer) {
            self.advanced.send(peer, packet, view).map(Some)
        } else {
            self.send_elsewhere(peer, packet, view)
        }
    }

    #[cold]
    fn send_elsewhere(
        &mut self,
        peer: u32,
        packet: &Packet,
        view: Option<&View>,
    ) -> Result<Option<bool>, ChannelError> {
        if let Some(basic) = self.fifo_to(peer) {
            let takes = view.is_none() || basic.takes_message(peer, packet.payload as usize);
            return Ok(Some(takes && basic.send(peer, packet, view, 0)));
        }
        if !self.reaches(peer) {
            return Ok(None);
        }
        self.advanced.open_outlet(peer)?;
        self.advanced.send(peer, packet, view).map(Some)
    }

    /// Sends `packet` with `payload` bytes of `view` from `position` on, through the FIFO to
    /// `peer`. False when there is no room.
    ///
    /// # Panics
    /// If there is no FIFO to `peer`: [cells](Shm::load_cell) carry the parts of a message then.
    pub fn send_chunk(&mut self, peer: u32, packet: &Packet, view: &View, position: usize) -> bool {
        let basic = self.fifo_to(peer).expect("chunks go through FIFOs");
        basic.send(peer, packet, Some(view), position)
    }

    /// True when a packet with `payload` bytes beside its header can be sent to `peer` now, unless
    /// it is a message that `peer` [holds back](Shm::is_held).
    #[inline]
    pub fn has_room(&mut self, peer: u32, payload: usize) -> bool {
        match self.fifo_to(peer) {
            Some(basic) => basic.has_room(peer, payload),
            None => self.advanced.has_room(peer, payload),
        }
    }

    /// Holds back the messages of `source`, which has sent some, or releases them. What is already
    /// in its ring or FIFO still arrives; after that, only packets that are not messages.
    /// False when `source` is not reached by this channel.
    pub fn hold(&mut self, source: u32, change: HoldChange) -> bool {
        let basic = self.basic.as_ref();
        self.advanced.hold(source, change) || basic.is_some_and(|basic| basic.hold(source, change))
    }

    /// Whether `peer` holds this rank's messages back.
    pub fn is_held(&mut self, peer: u32) -> bool {
        match self.fifo_to(peer) {
            Some(basic) => basic.is_held(peer),
            None => self.advanced.is_held(peer),
        }
    }

    /// True when [`Shm::load_cell`] would find a cell for `receiver`; always true if it has a FIFO
    /// and needs no cell.
    pub fn has_cell(&mut self, receiver: u32) -> bool {
        self.fifo_to(receiver).is_some() || self.advanced.has_cell(receiver)
    }

    /// The next packet from `source`. Polls no other peer.
    #[inline(always)]
    pub fn peek_from(&self, source: u32) -> Option<Packet> {
        match self.advanced.inlet(source) {
            Some(inlet) => inlet.ring.peek(),
            None => self.peek_fifo_from(source),
        }
    }

    #[cold]
    fn peek_fifo_from(&self, source: u32) -> Option<Packet> {
        self.basic.as_ref()?.peek_from(source)
    }

    /// Makes polling start at the next sender. Call it after a number of packets from one sender,
    /// so that a flood from it does not delay the others. (The basic design moves on after every
    /// packet.)
    #[inline]
    pub fn next_turn(&mut self) {
        self.advanced.next_turn();
    }

    /// The next packet that came through a ring. Polls round-robin, beginning with the current
    /// sender. Also takes in the new_senders of new senders, for rings and FIFOs.
    #[inline]
    pub fn peek(&mut self) -> Option<(u32, Packet)> {
        if self.new_senders.has_new() {
            self.open_inlets();
        }
        self.advanced.peek()
    }

    /// True if any peers have FIFOs: then polling the rings is not enough.
    #[inline(always)]
    pub fn has_fifos(&self) -> bool {
        self.basic.is_some()
    }

    /// The FIFOs of the senders whose bit [`Shm::peek`] has taken in; `None` under the advanced
    /// design.
    pub fn fifos(&mut self) -> Option<&mut dyn PacketSource> {
        self.basic.as_deref_mut().map(|basic| basic as &mut dyn PacketSource)
    }

    /// True when polling the rings or the FIFOs would find something. For the last check before
    /// parking.
    pub fn has_arrivals(&mut self) -> bool {
        self.new_senders.has_new()
            || self.advanced.has_arrivals()
            || self.basic.as_mut().is_some_and(|b| b.has_arrivals())
    }

    #[cold]
    fn open_inlets(&mut self) {
        let (segment, me) = (&self.segment, self.me);
        self.new_senders.take(|index| {
            let source = segment.rank_at(index);
            match &mut self.basic {
                Some(basic) if segment.is_fifo(source, me) => basic.open_inlet(source),
                _ => self.advanced.open_inlet(source),
            }
        });
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
        match self.advanced.inlet(source) {
            Some(inlet) => inlet.read_payload(packet, view, position),
            None => self.basic().read_payload(source, packet, view, position),
        }
    }

    /// Removes `packet`, the one just peeked from `source`.
    #[inline]
    pub fn consume(&mut self, source: u32, packet: &Packet) {
        if !self.advanced.consume(source, packet) {
            self.consume_fifo(source, packet);
        }
    }

    #[cold]
    fn consume_fifo(&mut self, source: u32, packet: &Packet) {
        let basic = self.basic.as_mut().expect("a packet came by one of the two designs");
        basic.consume(source, packet);
    }

    #[cold]
    fn basic(&self) -> &BasicShm {
        self.basic.as_ref().expect("a packet came by one of the two designs")
    }

    /// Takes a free cell for `receiver` and loads it with the bytes of `view` from `position` on.
    /// Returns the cell and how many bytes it holds; `None` when no cell is free. Not for a
    /// receiver with a FIFO.
    ///
    /// # Errors
    /// When memory for the pool cannot be allocated.
    pub fn load_cell(
        &mut self,
        receiver: u32,
        view: &View,
        position: usize,
    ) -> Result<Option<(u16, usize)>, ChannelError> {
        debug_assert!(self.fifo_to(receiver).is_none());
        self.advanced.load_cell(receiver, view, position)
    }

    /// Copies the first `bytes` bytes of `source`'s cell to `view` from `position` on, as far as
    /// the view has room, and gives the cell back. Not for a source with a FIFO.
    pub fn unload_cell(&self, source: u32, cell: u16, bytes: usize, view: &View, position: usize) {
        self.advanced.unload_cell(source, cell, bytes, view, position);
    }

    /// True when all that this rank has sent through cells has been read.
    pub fn is_drained(&mut self) -> bool {
        self.advanced.is_drained()
    }
}
