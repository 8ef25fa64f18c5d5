//! A message that two ranks copy together: which part is whose (DESIGN.md, section 4, cooperative
//! rendezvous).
//!
//! The receiver takes pieces from the front, the sender from the back, until they meet. One word
//! says how far each has come, so every unit of the message is taken exactly once, and a side that
//! is late, or never comes, costs nothing: the other takes what is left. Pieces shrink with what is
//! left, so that both end at about the same time.
//!
//! | who | writes |
//! |---|---|
//! | sender | resets the words before it announces the message; takes from the back; its answer, or no for the receiver's |
//! | receiver | takes from the front; its answer, or no for the sender's |
//!
//! The word orders nothing: what one side has copied is published by the packet in which it says
//! so.
//!
//! Two more words carry late answers: a side that has told from memory where its buffer lies asks
//! the kernel only after its packet is on its way. What the receiver has copied means nothing
//! before the sender's answer is there; the sender copies nothing before the receiver's is. Who
//! waits in vain for an answer gives one itself, no: the first answer is the one that counts, for
//! both.

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::ops::Range;

/// Bytes that are taken as one: a page, so that no line of memory is written by both sides of a
/// page-aligned message.
pub const UNIT: usize = 4096;

/// Fewest bytes that are taken at a time, unless fewer are left: a claim costs the transfer of a
/// cache line between cores.
const PIECE_MIN: u64 = 16 * 1024 / UNIT as u64;

/// Most bytes that are taken at a time, so that neither side waits long for the other's last piece.
const PIECE_MAX: u64 = 256 * 1024 / UNIT as u64;

/// How far the two sides of one message have come. Alone in its cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct CooperativeCopy {
    /// Units taken from the front, low half; from the back, high half.
    taken: AtomicU64,
    /// By side: [`OPEN`], [`RIGHT`] or [`WRONG`].
    answers: [AtomicU32; 2],
}

const OPEN: u32 = 0;
const RIGHT: u32 = 1;
const WRONG: u32 = 2;

/// The end of a message from which a side takes its pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyEnd {
    /// The receiver's.
    Front,
    /// The sender's.
    Back,
}

impl CooperativeCopy {
    /// A message of which nothing is taken.
    #[allow(clippy::new_without_default)] // loom's atomics have no const new, and nobody defaults a shared word
    pub fn new() -> CooperativeCopy {
        CooperativeCopy {
            taken: AtomicU64::new(0),
            answers: [AtomicU32::new(OPEN), AtomicU32::new(OPEN)],
        }
    }

    /// Nothing is taken. To be called before the message is announced.
    pub fn reset(&self) {
        self.taken.store(0, Ordering::Relaxed);
        for answer in &self.answers {
            answer.store(OPEN, Ordering::Relaxed);
        }
    }

    /// `side` answers whether its buffer lies where it said. Without effect if the other side has
    /// [given up](Self::give_up).
    pub fn confirm(&self, side: CopyEnd, is_right: bool) {
        let answer = if is_right { RIGHT } else { WRONG };
        self.answer(side, answer);
    }

    /// Waits for the answer of `side` no longer: it counts as no, unless it is there. Answers
    /// whether it was yes.
    pub fn give_up(&self, side: CopyEnd) -> bool {
        self.answer(side, WRONG) == RIGHT
    }

    /// The answer of `side` that counts: this one, if it is the first.
    fn answer(&self, side: CopyEnd, answer: u32) -> u32 {
        let word = &self.answers[side as usize];
        // SYNC answer: pairs with the Acquire in `confirmed`, and with that of a later answer here.
        // The buffer itself was published by the packet that names it.
        match word.compare_exchange(OPEN, answer, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => answer,
            Err(first) => first,
        }
    }

    /// The answer of `side`, once it is there.
    pub fn confirmed(&self, side: CopyEnd) -> Option<bool> {
        // SYNC answer
        match self.answers[side as usize].load(Ordering::Acquire) {
            OPEN => None,
            answer => Some(answer == RIGHT),
        }
    }

    /// Takes the next piece of a message of `len` bytes from `end`. Returns its bytes; `None` when
    /// nothing is left.
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

    /// True when the other side has taken, or may have taken, some of the message.
    pub fn is_shared_with(&self, other: CopyEnd) -> bool {
        let taken = self.taken.load(Ordering::Relaxed);
        match other {
            CopyEnd::Front => taken & 0xffff_ffff != 0,
            CopyEnd::Back => taken >> 32 != 0,
        }
    }
}
