//! The basic design of chai-2009, 3.1, kept for comparison with the advanced one.
//!
//! Each ordered pair of ranks has one large FIFO, and everything goes through it: short messages
//! and long ones, whole if they fit it and in chunks otherwise. The sender copies the bytes in;
//! then the receiver copies them out. As in the paper, a rank allocates and touches its FIFOs to
//! *all* others when it starts, so that they lie in the sender's memory (3.1.2) and the job's
//! memory grows with the square of its ranks (3.2.3); and a receiver finds messages by polling
//! every FIFO in turn, whose counters lie next to their buffers.

use crate::shm::hold::HoldChange;
use crate::shm::inline::inline_packet;
use crate::{ChannelError, PacketSource};
use mica_memory::View;
use mica_node::fifo::{FifoConsumer, FifoHead, FifoLine, FifoProducer, FifoStorage};
use mica_node::park::{Fencing, ParkingSpot};
use mica_node::peer_table::PeerTable;
use mica_node::ring::Packet;
use mica_node::segment::{JobSegment, SegmentRef};
use std::sync::Arc;

/// One rank's endpoint of the FIFOs.
#[derive(Debug)]
pub(in crate::shm) struct BasicShm {
    segment: Arc<JobSegment>,
    me: u32,
    fencing: Fencing,
    /// By rank; none to this rank itself, nor to ranks that are reached by the other design.
    outlets: PeerTable<Option<FifoOutlet>>,
    /// FIFOs from the ranks that have started.
    inlets: Vec<FifoInlet>,
    /// By sender: its index in `inlets`, plus one.
    inlet_of: PeerTable<u32>,
    /// The inlet to poll next.
    cursor: usize,
    payload_max: usize,
}

#[derive(Debug)]
struct FifoOutlet {
    fifo: FifoProducer<SegmentRef<FifoHead>, SegmentRef<[FifoLine]>>,
    /// Where the receiver parks when it waits for messages.
    parking: SegmentRef<ParkingSpot>,
}

#[derive(Debug)]
struct FifoInlet {
    source: u32,
    fifo: FifoConsumer<SegmentRef<FifoHead>, SegmentRef<[FifoLine]>>,
    /// Where the sender parks when it waits for room.
    parking: SegmentRef<ParkingSpot>,
}

/// The FIFO from `from` to `to`.
fn fifo(
    segment: &Arc<JobSegment>,
    from: u32,
    to: u32,
) -> FifoStorage<SegmentRef<FifoHead>, SegmentRef<[FifoLine]>> {
    FifoStorage {
        head: segment.project(|segment| segment.fifo(from, to).head),
        lines: segment.project(|segment| segment.fifo(from, to).lines),
    }
}

impl BasicShm {
    /// Allocates the FIFOs from `me` to all other ranks that have one, touches them, and announces
    /// them by a new-sender bit at each of these ranks.
    ///
    /// # Errors
    /// When memory for a FIFO cannot be allocated.
    pub fn open(
        segment: &Arc<JobSegment>,
        me: u32,
        fencing: Fencing,
    ) -> Result<BasicShm, ChannelError> {
        let geometry = segment.geometry();
        let mut outlets = PeerTable::<Option<FifoOutlet>>::default();
        for &peer in segment.members() {
            if peer == me || !segment.is_fifo(me, peer) {
                continue;
            }
            let offset = segment.pair_offset(me, peer);
            segment.allocate(offset, geometry.fifo_area())?;
            segment.populate(offset, geometry.fifo_area());
            *outlets.entry(peer) = Some(FifoOutlet {
                fifo: FifoProducer::new(fifo(segment, me, peer)),
                parking: segment.project(|segment| &segment.block(peer).parking.0),
            });
            segment.announce_sender(peer, me);
        }
        Ok(BasicShm {
            segment: Arc::clone(segment),
            me,
            fencing,
            outlets,
            inlets: Vec::new(),
            inlet_of: PeerTable::default(),
            cursor: 0,
            payload_max: geometry.fifo_bytes as usize - size_of::<Packet>(),
        })
    }

    /// Largest payload of a packet, in bytes.
    pub fn payload_max(&self) -> usize {
        self.payload_max
    }

    /// Whether there is a FIFO to `peer`.
    pub fn has_outlet(&self, peer: u32) -> bool {
        self.outlets.get(peer).is_some_and(Option::is_some)
    }

    fn outlet(&mut self, peer: u32) -> &mut FifoOutlet {
        let outlet = self.outlets.get_mut(peer).and_then(Option::as_mut);
        outlet.expect("the caller has asked whether there is a FIFO")
    }

    fn inlet_index(&self, source: u32) -> Option<usize> {
        (*self.inlet_of.get(source)? as usize).checked_sub(1)
    }

