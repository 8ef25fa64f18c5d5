//! References to objects in a job segment that keep the segment mapped.
//!
//! Rings, cells and doorbells are used for as long as a peer is. A channel that borrowed the
//! segment for them could not hold both, so that the segment would have to live as long as the
//! process. [`SegmentRef`] shares the segment instead: the last one to go unmaps it.

use super::JobSegment;
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// A reference to an object in a [`JobSegment`], which stays mapped as long as the reference
/// exists. Costs as much to follow as a plain reference.
pub struct SegmentRef<T: ?Sized> {
    object: NonNull<T>,
    segment: Arc<JobSegment>,
}

impl JobSegment {
    /// A reference to the object that `find` finds in the segment.
    pub fn project<T: ?Sized>(
        self: &Arc<JobSegment>,
        find: impl for<'a> FnOnce(&'a JobSegment) -> &'a T,
    ) -> SegmentRef<T> {
        SegmentRef { object: NonNull::from(find(self)), segment: Arc::clone(self) }
    }
}

impl<T: ?Sized> Deref for SegmentRef<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: `find` works for a borrow of any length, so the object is part of the segment, or
        // lives for ever. The segment's mapping does not move, and it is neither dropped nor
        // borrowed exclusively while `segment` counts a reference.
        unsafe { self.object.as_ref() }
    }
}

impl<T: ?Sized> Clone for SegmentRef<T> {
    fn clone(&self) -> SegmentRef<T> {
        SegmentRef { object: self.object, segment: Arc::clone(&self.segment) }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for SegmentRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

// SAFETY: stands for a `&T` and an `Arc<JobSegment>`, which is Send and Sync.
unsafe impl<T: ?Sized + Sync> Send for SegmentRef<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for SegmentRef<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::JobSpec;
    use crate::sync::Ordering;
    use crate::topology::CorePlace;
    use std::sync::Weak;

    #[test]
    fn keeps_the_segment_mapped_until_the_last_reference_goes() {
        let spec = JobSpec::on_one_node(&[CorePlace::UNKNOWN; 2], 2, &[]);
        let segment = Arc::new(JobSegment::create(&spec).expect("segment"));
        let alive: Weak<JobSegment> = Arc::downgrade(&segment);
        let marks = segment.project(|segment| segment.marks(1));
        let copy = marks.clone();
        drop((segment, marks));
        copy[0].store(7, Ordering::Relaxed);
        assert_eq!(copy[0].load(Ordering::Relaxed), 7);
        assert!(alive.upgrade().is_some());
        drop(copy);
        assert!(alive.upgrade().is_none());
    }
}
