//! Departed ranks: ranks that exited with status zero, but without `MPI_Finalize`, or with a
//! session open.
//!
//! As long as no other rank needs them, that is no failure: if all ranks exit with status zero, so
//! does the job, as under other launchers. It is a failure as soon as the others cannot go on
//! without them, and the job is ended then:
//!
//! - a rank waits for a message of one that left, or for one that left to take its own;
//! - all ranks that still run are waiting in MPI;
//! - ranks are still running with MPI initialized a minute later. They may poll (`MPI_Test` in a
//!   loop), which cannot be distinguished from computing.
//!
//! What ranks wait for is read from the job segment, a few times a second from the first departure
//! on: an idle job costs nothing until then. A rank of another library (PMI alone) does not report
//! what it waits for, and after a few seconds counts as waiting for one that left. Ranks that have
//! not called `MPI_Init`, or have called `MPI_Finalize`, need no other rank.

use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Time between two checks of the ranks.
const INTERVAL: Duration = Duration::from_millis(250);
/// A wait that lasts this long counts as endless: what ranks that left have sent was delivered
/// before they left.
const STUCK: Duration = Duration::from_secs(1);
/// Time for the other ranks to end, if they do not wait in MPI.
pub const DEPARTURE_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for the other ranks to end, if what they wait for cannot be seen.
const UNOBSERVED_LIMIT: Duration = Duration::from_secs(5);

/// What a rank does that has initialized MPI, or has a session open, and has not finalized it.
#[derive(Debug, Clone, Copy)]
pub enum RankActivity {
    /// It waits in MPI.
    Waits(WaitingRank),
    /// It computes, or polls.
    Runs,
    /// It uses another library, which does not report this.
    Unobserved,
}

/// A rank that waits in MPI.
#[derive(Debug, Clone, Copy)]
pub struct WaitingRank {
    /// The rank that it waits for, if it is a single one.
    pub peer: Option<u32>,
    /// For how long.
    pub time: Duration,
}

/// The ranks that left while the job goes on.
#[derive(Debug)]
pub struct DepartedRanks {
    /// In the order in which they were found to have left: each rank and its process.
    ranks: Vec<(u32, u32)>,
    since: Instant,
    next_check: Instant,
}

impl DepartedRanks {
    /// An empty list, made when the first rank leaves.
    pub fn new() -> DepartedRanks {
        let since = Instant::now();
        DepartedRanks { ranks: Vec::new(), since, next_check: since + INTERVAL }
    }

    /// Adds a rank that has left, and the id of its process.
    pub fn add(&mut self, rank: u32, pid: u32) {
        self.ranks.push((rank, pid));
    }

    /// When to check the other ranks.
    pub fn next_check(&self) -> Instant {
        self.next_check
    }

    /// The rank, and its process, without which the others cannot go on. `others` has what each
    /// running rank does that has initialized MPI and not finalized it.
    pub fn missed(&mut self, now: Instant, others: &[RankActivity]) -> Option<(u32, u32)> {
        self.next_check = now + INTERVAL;
        let gone_for = now.saturating_duration_since(self.since);
        let left: Vec<u32> = self.ranks.iter().map(|&(rank, _)| rank).collect();
        let missed = missed(&left, gone_for, others)?;
        self.ranks.iter().copied().find(|&(rank, _)| rank == missed)
    }
}

/// The rank of those that left without which the `others` cannot go on: the first one that some of
/// them wait for, or else the first that left.
fn missed(left: &[u32], gone_for: Duration, others: &[RankActivity]) -> Option<u32> {
    let is_stuck = |doing: &RankActivity| match doing {
        RankActivity::Waits(wait) => wait.time.min(gone_for) >= STUCK,
        RankActivity::Runs => false,
        RankActivity::Unobserved => gone_for >= UNOBSERVED_LIMIT,
    };
    let &first = left.first()?;
    let known: HashSet<u32> = left.iter().copied().collect();
    let waits_for = |doing: &RankActivity| match doing {
        RankActivity::Waits(wait) => wait.peer.filter(|peer| known.contains(peer)),
        RankActivity::Runs => None,
        RankActivity::Unobserved => Some(first),
    };
    let named = others.iter().filter(|doing| is_stuck(doing)).find_map(waits_for);
    let is_over = gone_for >= DEPARTURE_TIMEOUT || others.iter().all(is_stuck);
    named.or((!others.is_empty() && is_over).then_some(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    use RankActivity::{Runs, Unobserved};

    fn is_missed(left: &[u32], gone_for: Duration, others: &[RankActivity]) -> bool {
        missed(left, gone_for, others).is_some()
    }

    fn wait(peer: Option<u32>, seconds: u64) -> RankActivity {
        let time = Duration::from_secs(seconds);
        RankActivity::Waits(WaitingRank { peer, time })
    }

    #[test]
    fn ranks_that_end_or_compute_miss_nobody() {
        let minute = DEPARTURE_TIMEOUT - Duration::from_secs(1);
        assert!(!is_missed(&[1], minute, &[]));
        assert!(!is_missed(&[1], minute, &[Runs, Runs]));
        // Rank 2 still runs, and what rank 0 waits for may come.
        assert!(!is_missed(&[1], minute, &[wait(Some(2), 50), Runs]));
        assert!(!is_missed(&[1], minute, &[wait(None, 50), Runs]));
        // The wait has just begun, or the other rank has just left.
        assert!(!is_missed(&[1], minute, &[wait(Some(1), 0)]));
        assert!(!is_missed(&[1], Duration::ZERO, &[wait(Some(1), 50)]));
    }

    #[test]
    fn ranks_that_cannot_go_on_miss_those_that_left() {
        let short = Duration::from_secs(2);
        assert!(is_missed(&[5, 1], short, &[Runs, wait(Some(1), 2)]));
        assert!(is_missed(&[1], short, &[wait(Some(2), 2), wait(Some(0), 2)]));
        assert!(is_missed(&[1], short, &[wait(None, 2)]));
        assert!(is_missed(&[1], DEPARTURE_TIMEOUT, &[Runs, Runs]));
    }

    #[test]
    fn the_rank_that_is_waited_for_is_the_one_missed() {
        let short = Duration::from_secs(2);
        assert_eq!(missed(&[5, 1], short, &[Runs, wait(Some(1), 2)]), Some(1));
        // One has just begun to wait for rank 5, another has long waited for rank 1.
        let others = [wait(Some(5), 0), wait(Some(1), 2)];
        assert_eq!(missed(&[5, 1], short, &others), Some(1));
        // Any of them would do, or none is named: the first that left.
        assert_eq!(missed(&[5, 1], short, &[wait(None, 2)]), Some(5));
        assert_eq!(missed(&[5, 1], DEPARTURE_TIMEOUT, &[Runs]), Some(5));
    }

    #[test]
    fn ranks_of_another_library_have_a_few_seconds() {
        assert!(!is_missed(&[1], Duration::from_secs(2), &[Unobserved, Unobserved]));
        assert!(is_missed(&[1], UNOBSERVED_LIMIT, &[Unobserved, Unobserved]));
        assert!(is_missed(&[1], UNOBSERVED_LIMIT, &[Unobserved, Runs]));
    }
}
