//! Which jobs of this node can be watched, and attaching to them.
//!
//! A job's mpiexec has one socket, and each agent of a job that spans hosts one on its own. Jobs
//! without these are found by their ranks (`direct`). Where several parts of one job run on this
//! machine (virtual nodes), they are watched together.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mica_node::attach::{ANSWER_TIMEOUT, SocketName, attach_all};
use mica_node::handover::own_uid;

use super::direct;
use super::error::TopError;
use super::part::{JobPart, end_of};

/// Time for the answers of other users' sockets, which may be anything: more than the two seconds
/// that an mpiexec may be busy with a hang report.
const OTHERS_TIMEOUT: Duration = Duration::from_secs(3);

/// The sockets of all jobs of this node.
pub struct JobSearch {
    names: Vec<SocketName>,
    own_uid: u32,
}

/// What a search has found.
pub struct SearchResult {
    /// The jobs, by process.
    pub jobs: Vec<FoundJob>,
    /// Why jobs cannot be watched that this user may watch.
    pub failures: Vec<TopError>,
}

/// A job with ranks on this node.
pub struct FoundJob {
    /// Its parts here, one at least, by their first ranks.
    pub parts: Vec<JobPart>,
}

impl FoundJob {
    /// The process by which the job is named: its mpiexec, or the agent on this node.
    pub fn pid(&self) -> u32 {
        match &self.parts[..] {
            [part] => part.pid,
            parts => launcher_of(&parts[0].description.name).unwrap_or(parts[0].pid),
        }
    }

    /// Number of ranks on this node that it was started with.
    pub fn ranks_here(&self) -> usize {
        self.parts.iter().map(|part| part.segment.ranks().len()).sum()
    }
}

impl JobSearch {
    /// Reads the names of all sockets.
    pub fn new() -> Result<JobSearch, TopError> {
        let listing = std::fs::read("/proc/net/unix").map_err(TopError::Sockets)?;
        Ok(JobSearch {
            names: SocketName::find_in(&String::from_utf8_lossy(&listing)),
            own_uid: own_uid(),
        })
    }

    /// The jobs that this user can watch, by process, and why others of theirs cannot be.
    pub fn find(&self) -> SearchResult {
        let (mut parts, failures) = self.attach();
        let known: Vec<_> = parts.iter().filter_map(|part| direct::key_of(&part.segment)).collect();
        parts.extend(direct::parts(&known));
        let mut jobs = group(parts);
        jobs.sort_by_key(FoundJob::pid);
        SearchResult { jobs, failures }
    }

    /// Asks all mpiexecs that this user may ask, the user's own first.
    fn attach(&self) -> (Vec<JobPart>, Vec<TopError>) {
        let all: Vec<SocketName> = self.watchable().cloned().collect();
        let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|n| n.uid == self.own_uid);
        let (mut parts, mut failures) = (Vec::new(), Vec::new());
        let times = [(own, ANSWER_TIMEOUT), (in_turns(others), OTHERS_TIMEOUT)];
        for (names, time) in times {
            let mut peers: Vec<_> = names.iter().map(|_| (0, Vec::new())).collect();
            let mut connected = |index: usize, peer: u32| {
                peers[index] = (peer, end_of(peer).into_iter().collect());
            };
            let answers = attach_all(&names, Instant::now() + time, &mut connected);
            for ((name, (pid, ends)), answer) in names.into_iter().zip(peers).zip(answers) {
                match answer {
                    Ok((description, segment)) => parts.push(JobPart {
                        pid,
                        uid: name.uid,
                        names: vec![name.pid],
                        ends,
                        socket: Some(name),
                        description,
                        segment,
                    }),
                    Err(source) => failures.push(TopError::Attach { pid: name.pid, source }),
                }
            }
        }
        (parts, failures)
    }

    /// Whether a socket is there.
    pub fn has(&self, name: &SocketName) -> bool {
        self.names.contains(name)
    }

    /// Number of jobs that this user cannot watch.
    pub fn others(&self) -> usize {
        self.names.len() - self.watchable().count()
    }

    /// The job whose mpiexec, or whose agent, is this process, or is above it.
    pub fn job(&self, pid: u32) -> Result<FoundJob, TopError> {
        let named = || self.names.iter().filter(|name| name.pid == pid);
        // Another user can name any process.
        if let Some(name) = named().next()
            && !named().any(|name| self.is_watchable(name))
        {
            return Err(TopError::NotYours { pid, uid: name.uid });
        }
        let is_named = |job: &FoundJob| {
            let part = |part: &JobPart| part.pid == pid || part.names.contains(&pid);
            let launcher = launcher_of(&job.parts[0].description.name);
            job.parts.iter().any(part) || launcher == Some(pid)
        };
        let SearchResult { mut jobs, failures } = self.find();
        // A process below an mpiexec is of its job: a rank, and the launcher of a spawned job.
        let launched = |job: &FoundJob, pid: u32| {
            job.parts.iter().any(|part| part.pid == pid && part.socket.is_some())
        };
        let above = || direct::ancestors(pid);
        let mut found = jobs.iter().position(is_named);
        found = found.or_else(|| above().find_map(|p| jobs.iter().position(|j| launched(j, p))));
        if let Some(at) = found {
            return Ok(jobs.swap_remove(at));
        }
        let mut failures = failures.into_iter();
        let of_it =
            |f: &TopError| matches!(f, TopError::Attach { pid: failed, .. } if *failed == pid);
        Err(failures.find(of_it).unwrap_or(TopError::NotAJob(pid)))
    }

    fn watchable(&self) -> impl Iterator<Item = &SocketName> {
        self.names.iter().filter(|name| self.is_watchable(name))
    }

    fn is_watchable(&self, name: &SocketName) -> bool {
        name.uid == self.own_uid || self.own_uid == 0
    }
}

/// The names in turns over their users, so that one user's cannot take the places of others'.
fn in_turns(names: Vec<SocketName>) -> Vec<SocketName> {
    let mut turns: HashMap<u32, usize> = HashMap::new();
    let numbered = names.into_iter().map(|name| {
        let turn = turns.entry(name.uid).or_default();
        *turn += 1;
        (*turn, name)
    });
    let mut numbered: Vec<(usize, SocketName)> = numbered.collect();
    numbered.sort_by_key(|(turn, _)| *turn);
    numbered.into_iter().map(|(_, name)| name).collect()
}

/// Parts of the same job together.
fn group(parts: Vec<JobPart>) -> Vec<FoundJob> {
    let mut jobs: Vec<FoundJob> = Vec::new();
    for part in parts {
        let same = |job: &&mut FoundJob| {
            let other = &job.parts[0];
            let size = other.segment.job_size() == part.segment.job_size();
            size && other.description.name == part.description.name && other.uid == part.uid
        };
        match jobs.iter_mut().find(same) {
            Some(job) => job.parts.push(part),
            None => jobs.push(FoundJob { parts: vec![part] }),
        }
    }
    for job in &mut jobs {
        job.parts.sort_by_key(|part| part.segment.ranks().first().copied());
    }
    jobs
}

/// The process of a job's mpiexec, by the job's name: `kvs_HOST_PID_RANDOM`.
fn launcher_of(job: &str) -> Option<u32> {
    job.rsplit('_').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_is_read_from_the_jobs_name() {
        assert_eq!(launcher_of("kvs_my_host_4711_00ff"), Some(4711));
        assert_eq!(launcher_of(""), None);
        assert_eq!(launcher_of("kvs_host_x_00"), None);
    }
}
