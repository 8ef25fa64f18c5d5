//! Which way one rank's access takes: [`mica_policy::files`] decides, by what is found here.

use std::ops::Range;

use mica_policy::files::{AccessChoice, AccessCosts, AccessDirection, RunSpacing, goes_by_blocks};

use super::FileAccess;
use crate::view::{FileRun, FileView};

/// Runs that are looked at to find out how long and how far apart they are.
const SAMPLE: usize = 16;

/// The first runs of a stretch of a stream.
pub struct RunSample {
    first: FileRun,
    last: FileRun,
    number: u64,
    bytes: u64,
}

impl RunSample {
    /// Those of a stretch; `None` if it is empty.
    pub fn of(view: &FileView, stream: &Range<u64>) -> Option<RunSample> {
        let mut runs = view.runs(stream.clone()).take(SAMPLE);
        let first = runs.next()?;
        let sample = RunSample { first, last: first, number: 1, bytes: first.len };
        Some(runs.fold(sample, |sample, last| RunSample {
            first,
            last,
            number: sample.number + 1,
            bytes: sample.bytes + last.len,
        }))
    }

    /// Average length of a run in bytes.
    pub fn average(&self) -> u64 {
        self.bytes / self.number
    }

    /// How they lie, in an ascending view; `None` if there is one run.
    fn spacing(&self) -> Option<RunSpacing> {
        let distance = (self.last.offset - self.first.offset).checked_div(self.number - 1)?;
        Some(RunSpacing { len: self.average(), distance })
    }
}

impl FileAccess<'_> {
    /// The size of the blocks that an access goes by; `None`: it makes a call for each run.
    pub(super) fn block(&self, direction: AccessDirection, stream: &Range<u64>) -> Option<u64> {
        let (hints, view) = (self.hints, self.view);
        let (choice, block) = match direction {
            AccessDirection::Read => (hints.sieve_reads, hints.read_block),
            AccessDirection::Write => (hints.sieve_writes, hints.write_block),
        };
        let can = direction == AccessDirection::Read || self.guard.can_sieve();
        if choice == AccessChoice::Never || !can || view.is_dense() || !view.is_ascending() {
            return None;
        }
        let spacing = RunSample::of(view, stream)?.spacing()?;
        let pays = choice == AccessChoice::Always
            || goes_by_blocks(direction, spacing, block, &AccessCosts::SHIPPED);
        pays.then_some(block)
    }
}
