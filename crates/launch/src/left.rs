//! Ranks that left: they exited with status zero, but without `MPI_Finalize`, or with a session open.
//!
//! As long as no other rank needs them, that is no failure: if all ranks exit with status zero, so does the job, as under
//! other launchers. It is one as soon as the others cannot go on without them, and the job is ended then:
//!
//! - a rank waits for a message of one that left, or for one that left to take its own;
//! - all ranks that still run wait in MPI;
//! - ranks are still amid MPI a minute later. They may poll (`MPI_Test` in a loop), which cannot be told from computing.
//!
//! What ranks wait for is read from the job segment, a few times in a second from the first departure on: an idle job costs
//! nothing until then. A rank of another library (PMI alone) does not say what it waits for, and is taken to wait for one that left
//! after a few seconds. Ranks that have not called `MPI_Init`, or have called `MPI_Finalize`, need nobody.

use std::time::{Duration, Instant};

use crate::report::Failure;

/// From one look at the ranks to the next.
const INTERVAL: Duration = Duration::from_millis(250);
/// A wait that takes so long is taken for one without an end: what ranks that left have sent was there before they left.
const STUCK: Duration = Duration::from_secs(1);
/// The others have this time to end, if they do not wait in MPI.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The others have this time to end, if what they wait for cannot be seen.
const UNSEEN: Duration = Duration::from_secs(5);

/// What a rank does that is amid MPI.
#[derive(Debug, Clone, Copy)]
pub enum Doing {
    /// It waits in MPI.
    Waits(Wait),
    /// It computes, or polls.
    Runs,
    /// It has another library, which does not say.
    Unseen,
}

/// A rank that waits in MPI.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// For whom, if that is one rank.
    pub peer: Option<u32>,
    /// For how long.
    pub time: Duration,
}

/// The ranks that left, of a job that goes on.
#[derive(Debug)]
pub struct Left {
    /// The first of them, in case the others miss one.
    pub first: Failure,
    ranks: Vec<u32>,
    since: Instant,
    next_look: Instant,
}

impl Left {
    /// The first rank has left.
    pub fn new(first: Failure) -> Left {
        let since = Instant::now();
        Left {
            ranks: vec![first.rank],
            first,
            since,
            next_look: since + INTERVAL,
        }
    }

    /// Another rank has left.
    pub fn add(&mut self, rank: u32) {
        self.ranks.push(rank);
    }

    /// When to look at the other ranks.
    pub fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Whether the others cannot go on; `others` has what each of them does that is amid MPI.
    pub fn is_missed(&mut self, now: Instant, others: &[Doing]) -> bool {
        self.next_look = now + INTERVAL;
        let gone_for = now.saturating_duration_since(self.since);
        is_missed(&self.ranks, gone_for, others)
    }
}

fn is_missed(left: &[u32], gone_for: Duration, others: &[Doing]) -> bool {
    let is_stuck = |doing: &Doing| match doing {
        Doing::Waits(wait) => wait.time.min(gone_for) >= STUCK,
        Doing::Runs => false,
        Doing::Unseen => gone_for >= UNSEEN,
    };
    let waits_for_it = |doing: &Doing| match doing {
        Doing::Waits(wait) => wait.peer.is_some_and(|peer| left.contains(&peer)),
        Doing::Runs => false,
        Doing::Unseen => true,
    };
    let mut stuck = others.iter().filter(|doing| is_stuck(doing));
    let is_over = gone_for >= PATIENCE || others.iter().all(is_stuck);
    !others.is_empty() && (is_over || stuck.any(waits_for_it))
}

#[cfg(test)]
mod tests {
    use super::*;

    use Doing::{Runs, Unseen};

    fn wait(peer: Option<u32>, seconds: u64) -> Doing {
        let time = Duration::from_secs(seconds);
        Doing::Waits(Wait { peer, time })
    }

    #[test]
    fn ranks_that_end_or_compute_miss_nobody() {
        let minute = PATIENCE - Duration::from_secs(1);
        assert!(!is_missed(&[1], minute, &[]));
        assert!(!is_missed(&[1], minute, &[Runs, Runs]));
        // Rank 2 is there, and what rank 0 waits for may come.
        assert!(!is_missed(&[1], minute, &[wait(Some(2), 50), Runs]));
        assert!(!is_missed(&[1], minute, &[wait(None, 50), Runs]));
        // It has just begun to wait, or the other has just left.
        assert!(!is_missed(&[1], minute, &[wait(Some(1), 0)]));
        assert!(!is_missed(&[1], Duration::ZERO, &[wait(Some(1), 50)]));
    }

    #[test]
    fn ranks_that_cannot_go_on_miss_those_that_left() {
        let short = Duration::from_secs(2);
        assert!(is_missed(&[5, 1], short, &[Runs, wait(Some(1), 2)]));
        assert!(is_missed(
            &[1],
            short,
            &[wait(Some(2), 2), wait(Some(0), 2)]
        ));
        assert!(is_missed(&[1], short, &[wait(None, 2)]));
        assert!(is_missed(&[1], PATIENCE, &[Runs, Runs]));
    }

    #[test]
    fn ranks_of_another_library_have_a_few_seconds() {
        assert!(!is_missed(&[1], Duration::from_secs(2), &[Unseen, Unseen]));
        assert!(is_missed(&[1], UNSEEN, &[Unseen, Unseen]));
        assert!(is_missed(&[1], UNSEEN, &[Unseen, Runs]));
    }
}
