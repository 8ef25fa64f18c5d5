//! What a member publishes to the others: a line for each operation slot, and a finished number.

use crate::sync::{AtomicU64, Ordering, UnsafeCell};

/// Bytes of payload in a line.
pub const INLINE: usize = 48;

/// The payload in a line.
pub type Inline = [u64; INLINE / 8];

/// The line of one member in one operation slot. Only that member writes it. Zeroed memory is a
/// line in which nothing has been published.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct FlagLine {
    stamp: AtomicU64,
    word: AtomicU64,
    data: UnsafeCell<Inline>,
    /// In the second half of the line, which a member that polls only the stamp does not read.
    arrived: AtomicU64,
    label: AtomicU64,
    reserve: [u64; 6],
}

// SAFETY: only the line's owner writes `data`, before it publishes a stamp. Others read it only
// after they have seen that stamp, until the owner has learned that all have finished (module
// documentation). This type itself accesses it through no shared reference.
unsafe impl Sync for FlagLine {}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<FlagLine>() == 128);
    assert!(std::mem::offset_of!(FlagLine, arrived) == 64);
    assert!(size_of::<FinishedNumber>() == 128);
};

impl FlagLine {
    /// A line in which nothing has been published.
    #[allow(clippy::new_without_default)] // no const new under loom; no caller needs Default
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

    /// The latest published stamp.
    #[inline(always)]
    pub fn stamp(&self) -> u64 {
        // SYNC area-stamp: pairs with `publish`; what the owner wrote before it is visible.
        self.stamp.load(Ordering::Acquire)
    }

    /// For the owner: publishes all that it has written to the operation header, the data and its
    /// cell in this operation slot.
    #[inline(always)]
    pub fn publish(&self, stamp: u64) {
        // SYNC area-stamp: pairs with `stamp`.
        self.stamp.store(stamp, Ordering::Release);
    }

    /// The operation header.
    #[inline(always)]
    pub fn word(&self) -> u64 {
        // Relaxed: ordered by the stamp.
        self.word.load(Ordering::Relaxed)
    }

    /// For the owner: sets the operation header, which the next stamp publishes.
    #[inline(always)]
    pub fn set_word(&self, word: u64) {
        self.word.store(word, Ordering::Relaxed);
    }

    /// What the owner has announced about arrivals at the operation, at its last stamp or since.
    #[inline(always)]
    pub fn arrived(&self) -> u64 {
        // Relaxed: ordered by the stamp.
        self.arrived.load(Ordering::Relaxed)
    }

    /// For the owner: announces something about arrivals at the operation, which the next stamp
    /// publishes.
    #[inline(always)]
    pub fn set_arrived(&self, arrived: u64) {
        self.arrived.store(arrived, Ordering::Relaxed);
    }

    /// The function by which the owner takes part, for error messages. The value itself contains
    /// the operation that it belongs to.
    pub fn label(&self) -> u64 {
        // Relaxed: the word orders nothing else.
        self.label.load(Ordering::Relaxed)
    }

    /// For the owner: announces the function by which it takes part.
    #[inline(always)]
    pub fn set_label(&self, label: u64) {
        self.label.store(label, Ordering::Relaxed);
    }

    /// Calls `f` with a pointer to the data for reading. Members that have seen the stamp that
    /// published the data may read through it until they announce that they have finished; the
    /// owner may always.
    #[inline(always)]
    pub fn with_data<R>(&self, f: impl FnOnce(*const Inline) -> R) -> R {
        self.data.with(f)
    }

    /// For the owner: calls `f` with a pointer to the data for writing. It may write once all have
    /// finished the previous operation that used the data, until it publishes the next stamp.
    #[inline(always)]
    pub fn with_data_mut<R>(&self, f: impl FnOnce(*mut Inline) -> R) -> R {
        self.data.with_mut(f)
    }
}

/// How many operations one member has finished. Only that member writes it; it has a line of its
/// own.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct FinishedNumber {
    finished: AtomicU64,
}

impl FinishedNumber {
    /// The finished number of a member that has finished nothing.
    #[allow(clippy::new_without_default)] // as for `FlagLine`
    pub fn new() -> FinishedNumber {
        FinishedNumber { finished: AtomicU64::new(0) }
    }

    /// The number of the last operation that the member has finished: the member no longer reads
    /// anything of this operation or of earlier ones.
    #[inline(always)]
    pub fn finished(&self) -> u64 {
        // SYNC area-finished: pairs with `set_finished`; the member's reads happened before, so
        // what they read may be overwritten.
        self.finished.load(Ordering::Acquire)
    }

    /// For the owner: announces that it has finished operation number `operation` and all before
    /// it.
    #[inline(always)]
    pub fn set_finished(&self, operation: u64) {
        // SYNC area-finished: pairs with `finished`.
        self.finished.store(operation, Ordering::Release);
    }

    /// [`set_finished`](Self::set_finished) where other threads of the owner may publish at the
    /// same time: the finished number never decreases.
    #[inline(always)]
    pub fn raise_finished(&self, operation: u64) {
        // SYNC area-finished: pairs with `finished`; a thread that raises it further continues the
        // release sequence.
        self.finished.fetch_max(operation, Ordering::Release);
    }
}
