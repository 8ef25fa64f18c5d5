//! The segments that were added to this rank's job ([`crate::Engine::add_segment`]).

use std::ops::Range;
use std::sync::Arc;

use mica_node::park::{Fencing, ParkingSpot};
use mica_node::segment::{JobSegment, SegmentRef};

/// The segments of a rank besides its job's own, in the order of their transports.
#[derive(Debug, Default)]
pub(crate) struct AddedSegments {
    all: Vec<AddedSegment>,
    /// Where this rank waits for their peers, the same order. Shared with the threads that sleep;
    /// replaced at each change.
    spots: Arc<[AddedSpot]>,
}

/// A segment that was added.
#[derive(Debug)]
pub(crate) struct AddedSegment {
    pub segment: Arc<JobSegment>,
    /// Number of this rank in it.
    pub me: u32,
    /// The numbers of its ranks in this engine.
    pub peers: Range<u32>,
}

/// Where this rank is woken by the peers of a segment.
#[derive(Debug, Clone)]
pub(crate) struct AddedSpot {
    pub spot: SegmentRef<ParkingSpot>,
    /// Who orders stores before wake-ups, there.
    pub fencing: Fencing,
}

impl AddedSegments {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn spots(&self) -> Arc<[AddedSpot]> {
        Arc::clone(&self.spots)
    }

    /// Whether `spots` are still where this rank is woken.
    pub fn has_spots(&self, spots: &Arc<[AddedSpot]>) -> bool {
        Arc::ptr_eq(&self.spots, spots)
    }

    /// The first peer number that is not in use, in a job of `job_size` ranks.
    pub fn next_peer(&self, job_size: u32) -> u32 {
        let ends = self.all.iter().map(|added| added.peers.end);
        ends.fold(job_size, u32::max)
    }

    pub fn add(&mut self, added: AddedSegment) {
        self.all.push(added);
        self.renew_spots();
    }

    /// The index of the segment whose ranks are `peers`.
    pub fn position(&self, peers: &Range<u32>) -> Option<usize> {
        self.all.iter().position(|added| added.peers == *peers)
    }

    pub fn remove(&mut self, at: usize) -> AddedSegment {
        let added = self.all.remove(at);
        self.renew_spots();
        added
    }

    fn renew_spots(&mut self) {
        let spot = |added: &AddedSegment| AddedSpot {
            spot: (added.segment).project(|segment| &segment.block(added.me).parking.0),
            fencing: added.segment.fencing(),
        };
        self.spots = self.all.iter().map(spot).collect();
    }
}
