//! [`ExposureBoard`]: post, start, complete and wait of the ranks of a node (jiang-2004, 3.3.3;
//! MPI 5.0, 12.5.2).
//!
//! The thesis keeps a bit vector at each origin, in which a target sets its bit when it posts.
//! Bits must be cleared between epochs, and a target may post again before the origin has cleared
//! its bit. A board has counts instead, which only grow: how often this target has posted to this
//! origin, and how often this origin has completed at this target. Nothing is ever cleared.
//!
//! | count | in the row of | one for each | written in | read in |
//! |---|---|---|---|---|
//! | `posts` | the origin | target | post, by the target | start, by the origin |
//! | `completions` | the target | origin | complete, by the origin | wait, by the target |
//!
//! Each side counts its own epochs with each peer, in memory of its own ([`EpochCounts`]). Epochs
//! of a pair match in order (MPI 5.0, 12.5.2): the nth that the origin starts is the nth that the
//! target posts. A target that waits for the nth completion has posted n times, and an origin that
//! has started n times waits for the nth post. So the one side is ahead of the other by one epoch
//! at most, and comparing for equality is safe although the counts wrap.
//!
//! The counts of a rank are contiguous, as its doorbells are: a rank that waits for many peers
//! polls few cache lines, and each peer writes a line of the waiting rank once per epoch. Writing a
//! count publishes (Release) what its writer did to either memory before, and reading it acquires
//! that (SYNC exposure).

use crate::sync::{AtomicU32, Ordering};

/// Counts in a line.
const COUNTS: usize = 16;

/// A cache line of counts. Zeroed memory is a line of peers that have done nothing yet.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct EpochCountLine([AtomicU32; COUNTS]);

#[cfg(not(loom))]
const _: () = assert!(size_of::<EpochCountLine>() == 64);

impl EpochCountLine {
    /// Counts of peers that have done nothing yet.
    #[allow(clippy::new_without_default)] // no const new under loom; no caller needs Default
    pub fn new() -> EpochCountLine {
        EpochCountLine(std::array::from_fn(|_| AtomicU32::new(0)))
    }
}

/// The counts of a window among the ranks of a node: a view of lines in shared memory.
#[derive(Debug, Clone, Copy)]
pub struct ExposureBoard<'a> {
    lines: &'a [EpochCountLine],
    ranks: u32,
}

/// What one rank counts of its own: the epochs with each peer so far.
#[derive(Debug)]
pub struct EpochCounts {
    me: u32,
    /// Access epochs, by target.
    started: Vec<u32>,
    /// Exposure epochs, by origin.
    posted: Vec<u32>,
}

impl<'a> ExposureBoard<'a> {
    /// Number of lines that a board for `ranks` ranks has.
    pub fn lines(ranks: u32) -> usize {
        2 * ranks as usize * Self::lines_of_half(ranks)
    }

    /// The board in these lines.
    ///
    /// # Panics
    /// If there are not as many as [`lines`](Self::lines) says.
    pub fn new(lines: &'a [EpochCountLine], ranks: u32) -> ExposureBoard<'a> {
        assert_eq!(lines.len(), Self::lines(ranks), "board of {ranks} ranks");
        ExposureBoard { lines, ranks }
    }

    fn lines_of_half(ranks: u32) -> usize {
        (ranks as usize).div_ceil(COUNTS)
    }

    /// How often `target` has posted to `origin`. Only the target writes it.
    fn posts(&self, origin: u32, target: u32) -> &'a AtomicU32 {
        self.count(2 * origin as usize, target)
    }

    /// How often `origin` has completed at `target`. Only the origin writes it.
    fn completions(&self, target: u32, origin: u32) -> &'a AtomicU32 {
        self.count(2 * target as usize + 1, origin)
    }

    fn count(&self, half: usize, peer: u32) -> &'a AtomicU32 {
        assert!(peer < self.ranks, "rank {peer} of {}", self.ranks);
        let (line, at) = (peer as usize / COUNTS, peer as usize % COUNTS);
        &self.lines[half * Self::lines_of_half(self.ranks) + line].0[at]
    }
}

/// For the target: exposure epochs.
impl EpochCounts {
    /// Rank `me` of `ranks`, before its first epoch.
    pub fn new(me: u32, ranks: u32) -> EpochCounts {
        EpochCounts {
            me,
            started: vec![0; ranks as usize],
            posted: vec![0; ranks as usize],
        }
    }

    /// `MPI_Win_post`: exposes this rank's memory to `origins`, each named once. Calls `wake` with
    /// each of them. The last epoch has ended ([`is_complete`](Self::is_complete) for each of its
    /// origins). With `MPI_MODE_NOCHECK` too: the counts of both sides must agree later.
    pub fn post(&mut self, board: ExposureBoard, origins: &[u32], mut wake: impl FnMut(u32)) {
        for &origin in origins {
            let count = &mut self.posted[origin as usize];
            *count = count.wrapping_add(1);
            // SYNC exposure: pairs with the Acquire in `is_posted`.
            board
                .posts(origin, self.me)
                .store(*count, Ordering::Release);
            wake(origin);
        }
    }

    /// For `MPI_Win_wait` and `MPI_Win_test`: true when `origin` has completed the epoch that was
    /// last posted to it, so that what it did is visible. Does not block.
    #[inline]
    pub fn is_complete(&self, board: ExposureBoard, origin: u32) -> bool {
        // SYNC exposure: pairs with the Release in `complete`.
        let completions = board.completions(self.me, origin).load(Ordering::Acquire);
        completions == self.posted[origin as usize]
    }
}

/// For the origin: access epochs.
impl EpochCounts {
    /// `MPI_Win_start`: begins an access epoch with `targets`, each named once. Does not block:
    /// before its first access to a target, the caller awaits [`is_posted`](Self::is_posted).
    pub fn start(&mut self, targets: &[u32]) {
        for &target in targets {
            let count = &mut self.started[target as usize];
            *count = count.wrapping_add(1);
        }
    }

    /// True when `target` has posted the epoch that was last started with it: its memory may be
    /// accessed, and what it wrote before is visible. Does not block.
    #[inline]
    pub fn is_posted(&self, board: ExposureBoard, target: u32) -> bool {
        // SYNC exposure: pairs with the Release in `post`.
        let posts = board.posts(self.me, target).load(Ordering::Acquire);
        posts == self.started[target as usize]
    }

    /// `MPI_Win_complete`: ends the access epoch at `targets`. Each of them
    /// [is posted](Self::is_posted), and all accesses to it are done. Calls `wake` with each.
    pub fn complete(&self, board: ExposureBoard, targets: &[u32], mut wake: impl FnMut(u32)) {
        for &target in targets {
            debug_assert!(self.is_posted(board, target), "target {target}");
            let count = self.started[target as usize];
            // SYNC exposure: pairs with the Acquire in `is_complete`.
            board
                .completions(target, self.me)
                .store(count, Ordering::Release);
            wake(target);
        }
    }
}
