//! The layout of a job segment. All processes compute the same one from the number of ranks, the
//! pool's size and the design.

use super::late::LATE_BYTES;
use super::services::table::SERVICES_TABLE_BYTES;
use super::window_space::WINDOW_ZONE;
use super::worlds::table::WORLD_TABLE_BYTES;
use crate::cooperative::CooperativeCopy;
use crate::fifo::FifoHead;
use crate::ring::{LINE, RingStorage};
use crate::tunables::RANKS_WITH_SLOTS;

/// File space of one slot: far more than a buffer ever grows to, so that a buffer that its owner
/// enlarges in place (`mremap`) stays in its slot.
pub const SLOT_SPAN: u64 = 1 << 40;

/// Slots of a rank.
pub const SLOTS: u32 = 256;

/// File space of the area of one communicator: the maximum size of an area.
pub const AREA_SPAN: u64 = 1 << 24;

/// Number of areas that the file has space for.
const AREAS: u64 = 1 << 38;

/// Bits of a communicator's context below its leader's rank.
const CONTEXT_LEADER_SHIFT: u32 = 40;

/// The ids that a leader assigns are below this; higher bits mark hidden communicators, which have
/// no areas.
const CONTEXT_IDS: u64 = 1 << 37;

/// The unit of the layout. No page of memory is smaller ([`page_size`](crate::page::page_size)).
pub const PAGE: usize = 4096;

/// Bytes that a rank's control data may take: with them, the doorbells and marks of a job of up to
/// 250 ranks are in the same page.
pub(super) const BLOCK_BYTES: usize = 3008;

/// Maximum of bytes of a rank's text in a [hang report](super::JobSegment::answer).
pub const REPORT_BYTES: usize = 2 * PAGE;

/// Maximum of messages of a rank that are copied cooperatively at a time; a page of
/// [`CooperativeCopy`]s.
pub const SPLITS: usize = PAGE / size_of::<CooperativeCopy>();

/// Sizes and offsets of a job segment, in bytes from the segment's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Geometry {
    /// Ranks on the node that there is room for.
    pub ranks: u32,
    /// Cells of each rank's pool.
    pub cells: u32,
    /// Bytes of a cell.
    pub cell_bytes: u32,
    /// Bytes of a FIFO's buffer under the basic design; 0 under the advanced one.
    pub fifo_bytes: u32,
    /// 1: only pairs of ranks with the same parity have FIFOs; 0: all pairs have them, if any.
    mixed: u32,
}

const _: () = assert!(size_of::<Geometry>() == 20);

impl Geometry {
    /// The geometry for `ranks` ranks with `cells` cells of `cell_bytes` bytes each. `None` if it
    /// exceeds the address space or the limits of the format (65,535 cells; cells a multiple of 64
    /// bytes).
    pub fn new(ranks: u32, cells: u32, cell_bytes: u32) -> Option<Geometry> {
        let g = Geometry { ranks, cells, cell_bytes, fifo_bytes: 0, mixed: 0 };
        (ranks > 0
            && (1..=65_535).contains(&cells)
            && cell_bytes > 0
            && cell_bytes.is_multiple_of(64)
            && g.fits()?)
        .then_some(g)
    }

    /// The geometry for the basic design, with FIFOs of `fifo_bytes` bytes instead of the rings.
    /// `None` if this exceeds the address space or the limits of the format (4 KiB to 1 GiB, a
    /// multiple of 64 bytes).
    pub fn with_fifos(self, fifo_bytes: u32) -> Option<Geometry> {
        let g = Geometry { fifo_bytes, ..self };
        ((4096..=1 << 30).contains(&fifo_bytes)
            && fifo_bytes.is_multiple_of(LINE as u32)
            && g.fits()?)
        .then_some(g)
    }

    /// The geometry for mixed designs: only pairs of ranks with the same parity have FIFOs instead
    /// of rings. `None` if there are no FIFOs, or if this exceeds the address space.
    pub fn mixed(self) -> Option<Geometry> {
        let g = Geometry { mixed: 1, ..self };
        (g.has_fifos() && g.fits()?).then_some(g)
    }

