//! Which jobs of this node can be watched, and attaching to them.
//!
//! A job's mpiexec has one socket, and each agent of a job that spans hosts one on its own. Jobs
//! without these are found by their ranks (`direct`). Where several parts of one job run on this
//! machine (virtual nodes), they are watched together.

use mica_node::attach::{AttachError, SocketName, attach};
use mica_node::handover::own_uid;

use super::direct;
use super::error::TopError;
use super::part::{JobPart, end_of};

/// The sockets of all jobs of this node.
pub struct JobSearch {
    names: Vec<SocketName>,
    own_uid: u32,
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

    /// Number of ranks on this node.
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

    /// The jobs that this user can watch, by process. Those that do not answer are left out.
    pub fn jobs(&self) -> Vec<FoundJob> {
        let attached = self.watchable().filter_map(|name| join(name).ok());
        let mut parts: Vec<JobPart> = attached.collect();
        let known: Vec<_> = parts.iter().filter_map(|part| direct::key_of(&part.segment)).collect();
        parts.extend(direct::parts(&known));
        let mut jobs = group(parts);
        jobs.sort_by_key(FoundJob::pid);
        jobs
    }

    /// Whether a socket is there.
    pub fn has(&self, name: &SocketName) -> bool {
        self.names.contains(name)
    }

    /// Number of jobs that this user cannot watch.
    pub fn others(&self) -> usize {
        self.names.len() - self.watchable().count()
    }

    /// Why the first of the user's jobs cannot be watched, if there is one.
    pub fn first_failure(&self) -> Option<TopError> {
        let mut failures = self.watchable().filter_map(|name| {
            let pid = name.pid;
            join(name).err().map(|source| TopError::Attach { pid, source })
        });
        failures.next()
    }

    /// The job whose mpiexec, or whose agent, is this process.
    pub fn job(&self, pid: u32) -> Result<FoundJob, TopError> {
        if let Some(name) = self.names.iter().find(|name| name.pid == pid) {
            if !self.is_watchable(name) {
                return Err(TopError::NotYours { pid, uid: name.uid });
            }
            join(name).map_err(|source| TopError::Attach { pid, source })?;
        }
        let is_named = |job: &FoundJob| {
            let part = |part: &JobPart| part.pid == pid || part.names.contains(&pid);
            let launcher = launcher_of(&job.parts[0].description.name);
            job.parts.iter().any(part) || launcher == Some(pid)
        };
        let found = self.jobs().into_iter().find(is_named);
        found.ok_or(TopError::NotAJob(pid))
    }

    fn watchable(&self) -> impl Iterator<Item = &SocketName> {
        self.names.iter().filter(|name| self.is_watchable(name))
    }

    fn is_watchable(&self, name: &SocketName) -> bool {
        name.uid == self.own_uid || self.own_uid == 0
    }
}

fn join(name: &SocketName) -> Result<JobPart, AttachError> {
    let (mut pid, mut ends) = (0, Vec::new());
    let (description, segment) = attach(name, &mut |peer| {
        pid = peer;
        ends = end_of(peer).into_iter().collect();
    })?;
    Ok(JobPart {
        pid,
        uid: name.uid,
        names: vec![name.pid],
        ends,
        socket: Some(name.clone()),
        description,
        segment,
    })
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
