//! The way in from one peer.

use mica_node::cells::Marks;
use mica_node::doorbell::Doorbell;
use mica_node::park::ParkingSpot;
use mica_node::ring::Consumer;
use mica_node::segment::JobSegment;

#[derive(Debug)]
pub(super) struct Inlet {
    pub source: u32,
    pub ring: Consumer<'static>,
    /// Marks of the sender's cells.
    pub marks: Marks<'static>,
    /// Where the sender parks when it waits for room or for cells.
    pub parking: &'static ParkingSpot,
    doorbell: &'static Doorbell,
}

impl Inlet {
    pub fn open(segment: &'static JobSegment, source: u32, me: u32) -> Inlet {
        Inlet {
            source,
            ring: Consumer::new(segment.ring(source, me)),
            marks: Marks::new(segment.marks(source)),
            parking: &segment.block(source).parking.0,
            doorbell: &segment.doorbells(me)[source as usize],
        }
    }

    /// True when the sender has reached a position that this end has not.
    #[inline(always)]
    pub fn has_rung(&self) -> bool {
        self.doorbell.has_rung(self.ring.position())
    }
}