    /// The geometry that these five words of a header are, which may be anything.
    #[cfg(feature = "launcher")]
    pub(super) fn from_words(words: [u32; 5]) -> Option<Geometry> {
        let [ranks, cells, cell_bytes, fifo_bytes, mixed] = words;
        let geometry = Geometry::new(ranks, cells, cell_bytes)?;
        match (fifo_bytes, mixed) {
            (0, _) => Some(geometry),
            (_, 0) => geometry.with_fifos(fifo_bytes),
            _ => geometry.with_fifos(fifo_bytes)?.mixed(),
        }
    }

    fn fits(&self) -> Option<bool> {
        let ranks = u64::from(self.ranks);
        let total = (self.pair_stride() as u64)
            .checked_mul(ranks)?
            .checked_mul(ranks)?
            .checked_add(u64::from(self.cells) * u64::from(self.cell_bytes) * ranks)?;
        Some(total < 1 << 46)
    }

    /// True if any pairs have FIFOs: all pairs under the basic design, some where designs are
    /// mixed.
    pub fn has_fifos(&self) -> bool {
        self.fifo_bytes != 0
    }

    /// True where some pairs have FIFOs and others have rings.
    pub fn is_mixed(&self) -> bool {
        self.mixed != 0
    }

    /// Whether messages from `from` to `to` go through a FIFO (the basic design), or a ring and
    /// cells (the advanced one).
    pub fn is_fifo(&self, from: u32, to: u32) -> bool {
        self.has_fifos() && (!self.is_mixed() || (from ^ to) & 1 == 0)
    }

    /// Offset of the control data of rank `rank`.
    pub fn block(&self, rank: u32) -> usize {
        PAGE + rank as usize * self.block_stride()
    }

    /// Offset of the doorbells within a rank's block.
    pub fn doorbells_in_block(&self) -> usize {
        BLOCK_BYTES
    }

    /// Offset of the new-sender bits within a rank's block.
    pub fn new_senders_in_block(&self) -> usize {
        (self.doorbells_in_block() + self.ranks as usize * 2).next_multiple_of(64)
    }

    /// Words of new-sender bits in a rank's block, one bit for each sender.
    pub fn new_sender_words(&self) -> usize {
        (self.ranks as usize).div_ceil(64)
    }

    /// Offset of the cell marks within a rank's block.
    pub fn marks_in_block(&self) -> usize {
        (self.new_senders_in_block() + self.new_sender_words() * 8).next_multiple_of(64)
    }

    /// Bytes from the control data of a rank to those of the next.
    pub(super) fn block_stride(&self) -> usize {
        (self.marks_in_block() + self.cells as usize * 4).next_multiple_of(PAGE)
    }

    /// Bytes of header and blocks.
    pub fn control_bytes(&self) -> usize {
        self.block(self.ranks)
    }

    /// Offset of the bytes of cell `cell` of rank `rank`.
    pub fn cell(&self, rank: u32, cell: u32) -> usize {
        let pool = (self.cells as usize * self.cell_bytes as usize).next_multiple_of(PAGE);
        self.control_bytes() + rank as usize * pool + cell as usize * self.cell_bytes as usize
    }

    /// Offset of the [`SPLITS`] cooperative copies of rank `rank`.
    pub fn splits(&self, rank: u32) -> usize {
        self.cell(self.ranks, 0) + rank as usize * PAGE
    }

    /// Offset of the ring, or the FIFO, from `from` to `to`.
    pub fn pair(&self, from: u32, to: u32) -> usize {
        let pair = from as usize * self.ranks as usize + to as usize;
        self.splits(self.ranks) + pair * self.pair_stride()
    }

    /// Bytes of a FIFO including its head.
    pub fn fifo_area(&self) -> usize {
        size_of::<FifoHead>() + self.fifo_bytes as usize
    }

    /// Bytes of a pair's ring, or of its FIFO; of the larger one where the job has both.
    pub fn pair_bytes(&self) -> usize {
        let ring = size_of::<RingStorage>();
        match (self.has_fifos(), self.is_mixed()) {
            (false, _) => ring,
            (true, false) => self.fifo_area(),
            (true, true) => self.fifo_area().max(ring),
        }
    }

    fn pair_stride(&self) -> usize {
        self.pair_bytes().next_multiple_of(PAGE)
    }

