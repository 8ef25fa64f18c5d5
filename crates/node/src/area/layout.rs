//! The layout of an area. All members compute the same one from the number of members and the
//! bound.

use super::line::{FinishedNumber, FlagLine};
use crate::segment::{AREA_SPAN, PAGE};

/// Operation slots of an area: operations of one communicator that have separate lines and cells.
pub const OPERATION_SLOTS: usize = 4;

/// Minimum of bytes of a cell.
pub const CELL_MIN: usize = 256;

/// Maximum of bytes of a cell: several fit the cache of a core.
pub const CELL_MAX: usize = 32 * 1024;

/// Bytes of a cell in an area of `members` members, whose cells have `bound` bytes together at
/// most. `None` if a cell would be smaller than [`CELL_MIN`].
pub fn cell_bytes(members: usize, bound: u64) -> Option<usize> {
    AreaLayout::new(members, bound).map(|layout| layout.cell_bytes())
}

/// Bytes of a member's lines, one for each operation slot, and its finished number.
pub(super) const MEMBER_BYTES: usize =
    OPERATION_SLOTS * size_of::<FlagLine>() + size_of::<FinishedNumber>();

/// Sizes and offsets of an area: the page of the head, the lines and finished numbers of all
/// members, the cells of all members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AreaLayout {
    members: usize,
    /// Offset of the first cell.
    cells: usize,
    /// A cell has 2 to the power of this bytes, so that no two cells share a line, or a page if a
    /// cell is larger than one.
    cell_shift: u32,
}

impl AreaLayout {
    /// The layout for `members` members whose cells have `bound` bytes together at most. `None` if
    /// a cell would be too small.
    pub fn new(members: usize, bound: u64) -> Option<AreaLayout> {
        let lines = (members.checked_mul(MEMBER_BYTES)?).checked_next_multiple_of(PAGE)?;
        let span = (AREA_SPAN as usize).checked_sub(PAGE + lines)?;
        let cells = usize::try_from(bound).unwrap_or(usize::MAX).min(span);
        let each = (cells / OPERATION_SLOTS).checked_div(members)?.min(CELL_MAX);
        (each >= CELL_MIN).then(|| AreaLayout {
            members,
            cells: PAGE + lines,
            cell_shift: each.ilog2(),
        })
    }

    #[inline(always)]
    pub fn cell_bytes(&self) -> usize {
        1 << self.cell_shift
    }

    /// Offset of a line.
    #[inline(always)]
    pub fn flag_line(&self, slot: usize, member: usize) -> usize {
        self.lines(member) + slot * size_of::<FlagLine>()
    }

    /// Offset of a finished number.
    #[inline(always)]
    pub fn finished_number(&self, member: usize) -> usize {
        self.flag_line(OPERATION_SLOTS, member)
    }

    /// Offset of a member's lines and finished number. They are contiguous, so that a member's
    /// stores touch few pages.
    #[inline(always)]
    pub fn lines(&self, member: usize) -> usize {
        PAGE + member * MEMBER_BYTES
    }

    /// Bytes of the lines and finished numbers of all members, in whole pages.
    pub fn lines_bytes(&self) -> usize {
        self.cells - PAGE
    }

    /// Offset of a cell.
    #[inline(always)]
    pub fn cell(&self, slot: usize, member: usize) -> usize {
        self.cells + ((member * OPERATION_SLOTS + slot) << self.cell_shift)
    }

    /// Bytes of the whole area.
    pub fn bytes(&self) -> usize {
        self.cell(0, self.members).next_multiple_of(PAGE)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap_and_stay_in_the_span() {
        for members in [1, 2, 3, 8, 31, 128, 1000, 8192] {
            for bound in [64 << 10, 4 << 20, u64::MAX] {
                let Some(l) = AreaLayout::new(members, bound) else {
                    assert!(bound / (OPERATION_SLOTS as u64 * members as u64) < CELL_MIN as u64);
                    continue;
                };
                assert!((CELL_MIN..=CELL_MAX).contains(&l.cell_bytes()));
                assert!((l.cell_bytes() * OPERATION_SLOTS * members) as u64 <= bound);
                let last = members - 1;
                assert!(l.flag_line(0, 0) >= PAGE && l.flag_line(0, 0).is_multiple_of(128));
                assert_eq!(
                    l.finished_number(0),
                    l.flag_line(OPERATION_SLOTS - 1, 0) + size_of::<FlagLine>()
                );
                assert!(l.finished_number(0) + size_of::<FinishedNumber>() <= l.flag_line(0, 1));
                assert!(l.finished_number(last) + size_of::<FinishedNumber>() <= l.cell(0, 0));
                assert!(l.cell(0, 0).is_multiple_of(PAGE));
                assert_eq!(l.cell(OPERATION_SLOTS - 1, 0) + l.cell_bytes(), l.cell(0, 1));
                assert!(l.cell(OPERATION_SLOTS - 1, last) + l.cell_bytes() <= l.bytes());
                assert!(l.bytes() as u64 <= AREA_SPAN);
            }
        }
    }

    /// The sizes that docs/design/shared-memory.md states.
    #[test]
    fn the_default_bound_gives_these_sizes() {
        const KIB: usize = 1024;
        for (members, cell, bytes) in [
            (2, 32 * KIB, 264 * KIB),
            (8, 32 * KIB, 1036 * KIB),
            (32, 32 * KIB, 4120 * KIB),
            (64, 16 * KIB, 4140 * KIB),
            (128, 8 * KIB, 4180 * KIB),
        ] {
            let l = AreaLayout::new(members, 4 << 20).expect("fits");
            assert_eq!((l.cell_bytes(), l.bytes()), (cell, bytes), "{members}");
        }
        assert!(
            AreaLayout::new(4096, 4 << 20).is_some() && AreaLayout::new(4097, 4 << 20).is_none()
        );
    }

    #[test]
    fn what_is_too_small_is_refused() {
        assert_eq!(AreaLayout::new(2, 0), None);
        let least = (CELL_MIN * OPERATION_SLOTS * 2) as u64;
        assert_eq!(AreaLayout::new(2, least - 1), None);
        assert_eq!(AreaLayout::new(2, least).map(|l| l.cell_bytes()), Some(CELL_MIN));
        assert_eq!(AreaLayout::new(0, 4 << 20), None);
        assert_eq!(AreaLayout::new(usize::MAX, u64::MAX), None);
        assert_eq!(AreaLayout::new(2, 4 << 20).map(|l| l.cell_bytes()), Some(CELL_MAX));
    }
}
