//! [`Area`]: memory that the members of one communicator on one node share, for collectives.
//!
//! An area has [`OPERATION_SLOTS`] operation slots: operation number `s` on the communicator uses
//! slot `s % OPERATION_SLOTS`, so that a member may begin the next operation while others still
//! read what it wrote for the last. In each slot, each member has a [`FlagLine`], with a stamp, an
//! operation header and a few bytes of payload, and a *cell* of some KiB. Each member has one
//! [`FinishedNumber`] for all slots.
//!
//! | who | writes |
//! |---|---|
//! | a line's member | its operation header, data and cell; then its stamp (Release), for all |
//! | a finished number's member | it (Release), after its last read of others' data |
//! | the member that opens an area first | the decision whether there is memory for it |
//! | the member that closes an area last | gives the memory back |
//!
//! A member that has seen a stamp (Acquire) sees what the stamp's owner wrote before it. The owner
//! writes the operation header, the data or the cell again only in one of two cases. Either in a
//! later phase of the same operation in which no member reads them any more; or in a later
//! operation of the same slot, when all members have finished the operation that used it before. It
//! knows this from their finished numbers (Acquire), or from a stamp of a later operation, which
//! they publish only after they have finished the earlier one.
//!
//! Areas lie in the job's file beyond the slots, at an offset that follows from the communicator's
//! context ([`Geometry::area`](crate::segment::Geometry::area)), so that no message is needed to
//! agree on it. The node's [budget](crate::segment::AreaBudget) is asked for all of it when an area
//! is opened. If that does not suffice, all members are refused alike and work without an area.
//! Head and lines are allocated then, a cell before a member first
//! [writes](RawArea::allocate_before_writing) to it: many communicators never need one, and a
//! pair's cells take 0.3 ms to allocate and give back, several times as long as the rest.

mod abandoned;
mod access;
mod completion;
mod head;
mod layout;
mod line;
mod mapping;
mod open;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

pub use access::{Area, AreaSlot};
pub use completion::Completions;
pub use layout::{CELL_MAX, CELL_MIN, OPERATION_SLOTS, cell_bytes};
pub use line::{FinishedNumber, FlagLine, INLINE, Inline};

use crate::park::{Fencing, ParkingSpot};
use crate::segment::{JobSegment, SegmentError};
use crate::sync::{AtomicU32, Ordering};
use head::{AreaHead, Awaited};
use layout::{AreaLayout, MEMBER_BYTES};
use mapping::AreaMapping;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

/// One member's mapping of an area: what an [`Area`] and all regions made from it share.
#[derive(Debug)]
pub struct RawArea {
    mapping: AreaMapping,
    layout: AreaLayout,
    me: usize,
    fencing: Fencing,
    members: Box<[u32]>,
    /// The parking spot of each member, in `segment`.
    spots: Box<[NonNull<ParkingSpot>]>,
    segment: Arc<JobSegment>,
    /// The cells that this process knows to be allocated: those of each member, a bit for each
    /// operation slot.
    allocated: Box<[AtomicU32]>,
    /// Offset of the area in the file.
    offset: u64,
}

// SAFETY: mapping and spots are shared memory that is only accessed through atomics, or under the
// protocol above; nothing is bound to a thread.
unsafe impl Send for RawArea {}
// SAFETY: as above.
unsafe impl Sync for RawArea {}

impl RawArea {
    /// The ranks of the members in the job, in the communicator's order: a member's number is its
    /// index here.
    #[inline]
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// This process's number among the members.
    #[inline]
    pub fn me(&self) -> usize {
        self.me
    }

    /// Bytes of a cell: a power of two.
    #[inline]
    pub fn cell_bytes(&self) -> usize {
        self.layout.cell_bytes()
    }

    /// Bytes of the whole area, as the [budget](crate::segment::AreaBudget) counts them.
    pub fn bytes(&self) -> usize {
        self.layout.bytes()
    }

    /// The line of a member in an operation slot.
    ///
    /// # Panics
    /// If there is no such slot or member.
    #[inline(always)]
    pub(crate) fn flag_line(&self, slot: usize, member: usize) -> &FlagLine {
        self.check(slot, member);
        // SAFETY: inside the mapping, of which head and lines are allocated; aligned; zeroed memory
        // is a valid line, and all access goes through its atomics and its cell.
        unsafe { self.at(self.layout.flag_line(slot, member)).cast().as_ref() }
    }

