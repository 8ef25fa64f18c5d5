//! A job that is watched: samples of its ranks.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mica_node::process::wait_readable;
use mica_node::segment::{RankView, World};

use super::find::{FoundJob, JobSearch};
use super::part::JobPart;
use super::process::ProcessSample;
use super::spawned::RankName;

/// A job, and what was seen of its processes.
pub struct WatchedJob {
    /// The job.
    pub job: FoundJob,
    /// The process of each rank: its number, and when it was started.
    processes: HashMap<RankId, (u32, u64)>,
}

/// A rank, and the generation of its world: a name is given again when its holder has ended.
pub type RankId = (RankName, u32);

/// The ranks of a job at one moment.
pub struct JobSample {
    /// When it was taken.
    pub at: Instant,
    /// The worlds that were spawned and run.
    pub worlds: Vec<World>,
    /// By rank, those of spawned worlds last.
    pub ranks: Vec<RankSample>,
}

/// A rank at one moment.
#[derive(Clone)]
pub struct RankSample {
    /// Which one.
    pub id: RankId,
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
        WatchedJob { job, processes: HashMap::new() }
    }

    /// Looks at all ranks.
    pub fn sample(&mut self) -> JobSample {
        let at = Instant::now();
        let (mut ranks, mut worlds) = (Vec::new(), Vec::new());
        let mut sample = |part: &JobPart, index: usize, id: RankId| {
            let known = self.processes.get(&id).copied();
            ranks.push(sample_rank(part, index, id, known));
        };
        for part in &self.job.parts {
            for (index, &rank) in part.segment.ranks().iter().enumerate() {
                sample(part, index, (RankName { spawned_job: 0, rank }, 0));
            }
            for world in part.segment.spawned_worlds() {
                for (rank, number) in world.ranks().enumerate() {
                    let name = RankName { spawned_job: world.index, rank: rank as u32 };
                    sample(part, number as usize, (name, world.generation));
                }
                worlds.push(world);
            }
        }
        ranks.sort_by_key(|rank| rank.id);
        let seen = |rank: &RankSample| {
            let started = rank.process.map(|process| process.stat.started);
            let known = self.processes.get(&rank.id).copied();
            Some((rank.id, rank.pid.zip(started).or(known)?))
        };
        self.processes = ranks.iter().filter_map(seen).collect();
        JobSample { at, worlds, ranks }
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

/// The rank with this index in the segment; `known` is its process as it was seen last.
fn sample_rank(part: &JobPart, index: usize, id: RankId, known: Option<(u32, u64)>) -> RankSample {
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
        Some((known_pid, since)) if known_pid == *pid => since == process.stat.started,
        _ => true,
    });
    RankSample {
        id,
        pid: found.map(|(pid, _)| pid).or(known.map(|(pid, _)| pid)).or(named).or(started),
        process: found.map(|(_, process)| process),
        view,
    }
}
