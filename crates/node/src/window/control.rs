//! [`WindowControl`]: the shared memory of one window on one node, and where its locks and counts
//! lie in it.
//!
//! The board comes first, then for each target its part: the words of its window lock, its
//! accumulate lock, where its memory lies, and the lines of all origins, in whole pairs of cache
//! lines. All ranks compute
//! the same offsets from the number of ranks. The bytes grow with the square of that number (8.4
//! MiB for 256 ranks); a line that no origin uses is never touched.

use super::accumulate_gate::AccumulateGate;
use super::accumulate_lock::AccumulateLock;
use super::exposure::{CompletionLine, ExposureBoard, PostLine};
use super::lock::words::{MOST_RANKS, OriginLine, TargetLine};
use super::lock::{LockDesign, WindowLock};
use super::placement::PlacementLine;
use crate::park::Fencing;
use std::ptr::NonNull;
use std::slice;

/// Alignment of the memory, and of the parts of each target.
const ALIGN: usize = 128;

/// Offset of the accumulate lock in a target's part.
const ACCUMULATE_LOCK: usize = size_of::<TargetLine>();

/// Offset of the placement of its memory in a target's part.
const PLACEMENT: usize = ACCUMULATE_LOCK + size_of::<AccumulateLock>();

/// Offset of the origins' lines in a target's part.
const ORIGINS: usize = PLACEMENT + size_of::<PlacementLine>();

const _: () = assert!(PLACEMENT.is_multiple_of(align_of::<PlacementLine>()));

/// The locks and the counts of one window, in the memory that its ranks of one node share.
#[derive(Debug)]
pub struct WindowControl {
    base: NonNull<u8>,
    ranks: u32,
    /// How this rank wakes others.
    fencing: Fencing,
    /// Offset of the first target's part.
    first: usize,
    /// Bytes of each target's part.
    each: usize,
}

// SAFETY: all access goes through atomics in memory that stays valid (obligation 1 of `new`).
unsafe impl Send for WindowControl {}
// SAFETY: as above.
unsafe impl Sync for WindowControl {}

impl WindowControl {
    /// Bytes for a window of `ranks` ranks; `None` if they are more than an address can count, or
    /// the ranks more than a lock can.
    pub fn bytes(ranks: u32) -> Option<usize> {
        if ranks > MOST_RANKS {
            return None;
        }
        let board = ExposureBoard::bytes(ranks)?.checked_add(ALIGN)?;
        let ranks = ranks as usize;
        let locks = ranks
            .checked_mul(size_of::<OriginLine>())?
            .checked_add(ORIGINS + ALIGN)?
            .checked_mul(ranks)?;
        board.checked_add(locks)
    }

    /// The control of a window of `ranks` ranks at `base`, for a rank that wakes others with
    /// `fencing`.
    ///
    /// # Safety
    /// 1. At `base`, on a multiple of 128, lie [`bytes`](Self::bytes) bytes that stay mapped, for
    ///    reading and writing, as long as this value lives.
    /// 2. They were zeroed before the first rank used them, and are used by nothing but the
    ///    `WindowControl`s of this window, all for the same number of ranks.
    ///
    /// # Panics
    /// If `base` is not aligned.
    pub unsafe fn new(base: NonNull<u8>, ranks: u32, fencing: Fencing) -> WindowControl {
        assert!(base.cast::<TargetLine>().is_aligned(), "control at {base:p}");
        let origins = ranks as usize * size_of::<OriginLine>();
        let board = ExposureBoard::bytes(ranks).expect("there is memory for it");
        WindowControl {
            base,
            ranks,
            fencing,
            first: board.next_multiple_of(ALIGN),
            each: (ORIGINS + origins).next_multiple_of(ALIGN),
        }
    }

