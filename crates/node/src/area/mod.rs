//! `RawArea`: shared memory of the members of one communicator that are on one node, for
//! collectives.
//!
//! An area has [`TURNS`] turns: operation number `s` on the communicator uses turn `s % TURNS`, so
//! that a member may go on to the next operation while others are still reading what it wrote for
//! the last. For each turn each member has a [`FlagLine`], with a stamp, a word and a few bytes of
//! payload, and a *cell* of some KiB; for all turns it has one [`FinishedMark`].
//!
//! | who | writes |
//! |---|---|
//! | a line's member | its word, data and cell; then its stamp (Release), which publishes them |
//! | a mark's member | the number of the operation (Release) after its last read of what others wrote for it |
//! | the member that opens an area first | the decision whether there is memory for it |
//! | the member that closes an area last | gives the memory back |
//!
//! Whoever has seen a stamp (Acquire) sees what its owner wrote before. The owner writes to the
//! word, the data or the cell again only in a later phase of the same operation in which nobody
//! reads them any more, or in a later operation of the same turn when all members have finished the
//! one that used it before: when their marks say so (Acquire), or when they could not have
//! published what they have without (a stamp of a later operation, after they finished the
//! earlier).
//!
//! Areas lie in the job's file beyond the slots, at an offset that follows from the communicator's
//! context ([`Geometry::area`](crate::segment::Geometry::area)): nobody has to be told. Memory
//! stands behind an area when it is opened, within the node's [`Budget`]; where that does not
//! suffice all members are refused alike, and do without.

mod budget;
mod completion;
mod head;
mod layout;
mod line;
mod open;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

pub use budget::Budget;
pub use completion::Completions;
pub use line::{FinishedMark, FlagLine, INLINE, Inline};

use crate::park::{Fencing, ParkingSpot};
use crate::segment::JobSegment;
use head::{AreaHead, Awaited};
use layout::AreaLayout;
use open::AreaMapping;
use std::ptr::NonNull;

/// Operations of one communicator whose lines and cells are apart.
pub const TURNS: usize = 4;

/// Fewest bytes of a cell.
pub const CELL_MIN: usize = 256;

/// Most bytes of a cell: several fit the cache of a core.
pub const CELL_MAX: usize = 32 * 1024;

/// Bytes of a cell in the area of so many members, whose cells have `bound` bytes together at most.
/// `None` if that is too little for each to have one.
pub fn cell_bytes(members: usize, bound: u64) -> Option<usize> {
    AreaLayout::new(members, bound).map(|layout| layout.cell_bytes())
}

/// One member's view of an area, made by [`JobSegment::open_area`].
#[derive(Debug)]
pub struct RawArea {
    mapping: AreaMapping,
    layout: AreaLayout,
    me: usize,
    fencing: Fencing,
    members: Box<[u32]>,
    /// Where each member waits.
    spots: Box<[&'static ParkingSpot]>,
    segment: &'static JobSegment,
    /// In the file.
    offset: u64,
}

// SAFETY: the mapping is shared memory that is only accessed through atomics, or under the protocol
// above; nothing is bound to a thread.
unsafe impl Send for RawArea {}
// SAFETY: as above.
unsafe impl Sync for RawArea {}

impl RawArea {
    /// The members' ranks in the job, in the communicator's order: a member's number is its place
    /// here.
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

    /// Bytes of the whole area, as the [`Budget`] counts them.
    pub fn bytes(&self) -> usize {
        self.layout.bytes()
    }

    /// The line of a member in a turn.
    ///
    /// # Panics
    /// If there is no such turn or member.
    #[inline(always)]
    pub fn line(&self, turn: usize, member: usize) -> &FlagLine {
        self.check(turn, member);
        // SAFETY: inside the mapping, of which head and lines are allocated; aligned; zeroed memory
        // is a valid line, and all access goes through its atomics and its cell.
        unsafe { self.at(self.layout.line(turn, member)).cast().as_ref() }
    }

    /// The mark of a member.
    ///
    /// # Panics
    /// If there is no such member.
    #[inline(always)]
    pub fn mark(&self, member: usize) -> &FinishedMark {
        self.check(0, member);
        // SAFETY: as for the lines.
        unsafe { self.at(self.layout.mark(member)).cast().as_ref() }
    }

    /// Address of the cell of a member in a turn. Another member's has memory behind it once that
    /// member has published something.
    ///
    /// # Panics
    /// If there is no such turn or member.
    #[inline(always)]
    pub fn cell(&self, turn: usize, member: usize) -> NonNull<u8> {
        self.check(turn, member);
        self.at(self.layout.cell(turn, member))
    }

    /// Has this member's line, and `bytes` bytes of its cell, fetched for writing ahead of the
    /// operation in this turn.
    ///
    /// # Panics
    /// If there is no such turn.
    #[inline(always)]
    pub fn fetch(&self, turn: usize, bytes: usize) {
        let line = std::ptr::from_ref(self.line(turn, self.me)).cast();
        crate::hint::fetch_for_writing(line, size_of::<FlagLine>() / 2);
        crate::hint::fetch_for_writing(self.cell(turn, self.me).as_ptr(), bytes);
    }

    /// Notes that this member waits for others to finish `operation`. It looks at their marks after
    /// this, and once more when it has announced that it parks.
    pub fn await_finish(&self, operation: u64) {
        self.awaited().raise(operation);
    }

    /// Whether a member may wait for what this member has just marked as finished, where `before`
    /// was its mark until then: it is to be woken in that case.
    #[inline]
    pub fn is_awaited(&self, before: u64) -> bool {
        self.awaited().is_after(before, self.fencing)
    }

    fn awaited(&self) -> &Awaited {
        // SAFETY: as for the lines: the second line of the head's page, which nothing else uses.
        unsafe { self.at(size_of::<AreaHead>()).cast().as_ref() }
    }

    /// Wakes a member if it sleeps, after something that it may wait for has been published.
    #[inline]
    pub fn wake(&self, member: usize) {
        self.spots[member].wake(self.fencing);
    }

    /// Wakes those of `members` who sleep, after something that they may wait for has been
    /// published: at the price of one fence.
    #[inline]
    pub fn wake_all(&self, members: impl IntoIterator<Item = usize>) {
        self.fencing.before_waking();
        for member in members {
            self.spots[member].wake_fenced();
        }
    }

    #[inline(always)]
    fn check(&self, turn: usize, member: usize) {
        if turn >= TURNS || member >= self.members.len() {
            no_such(turn, member);
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

#[cold]
fn no_such(turn: usize, member: usize) -> ! {
    panic!("an area has no turn {turn} of member {member}")
}
