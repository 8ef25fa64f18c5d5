//! What a member writes for its peers to see: a line for each turn, and a mark.

use crate::sync::{AtomicU64, Ordering, UnsafeCell};

/// Bytes of payload in a line.
pub const INLINE: usize = 48;

/// What a line carries beside its stamp.
pub type Inline = [u64; INLINE / 8];

/// One member's line of one turn. Written by that member only; zeroed memory is a line that nothing
/// was published in.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct FlagLine {
    stamp: AtomicU64,
    word: AtomicU64,
    data: UnsafeCell<Inline>,
    /// In the other half, which nobody looks at who only waits for the stamp.
    arrived: AtomicU64,
    label: AtomicU64,
    reserve: [u64; 6],
}

// SAFETY: `data` is written by the line's owner only, before it publishes a stamp, and read by
// whoever saw that stamp, until the owner has learned that all have finished (module
// documentation). This type itself touches it through no shared reference.
unsafe impl Sync for FlagLine {}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<FlagLine>() == 128);
    assert!(std::mem::offset_of!(FlagLine, arrived) == 64);
    assert!(size_of::<FinishedMark>() == 128);
};

impl FlagLine {
    /// A line that nothing was published in.
    #[allow(clippy::new_without_default)] // loom's atomics have no const new, and nobody defaults a shared line
    pub fn new() -> FlagLine {
        FlagLine {
            stamp: AtomicU64::new(0),
            word: AtomicU64::new(0),
            data: UnsafeCell::new([0; INLINE / 8]),
            arrived: AtomicU64::new(0),
            label: AtomicU64::new(0),
            reserve: [0; 6],
        }
    }

    /// The stamp published last.
    #[inline(always)]
    pub fn stamp(&self) -> u64 {
        // SYNC area-stamp: pairs with `publish`; what the owner wrote before is seen.
        self.stamp.load(Ordering::Acquire)
    }

    /// The owner's part: publishes all that it has written to the word, the data and its cell of
    /// this turn.
    #[inline(always)]
    pub fn publish(&self, stamp: u64) {
        // SYNC area-stamp: pairs with `stamp`.
        self.stamp.store(stamp, Ordering::Release);
    }

    /// The word beside the stamp.
    #[inline(always)]
    pub fn word(&self) -> u64 {
        // Relaxed: ordered by the stamp.
        self.word.load(Ordering::Relaxed)
    }

    /// The owner's part: sets the word, to be published by the next stamp.
    #[inline(always)]
    pub fn set_word(&self, word: u64) {
        self.word.store(word, Ordering::Relaxed);
    }

    /// What the owner has said about arrivals at the operation, at its last stamp or since.
    #[inline(always)]
    pub fn arrived(&self) -> u64 {
        // Relaxed: ordered by the stamp.
        self.arrived.load(Ordering::Relaxed)
    }

    /// The owner's part: says something about arrivals at the operation, to be published by the
    /// next stamp.
    #[inline(always)]
    pub fn set_arrived(&self, arrived: u64) {
        self.arrived.store(arrived, Ordering::Relaxed);
    }

    /// By which function the owner takes part, for error messages: says by itself of which
    /// operation it is.
    pub fn label(&self) -> u64 {
        // Relaxed: a word that needs nothing else.
        self.label.load(Ordering::Relaxed)
    }

    /// The owner's part: says by which function it takes part.
    #[inline(always)]
    pub fn set_label(&self, label: u64) {
        self.label.store(label, Ordering::Relaxed);
    }

    /// Calls `f` with a pointer to the data for reading. Valid for reads by who has seen the stamp
    /// that published them, until it says that it has finished; and by the owner.
    #[inline(always)]
    pub fn with_data<R>(&self, f: impl FnOnce(*const Inline) -> R) -> R {
        self.data.with(f)
    }

    /// The owner's part: calls `f` with a pointer to the data for writing. Valid for writes once
    /// all have finished the operation that used them before, until the next stamp is published.
    #[inline(always)]
    pub fn with_data_mut<R>(&self, f: impl FnOnce(*mut Inline) -> R) -> R {
        self.data.with_mut(f)
    }
}

/// How many operations one member has finished: written by that member only, alone in its line.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct FinishedMark {
    finished: AtomicU64,
}

impl FinishedMark {
    /// The mark of a member that has finished nothing.
    #[allow(clippy::new_without_default)] // as for `Line`
    pub fn new() -> FinishedMark {
        FinishedMark {
            finished: AtomicU64::new(0),
        }
    }

    /// The number of the last operation that the member has finished: it reads nothing of it, nor
    /// of those before, any more.
    #[inline(always)]
    pub fn finished(&self) -> u64 {
        // SYNC area-mark: pairs with `set_finished`; the member's reads are done, what they read
        // may be overwritten.
        self.finished.load(Ordering::Acquire)
    }

    /// The owner's part: says that it has finished operation number `operation` and all before.
    #[inline(always)]
    pub fn set_finished(&self, operation: u64) {
        // SYNC area-mark: pairs with `finished`.
        self.finished.store(operation, Ordering::Release);
    }

    /// The same where other threads of the owner may publish at once: the mark never goes back.
    #[inline(always)]
    pub fn raise_finished(&self, operation: u64) {
        // SYNC area-mark: pairs with `finished`; a thread that raises it further continues the
        // release sequence.
        self.finished.fetch_max(operation, Ordering::Release);
    }
}
