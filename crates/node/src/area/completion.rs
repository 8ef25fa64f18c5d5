//! Tracks which operations of an area one member has completed, on any of its threads.
//!
//! A member begins operations in order, one thread at a time (MPI 5.0, 6.14), and completes them in
//! any order, on any thread that makes progress; at most
//! [`OPERATION_SLOTS`](super::OPERATION_SLOTS) are in progress. Its *finished number* announces the
//! number up to which it has completed all operations. The other members overwrite what it has read
//! once the finished number allows it, so the reads of all its threads must happen before the
//! finished number:
//!
//! | step | ordering |
//! |---|---|
//! | completing an operation | update of `completed` (AcqRel): acquires the reads of the others |
//! | raising it | maximum (Release), so that an older number is never published last |
//! | seeing in numbers or stamps (Acquire) what all have completed | raises `safe` (Release) |
//! | writing for an operation | after reading `safe`, or finished numbers (Acquire) |
//!
//! Where one thread at a time is inside the library ([`ThreadMode::sole`]), updates are plain
//! stores.

use super::FinishedNumber;
use crate::lock::ThreadMode;
use crate::sync::{AtomicU64, Ordering};

/// The completion state of one member.
#[derive(Debug)]
pub struct Completions {
    /// The number up to which all operations are completed, times 256. The low byte is a bitmap of
    /// operations completed out of order; bit 0 is that number plus 2.
    completed: AtomicU64,
    /// The number up to which all members have completed, as far as this member knows.
    safe: AtomicU64,
}

impl Completions {
    /// The state of a member that has completed nothing.
    #[allow(clippy::new_without_default)] // no const new under loom; no caller needs Default
    pub fn new() -> Completions {
        Completions { completed: AtomicU64::new(0), safe: AtomicU64::new(0) }
    }

    /// Completes operation `number` and raises the member's own `finished_number`. To be called
    /// once for each operation. If the finished number has advanced, returns its previous value.
    #[inline(always)]
    pub fn complete(
        &self,
        number: u64,
        finished_number: &FinishedNumber,
        mode: &ThreadMode,
    ) -> Option<u64> {
        let (old, new) = match mode.sole() {
            Some(_section) => {
                let old = self.completed.load(Ordering::Relaxed);
                let new = after_completing(old, number);
                self.completed.store(new, Ordering::Relaxed);
                if new >> 8 != old >> 8 {
                    finished_number.set_finished(new >> 8);
                }
                (old, new)
            }
            None => self.complete_shared(number, finished_number),
        };
        (new >> 8 != old >> 8).then_some(old >> 8)
    }

    /// [`complete`](Self::complete) where other threads of this member may call it at the same
    /// time. Returns `completed` before and after.
    #[inline(never)]
    fn complete_shared(&self, number: u64, finished_number: &FinishedNumber) -> (u64, u64) {
        let mut old = self.completed.load(Ordering::Relaxed);
        loop {
            let new = after_completing(old, number);
            // SYNC completed: Release publishes this thread's reads to the thread that advances the
            // count; Acquire receives those of the others.
            match self.completed.compare_exchange_weak(
                old,
                new,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) if new >> 8 != old >> 8 => {
                    finished_number.raise_finished(new >> 8);
                    return (old, new);
                }
                Ok(_) => return (old, new),
                Err(now) => old = now,
            }
        }
    }

    /// The number up to which this member has completed all operations.
    #[inline(always)]
    pub fn all_up_to(&self) -> u64 {
        // SYNC completed: a thread that publishes this number also publishes the reads behind it.
        self.completed.load(Ordering::Acquire) >> 8
    }

    /// Notes that all members have completed all operations up to `to`.
    #[inline(always)]
    pub fn raise_safe(&self, to: u64) {
        // If two threads raise it at once, the lower number may stay; the only cost is that
        // finished numbers are read once more.
        if to > self.safe.load(Ordering::Relaxed) {
            // SYNC safe: pairs with `is_safe`; publishes what this thread has acquired from
            // finished numbers or stamps.
            self.safe.store(to, Ordering::Release);
        }
    }

    /// Whether all members are known to have completed operation `number`, so that what they read
    /// for it may be overwritten.
    #[inline(always)]
    pub fn is_safe(&self, number: u64) -> bool {
        // SYNC safe: pairs with `raise_safe`.
        self.safe.load(Ordering::Acquire) >= number
    }
}

/// The value of [`Completions::completed`] after one more operation.
#[inline(always)]
fn after_completing(old: u64, number: u64) -> u64 {
    if old == (number - 1) << 8 {
        return number << 8; // in order, as almost always
    }
    let (low, ahead) = (old >> 8, old & 0xff);
    if number != low + 1 {
        // At most `OPERATION_SLOTS` operations are in progress, so the bit fits the low byte.
        return old | 1 << (number - low - 2);
    }
    let run = u64::from(ahead.trailing_ones());
    (low + 1 + run) << 8 | ahead >> run >> 1
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::lock::OneThreadAtATime;

    /// The finished number after each completion.
    fn finished_numbers(order: &[u64], mode: &ThreadMode) -> Vec<u64> {
        let (account, finished_number) = (Completions::new(), FinishedNumber::new());
        let complete = |&number: &u64| {
            let before = finished_number.finished();
            let advanced = account.complete(number, &finished_number, mode);
            assert_eq!(advanced, (finished_number.finished() != before).then_some(before));
            assert_eq!(finished_number.finished(), account.all_up_to());
            finished_number.finished()
        };
        order.iter().map(complete).collect()
    }

    #[test]
    fn operations_complete_in_any_order() {
        let many = ThreadMode::new();
        let one = ThreadMode::new();
        // SAFETY: this thread alone uses it.
        one.elide(unsafe { OneThreadAtATime::promised() });
        for mode in [&many, &one] {
            assert_eq!(finished_numbers(&[1, 2, 3], mode), [1, 2, 3]);
            assert_eq!(finished_numbers(&[2, 1, 3], mode), [0, 2, 3]);
            assert_eq!(finished_numbers(&[4, 2, 3, 1, 5], mode), [0, 0, 0, 4, 5]);
            assert_eq!(finished_numbers(&[3, 1, 4, 2, 6, 5], mode), [0, 1, 1, 4, 4, 6]);
        }
    }

    #[test]
    fn what_is_safe_only_rises() {
        let account = Completions::new();
        account.raise_safe(5);
        account.raise_safe(3);
        assert!(account.is_safe(5) && !account.is_safe(6));
    }
}