    /// All lines of an operation slot.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline(always)]
    pub(crate) fn slot_lines(&self, slot: usize) -> SlotLines<'_> {
        self.check(slot, 0);
        let first = self.at(self.layout.flag_line(slot, 0)).cast();
        SlotLines { first, members: self.members.len(), area: PhantomData }
    }

    /// The finished number of a member.
    ///
    /// # Panics
    /// If there is no such member.
    #[inline(always)]
    pub(crate) fn finished_number(&self, member: usize) -> &FinishedNumber {
        self.check(0, member);
        // SAFETY: as for the lines.
        unsafe { self.at(self.layout.finished_number(member)).cast().as_ref() }
    }

    /// Address of the cell of a member in an operation slot: memory, once a member has
    /// [allocated](Self::allocate_before_writing) it.
    ///
    /// # Panics
    /// If there is no such slot or member.
    #[inline(always)]
    pub(crate) fn cell(&self, slot: usize, member: usize) -> NonNull<u8> {
        self.check(slot, member);
        self.at(self.layout.cell(slot, member))
    }

    /// Allocates the cell of a member in an operation slot, unless it is known to be. To be called
    /// before it is written, by who writes it, be it the member's own or another's.
    ///
    /// # Errors
    /// When there is no memory, with the number of bytes.
    ///
    /// # Panics
    /// If there is no such slot or member.
    #[inline(always)]
    pub fn allocate_before_writing(&self, slot: usize, member: usize) -> Result<(), SegmentError> {
        // Relaxed: only the kernel is asked again by a thread that does not know yet.
        match self.allocated[member].load(Ordering::Relaxed) & 1 << slot {
            0 => self.allocate_cell(slot, member),
            _ => Ok(()),
        }
    }

    /// Prefetches this member's line and `bytes` bytes of its cell in this operation slot for
    /// writing, ahead of the operation.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline(always)]
    pub fn fetch(&self, slot: usize, bytes: usize) {
        let line = std::ptr::from_ref(self.flag_line(slot, self.me)).cast();
        crate::hint::fetch_for_writing(line, size_of::<FlagLine>() / 2);
        crate::hint::fetch_for_writing(self.cell(slot, self.me).as_ptr(), bytes);
    }

    /// Notes that this member waits for others to finish `operation`. The member must read their
    /// finished numbers after this call, and once more after it has announced that it parks.
    pub fn await_finish(&self, operation: u64) {
        self.awaited().raise(operation);
    }

    /// Whether a member may wait for an operation that this member has just marked as finished,
    /// where `before` is the previous value of its finished number. If so, that member must be
    /// woken.
    #[inline]
    pub fn is_awaited(&self, before: u64) -> bool {
        self.awaited().is_after(before, self.fencing)
    }

    fn awaited(&self) -> &Awaited {
        // SAFETY: as for the lines: the second line of the head's page, which nothing else uses.
        unsafe { self.at(size_of::<AreaHead>()).cast().as_ref() }
    }

    /// Wakes a member if it sleeps. To be called after publishing something that it may wait for.
    #[inline]
    pub fn wake(&self, member: usize) {
        self.spot(member).wake(self.fencing);
    }

    /// Wakes those of `members` that sleep. To be called after publishing something that they may
    /// wait for. Costs one fence for all.
    #[inline(always)]
    pub fn wake_all(&self, members: impl IntoIterator<Item = usize>) {
        self.fencing.before_waking();
        for member in members {
            self.spot(member).wake_fenced();
        }
    }

    #[inline(always)]
    fn spot(&self, member: usize) -> &ParkingSpot {
        // SAFETY: it lies in the segment, which `segment` keeps mapped; it is all atomics.
        unsafe { self.spots[member].as_ref() }
    }

    #[inline(always)]
    fn check(&self, slot: usize, member: usize) {
        if slot >= OPERATION_SLOTS || member >= self.members.len() {
            no_such(slot, member);
        }
    }

    #[inline(always)]
    fn at(&self, offset: usize) -> NonNull<u8> {
        self.mapping.at(offset)
    }

    fn head(&self) -> &AreaHead {
        self.mapping.head()
    }
}

/// The members' lines in one operation slot, for who needs them again and again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotLines<'a> {
    /// That of the first member.
    first: NonNull<FlagLine>,
    members: usize,
    area: PhantomData<&'a RawArea>,
}

impl<'a> SlotLines<'a> {
    /// The line of a member.
    ///
    /// # Panics
    /// If there is no such member.
    #[inline(always)]
    pub(crate) fn of(self, member: usize) -> &'a FlagLine {
        if member >= self.members {
            no_such(0, member);
        }
        // SAFETY: as for `RawArea::flag_line`: a member's lines lie `MEMBER_BYTES` after those of
        // the member before it.
        unsafe { self.first.byte_add(member * MEMBER_BYTES).as_ref() }
    }
}

#[cold]
fn no_such(slot: usize, member: usize) -> ! {
    panic!("an area has no slot {slot} of member {member}")
}
