//! The words in which a rank counts, in its block of the job segment.
//!
//! Only the rank writes them, each word by a plain load and store (relaxed atomics, no locked
//! instruction): if two threads of it count the same at the same time, one count may be lost.
//! Atomic additions would cost more than that is worth. Words that are written under the engine's
//! lock and words that are written outside of it are separate, so that no count is lost between
//! these; a snapshot adds them up.
//!
//! The words are the values of [`ALL`](super::ALL), then the messages that went inline, by level,
//! then what collectives moved without messages, by path. A message that goes inline is counted by
//! its level alone, which is all that an 8-byte ping-pong pays; its path and its size class are
//! known. One-sided operations are counted by window ([`WindowCounters`]).

use super::window::{WINDOW_SLOTS, WindowCounters, WindowCounts};
use super::{
    ACCESS_CLASSES, ALGORITHM_COUNTERS, COUNTERS, Counter, Counters, FIRST_ALGORITHM, FIRST_SINGLE,
    FIRST_WAIT, LEVELS, SIZE_CLASSES, TRAFFIC_CLASSES, TrafficClass, WaitReason, level_index,
    size_class,
};
use crate::segment::{JobSegment, SegmentRef};
use crate::topology::Level;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const INLINE: usize = COUNTERS;
const COLLECTIVE: usize = INLINE + 2 * LEVELS;
const WORDS: usize = COLLECTIVE + 2 * TRAFFIC_CLASSES;

const _: () = assert!(ACCESS_CLASSES > 0 && LEVELS == Level::ALL.len());

/// The words of one rank. Zeroed memory has counted nothing.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct LiveCounters {
    words: [AtomicU64; WORDS],
    /// By slot; the last is of all windows without a slot.
    windows: [WindowCounters; WINDOW_SLOTS + 1],
}

/// A rank's words in the segment, which stays mapped.
pub type CounterRef = SegmentRef<LiveCounters>;
/// A window's words in the segment, which stays mapped.
pub type WindowCounterRef = SegmentRef<WindowCounters>;

impl Default for LiveCounters {
    fn default() -> LiveCounters {
        LiveCounters {
            words: [const { AtomicU64::new(0) }; WORDS],
            windows: std::array::from_fn(|_| WindowCounters::default()),
        }
    }
}

impl LiveCounters {
    /// The words of `rank`.
    pub fn of(segment: &Arc<JobSegment>, rank: u32) -> CounterRef {
        segment.project(|segment| segment.block(rank).live_counters())
    }

    /// The words of the window in `slot` of `rank`; with `None`, of its windows without a slot.
    pub fn window_of(
        segment: &Arc<JobSegment>,
        rank: u32,
        slot: Option<usize>,
    ) -> WindowCounterRef {
        segment.project(|segment| segment.block(rank).live_counters().window(slot))
    }

