//! Which ranks belong to one job, and when and how each of them ended.
//!
//! A script may start several jobs, one after the other or at the same time. Ranks with the same
//! key are of one job. Without a launcher that names its jobs the key holds for one host, or for
//! one rank where the launcher starts a shell for each: then ranks join the latest job of their
//! size that lacks them and had not ended when they began. A job of one rank is one process.

use std::collections::BTreeMap;

use mica_profile::rank_tables::RankTables;

use super::facts::{EndedRank, OwnEnd, RankFacts};

/// When and where a command ended, for ranks of which nobody says when they ended.
#[derive(Debug)]
pub struct RecordingEnd {
    /// `CLOCK_MONOTONIC`.
    pub ns: u64,
    /// Names the running kernel.
    pub boot: String,
}

impl RecordingEnd {
    /// The command has just ended on this host.
    pub fn now() -> RecordingEnd {
        RecordingEnd {
            ns: mica_node::segment::monotonic_ns(),
            boot: mica_node::identity::boot_id(),
        }
    }
}

/// A rank with what is known of its end.
#[derive(Debug)]
pub struct EndedRecords {
    pub facts: RankFacts,
    pub tables: RankTables,
    /// When it ended, or was last seen.
    pub end_ns: u64,
    pub finalized: bool,
    /// How it ended, if not by `MPI_Finalize` and with status 0.
    pub ended: Option<String>,
}

/// How the launcher describes an end that is none to speak of.
const CLEAN: &str = "exited with code 0 after MPI_Finalize";

/// The ranks of each job in order, the jobs in the order of their starts.
pub fn of(
    ranks: Vec<(RankFacts, RankTables)>,
    ended: &[EndedRank],
    command: &RecordingEnd,
) -> Vec<Vec<EndedRecords>> {
    let starts: Vec<(String, u64)> =
        ranks.iter().map(|(facts, _)| (facts.boot.clone(), facts.start_ns)).collect();
    let ends = ranks.into_iter().map(|(facts, tables)| {
        // A rank of which nobody says when it ended had ended when the next job began.
        let later = starts
            .iter()
            .filter(|(boot, ns)| *boot == facts.boot && *ns > last_seen(&facts, &tables));
        let limit = later.map(|(_, ns)| *ns).min();
        end_of(facts, tables, ended, command, limit)
    });
    group(ends.collect())
}

fn end_of(
    facts: RankFacts,
    tables: RankTables,
    ended: &[EndedRank],
    command: &RecordingEnd,
    limit: Option<u64>,
) -> EndedRecords {
    // The launcher's process may be a shell or a tool around the rank's.
    let of_job = |end: &&EndedRank| facts.job.strip_prefix("mica:") == Some(end.job.as_str());
    let said = ended.iter().filter(of_job).find(|end| end.rank == facts.rank);
    let how = said.map(|end| end.how.clone());
    let (finalized, own) = match facts.end {
        Some((OwnEnd::Finalized, _)) => (true, None),
        Some((OwnEnd::Aborted { code }, _)) => {
            (false, Some(format!("called MPI_Abort with code {code}")))
        }
        Some((OwnEnd::Exited, _)) => (false, Some("exited without MPI_Finalize".to_owned())),
        None => (false, Some("was killed, or ended by _exit".to_owned())),
    };
    let end_ns = match (facts.end, said) {
        (Some((_, ns)), _) => ns,
        (None, Some(end)) => end.ns,
        (None, None) if is_inside(&tables) && facts.boot == command.boot => {
            limit.unwrap_or(command.ns)
        }
        (None, None) => last_seen(&facts, &tables),
    };
    let how = if finalized { how.filter(|how| how != CLEAN) } else { how.or(own) };
    EndedRecords { facts, tables, end_ns, finalized, ended: how }
}

fn is_inside(tables: &RankTables) -> bool {
    tables.threads.iter().any(|thread| thread.running.is_some())
}

/// When a rank entered or left a call for the last time.
fn last_seen(facts: &RankFacts, tables: &RankTables) -> u64 {
    let of = |thread: &mica_profile::rank_tables::ThreadTables| {
        let entered = thread.running.map_or(0, |call| call.entered);
        entered.max(thread.left)
    };
    let last = tables.threads.iter().map(of).filter(|ticks| *ticks > 0).max();
    last.map_or(facts.start_ns, |ticks| tables.clock.ns(ticks)).max(facts.start_ns)
}

/// Ranks with one key.
struct KeyGroup {
    size: u32,
    ranks: Vec<EndedRecords>,
}

impl KeyGroup {
    fn started(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.facts.started_unix_ns).min().unwrap_or(0)
    }

    /// By the clock of all hosts.
    fn ended(&self) -> u64 {
        let end = |rank: &EndedRecords| {
            rank.facts.started_unix_ns + rank.end_ns.saturating_sub(rank.facts.start_ns)
        };
        self.ranks.iter().map(end).max().unwrap_or(0)
    }

    fn lacks(&self, other: &KeyGroup) -> bool {
        let has = |rank: u32| self.ranks.iter().any(|own| own.facts.rank == rank);
        self.size == other.size && !other.ranks.iter().any(|rank| has(rank.facts.rank))
    }
}

