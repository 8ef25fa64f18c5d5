//! The outlet: the ring to one peer, with its doorbell.

use crate::ChannelError;
use mica_node::doorbell::Doorbell;
use mica_node::park::{Fencing, ParkingSpot};
use mica_node::ring::{ARENA, RingProducer, RingStorage};
use mica_node::segment::{JobSegment, PAGE, SegmentRef};
use std::sync::Arc;

/// Slots in the first page of a ring, which suffices for a pair that exchanges few messages.
pub(super) const FIRST_SLOTS: usize =
    (PAGE - RingStorage::bytes_before(0)) / RingStorage::SLOT_BYTES;

#[derive(Debug)]
pub(super) struct RingOutlet {
    pub ring: RingProducer<SegmentRef<RingStorage>>,
    pub has_arena: bool,
    /// Generation of the segment's worlds when it was opened.
    pub generation: u32,
    doorbell: SegmentRef<Doorbell>,
    parking: SegmentRef<ParkingSpot>,
}

impl RingOutlet {
    /// Opens the ring from `me` to `peer`, whose first page is allocated, and new_senders.
    pub fn open(segment: &Arc<JobSegment>, me: u32, peer: u32) -> RingOutlet {
        let ring = segment.project(|segment| segment.ring(me, peer));
        let outlet = RingOutlet {
            ring: RingProducer::with_backing(ring, FIRST_SLOTS)
                .beginning_at(segment.first_position_of(me)),
            has_arena: false,
            generation: segment.generation(),
            doorbell: segment.project(|segment| segment.doorbell(peer, me)),
            parking: segment.project(|segment| &segment.block(peer).parking.0),
        };
        segment.announce_sender(peer, me);
        outlet
    }

    /// Allocates the memory of all slots of the ring.
    #[cold]
    pub fn allocate_slots(
        &mut self,
        segment: &JobSegment,
        me: u32,
        peer: u32,
    ) -> Result<(), ChannelError> {
        let offset = segment.pair_offset(me, peer);
        segment.allocate(offset, RingStorage::HEAD_BYTES)?;
        self.ring.back(usize::MAX);
        Ok(())
    }

    #[cold]
    pub fn allocate_arena(
        &mut self,
        segment: &JobSegment,
        me: u32,
        peer: u32,
    ) -> Result<(), ChannelError> {
        let offset = segment.pair_offset(me, peer) + RingStorage::HEAD_BYTES;
        segment.allocate(offset, ARENA)?;
        self.has_arena = true;
        Ok(())
    }

    /// Rings the peer's doorbell and wakes the peer: the ring holds something new.
    #[inline(always)]
    pub fn ring_doorbell(&mut self, fencing: Fencing) {
        self.doorbell.ring(self.ring.position());
        self.parking.wake(fencing);
    }
}
