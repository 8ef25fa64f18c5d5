//! The shared memory of one communicator's members on a node, for layers that forbid unsafe code: what
//! [`mica_node::area`] lays out, with bytes named by [`Region`]s and [`View`]s.
//!
//! The protocol is that module's, and whoever calls here keeps it: reads of a member's payload come after its stamp was
//! seen, and before this member says that it has finished; writes of this member's own come when all have finished what they
//! would overwrite.

use std::sync::Arc;

use crate::memory::{Block, Region, View};
use mica_node::area::Inline;
use mica_node::segment::{JobSegment, SegmentError};

pub use mica_node::area::{INLINE, TURNS};

/// One member's view of an area. A turn is below [`TURNS`], a member is a number below that of [`members`](Area::members):
/// all methods panic on others.
#[derive(Clone, Debug)]
pub struct Area {
    area: Arc<mica_node::area::Area>,
    cells: Arc<Block>,
    /// The data of each line: of a member's turns, then of the next member's.
    inlines: Arc<[Region]>,
}

impl Area {
    /// Opens the area of the communicator with this context: see [`JobSegment::open_area`].
    ///
    /// # Errors
    /// When memory for it cannot be had, with the number of bytes.
    pub fn open(
        segment: &'static JobSegment,
        context: u64,
        members: &[u32],
        me: usize,
    ) -> Result<Option<Area>, SegmentError> {
        let area = segment.open_area(context, members, me)?;
        Ok(area.map(|area| Area::new(Arc::new(area))))
    }

    fn new(area: Arc<mica_node::area::Area>) -> Area {
        let lines = Block::lines_of(&area);
        let inlines = (0..area.members().len() * TURNS)
            .map(|line| {
                let line = area.line(line % TURNS, line / TURNS);
                lines.region(line.with_data_mut(<*mut Inline>::expose_provenance))
            })
            .collect();
        Area {
            cells: Block::cells_of(&area),
            inlines,
            area,
        }
    }

    /// The members' ranks in the job, in the communicator's order: a member's number is its place here.
    #[inline]
    pub fn members(&self) -> &[u32] {
        self.area.members()
    }

    /// This process's number among the members.
    #[inline]
    pub fn me(&self) -> usize {
        self.area.me()
    }

    /// Bytes of a cell: a power of two.
    #[inline]
    pub fn cell_bytes(&self) -> usize {
        self.area.cell_bytes()
    }

    /// Bytes of memory of the whole area.
    pub fn bytes(&self) -> usize {
        self.area.bytes()
    }

    /// The cell of a member in a turn. What is derived from it panics when it reaches outside of one cell, and keeps the area open.
    #[inline]
    pub fn cell(&self, turn: usize, member: usize) -> Region {
        self.cells.region(self.area.cell(turn, member).addr().get())
    }

    /// The [`INLINE`] bytes of payload in the line of a member in a turn, as a place in memory.
    #[inline]
    pub fn inline_region(&self, turn: usize, member: usize) -> &Region {
        assert!(turn < TURNS, "an area has no turn {turn}");
        &self.inlines[member * TURNS + turn]
    }

    /// Copies a message's first bytes, [`INLINE`] at most, into my line; returns how many.
    #[inline]
    pub fn put(&self, turn: usize, from: &View) -> usize {
        self.my_line(turn).with_data_mut(|data| {
            // SAFETY: by the protocol the data of my line are mine to write; they are in shared memory apart from any message.
            unsafe { from.pack_into(0, data.cast(), INLINE) }
        })
    }

    /// Copies the bytes in a member's line to a message, as many as that has and [`INLINE`] at most; returns how many.
    #[inline]
    pub fn get(&self, turn: usize, member: usize, to: &View) -> usize {
        self.area.line(turn, member).with_data(|data| {
            // SAFETY: by the protocol nobody writes these data now; they are in shared memory apart from any message.
            unsafe { to.unpack_from(0, data.cast(), INLINE) }
        })
    }

    /// Writes the payload of my line as words.
    #[inline]
    pub fn put_words(&self, turn: usize, words: Inline) {
        // SAFETY: by the protocol the data of my line are mine to write.
        self.my_line(turn)
            .with_data_mut(|data| unsafe { data.write(words) });
    }

    /// The payload of a member's line as words.
    #[inline]
    pub fn get_words(&self, turn: usize, member: usize) -> Inline {
        // SAFETY: by the protocol nobody writes these data now; all values of the bytes are words.
        self.area
            .line(turn, member)
            .with_data(|data| unsafe { data.read() })
    }

    /// Publishes what I have written to the word, the payload and the cell of a turn.
    #[inline]
    pub fn publish(&self, turn: usize, stamp: u64) {
        self.my_line(turn).publish(stamp);
    }

    /// The stamp that a member published last in a turn: what it wrote before is seen.
    #[inline]
    pub fn stamp(&self, turn: usize, member: usize) -> u64 {
        self.area.line(turn, member).stamp()
    }

    /// Sets the word beside my stamp, to be published with the next one.
    #[inline]
    pub fn set_word(&self, turn: usize, word: u64) {
        self.my_line(turn).set_word(word);
    }

    /// The word beside a member's stamp.
    #[inline]
    pub fn word(&self, turn: usize, member: usize) -> u64 {
        self.area.line(turn, member).word()
    }

    /// Says when I came to the operation.
    #[inline]
    pub fn set_arrived(&self, turn: usize, time: u64) {
        self.my_line(turn).set_arrived(time);
    }

    /// When a member came to the operation, if it said so.
    #[inline]
    pub fn arrived(&self, turn: usize, member: usize) -> u64 {
        self.area.line(turn, member).arrived()
    }

    /// Says that I have finished this operation and all before: I read nothing of them any more.
    #[inline]
    pub fn set_finished(&self, operation: u64) {
        self.area.mark(self.area.me()).set_finished(operation);
    }

    /// The last operation that a member has finished.
    #[inline]
    pub fn finished(&self, member: usize) -> u64 {
        self.area.mark(member).finished()
    }

    /// Wakes a member if it sleeps, after something that it may wait for has been published.
    #[inline]
    pub fn wake(&self, member: usize) {
        self.area.wake(member);
    }

    /// Wakes those of `members` who sleep, after something that they may wait for has been published: at the price of one fence.
    #[inline]
    pub fn wake_all(&self, members: impl IntoIterator<Item = usize>) {
        self.area.wake_all(members);
    }

    #[inline]
    fn my_line(&self, turn: usize) -> &mica_node::area::Line {
        self.area.line(turn, self.area.me())
    }
}
