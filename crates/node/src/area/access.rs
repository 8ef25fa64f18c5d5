//! [`Area`]: an area for layers that forbid unsafe code, in which [`RegionRef`]s name
//! the bytes.
//!
//! The protocol is the module's, and callers must keep it: this member reads another's payload
//! after it has seen that member's stamp, and before it announces that it has finished the
//! operation. It writes its own payload when all members have finished the operation whose bytes
//! this overwrites.

use super::{Completions, FlagLine, INLINE, Inline, OPERATION_SLOTS, RawArea, SlotLines};
use crate::lock::ThreadMode;
use crate::segment::{JobSegment, SegmentError};
use mica_memory::{Block, RegionRef};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// One member's view of an area. A `slot` is the index of an operation slot, below
/// [`OPERATION_SLOTS`]; a `member` is an index into [`members`](RawArea::members). All methods
/// panic on others.
#[derive(Clone, Debug)]
pub struct Area {
    area: Arc<RawArea>,
    /// All cells: those of a member's operation slots, then the next member's.
    cells: Arc<Block>,
    /// All lines.
    lines: Arc<Block>,
}

impl Area {
    /// Opens the area of the communicator with this context: see [`JobSegment::open_area`].
    ///
    /// # Errors
    /// When memory for it cannot be allocated, with the number of bytes.
    pub fn open(
        segment: &Arc<JobSegment>,
        context: u64,
        members: &[u32],
        me: usize,
    ) -> Result<Option<Area>, SegmentError> {
        let area = segment.open_area(context, members, me)?;
        Ok(area.map(|area| Area::new(Arc::new(area))))
    }

    fn new(area: Arc<RawArea>) -> Area {
        let cells = area.members().len() * OPERATION_SLOTS * area.cell_bytes();
        let data = |slot, member| {
            let data = area.flag_line(slot, member).with_data_mut(<*mut Inline>::cast);
            NonNull::new(data).expect("lines lie in memory")
        };
        let (first, last) = (data(0, 0), data(OPERATION_SLOTS - 1, area.members().len() - 1));
        let lines = last.addr().get() - first.addr().get() + INLINE;
        // SAFETY: 1. all cells follow one another in the mapping, which `area` keeps, and so do all
        // lines; 2. they are accessed by the protocol above.
        let block = |first: NonNull<u8>, bytes| unsafe {
            let start = first.as_ptr().expose_provenance();
            Block::mapped(start..start + bytes, Arc::clone(&area))
        };
        Area { cells: block(area.cell(0, 0), cells), lines: block(first, lines), area }
    }

