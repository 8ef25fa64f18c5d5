//! A message that both ranks copy: the division of the work (docs/design/house.md, section 4,
//! cooperative rendezvous).
//!
//! The receiver takes pieces from the front, the sender from the back, until they meet. One word
//! holds the progress of both, so each unit of the message is taken exactly once, and a side that
//! is late, or never takes part, costs nothing: the other side takes the rest. Pieces shrink with
//! the remaining bytes, so that both sides finish at about the same time.
//!
//! | who | writes |
//! |---|---|
//! | sender | reset before announcing; units from the back; its answer, or the receiver's no |
//! | receiver | units from the front; its answer, or the sender's no |
//!
//! The word orders no other memory: the packet in which a side reports its copies publishes them.
//!
//! Two more words carry late answers: a side that has announced the place of its buffer from its
//! cached state queries the kernel only after its packet is on its way. What the receiver has
//! copied is not valid before the sender's answer; the sender copies nothing before the receiver's
//! answer. A side that stops waiting for an answer writes "no" in its place. The first answer
//! counts, for both sides.
//!
//! A put or get in a window is divided in the same way: the origin takes pieces from the front, and
//! the target, if it happens to make progress, helps from the back. No packet reports the target's
//! copies: it writes [`finish`](CooperativeCopy::finish) when it takes no more.

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::ops::Range;

/// Bytes that are taken as one: a page, so that in a page-aligned message the two sides never write
/// to the same cache line.
pub const UNIT: usize = 4096;

/// Minimum number of units that are taken at a time, unless fewer are left: a claim costs the
/// transfer of a cache line between cores.
const PIECE_MIN: u64 = 16 * 1024 / UNIT as u64;

/// Maximum number of units taken at a time, so that neither side waits long for the other's last
/// piece.
const PIECE_MAX: u64 = 256 * 1024 / UNIT as u64;

/// The progress of the two sides of one message. Alone in its cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct CooperativeCopy {
    /// Units taken from the front (low half) and from the back (high half).
    taken: AtomicU64,
    /// Indexed by side: [`OPEN`], [`RIGHT`] or [`WRONG`].
    answers: [AtomicU32; 2],
    /// 1 when the side from the back, a helper, takes no more and has copied what it took.
    finished: AtomicU32,
}

const OPEN: u32 = 0;
const RIGHT: u32 = 1;
const WRONG: u32 = 2;

/// The end of a message from which a side takes its pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyEnd {
    /// Of the receiver.
    Front,
    /// Of the sender.
    Back,
}

impl CooperativeCopy {
    /// A message of which nothing has been taken.
    #[allow(clippy::new_without_default)] // no const new under loom; no caller needs Default
    pub fn new() -> CooperativeCopy {
        CooperativeCopy {
            taken: AtomicU64::new(0),
            answers: [AtomicU32::new(OPEN), AtomicU32::new(OPEN)],
            finished: AtomicU32::new(0),
        }
    }

    /// Resets the state to nothing taken. To be called before the message is announced.
    pub fn reset(&self) {
        self.taken.store(0, Ordering::Relaxed);
        for answer in &self.answers {
            answer.store(OPEN, Ordering::Relaxed);
        }
        self.finished.store(0, Ordering::Relaxed);
    }

    /// The helper takes no more pieces, and has copied those that it took.
    pub fn finish(&self) {
        // SYNC finished: pairs with the load in `is_finished`. The helper's copies happened before,
        // and it does not access the memory of the transfer again.
        self.finished.store(1, Ordering::Release);
    }

    /// Whether the helper has [finished](Self::finish).
    pub fn is_finished(&self) -> bool {
        // SYNC finished
        self.finished.load(Ordering::Acquire) != 0
    }

    /// `side` answers whether its buffer lies where it announced. Has no effect if the other side
    /// has [given up](Self::give_up).
    // flag: the answer to the question that the end asked.
    pub fn confirm(&self, side: CopyEnd, is_right: bool) {
        let answer = if is_right { RIGHT } else { WRONG };
        self.answer(side, answer);
    }

    /// Stops waiting for the answer of `side`: unless there is one, the answer is no. Returns
    /// whether it was yes.
    pub fn give_up(&self, side: CopyEnd) -> bool {
        self.answer(side, WRONG) == RIGHT
    }

    /// Writes the answer of `side` unless there is one. Returns the answer that counts.
    fn answer(&self, side: CopyEnd, answer: u32) -> u32 {
        let word = &self.answers[side as usize];
        // SYNC answer: pairs with the Acquire in `confirmed`, and with that of a later answer here.
        // The buffer itself was published by the packet that names it.
        match word.compare_exchange(OPEN, answer, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => answer,
            Err(first) => first,
        }
    }

    /// The answer of `side`; `None` if it has not answered yet.
    pub fn confirmed(&self, side: CopyEnd) -> Option<bool> {
        // SYNC answer
        match self.answers[side as usize].load(Ordering::Acquire) {
            OPEN => None,
            answer => Some(answer == RIGHT),
        }
    }

    /// Takes the next piece of a message of `len` bytes from `end`. Returns its byte range; `None`
    /// when nothing is left.
    pub fn take(&self, end: CopyEnd, len: usize) -> Option<Range<usize>> {
        let units = len.div_ceil(UNIT) as u64;
        let mut taken = self.taken.load(Ordering::Relaxed);
        loop {
            let (front, back) = (taken & 0xffff_ffff, taken >> 32);
            let left = units.saturating_sub(front + back);
            if left == 0 {
                return None;
            }
            let piece = (left / 2).clamp(PIECE_MIN, PIECE_MAX).min(left);
            let (next, first) = match end {
                CopyEnd::Front => (taken + piece, front),
                CopyEnd::Back => (taken + (piece << 32), units - back - piece),
            };
            match self.taken.compare_exchange_weak(
                taken,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    let first = first as usize * UNIT;
                    return Some(first..(first + piece as usize * UNIT).min(len));
                }
                Err(now) => taken = now,
            }
        }
    }

    /// Whether a piece of a message of `len` bytes is left. A hint: the other side may take it.
    pub fn has_left(&self, len: usize) -> bool {
        let taken = self.taken.load(Ordering::Relaxed);
        (taken & 0xffff_ffff) + (taken >> 32) < len.div_ceil(UNIT) as u64
    }

    /// True when the other side has taken, or may have taken, some of the message.
    pub fn is_shared_with(&self, other: CopyEnd) -> bool {
        let taken = self.taken.load(Ordering::Relaxed);
        match other {
            CopyEnd::Front => taken & 0xffff_ffff != 0,
            CopyEnd::Back => taken >> 32 != 0,
        }
    }
}