    /// Offset of the late-arrival record of rank `rank`.
    pub fn late(&self, rank: u32) -> usize {
        self.pair(self.ranks, 0) + rank as usize * LATE_BYTES.next_multiple_of(PAGE)
    }

    /// Offset of the text in which rank `rank` answers the launcher's question what it waits for.
    pub fn report(&self, rank: u32) -> usize {
        self.late(self.ranks) + rank as usize * REPORT_BYTES.next_multiple_of(PAGE)
    }

    /// Offset of the table of worlds.
    pub fn worlds(&self) -> usize {
        self.report(self.ranks)
    }

    /// Offset of the table of services.
    pub fn services(&self) -> usize {
        self.worlds() + WORLD_TABLE_BYTES
    }

    /// Offset of slot `slot` of rank `rank`: file space beyond all that is mapped as the segment,
    /// for buffers whose pages a rank migrates to the file.
    pub fn slot(&self, rank: u32, slot: u32) -> u64 {
        let first = (self.total_bytes() as u64).next_multiple_of(SLOT_SPAN);
        first + (u64::from(rank) * u64::from(SLOTS) + u64::from(slot)) * SLOT_SPAN
    }

    /// Offset of the area of the communicator with this context, where ranks are below `capacity`:
    /// file space beyond all slots, [`AREA_SPAN`] bytes for each. `None` for communicators without
    /// such space: the later ones of a leader in a large job, and hidden ones.
    pub fn area(&self, capacity: u32, context: u64) -> Option<u64> {
        let leader = context >> CONTEXT_LEADER_SHIFT;
        let id = (context & ((1 << CONTEXT_LEADER_SHIFT) - 1)) >> 1;
        let ids = areas_each(capacity);
        (leader < u64::from(capacity) && id < ids)
            .then(|| self.first_area() + (leader * ids + id) * AREA_SPAN)
    }

    /// File space of all areas of the communicators that a rank leads, where ranks are below
    /// `capacity`.
    pub fn areas_of(&self, capacity: u32, leader: u32) -> std::ops::Range<u64> {
        let bytes = areas_each(capacity) * AREA_SPAN;
        let start = self.first_area() + u64::from(leader) * bytes;
        start..start + bytes
    }

    fn first_area(&self) -> u64 {
        self.slot(self.ranks, 0)
    }

    /// Offset of the memory of windows that rank `rank` allocates: file space beyond all areas,
    /// [`WINDOW_ZONE`] bytes for each rank.
    pub fn window_zone(&self, rank: u32) -> u64 {
        self.first_area() + AREAS * AREA_SPAN + u64::from(rank) * WINDOW_ZONE
    }

    /// Bytes of the file with all slots, areas and windows. `None` if that exceeds the maximum file
    /// size.
    pub fn file_bytes(&self) -> Option<u64> {
        (self.ranks <= RANKS_WITH_SLOTS).then(|| self.window_zone(self.ranks))
    }

    /// Bytes of address space of the whole segment.
    pub fn total_bytes(&self) -> usize {
        self.services() + SERVICES_TABLE_BYTES
    }
}

