//! A job that is watched: samples of its ranks.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mica_node::process::wait_readable;
use mica_node::segment::RankView;

use super::find::{FoundJob, JobSearch};
use super::part::JobPart;
use super::process::ProcessSample;

/// A job, and what was seen of its processes.
pub struct WatchedJob {
    /// The job.
    pub job: FoundJob,
    /// The process of each rank: its number, and when it was started.
    processes: Vec<Option<(u32, u64)>>,
}

/// The ranks of a job at one moment.
pub struct JobSample {
    /// When it was taken.
    pub at: Instant,
    /// By rank.
    pub ranks: Vec<RankSample>,
}

/// A rank at one moment.
#[derive(Clone)]
pub struct RankSample {
    /// Its number in the job.
    pub rank: u32,
    /// Its process, if that is known.
    pub pid: Option<u32>,
    /// What the kernel knows of that; `None` once it has ended.
    pub process: Option<ProcessSample>,
    /// Its control data, if they could be read.
    pub view: Option<RankView>,
}

impl WatchedJob {
    /// Watches `job`.
    pub fn new(job: FoundJob) -> WatchedJob {
        let processes = vec![None; job.ranks_here()];
        WatchedJob { job, processes }
    }

    /// Looks at all ranks.
    pub fn sample(&mut self) -> JobSample {
        let at = Instant::now();
        let mut ranks = Vec::with_capacity(self.processes.len());
        for part in &self.job.parts {
            for index in 0..part.segment.ranks().len() {
                let known = &mut self.processes[ranks.len()];
                ranks.push(sample_rank(part, index, known));
            }
        }
        ranks.sort_by_key(|rank| rank.rank);
        JobSample { at, ranks }
    }

    /// Whether the job has ended, as far as it runs here.
    pub fn has_ended(&self) -> bool {
        self.job.parts.iter().all(|part| match &part.socket {
            Some(name) if part.ends.is_empty() => {
                JobSearch::new().is_ok_and(|search| !search.has(name))
            }
            _ => part.ends.iter().all(|process| {
                let ready = wait_readable(&[process.as_fd()], Some(Duration::ZERO));
                ready.is_ok_and(|ready| ready[0])
            }),
        })
    }

    /// Waits for this time, or until a part of the job ends.
    pub fn wait_for_end(&self, time: Duration) {
        let until = Instant::now() + time;
        while let left = until.saturating_duration_since(Instant::now())
            && !left.is_zero()
            && !self.has_ended()
        {
            let fds = self.job.parts.iter().flat_map(|part| &part.ends);
            let fds: Vec<_> = fds.map(|process| process.as_fd()).collect();
            // A process that ends is no reason to wait no more, as long as others run.
            match fds.len() {
                1 => drop(wait_readable(&fds, Some(left))),
                _ => std::thread::sleep(left.min(Duration::from_millis(100))),
            }
        }
    }
}

/// One rank; `known` is its process as it was seen first.
fn sample_rank(part: &JobPart, index: usize, known: &mut Option<(u32, u64)>) -> RankSample {
    let rank = part.segment.ranks()[index];
    let view = part.segment.read(index).ok();
    // The process that called MPI_Init; before that, the one that mpiexec started. In a job whose
    // ranks are in a PID namespace of their own, the first number means nothing here.
    let named = view.as_ref().map(|view| view.pid).filter(|&pid| pid != 0);
    let started = part.description.pids.get(index).copied();
    let candidates = [named, started].into_iter().flatten();
    let found = candidates.clone().find_map(|pid| {
        let process = ProcessSample::of(pid).filter(ProcessSample::is_alive)?;
        Some((pid, process))
    });
    // Another process that has got the number later is not the rank.
    let found = found.filter(|(pid, process)| match known {
        Some((known_pid, since)) if known_pid == pid => *since == process.stat.started,
        _ => true,
    });
    if let Some((pid, process)) = &found {
        *known = Some((*pid, process.stat.started));
    }
    RankSample {
        rank,
        pid: found.map(|(pid, _)| pid).or(known.map(|(pid, _)| pid)).or(named).or(started),
        process: found.map(|(_, process)| process),
        view,
    }
}