    /// One operation slot, for a call that accesses it again and again.
    #[inline(always)]
    pub fn slot(&self, slot: usize) -> AreaSlot<'_> {
        let lines = self.area.slot_lines(slot);
        AreaSlot { area: self, slot, mine: lines.of(self.area.me()), lines }
    }

    /// The cell of a member in an operation slot. Regions and views derived from it panic when they
    /// reach outside of the cell, and keep the area open.
    #[inline]
    pub fn cell(&self, slot: usize, member: usize) -> RegionRef<'_> {
        let cell = self.area.cell(slot, member).addr().get();
        // SAFETY: the block has all cells of the area, and this is one of them.
        unsafe { self.cells.piece_at(cell, self.area.cell_bytes()) }
    }

    /// The [`INLINE`] bytes of payload in the line of a member in an operation slot, as a region.
    #[inline]
    pub fn inline_region(&self, slot: usize, member: usize) -> RegionRef<'_> {
        let line = self.area.flag_line(slot, member);
        let data = line.with_data_mut(<*mut Inline>::expose_provenance);
        // SAFETY: the block reaches from the data of the first line to those of the last.
        unsafe { self.lines.piece_at(data, INLINE) }
    }

    /// Writes the payload of this member's line as words.
    #[inline]
    pub fn put_words(&self, slot: usize, words: Inline) {
        // SAFETY: by the protocol only this member accesses the data of its line now.
        self.my_line(slot).with_data_mut(|data| unsafe { data.write(words) });
    }

    /// The payload of a member's line as words.
    #[inline]
    pub fn get_words(&self, slot: usize, member: usize) -> Inline {
        // SAFETY: by the protocol no member writes these data now; all byte values are valid words.
        self.area.flag_line(slot, member).with_data(|data| unsafe { data.read() })
    }

    /// Publishes what this member has written to the operation header, the payload and the cell of
    /// an operation slot.
    #[inline]
    pub fn publish(&self, slot: usize, stamp: u64) {
        self.my_line(slot).publish(stamp);
    }

    /// The stamp that a member published last in an operation slot (Acquire): what it wrote before
    /// the stamp is visible.
    #[inline]
    pub fn stamp(&self, slot: usize, member: usize) -> u64 {
        self.area.flag_line(slot, member).stamp()
    }

    /// Sets this member's operation header, which the next stamp publishes.
    #[inline]
    pub fn set_word(&self, slot: usize, word: u64) {
        self.my_line(slot).set_word(word);
    }

    /// A member's operation header.
    #[inline]
    pub fn word(&self, slot: usize, member: usize) -> u64 {
        self.area.flag_line(slot, member).word()
    }

    /// Announces something about arrivals at the operation, which the next stamp publishes.
    #[inline]
    pub fn set_arrived(&self, slot: usize, arrived: u64) {
        self.my_line(slot).set_arrived(arrived);
    }

    /// Announces the function by which this member takes part in the operation of a slot.
    #[inline]
    pub fn set_label(&self, slot: usize, label: u64) {
        self.my_line(slot).set_label(label);
    }

    /// The function by which a member takes part, as it announced last, in this operation or an
    /// earlier one of the slot.
    pub fn label(&self, slot: usize, member: usize) -> u64 {
        self.area.flag_line(slot, member).label()
    }

    /// What a member has announced about arrivals at the operation.
    #[inline]
    pub fn arrived(&self, slot: usize, member: usize) -> u64 {
        self.area.flag_line(slot, member).arrived()
    }

    /// Completes operation `number` in this member's account, and sets its finished number to the
    /// last operation up to which all are complete: it reads no data of these any more. Returns the
    /// previous value of the finished number if it has advanced.
    #[inline(always)]
    pub fn complete(&self, account: &Completions, number: u64, mode: &ThreadMode) -> Option<u64> {
        account.complete(number, self.area.finished_number(self.area.me()), mode)
    }

    /// The last operation that a member has finished.
    #[inline]
    pub fn finished(&self, member: usize) -> u64 {
        self.area.finished_number(member).finished()
    }

    #[inline]
    fn my_line(&self, slot: usize) -> &FlagLine {
        self.area.flag_line(slot, self.area.me())
    }
}

/// What needs no region: who the members are, allocation, waits and wake-ups.
impl Deref for Area {
    type Target = RawArea;

    #[inline(always)]
    fn deref(&self) -> &RawArea {
        &self.area
    }
}

/// One operation slot of an area; its methods are those of [`Area`] in this slot.
#[derive(Clone, Copy, Debug)]
pub struct AreaSlot<'a> {
    area: &'a Area,
    slot: usize,
    mine: &'a FlagLine,
    lines: SlotLines<'a>,
}

impl<'a> AreaSlot<'a> {
    /// See [`Area::set_word`].
    #[inline(always)]
    pub fn set_word(self, word: u64) {
        self.mine.set_word(word);
    }

    /// See [`Area::publish`].
    #[inline(always)]
    pub fn publish(self, stamp: u64) {
        self.mine.publish(stamp);
    }

    /// See [`Area::stamp`].
    #[inline(always)]
    pub fn stamp(self, member: usize) -> u64 {
        self.lines.of(member).stamp()
    }

    /// See [`Area::word`].
    #[inline(always)]
    pub fn word(self, member: usize) -> u64 {
        self.lines.of(member).word()
    }

