//! Which way an access to a file takes (docs/design/files.md): run by run or by blocks, and whether
//! the ranks of a collective access exchange their data.

use std::ops::Range;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessDirection {
    /// From the file.
    Read,
    /// To the file.
    Write,
}

/// Whether the library decides, or the program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessChoice {
    /// By cost.
    Automatic,
    /// Wherever it is possible.
    Always,
    /// Never.
    Never,
}

impl AccessChoice {
    /// What a word of `MICA_IO_EXCHANGE` or `MICA_IO_SIEVE` says.
    pub fn from_word(word: &str) -> AccessChoice {
        match word {
            "always" => AccessChoice::Always,
            "never" => AccessChoice::Never,
            _ => AccessChoice::Automatic,
        }
    }
}

/// Costs of system calls, in bytes that the page cache reads or writes in the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessCosts {
    /// A call that waits for no other rank.
    pub call_bytes: u64,
    /// A write of one of several ranks that write to places of a file that alternate.
    pub alternating_write_bytes: u64,
}

impl AccessCosts {
    /// The shipped figures: 0.5 us, and 7 us, at 10 GB/s.
    pub const SHIPPED: AccessCosts =
        AccessCosts { call_bytes: 4 << 10, alternating_write_bytes: 64 << 10 };
}

/// How many times its own bytes a rank may move to read alone: an exchange moves them thrice, and
/// ranks wait for one another in it.
const READ_ALONE: u64 = 6;

/// How the runs of an access lie, on an average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSpacing {
    /// Bytes of a run.
    pub len: u64,
    /// From the beginning of one to that of the next; of few runs of different lengths it can be
    /// less than `len`.
    pub distance: u64,
}

/// Whether a rank accesses runs in blocks of `block` bytes, rather than by a call each: where a
/// call costs more than the bytes between the runs. To write, a block is read and written.
pub fn goes_by_blocks(
    direction: AccessDirection,
    spacing: RunSpacing,
    block: u64,
    costs: &AccessCosts,
) -> bool {
    let gap = spacing.distance.saturating_sub(spacing.len);
    let surplus = match direction {
        AccessDirection::Read => gap,
        AccessDirection::Write => 2 * gap + spacing.len,
    };
    surplus < costs.call_bytes && spacing.distance <= block / 2
}

/// What a rank does in a collective access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessPart {
    /// First byte of the file that it accesses.
    pub start: u64,
    /// One past the last; `start` if there are none.
    pub end: u64,
    /// Bytes that it accesses.
    pub bytes: u64,
    /// Bytes of a run, on an average of the first ones.
    pub run: u64,
}

impl AccessPart {
    /// Whether it may have bytes in a range of the file.
    pub fn meets(&self, range: &Range<u64>) -> bool {
        self.bytes > 0 && self.start < range.end && range.start < self.end
    }
}

/// Whether the ranks of a collective access exchange their data.
///
/// They do to write where their parts are interleaved, in runs so short that a call for each costs
/// more than to move the bytes to the rank that writes them together: calls of several ranks on one
/// file wait for one another. Where most of the range is accessed by no rank, each fares better
/// alone.
///
/// Reads do not wait, so that each rank reads alone, run by run or in blocks, unless it would move
/// far more bytes than are its own.
pub fn exchanges(
    parts: &[AccessPart],
    direction: AccessDirection,
    choice: AccessChoice,
    costs: &AccessCosts,
) -> bool {
    let with_bytes = || parts.iter().filter(|part| part.bytes > 0);
    let (Some(start), Some(end)) =
        (with_bytes().map(|part| part.start).min(), with_bytes().map(|part| part.end).max())
    else {
        return false;
    };
    match choice {
        AccessChoice::Never => return false,
        AccessChoice::Always => return true,
        AccessChoice::Automatic => {}
    }
    let mut ordered: Vec<&AccessPart> = with_bytes().collect();
    ordered.sort_by_key(|part| part.start);
    let is_interleaved = ordered.windows(2).any(|pair| pair[1].start < pair[0].end);
    let bytes: u64 = with_bytes().map(|part| part.bytes).sum();
    let is_dense = bytes >= (end - start) / 4;
    let runs: u64 = with_bytes().map(|part| part.bytes.div_ceil(part.run.max(1))).sum();
    let is_dear = match direction {
        AccessDirection::Write => bytes / runs.max(1) < costs.alternating_write_bytes,
        AccessDirection::Read => {
            let by_runs = bytes.saturating_add(runs.saturating_mul(costs.call_bytes));
            let in_blocks: u64 = with_bytes().map(|part| part.end - part.start).sum();
            by_runs.min(in_blocks) > READ_ALONE * bytes
        }
    };
    is_interleaved && is_dense && is_dear
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(start: u64, end: u64, bytes: u64, run: u64) -> AccessPart {
        AccessPart { start, end, bytes, run }
    }

    #[test]
    fn interleaved_short_runs_are_exchanged() {
        let writes = |parts: &[AccessPart]| {
            exchanges(parts, AccessDirection::Write, AccessChoice::Automatic, &AccessCosts::SHIPPED)
        };
        assert!(writes(&[part(0, 8128, 4096, 64), part(64, 8192, 4096, 64)]));
        // One after the other; long runs; few bytes of a large range; none at all.
        assert!(!writes(&[part(0, 4096, 4096, 64), part(4096, 8192, 4096, 64)]));
        let long = 1 << 20;
        assert!(!writes(&[
            part(0, 7 * long, 4 * long, long),
            part(long, 8 * long, 4 * long, long),
        ]));
        assert!(!writes(&[part(0, 1 << 40, 4096, 64), part(64, 1 << 40, 4096, 64)]));
        assert!(!writes(&[AccessPart::default(); 3]));
        let alone = [part(0, 4096, 4096, 64)];
        assert!(exchanges(
            &alone,
            AccessDirection::Write,
            AccessChoice::Always,
            &AccessCosts::SHIPPED
        ));
    }

    #[test]
    fn reads_are_exchanged_where_each_would_read_far_more_than_its_own() {
        let reads = |ranks: u64, run: u64| {
            let all = ranks * (1 << 20);
            let parts: Vec<_> = (0..ranks).map(|_| part(0, all, 1 << 20, run)).collect();
            exchanges(&parts, AccessDirection::Read, AccessChoice::Automatic, &AccessCosts::SHIPPED)
        };
        assert!(!reads(2, 64));
        assert!(!reads(64, 4096));
        assert!(reads(64, 64));
    }

    #[test]
    fn short_runs_close_together_go_by_blocks() {
        let blocks = |direction, len, distance| {
            let spacing = RunSpacing { len, distance };
            goes_by_blocks(direction, spacing, 512 << 10, &AccessCosts::SHIPPED)
        };
        assert!(blocks(AccessDirection::Read, 64, 128));
        assert!(blocks(AccessDirection::Write, 64, 128));
        assert!(blocks(AccessDirection::Read, 512, 4096));
        assert!(!blocks(AccessDirection::Write, 512, 4096));
        assert!(!blocks(AccessDirection::Read, 64, 1 << 20));
        assert!(!blocks(AccessDirection::Write, 1 << 20, 1 << 20));
    }
}
