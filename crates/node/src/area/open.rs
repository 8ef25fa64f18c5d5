//! Opening an area and closing it.

use super::RawArea;
use super::layout::{AreaLayout, MEMBER_BYTES};
use super::mapping::AreaMapping;
use crate::page::page_size;
use crate::segment::{JobSegment, PAGE, SegmentError};
use crate::sync::{AtomicU32, Ordering};
use std::ptr::NonNull;
use std::sync::Arc;

impl JobSegment {
    /// Opens the area of the communicator with this context for its member number `me`. `members`
    /// are the job ranks of the communicator's members on this node, in the communicator's order.
    /// To be called once by each of them, when it first needs the area. All members get an area, or
    /// all get `None`: where the job has no areas (`MICA_COLL_AREA`), the members are too many for
    /// its bound, or the node's [budget](JobSegment::area_budget) is used up.
    ///
    /// # Errors
    /// When there is no memory for the head, or no address space, with the number of bytes.
    ///
    /// # Panics
    /// If there is no such member, or a member is not on this node.
    pub(crate) fn open_area(
        self: &Arc<JobSegment>,
        context: u64,
        members: &[u32],
        me: usize,
    ) -> Result<Option<RawArea>, SegmentError> {
        assert!(me < members.len(), "no member {me} among {}", members.len());
        let budget = self.area_budget();
        let offset = self.geometry().area(self.capacity(), context);
        let layout = AreaLayout::new(members.len(), budget.bound());
        let (Some(offset), Some(layout), true) = (offset, layout, self.has_slots()) else {
            return Ok(None);
        };
        self.allocate(offset as usize, PAGE)?;
        let mapping = AreaMapping::new(self, offset, layout.bytes())?;
        let granted = mapping.head().is_granted(|| {
            let taken = budget.take(layout.bytes());
            let lines = offset as usize + layout.lines(0);
            if taken && self.allocate(lines, layout.lines_bytes()).is_err() {
                budget.give_back(layout.bytes());
                return false;
            }
            if taken {
                mapping.head().set_taken(layout.bytes());
            }
            taken
        });
        if !granted {
            if mapping.head().leave(members.len()) {
                // If the kernel refuses, the page stays allocated until the job ends.
                let _ = self.punch(offset, page_size() as u64);
            }
            return Ok(None);
        }
        let area = RawArea {
            mapping,
            layout,
            me,
            fencing: self.wake_fencing(),
            members: members.into(),
            spots: (members.iter()).map(|&m| NonNull::from(&self.block(m).parking.0)).collect(),
            allocated: members.iter().map(|_| AtomicU32::new(0)).collect(),
            segment: Arc::clone(self),
            offset,
        };
        // The member that first writes a page determines where it is placed.
        area.mapping.populate(area.layout.lines(me), MEMBER_BYTES);
        Ok(Some(area))
    }
}

impl RawArea {
    /// Allocates the cell of a member in an operation slot, and maps it.
    #[cold]
    #[inline(never)]
    pub(super) fn allocate_cell(&self, slot: usize, member: usize) -> Result<(), SegmentError> {
        self.check(slot, member);
        let (cell, bytes) = (self.layout.cell(slot, member), self.layout.cell_bytes());
        self.segment.allocate(self.offset as usize + cell, bytes)?;
        self.mapping.populate(cell, bytes);
        self.allocated[member].fetch_or(1 << slot, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for RawArea {
    fn drop(&mut self) {
        if self.head().leave(self.members.len()) {
            let bytes = self.layout.bytes();
            // If the kernel refuses, the memory stays allocated and counted until the job ends.
            if self.segment.punch(self.offset, bytes as u64).is_ok() {
                self.segment.area_budget().give_back(bytes);
            }
        }
    }
}