    #[inline(always)]
    fn bump(&self, at: usize, amount: u64) {
        // Relaxed: readers show the values and draw no conclusions from them.
        let word = &self.words[at];
        word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Counts a message of `bytes` bytes, at most the largest size of the first class, that went
    /// inline.
    #[inline(always)]
    pub fn count_inline(&self, level: Level, bytes: usize) {
        self.bump(INLINE + 2 * level as usize, 1);
        self.bump(INLINE + 2 * level as usize + 1, bytes as u64);
    }

    /// Counts a message of `bytes` bytes to a rank at `level`.
    pub fn count_message(&self, path: TrafficClass, level: Level, bytes: usize) {
        let at = level_index(level as usize, size_class(bytes));
        self.bump(at, 1);
        self.bump(at + SIZE_CLASSES, bytes as u64);
        self.count_on_path(path, bytes);
    }

    /// Counts a message of `bytes` bytes that has no level: one of the rank to itself.
    pub fn count_on_path(&self, path: TrafficClass, bytes: usize) {
        self.bump(2 * path as usize, 1);
        self.bump(2 * path as usize + 1, bytes as u64);
    }

    /// Counts a collective that went without messages, to which this rank contributed `bytes`
    /// bytes. Called outside of the engine's lock.
    #[inline(always)]
    pub fn count_collective(&self, path: TrafficClass, bytes: usize) {
        self.bump(COLLECTIVE + 2 * path as usize, 1);
        self.bump(COLLECTIVE + 2 * path as usize + 1, bytes as u64);
    }

    /// Counts a collective by an algorithm, by its index in
    /// [`ALGORITHM_NAMES`](super::ALGORITHM_NAMES).
    #[inline(always)]
    pub fn count_algorithm(&self, algorithm: usize) {
        assert!(algorithm < ALGORITHM_COUNTERS);
        self.bump(FIRST_ALGORITHM + algorithm, 1);
    }

    /// Where the window in `slot` counts; with `None`, a window without a slot.
    pub fn window(&self, slot: Option<usize>) -> &WindowCounters {
        &self.windows[slot.unwrap_or(WINDOW_SLOTS)]
    }

    /// Moves what the window in `slot` has counted to the rank's own words: the slot is to be
    /// another window's.
    pub fn retire_window(&self, slot: usize) {
        let window = &self.windows[slot];
        let WindowCounts { operations, locks, lock_waits, lock_barges } = window.counts();
        for (access, (count, bytes)) in operations.into_iter().enumerate() {
            let at = 2 * (TRAFFIC_CLASSES + access);
            self.bump(at, count);
            self.bump(at + 1, bytes);
        }
        self.add(Counter::WindowLocks, locks);
        self.add(Counter::WindowLockWaits, lock_waits);
        self.add(Counter::WindowLockBarges, lock_barges);
        window.clear();
    }

    /// Counts a wait that begins.
    pub fn count_wait(&self, reason: WaitReason) {
        self.bump(FIRST_WAIT + 2 * reason as usize, 1);
    }

    /// Adds nanoseconds to the time of waits for a reason.
    pub fn add_wait_time(&self, reason: WaitReason, ns: u64) {
        self.bump(FIRST_WAIT + 2 * reason as usize + 1, ns);
    }

    /// The time of waits for a reason so far, in nanoseconds.
    pub fn wait_time(&self, reason: WaitReason) -> u64 {
        self.words[FIRST_WAIT + 2 * reason as usize + 1].load(Ordering::Relaxed)
    }

    /// Counts one occurrence.
    #[inline(always)]
    pub fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Adds `amount` to a counter.
    #[inline(always)]
    pub fn add(&self, counter: Counter, amount: u64) {
        self.bump(FIRST_SINGLE + counter as usize, amount);
    }

    /// Sets a counter whose amount is kept elsewhere.
    pub fn set(&self, counter: Counter, value: u64) {
        self.words[FIRST_SINGLE + counter as usize].store(value, Ordering::Relaxed);
    }

    /// The value of a counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.words[FIRST_SINGLE + counter as usize].load(Ordering::Relaxed)
    }

    /// Raises a counter of a largest amount.
    pub fn raise(&self, counter: Counter, value: u64) {
        self.set(counter, self.get(counter).max(value));
    }

    /// The values at this moment.
    pub fn snapshot(&self) -> Counters {
        let word = |at: usize| self.words[at].load(Ordering::Relaxed);
        let mut values = Counters::new(std::array::from_fn(word));
        for level in Level::ALL {
            let at = INLINE + 2 * level as usize;
            values.add_messages(TrafficClass::Inline, word(at), word(at + 1));
            values.add_by_size(level, 0, word(at), word(at + 1));
        }
        for path in TrafficClass::ALL {
            let at = COLLECTIVE + 2 * path as usize;
            values.add_messages(path, word(at), word(at + 1));
        }
        for window in &self.windows {
            values.add_window(&window.counts());
        }
        values
    }
}
