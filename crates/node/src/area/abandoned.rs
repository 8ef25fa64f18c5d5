//! Areas whose members have ended without closing them: those of `MPI_COMM_WORLD`, and of
//! processes that were killed.

use std::io;
use std::os::fd::AsRawFd;

use super::head::AreaHead;
use crate::segment::{AREA_SPAN, JobSegment, PAGE, SegmentError};

impl JobSegment {
    /// Returns the memory of all areas that the former holder of number `leader` has led. All their
    /// members have left them or ended.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn release_areas_of(&self, leader: u32) -> Result<(), SegmentError> {
        let all = self.geometry().areas_of(self.capacity(), leader);
        let mut from = all.start;
        while let Some(data) = self.next_data(from).filter(|&data| data < all.end) {
            let area = all.start + (data - all.start) / AREA_SPAN * AREA_SPAN;
            let head = self.map_part(area, PAGE)?;
            // SAFETY: mapped, page-aligned; zeros are a valid head, which is only accessed through
            // its atomics.
            let taken = unsafe { head.base().cast::<AreaHead>().as_ref() }.taken();
            drop(head);
            self.punch(area, AREA_SPAN).map_err(|source| SegmentError::System {
                call: "fallocate",
                bytes: AREA_SPAN as usize,
                source,
            })?;
            self.area_budget().give_back(taken);
            from = area + AREA_SPAN;
        }
        Ok(())
    }

    /// Offset of the first byte from `from` on that has memory.
    fn next_data(&self, from: u64) -> Option<u64> {
        // SAFETY: plain system call on our descriptor, whose position has no other use.
        let found =
            unsafe { libc::lseek(self.as_fd().as_raw_fd(), from as libc::off_t, libc::SEEK_DATA) };
        match found {
            at if at >= 0 => Some(at as u64),
            _ => {
                debug_assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::ENXIO));
                None
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::segment::JobSpec;
    use crate::topology::CorePlace;

    #[test]
    fn the_memory_of_a_leaders_areas_is_given_back() {
        let spec = JobSpec { spare: 2, ..JobSpec::on_one_node(&[CorePlace::UNKNOWN; 2], 2, &[]) };
        let segment = Arc::new(JobSegment::create(&spec).expect("segment"));
        let context = |leader: u64, id: u64| leader << 40 | id << 1;
        let used = || segment.area_budget().used();
        let empty = segment.allocated_bytes().expect("fstat");
        let open = |context| segment.open_area(context, &[0], 0).expect("memory").expect("room");
        let kept = open(context(0, 3));
        let (one, with_one) = (used(), segment.allocated_bytes().expect("fstat"));
        for id in [0, 64, 1 << 20] {
            std::mem::forget(open(context(1, id)));
        }
        assert_eq!(used(), 4 * one);
        segment.release_areas_of(1).expect("our file");
        assert_eq!((used(), segment.allocated_bytes().expect("fstat")), (one, with_one));
        segment.release_areas_of(1).expect("nothing is there");
        drop(kept);
        assert_eq!((used(), segment.allocated_bytes().expect("fstat")), (0, empty));
    }
}