    /// See [`Area::inline_region`].
    #[inline(always)]
    pub fn inline_region(self, member: usize) -> RegionRef<'a> {
        self.area.inline_region(self.slot, member)
    }

    /// See [`RawArea::allocate_before_writing`].
    #[inline(always)]
    pub fn allocate_before_writing(self, member: usize) -> Result<(), SegmentError> {
        self.area.allocate_before_writing(self.slot, member)
    }

    /// See [`Area::cell`].
    #[inline(always)]
    pub fn cell(self, member: usize) -> RegionRef<'a> {
        self.area.cell(self.slot, member)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::segment::JobSpec;
    use crate::topology::CorePlace;
    use mica_memory::{Shape, View, copy_bytes};

    /// Both members' views of the area of a job of two.
    fn pair() -> [Area; 2] {
        let spec = JobSpec::on_one_node(&[CorePlace::UNKNOWN; 2], 2, &[]);
        let segment = Arc::new(JobSegment::create(&spec).expect("segment"));
        [0, 1].map(|me| {
            let area = Area::open(&segment, 2, &[1, 0], me).expect("memory");
            area.expect("room")
        })
    }

    fn view(bytes: &[u8]) -> View {
        let region = Block::allocate(bytes.len()).expect("memory");
        region.write_bytes(bytes);
        region.view(Shape::Contiguous { bytes: bytes.len() })
    }

    fn content(view: &View) -> Vec<u8> {
        let mut bytes = vec![0; view.len()];
        view.pack(0, &mut bytes);
        bytes
    }

    #[test]
    fn payload_travels_in_a_line() {
        let [a, b] = pair();
        let (account, mode) = (Completions::new(), ThreadMode::new());
        assert_eq!((a.me(), b.me(), b.members()), (0, 1, &[1, 0][..]));
        for (s, len) in [0, 1, 8, 47, INLINE].into_iter().enumerate() {
            let (slot, stamp) = (s % OPERATION_SLOTS, s as u64 + 1);
            let bytes: Vec<u8> = (0..len).map(|i| i as u8 + 1).collect();
            a.inline_region(slot, 0).to_region().write_bytes(&bytes);
            a.set_word(slot, len as u64);
            a.set_arrived(slot, 77);
            a.publish(slot, stamp);
            assert_eq!(b.stamp(slot, 0), stamp);
            assert_eq!((b.word(slot, 0), b.arrived(slot, 0)), (len as u64, 77));
            let mut seen = vec![0; len];
            b.inline_region(slot, 0).read_bytes(&mut seen);
            assert_eq!(seen, bytes);
            assert_eq!(b.complete(&account, stamp, &mode), Some(stamp - 1));
            assert_eq!((a.finished(1), a.finished(0)), (stamp, 0));
        }
        b.put_words(3, [1, 2, 3, 4, 5, 6]);
        b.publish(3, 9);
        assert_eq!((a.stamp(3, 1), a.get_words(3, 1)), (9, [1, 2, 3, 4, 5, 6]));
        assert_eq!(a.stamp(2, 1), 0, "another slot, another line");
    }

    #[test]
    fn cells_are_shared_and_outlive_the_area_that_named_them() {
        let [a, b] = pair();
        let bytes = a.cell_bytes();
        let whole: Vec<u8> = (0..bytes).map(|i| (i * 7) as u8).collect();
        copy_bytes(&view(&whole).region(), &a.cell(2, 0).to_region(), bytes);
        a.publish(2, 5);
        assert_eq!(b.stamp(2, 0), 5);
        let cell = b.cell(2, 0).to_region();
        let tail = cell.offset(bytes as isize - 3);
        drop(b);
        let seen = cell.view(Shape::Contiguous { bytes });
        assert_eq!(content(&seen), whole);
        let mut last = [0; 3];
        tail.read_bytes(&mut last);
        assert_eq!(last, whole[bytes - 3..]);
    }

    #[test]
    #[should_panic(expected = "reach outside the")]
    fn a_cell_is_never_left() {
        let [a, _b] = pair();
        let cell = a.cell(1, 0).to_region();
        cell.offset(1).view(Shape::Contiguous { bytes: a.cell_bytes() });
    }

    #[test]
    #[should_panic(expected = "reach outside the")]
    fn the_payload_of_a_line_is_never_left() {
        let [a, _b] = pair();
        a.inline_region(0, 1).at(8).write_bytes(&[0; 48 - 7]);
    }

    #[test]
    #[should_panic(expected = "reach outside the")]
    fn nothing_lies_before_the_first_cell() {
        let [a, _b] = pair();
        a.cell(0, 0).to_region().offset(-1).write_bytes(&[0]);
    }
}