    fn inlet(&self, source: u32) -> Option<&FifoInlet> {
        self.inlets.get(self.inlet_index(source)?)
    }

    /// Sends a packet whose payload is all of `view`, at most [`INLINE`](crate::shm::INLINE) bytes,
    /// beside its header. False when there is no room, or `peer` holds messages back.
    pub fn send_inline(
        &mut self,
        peer: u32,
        kind: u8,
        context: u64,
        tag: i32,
        view: &View,
    ) -> bool {
        let packet = inline_packet(kind, context, tag, view);
        self.takes_message(peer, 0) && self.send(peer, &packet, None, 0)
    }

    /// Sends `packet`; its `payload` bytes are those of `view` from `position` on. False when there
    /// is no room.
    pub fn send(
        &mut self,
        peer: u32,
        packet: &Packet,
        view: Option<&View>,
        position: usize,
    ) -> bool {
        let fencing = self.fencing;
        let outlet = self.outlet(peer);
        let sent = outlet.fifo.push(packet, |offset, to, bytes| {
            if let Some(view) = view {
                // SAFETY: 1. the FIFO hands out `bytes` bytes of its buffer; 2. which no view of a
                // caller lies in.
                unsafe { view.pack_into(position + offset, to, bytes) };
            }
        });
        if sent {
            outlet.parking.wake(fencing);
        }
        sent
    }

    /// True when a packet with `payload` bytes of payload can be sent to `peer` now.
    pub fn has_room(&mut self, peer: u32, payload: usize) -> bool {
        self.outlet(peer).fifo.has_room_for_control(payload)
    }

    /// True when there is room for a message with `payload` bytes beside its header, and `peer`
    /// does not hold messages back.
    pub fn takes_message(&mut self, peer: u32, payload: usize) -> bool {
        self.outlet(peer).fifo.has_room(payload)
    }

    /// Whether `peer` holds messages back.
    pub fn is_held(&self, peer: u32) -> bool {
        let outlet = self.outlets.get(peer).and_then(Option::as_ref);
        outlet.is_some_and(|outlet| outlet.fifo.is_held())
    }

    /// Holds back the messages of `source`, or releases them. False when `source` has no inlet.
    pub fn hold(&self, source: u32, change: HoldChange) -> bool {
        self.inlet(source).map(|inlet| inlet.fifo.hold(change == HoldChange::Hold)).is_some()
    }

    /// The next packet from `source`. Polls no other peer.
    pub fn peek_from(&self, source: u32) -> Option<Packet> {
        self.inlet(source)?.fifo.peek()
    }

    fn next_turn(&mut self) {
        self.cursor += 1;
        if self.cursor >= self.inlets.len() {
            self.cursor = 0;
        }
    }

    /// Opens the inlet from `source`, which has announced itself: its FIFO is allocated.
    pub fn open_inlet(&mut self, source: u32) {
        self.inlets.push(FifoInlet {
            source,
            fifo: FifoConsumer::new(fifo(&self.segment, source, self.me)),
            parking: (self.segment).project(|segment| &segment.block(source).parking.0),
        });
        *self.inlet_of.entry(source) = self.inlets.len() as u32;
    }

    /// Copies payload bytes of `packet`, the one just peeked from `source`, to `view` from
    /// `position` on; as many as the view has room for. Returns how many.
    pub fn read_payload(
        &self,
        source: u32,
        packet: &Packet,
        view: &View,
        position: usize,
    ) -> usize {
        let inlet = self.inlet(source).expect("a packet came from there");
        let mut copied = 0;
        inlet.fifo.with_payload(packet, |offset, from, bytes| {
            // SAFETY: 1. the packet has that many bytes there; 2. which no view of a caller lies
            // in.
            copied += unsafe { view.unpack_from(position + offset, from, bytes) };
        });
        copied
    }

    /// Removes `packet`, the one just peeked from `source`, and makes polling start at the next
    /// sender.
    pub fn consume(&mut self, source: u32, packet: &Packet) {
        let fencing = self.fencing;
        self.cursor = self.inlet_index(source).expect("its packet was peeked");
        let inlet = &mut self.inlets[self.cursor];
        inlet.fifo.consume(packet);
        // The sender may wait for room.
        inlet.parking.wake(fencing);
        self.next_turn();
    }
}

impl PacketSource for BasicShm {
    /// The next packet. Polls round-robin, beginning with the current sender.
    fn peek(&mut self) -> Option<(u32, Packet)> {
        for _ in 0..self.inlets.len() {
            let inlet = &self.inlets[self.cursor];
            if let Some(packet) = inlet.fifo.peek() {
                return Some((inlet.source, packet));
            }
            self.next_turn();
        }
        None
    }

    fn has_arrivals(&mut self) -> bool {
        self.inlets.iter().any(|inlet| inlet.fifo.has_arrived())
    }
}
