//! The shared memory of a segment that was added to a running job, as a [`Transport`].
//!
//! The job's own segment is called directly ([`Shm`]). Others come with processes that join later
//! (MPI 5.0, 11) and go with them, so the protocol reaches them as it reaches a network: all in
//! packets, which the rings carry up to [`PAYLOAD_MAX`] bytes each. No call of the job's own path
//! asks whether there are any.
//!
//! A segment numbers its ranks from 0. To the protocol they are the peers from `first` on, in the
//! same order; this rank's own number is no peer.
//!
//! - Flow control and holding back are the protocol's, as over a network.
//! - A peer's memory is not read: long messages go in packets.
//! - A lost peer is found by [`probe`](Transport::probe), which asks whether its process exists.
//!   Its ring still takes packets until it is full; the loss ends the waits for it.
//! - A rank waits at its parking spot in the segment ([`WaitMode::WakeUp`]).
//! - When the transport is dropped, nothing of it refers to the segment any more, so the last of
//!   its owners unmaps it.

use std::ops::Range;
use std::sync::Arc;

use super::{NodeTraffic, PAYLOAD_MAX, Packet, Shm};
use crate::transport::{LostPeer, Transport, WaitMode};
use crate::{Capabilities, ChannelError, PacketSource};
use mica_memory::View;
use mica_node::counters::TrafficClass;
use mica_node::park::Fencing;
use mica_node::segment::JobSegment;

/// One rank's endpoint in a segment that was added to its job.
#[derive(Debug)]
pub struct SegmentTransport {
    shm: Shm,
    segment: Arc<JobSegment>,
    /// The protocol's numbers of the segment's ranks.
    peers: Range<u32>,
    /// Number of this rank in the segment.
    me: u32,
    payload_max: usize,
    /// The sender of the packet that was peeked last.
    peeked: Option<u32>,
    /// The peer whose loss is not reported yet.
    loss: Option<LostPeer>,
}

impl SegmentTransport {
    /// The endpoint of this process, which has [claimed](JobSegment::claim) rank `me` of `segment`.
    /// The segment's rank `i` is peer `first + i`.
    ///
    /// # Errors
    /// When memory for FIFOs to the peers cannot be allocated.
    pub fn open(
        segment: &Arc<JobSegment>,
        me: u32,
        first: u32,
        fencing: Fencing,
    ) -> Result<SegmentTransport, ChannelError> {
        let shm = Shm::new(segment, me, fencing, NodeTraffic::SharedMemory)?;
        let fifos = (0..segment.ranks()).filter_map(|rank| shm.fifo_payload_max(rank));
        Ok(SegmentTransport {
            payload_max: fifos.fold(PAYLOAD_MAX, usize::min),
            shm,
            segment: Arc::clone(segment),
            peers: first..first + segment.ranks(),
            me,
            peeked: None,
            loss: None,
        })
    }

    /// The protocol's numbers of the segment's ranks.
    pub fn peers(&self) -> Range<u32> {
        self.peers.clone()
    }

    /// The rank of `peer` in the segment.
    fn rank_of(&self, peer: u32) -> u32 {
        debug_assert!(self.reaches(peer), "peer {peer} is not in this segment");
        peer - self.peers.start
    }

    fn peer_of(&self, rank: u32) -> u32 {
        self.peers.start + rank
    }
}

impl PacketSource for SegmentTransport {
    fn peek(&mut self) -> Option<(u32, Packet)> {
        self.shm.next_turn();
        let found = self.shm.peek();
        let found = found.or_else(|| self.shm.fifos().and_then(PacketSource::peek));
        self.peeked = found.map(|(rank, _)| rank);
        found.map(|(rank, packet)| (self.peer_of(rank), packet))
    }

    fn has_arrivals(&mut self) -> bool {
        self.shm.has_arrivals()
    }
}

impl Transport for SegmentTransport {
    fn name(&self) -> &'static str {
        "segment"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::MESSAGES
    }

    fn reaches(&self, peer: u32) -> bool {
        self.peers.contains(&peer) && peer - self.peers.start != self.me
    }

    fn payload_max(&self) -> usize {
        self.payload_max
    }

    fn traffic_class(&self) -> TrafficClass {
        TrafficClass::Ring
    }

    fn send(
        &mut self,
        peer: u32,
        packet: &Packet,
        view: Option<&View>,
        position: usize,
    ) -> Result<bool, ChannelError> {
        let rank = self.rank_of(peer);
        self.shm.send_from(rank, packet, view, position)
    }

    fn has_room(&mut self, peer: u32, payload: usize) -> bool {
        let rank = self.rank_of(peer);
        self.shm.has_room(rank, payload)
    }

    /// Nothing to do: a packet is where its receiver takes it as soon as it was sent.
    fn poll(&mut self) {}

    /// The packet behind the one that was peeked last, of the same sender: packets stay in the
    /// rings.
    fn peek_found(&self) -> Option<(u32, Packet)> {
        let rank = self.peeked?;
        let packet = self.shm.peek_from(rank)?;
        Some((self.peer_of(rank), packet))
    }

    /// None is taken out of the rings before it is consumed.
    fn waiting(&self) -> usize {
        0
    }

    fn for_each_waiting(&self, _source: u32, _f: &mut dyn FnMut(&Packet)) {}

    fn read_payload(&self, source: u32, packet: &Packet, view: &View, position: usize) -> usize {
        let rank = self.rank_of(source);
        self.shm.read_payload(rank, packet, view, position)
    }

    fn consume(&mut self, source: u32, packet: &Packet) {
        let rank = self.rank_of(source);
        self.shm.consume(rank, packet);
    }

    /// What was sent is in the segment, which outlives this process.
    fn is_drained(&mut self) -> bool {
        true
    }

    fn take_loss(&mut self) -> Option<LostPeer> {
        self.loss.take()
    }

    fn prepare_to_wait(&mut self) -> WaitMode {
        match self.loss.is_some() || self.has_arrivals() {
            true => WaitMode::Ready,
            false => WaitMode::WakeUp,
        }
    }

    fn probe(&mut self, peer: u32) -> Result<(), ChannelError> {
        if self.segment.is_gone(self.rank_of(peer)) {
            self.loss = Some(LostPeer { peer, detail: "its process has ended".to_owned() });
        }
        Ok(())
    }
}