/// Areas of the communicators that one rank leads, where ranks are below `capacity`.
fn areas_each(capacity: u32) -> u64 {
    (AREAS / u64::from(capacity).next_power_of_two()).min(CONTEXT_IDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap_and_are_aligned() {
        for ranks in [1, 2, 7, 64, 128, 1000] {
            let advanced = Geometry::new(ranks, 128, 8192).expect("fits");
            let basic = advanced.with_fifos(1 << 20).expect("fits");
            let small = advanced.with_fifos(4096).expect("fits");
            let mixed = [basic, small].map(|g| g.mixed().expect("fits"));
            for g in [advanced, basic, mixed[0], mixed[1]] {
                assert!(g.marks_in_block() + 128 * 4 <= g.block(1) - g.block(0));
                assert!(g.cell(0, 127) + 8192 <= g.cell(1, 0));
                assert!(g.splits(0) >= g.cell(ranks - 1, 127) + 8192);
                assert!(
                    g.pair(0, 0) >= g.splits(ranks - 1) + SPLITS * size_of::<CooperativeCopy>()
                );
                assert!(g.pair(0, 0) + g.pair_bytes() <= g.pair(0, 1));
                assert_eq!(g.pair(0, 0) % PAGE, 0);
                assert_eq!(g.block(ranks - 1) % PAGE, 0);
                assert!(g.late(0) >= g.pair(ranks - 1, ranks - 1) + g.pair_bytes());
                assert_eq!(g.late(ranks - 1) % PAGE, 0);
                assert!(g.report(0) >= g.late(ranks - 1) + LATE_BYTES);
                assert!(g.total_bytes() >= g.report(ranks - 1) + REPORT_BYTES);
            }
            for g in mixed {
                assert!(g.pair_bytes() >= g.fifo_area().max(size_of::<RingStorage>()));
            }
        }
    }

    #[test]
    fn each_pair_has_a_ring_or_a_fifo() {
        let advanced = Geometry::new(3, 4, 64).expect("fits");
        let basic = advanced.with_fifos(4096).expect("fits");
        let mixed = basic.mixed().expect("fits");
        assert_eq!(advanced.mixed(), None, "without FIFOs nothing is mixed");
        for (from, to, same_parity) in [(0, 1, false), (0, 2, true), (1, 2, false), (2, 0, true)] {
            assert!(!advanced.is_fifo(from, to) && basic.is_fifo(from, to));
            assert_eq!(mixed.is_fifo(from, to), same_parity, "{from} to {to}");
        }
        assert!(mixed.is_mixed() && !basic.is_mixed() && !advanced.has_fifos());
    }

    #[test]
    fn slots_lie_beyond_the_segment_and_within_a_file() {
        for ranks in [1, 128, 8192] {
            let g = Geometry::new(ranks, 128, 8192).expect("fits");
            assert!(g.slot(0, 0) >= g.total_bytes() as u64);
            assert_eq!(g.slot(0, SLOTS - 1) + SLOT_SPAN, g.slot(1, 0));
            assert!(g.file_bytes().expect("fits") < i64::MAX as u64);
        }
        assert_eq!(Geometry::new(10_000, 1, 64).unwrap().file_bytes(), None);
    }

    #[test]
    fn areas_lie_beyond_the_slots_and_each_context_has_its_own() {
        for (ranks, job_size) in [(1, 1), (2, 3), (128, 128), (128, 1 << 20), (8192, 8192)] {
            let g = Geometry::new(ranks, 128, 8192).expect("fits");
            let at = |leader: u32, id: u64| g.area(job_size, u64::from(leader) << 40 | id << 1);
            let first = at(0, 0).expect("has one");
            assert_eq!(first, g.slot(ranks - 1, SLOTS - 1) + SLOT_SPAN);
            assert_eq!(at(0, 1), Some(first + AREA_SPAN));
            assert_eq!(g.area(job_size, 1), Some(first), "a plane of the same communicator");
            // The last area of a leader is followed by the first of the next leader.
            let ids = (1 << 38 >> job_size.next_power_of_two().trailing_zeros()).min(1u64 << 37);
            assert_eq!(at(0, ids), None);
            let last = at(job_size - 1, ids - 1).expect("has one");
            assert!(last + AREA_SPAN <= g.window_zone(0));
            let end = g.window_zone(ranks - 1) + WINDOW_ZONE;
            assert_eq!(g.file_bytes(), Some(end));
            if job_size > 1 {
                let end = at(0, ids - 1).expect("has one") + AREA_SPAN;
                assert_eq!(at(1, 0), Some(end));
            }
            assert_eq!(at(job_size, 0), None, "no such leader");
            for marker in [1 << 38, 1 << 39] {
                assert_eq!(g.area(job_size, marker | 2), None, "a hidden communicator");
            }
        }
    }

    #[test]
    fn absurd_sizes_are_refused() {
        assert_eq!(Geometry::new(0, 1, 64), None);
        assert_eq!(Geometry::new(2, 70_000, 64), None);
        assert_eq!(Geometry::new(2, 4, 100), None);
        assert_eq!(Geometry::new(u32::MAX, 4, 64), None);
        let g = Geometry::new(1000, 4, 64).expect("fits");
        for fifo_bytes in [0, 64, 4095, 4097, u32::MAX, 1 << 30] {
            assert_eq!(g.with_fifos(fifo_bytes), None, "{fifo_bytes}");
        }
    }
}
