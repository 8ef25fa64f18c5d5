//! One operation in shared memory, as the algorithms see it. Each is written once, for two kinds of
//! slot: [`OperationSlot`](super::slot::OperationSlot), whose waits return to the engine, takes
//! messages of any length; the [fast path](super::super::fast_path)'s, whose waits spin, takes
//! messages of one piece.

use mica_memory::RegionRef;

use super::group::NodeGroup;
use mica_objects::error::Result;

/// What a member announces to the others and waits for, and the memory that they share.
pub trait SharedSlot {
    /// Whether every message has one piece: what more pieces need is left out where an algorithm is
    /// compiled for this slot. Where another rank decides the length, the algorithm looks at it
    /// first, and ends ([`AlgorithmEnd::Unequal`]).
    const ONE_PIECE: bool;

    /// The node group.
    fn group(&self) -> &NodeGroup;

    /// This rank's number.
    #[inline(always)]
    fn me(&self) -> usize {
        self.group().me()
    }

    /// Number of members.
    #[inline(always)]
    fn size(&self) -> usize {
        self.group().size()
    }

    /// Pieces of a message.
    #[inline(always)]
    fn pieces(bytes: usize, piece: usize) -> usize {
        if Self::ONE_PIECE { 1 } else { bytes.div_ceil(piece) }
    }

    /// Where piece `k` of a message starts, and how long it is; nothing behind its end.
    #[inline(always)]
    fn part(k: usize, bytes: usize, piece: usize) -> (usize, usize) {
        match Self::ONE_PIECE {
            true => (0, bytes),
            false => {
                let at = (k * piece).min(bytes);
                (at, piece.min(bytes - at))
            }
        }
    }

    /// Stores this rank's header, where it may end without publishing anything.
    fn announce(&self);

    /// Announces to all others that this rank has reached `phase`, with all that it wrote before.
    fn publish(&self, phase: u32);

    /// As [`publish`](Self::publish), where only `member` waits for it.
    fn publish_for(&self, phase: u32, member: usize);

    /// As [`publish`](Self::publish), where only `members` wait for it.
    fn publish_for_some(&self, phase: u32, members: impl Iterator<Item = usize>);

    /// Waits until `member` has reached `phase`, and processes what it has announced.
    ///
    /// # Errors
    /// When it is in another collective, or will never reach the phase.
    fn reached(&self, member: usize, phase: u32) -> impl Future<Output = Result<()>>;

    /// As [`reached`](Self::reached), for all others.
    ///
    /// # Errors
    /// As [`reached`](Self::reached).
    fn all_reached(&self, phase: u32) -> impl Future<Output = Result<()>>;

    /// Each other member has been waited for.
    ///
    /// # Errors
    /// When one is in another collective.
    fn heard_all(&self) -> Result<()>;

    /// Bytes that `member` takes part with; valid after a phase that it has reached.
    fn bytes(&self, member: usize) -> usize;

    /// Refuses a `member` that takes part with a number of bytes other than `bytes`.
    ///
    /// # Errors
    /// If it does.
    fn expect_bytes(&self, member: usize, bytes: usize) -> Result<()>;

    /// As [`expect_bytes`](Self::expect_bytes) for all others.
    ///
    /// # Errors
    /// If one does.
    #[inline(always)]
    fn expect_bytes_of_all(&self, bytes: usize) -> Result<()> {
        self.group().others().try_for_each(|member| self.expect_bytes(member, bytes))
    }

    /// Makes sure that there is memory behind the cell of `member`, which this rank is to write.
    ///
    /// # Errors
    /// When there is none.
    fn prepare(&self, member: usize) -> Result<()>;

    /// Half number `k` (0, 1, 0, ...) of a member's cell; of one piece, the cell.
    fn half(&self, member: usize, k: usize) -> RegionRef<'_>;

    /// The bytes in a member's line.
    fn line(&self, member: usize) -> RegionRef<'_>;

    /// This rank has read `bytes` bytes from the memory of `member`.
    fn loaded(&self, member: usize, bytes: usize);

    /// This rank has written `bytes` bytes to the memory of `member`.
    fn stored(&self, member: usize, bytes: usize);
}

/// How an algorithm has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AlgorithmEnd {
    /// It is done.
    Done,
    /// A message has another length than this rank expects, and this slot takes one piece alone:
    /// the algorithm is to be run from its start on an operation slot, which finds the phases that
    /// are over.
    Unequal,
}
