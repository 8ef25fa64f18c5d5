//! The way out to one peer.

use crate::ChannelError;
use mica_node::park::{Fencing, ParkingSpot};
use mica_node::ring::{ARENA, Producer, RingStorage};
use mica_node::segment::JobSegment;
use mica_node::sync::{AtomicU16, Ordering};

#[derive(Debug)]
pub(super) struct Outlet {
    pub ring: Producer<'static>,
    pub has_arena: bool,
    doorbell: &'static AtomicU16,
    parking: &'static ParkingSpot,
}

impl Outlet {
    /// Opens the ring from `me` to `peer`, whose head is allocated, and knocks.
    pub fn open(segment: &'static JobSegment, me: u32, peer: u32) -> Outlet {
        let outlet = Outlet {
            ring: Producer::new(segment.ring(me, peer)),
            has_arena: false,
            doorbell: &segment.doorbells(peer)[me as usize],
            parking: &segment.block(peer).parking.0,
        };
        // SYNC knock: pairs with the Acquire in Shm::answer_knocks; the ring's memory is allocated.
        segment.knocks(peer)[me as usize / 64].fetch_or(1 << (me % 64), Ordering::Release);
        outlet
    }

    #[cold]
    pub fn allocate_arena(
        &mut self,
        segment: &JobSegment,
        me: u32,
        peer: u32,
    ) -> Result<(), ChannelError> {
        let offset = segment.geometry().ring(me, peer) + RingStorage::HEAD_BYTES;
        segment.allocate(offset, ARENA)?;
        self.has_arena = true;
        Ok(())
    }

    /// Tells the peer that the ring holds something new.
    #[inline(always)]
    pub fn ring_the_bell(&mut self, fencing: Fencing) {
        // SYNC doorbell: pairs with the Acquire in Inlet::has_rung. The packet itself is published by its stamp.
        self.doorbell
            .store(self.ring.position() as u16, Ordering::Release);
        self.parking.wake(fencing);
    }
}
