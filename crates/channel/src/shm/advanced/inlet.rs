//! The inlet: the ring from one peer, with its doorbell and the marks of the peer's cells.

use mica_memory::View;
use mica_node::cells::Marks;
use mica_node::doorbell::Doorbell;
use mica_node::park::ParkingSpot;
use mica_node::ring::{Packet, RingConsumer, RingStorage};
use mica_node::segment::{JobSegment, SegmentRef};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

#[derive(Debug)]
pub(in crate::shm) struct Inlet {
    pub source: u32,
    /// Generation of the segment's worlds when it was opened.
    pub generation: u32,
    pub ring: RingConsumer<SegmentRef<RingStorage>>,
    /// Marks of the sender's cells.
    pub marks: Marks<SegmentRef<[AtomicU32]>>,
    /// Where the sender parks when it waits for room or for cells.
    pub parking: SegmentRef<ParkingSpot>,
    doorbell: SegmentRef<Doorbell>,
}

impl Inlet {
    pub fn open(segment: &Arc<JobSegment>, source: u32, me: u32) -> Inlet {
        Inlet {
            source,
            generation: segment.generation(),
            ring: RingConsumer::new(segment.project(|segment| segment.ring(source, me)))
                .beginning_at(segment.first_position_of(source)),
            marks: Marks::new(segment.project(|segment| segment.marks(source))),
            parking: segment.project(|segment| &segment.block(source).parking.0),
            doorbell: segment.project(|segment| segment.doorbell(me, source)),
        }
    }

    /// True when the sender has reached a position that the receiver has not.
    #[inline(always)]
    pub fn has_rung(&self) -> bool {
        self.doorbell.has_rung(self.ring.position())
    }
    /// Copies payload bytes of `packet`, the one just peeked, to `view` from `position` on; as many
    /// as the view has room for. Returns how many.
    #[inline]
    pub fn read_payload(&self, packet: &Packet, view: &View, position: usize) -> usize {
        self.ring.with_payload(packet, |from| {
            // SAFETY: 1. the packet has that many bytes in the arena; 2. which no view of a caller
            // lies in.
            unsafe { view.unpack_from(position, from, packet.payload as usize) }
        })
    }
}
