//! Which way an access takes, by the number and the lengths of its runs.
//!
//! The costs below are those of a page cache: a call takes as long as some thousands of bytes. A
//! hint of the program overrides the choice (`romio_ds_read`, `romio_ds_write`, `romio_cb_read`,
//! `romio_cb_write`).

use std::ops::Range;

use super::{AccessDirection, FileAccess};
use crate::hints::Choice;
use crate::view::FileView;

/// Runs that are looked at to find out how long and how far apart they are.
const SAMPLE: usize = 16;
/// Bytes that a call of the system costs as much as, when both are read or written in the page
/// cache: 0.5 us at 10 GB/s.
const CALL_BYTES: u64 = 4096;

/// Bytes of a run from which on ranks that write interleaved runs do so alone. A call that waits
/// for another rank's costs some 7 us.
const WRITTEN_ALONE: u64 = 16 * CALL_BYTES;
/// How many times its own bytes a rank may move to read alone.
const READ_ALONE: u64 = 6;

/// Whether an access goes by blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockChoice {
    /// A call for each run.
    Never,
    /// A block at a time.
    Blocks {
        /// The size of a block.
        bytes: u64,
    },
}

impl BlockChoice {
    /// What this access takes.
    pub fn of(
        access: &FileAccess<'_>,
        direction: AccessDirection,
        stream: &Range<u64>,
    ) -> BlockChoice {
        let hints = access.hints;
        let (choice, bytes) = match direction {
            AccessDirection::Read => (hints.sieve_reads, hints.read_block),
            AccessDirection::Write => (hints.sieve_writes, hints.write_block),
        };
        let can = direction == AccessDirection::Read
            || access.storage.is_readable()
                && (access.guard.words().is_some() || access.guard.is_atomic());
        if choice == Choice::Never || !can || access.view.is_dense() || !access.view.is_ascending()
        {
            return BlockChoice::Never;
        }
        let Some(spacing) = Spacing::of(access.view, stream) else {
            return BlockChoice::Never;
        };
        // A block is read, and written as well to write.
        let passes = match direction {
            AccessDirection::Read => 1,
            AccessDirection::Write => 2,
        };
        let gap = spacing.distance.saturating_sub(spacing.len);
        let pays =
            passes * gap + (passes - 1) * spacing.len < CALL_BYTES && spacing.distance <= bytes / 2;
        match choice == Choice::Always || pays {
            true => BlockChoice::Blocks { bytes },
            false => BlockChoice::Never,
        }
    }
}

/// How the runs of a stretch lie, on an average of the first ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spacing {
    /// Bytes of a run.
    pub len: u64,
    /// Bytes from the beginning of one to that of the next.
    pub distance: u64,
}

impl Spacing {
    /// That of a stretch; `None` if it is one run.
    pub fn of(view: &FileView, stream: &Range<u64>) -> Option<Spacing> {
        let mut runs = view.runs(stream.clone());
        let first = runs.next()?;
        let (mut last, mut number, mut bytes) = (first, 1, first.len);
        for run in runs.take(SAMPLE - 1) {
            if run.offset < last.end() {
                // Steps back: blocks would be read again and again.
                return None;
            }
            (last, number, bytes) = (run, number + 1, bytes + run.len);
        }
        if number == 1 {
            return None;
        }
        let distance = (last.offset - first.offset) / (number - 1);
        Some(Spacing { len: bytes / number, distance })
    }
}

/// What a process announces of its part in a collective access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// First byte of the file that it accesses.
    pub start: u64,
    /// One past the last; `start` if there are none.
    pub end: u64,
    /// Bytes that it accesses.
    pub bytes: u64,
    /// Bytes of a run, on an average of the first ones.
    pub run: u64,
}

/// Whether a collective access pays by exchange.
///
/// A write does where the ranks' parts are interleaved, in runs so short that a call for each costs
/// more than to move the bytes to the rank that writes them together: calls of several ranks on one
/// file wait for one another. Where most of the range is accessed by no rank, each fares better
/// alone.
///
/// Reads do not wait, so that each rank reads alone, run by run or in blocks, unless it would move
/// far more bytes than are its own.
pub fn exchanges(parts: &[Exchange], direction: AccessDirection, choice: Choice) -> bool {
    let with_bytes = || parts.iter().filter(|part| part.bytes > 0);
    let (Some(start), Some(end)) =
        (with_bytes().map(|part| part.start).min(), with_bytes().map(|part| part.end).max())
    else {
        return false;
    };
    match choice {
        Choice::Never => return false,
        Choice::Always => return true,
        Choice::Automatic => {}
    }
    let mut ordered: Vec<&Exchange> = with_bytes().collect();
    ordered.sort_by_key(|part| part.start);
    let is_interleaved = ordered.windows(2).any(|pair| pair[1].start < pair[0].end);
    let bytes: u64 = with_bytes().map(|part| part.bytes).sum();
    let is_dense = bytes >= (end - start) / 4;
    let runs: u64 = with_bytes().map(|part| part.bytes.div_ceil(part.run.max(1))).sum();
    let is_dear = match direction {
        AccessDirection::Write => bytes / runs.max(1) < WRITTEN_ALONE,
        AccessDirection::Read => {
            let by_runs = bytes.saturating_add(runs.saturating_mul(CALL_BYTES));
            let in_blocks: u64 = with_bytes().map(|part| part.end - part.start).sum();
            by_runs.min(in_blocks) > READ_ALONE * bytes
        }
    };
    is_interleaved && is_dense && is_dear
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(start: u64, end: u64, bytes: u64, run: u64) -> Exchange {
        Exchange { start, end, bytes, run }
    }

    #[test]
    fn interleaved_short_runs_are_exchanged() {
        let writes =
            |parts: &[Exchange]| exchanges(parts, AccessDirection::Write, Choice::Automatic);
        assert!(writes(&[part(0, 8128, 4096, 64), part(64, 8192, 4096, 64)]));
        // One after the other; long runs; few bytes of a large range; none at all.
        assert!(!writes(&[part(0, 4096, 4096, 64), part(4096, 8192, 4096, 64)]));
        let long = 1 << 20;
        assert!(!writes(&[
            part(0, 7 * long, 4 * long, long),
            part(long, 8 * long, 4 * long, long),
        ]));
        assert!(!writes(&[part(0, 1 << 40, 4096, 64), part(64, 1 << 40, 4096, 64)]));
        assert!(!writes(&[Exchange::default(); 3]));
        let alone = [part(0, 4096, 4096, 64)];
        assert!(exchanges(&alone, AccessDirection::Write, Choice::Always));
    }

    #[test]
    fn reads_are_exchanged_where_each_would_read_far_more_than_its_own() {
        let reads = |ranks: u64, run: u64| {
            let all = ranks * (1 << 20);
            let parts: Vec<_> = (0..ranks).map(|_| part(0, all, 1 << 20, run)).collect();
            exchanges(&parts, AccessDirection::Read, Choice::Automatic)
        };
        assert!(!reads(2, 64));
        assert!(!reads(64, 4096));
        assert!(reads(64, 64));
    }
}
