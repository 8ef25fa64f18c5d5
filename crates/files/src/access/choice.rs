//! Which way one rank's access takes: [`mica_policy::files`] decides, by what is found here.

use std::ops::Range;

use mica_policy::files::{AccessChoice, AccessCosts, AccessDirection, RunSpacing, goes_by_blocks};

use super::FileAccess;
use crate::view::FileView;

/// Runs that are looked at to find out how long and how far apart they are.
pub const SAMPLE: usize = 16;

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
        let (hints, view) = (access.hints, access.view);
        let (choice, bytes) = match direction {
            AccessDirection::Read => (hints.sieve_reads, hints.read_block),
            AccessDirection::Write => (hints.sieve_writes, hints.write_block),
        };
        let can = direction == AccessDirection::Read
            || access.storage.is_readable()
                && (access.guard.words().is_some() || access.guard.is_atomic());
        if choice == AccessChoice::Never || !can || view.is_dense() || !view.is_ascending() {
            return BlockChoice::Never;
        }
        let pays = spacing_of(view, stream).is_some_and(|spacing| {
            choice == AccessChoice::Always
                || goes_by_blocks(direction, spacing, bytes, &AccessCosts::SHIPPED)
        });
        if pays { BlockChoice::Blocks { bytes } } else { BlockChoice::Never }
    }
}

/// How the runs of a stretch of an ascending view lie, on an average of the first ones; `None` if
/// it is one run.
fn spacing_of(view: &FileView, stream: &Range<u64>) -> Option<RunSpacing> {
    let mut runs = view.runs(stream.clone()).take(SAMPLE);
    let first = runs.next()?;
    let (last, number, bytes) =
        runs.fold((first, 1, first.len), |(_, n, bytes), run| (run, n + 1, bytes + run.len));
    let distance = (last.offset - first.offset).checked_div(number - 1)?;
    Some(RunSpacing { len: bytes / number, distance })
}