fn group(ranks: Vec<EndedRecords>) -> Vec<Vec<EndedRecords>> {
    let mut groups: BTreeMap<(String, u32, u32), KeyGroup> = BTreeMap::new();
    for rank in ranks {
        let facts = &rank.facts;
        let process = if facts.size == 1 { facts.pid } else { 0 };
        let key = (facts.job.clone(), facts.size, process);
        let group = groups.entry(key).or_insert(KeyGroup { size: facts.size, ranks: Vec::new() });
        group.ranks.push(rank);
    }
    let mut groups: Vec<KeyGroup> = groups.into_values().collect();
    groups.sort_by_key(KeyGroup::started);
    let mut jobs: Vec<KeyGroup> = Vec::new();
    for group in groups {
        let fits = |job: &&mut KeyGroup| job.lacks(&group) && group.started() <= job.ended();
        match jobs.iter_mut().rev().find(fits) {
            Some(job) => job.ranks.extend(group.ranks),
            None => jobs.push(group),
        }
    }
    let sorted = |mut job: KeyGroup| {
        job.ranks.sort_by_key(|rank| rank.facts.rank);
        job.ranks.dedup_by_key(|rank| rank.facts.rank);
        job.ranks
    };
    jobs.into_iter().map(sorted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rank of a size, with its job's key, start and end.
    fn rank(rank: u32, size: u32, job: &str, from: u64, to: u64) -> (RankFacts, RankTables) {
        let facts = RankFacts {
            rank,
            size,
            pid: 100 + from as u32,
            boot: "b".into(),
            job: job.into(),
            start_ns: from,
            started_unix_ns: 1000 + from,
            end: (to > 0).then_some((OwnEnd::Finalized, to)),
            ..RankFacts::default()
        };
        (facts, RankTables::empty())
    }

    fn jobs(ranks: Vec<(RankFacts, RankTables)>, ended: &[EndedRank]) -> Vec<Vec<EndedRecords>> {
        of(ranks, ended, &RecordingEnd { ns: 500, boot: "b".into() })
    }

    fn numbers(jobs: &[Vec<EndedRecords>]) -> Vec<Vec<(u32, u64)>> {
        let of = |job: &Vec<EndedRecords>| {
            job.iter().map(|rank| (rank.facts.rank, rank.facts.start_ns)).collect()
        };
        jobs.iter().map(of).collect()
    }

    #[test]
    fn two_jobs_of_one_size_are_two() {
        let ranks = vec![
            rank(1, 2, "mica:b", 30, 40),
            rank(0, 2, "mica:a", 10, 20),
            rank(0, 2, "mica:b", 31, 40),
            rank(1, 2, "mica:a", 11, 20),
        ];
        assert_eq!(numbers(&jobs(ranks, &[])), [[(0, 10), (1, 11)], [(0, 31), (1, 30)]]);
        let alone = vec![rank(0, 1, "parent:1", 10, 20), rank(0, 1, "parent:1", 30, 40)];
        assert_eq!(numbers(&jobs(alone, &[])), [[(0, 10)], [(0, 30)]]);
    }

    #[test]
    fn ranks_of_several_hosts_or_shells_join_the_job_that_runs() {
        // Two jobs after one another; each rank has a key of its own, and rank 2 of the first
        // never started MPI.
        let ranks = vec![
            rank(0, 3, "1", 10, 20),
            rank(1, 3, "2", 11, 20),
            rank(2, 3, "3", 30, 40),
            rank(0, 3, "4", 31, 40),
            rank(1, 3, "5", 32, 40),
        ];
        let found = numbers(&jobs(ranks, &[]));
        assert_eq!(found, [vec![(0, 10), (1, 11)], vec![(0, 31), (1, 32), (2, 30)]]);
    }

    #[test]
    fn the_launcher_says_how_a_killed_rank_ended() {
        let killed = EndedRank {
            job: "a".into(),
            rank: 1,
            pid: 9,
            ns: 77,
            how: "was killed by signal 9 (SIGKILL)".into(),
        };
        let clean = EndedRank { rank: 0, how: CLEAN.into(), ..killed.clone() };
        let ranks = vec![rank(0, 2, "mica:a", 10, 20), rank(1, 2, "mica:a", 11, 0)];
        let jobs = jobs(ranks, &[killed.clone(), clean]);
        let ends: Vec<(u64, Option<&str>)> =
            jobs[0].iter().map(|rank| (rank.end_ns, rank.ended.as_deref())).collect();
        assert_eq!(ends, [(20, None), (77, Some(killed.how.as_str()))]);
    }
}