    /// Who has posted to whom, and who has completed.
    pub fn board(&self) -> ExposureBoard<'_> {
        let posts = ExposureBoard::post_lines(self.ranks);
        let completions = ExposureBoard::completion_lines(self.ranks);
        // SAFETY: the first lines of the memory, which are aligned, valid when zeroed, and mapped
        // as long as this value lives (obligations 1 and 2 of `new`).
        unsafe {
            let first = self.base.cast::<PostLine>();
            let next = first.add(posts).cast::<CompletionLine>();
            let posts = slice::from_raw_parts(first.as_ptr(), posts);
            let completions = slice::from_raw_parts(next.as_ptr(), completions);
            ExposureBoard::new(posts, completions, self.ranks)
        }
    }

    /// The lock of `target`.
    ///
    /// # Panics
    /// If there is no such rank.
    #[inline(always)]
    pub fn lock(&self, design: LockDesign, target: u32) -> WindowLock<'_> {
        // SAFETY: the words lie at the start of the target's part (`target`).
        let words = unsafe { self.target(target).cast::<TargetLine>().as_ref() };
        WindowLock::new(design, self.fencing, words, self.origins(target))
    }

    /// What keeps accumulates on `target` atomic.
    ///
    /// # Panics
    /// If there is no such rank.
    #[inline(always)]
    pub fn accumulate_gate(&self, target: u32) -> AccumulateGate<'_> {
        // SAFETY: the lock lies at this offset of the target's part (`target`).
        let lock: &AccumulateLock =
            unsafe { self.target(target).add(ACCUMULATE_LOCK).cast().as_ref() };
        AccumulateGate::new(lock, self.origins(target))
    }

    /// Where the memory of `target` lies, once it has been migrated.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn placement(&self, target: u32) -> &PlacementLine {
        // SAFETY: it lies at this offset of the target's part (`target`).
        unsafe { self.target(target).add(PLACEMENT).cast().as_ref() }
    }

    /// The lines of all origins at `target`.
    #[inline(always)]
    fn origins(&self, target: u32) -> &[OriginLine] {
        // SAFETY: they lie at this offset of the target's part (`target`).
        unsafe {
            let first = self.target(target).add(ORIGINS).cast().as_ptr();
            slice::from_raw_parts(first, self.ranks as usize)
        }
    }

    /// The part of `target`: aligned, inside the memory, and valid when zeroed (obligations 1 and 2
    /// of `new`).
    #[inline(always)]
    fn target(&self, target: u32) -> NonNull<u8> {
        assert!(target < self.ranks, "rank {target} of {}", self.ranks);
        // SAFETY: `bytes` counts the board and this many bytes for each rank.
        unsafe { self.base.add(self.first + target as usize * self.each) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::LockMode;
    use super::*;

    /// Zeroed memory for a control of `ranks` ranks with room to align it, and the bytes asked for.
    fn memory(ranks: u32) -> (Vec<[u128; 8]>, usize) {
        let bytes = WindowControl::bytes(ranks).expect("few ranks");
        (vec![[0; 8]; bytes.div_ceil(ALIGN) + 2], bytes)
    }

    #[test]
    fn parts_are_apart_and_inside() {
        for ranks in [1, 2, 3, 16, 17, 33] {
            let (mut memory, bytes) = memory(ranks);
            let at = memory.as_mut_ptr().cast::<u8>();
            // SAFETY: at most 127 bytes further, inside the two spare pieces.
            let base = unsafe { at.add(at.align_offset(ALIGN)) };
            let base = NonNull::new(base).expect("not null");
            // SAFETY: zeroed memory of this test, one piece longer than asked.
            let control = unsafe { WindowControl::new(base, ranks, Fencing::Sender) };
            let end = base.addr().get() + bytes;
            let mut counts: Vec<_> = (0..ranks).map(|me| control.board().counts(me)).collect();
            let all: Vec<u32> = (0..ranks).collect();
            counts.iter_mut().for_each(|c| c.post(&all, |_| ()));
            for target in 0..ranks {
                // Every line of the board has been written to, and no lock.
                let accumulates = control.accumulate_gate(target);
                assert_eq!(accumulates.holder(), None, "{target} of {ranks}");
                std::mem::forget(accumulates.bulk(target));
                let lock = control.lock(LockDesign::Mcs, target);
                let waiting = lock.waiters().count() + lock.holders().count();
                assert_eq!(waiting, 0, "{target} of {ranks}");
                for origin in 0..ranks {
                    let mut ticket = lock.begin(origin, LockMode::Shared);
                    assert!(lock.poll(&mut ticket), "{origin} at {target} of {ranks}");
                }
            }
            for target in 0..ranks {
                let lock = control.lock(LockDesign::Mcs, target);
                assert_eq!(lock.holders().count(), ranks as usize);
                assert_eq!(control.accumulate_gate(target).holder(), Some(target));
                let last = control.target(target).addr().get() + ORIGINS;
                assert!(last + ranks as usize * size_of::<OriginLine>() <= end);
                for me in 0..ranks {
                    counts[me as usize].start(&[target]);
                    assert!(counts[me as usize].is_posted(target));
                }
            }
        }
    }

    #[test]
    fn bytes_that_overflow_are_refused() {
        assert!(WindowControl::bytes(4096).is_some_and(|bytes| bytes < 3400 << 20));
        assert_eq!(WindowControl::bytes(u32::MAX), None);
    }

    #[test]
    #[should_panic(expected = "rank 3 of 3")]
    fn a_rank_outside_is_refused() {
        let (mut memory, _) = memory(3);
        let at = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: as in `parts_are_apart_and_inside`.
        let base = NonNull::new(unsafe { at.add(at.align_offset(ALIGN)) }).expect("not null");
        // SAFETY: as above.
        let control = unsafe { WindowControl::new(base, 3, Fencing::Sender) };
        control.lock(LockDesign::TestAndSet, 3);
    }
}
