//! The processes of a node's ranks: starting them, asking how they are, signalling them, ending what they leave.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mica_bootstrap::inherited::{Request, Wanted};
use mica_node::area::Budget;
use mica_node::process::{
    ChildSetup, Exit, Keeper, Process, end_children, proc_is_ours, reap_orphans, set_nonblocking,
    signal, wait_readable,
};
use mica_node::segment::{JobSegment, JobSpec, RankState};
use mica_node::topology::{CpuSet, Place, affinity_of};

use crate::input::Input;
use crate::job::{LaunchError, doing};
use crate::late::Late;
use crate::output::{Stream, Target};
use crate::plan::{Plan, RankPlan};
use crate::pmi;
use crate::report::{Cause, Stage, ended_line, hang_line, say};
use crate::requests::Requests;
use crate::traffic::Sent;
use crate::wire::{NodeJob, RankEnd};

mod command;

/// How long what the ranks started may take to die.
const END_LIMIT: Duration = Duration::from_secs(10);

/// A rank's process.
struct Rank {
    process: Process,
    /// How it ended, once it has.
    exit: Option<Exit>,
}

impl Rank {
    fn is_alive(&self) -> bool {
        self.exit.is_none()
    }
}

/// The ranks of this node.
pub struct Ranks<'a> {
    job: &'a NodeJob,
    plan: &'a Plan<'a>,
    segment: JobSegment,
    keeper: Keeper,
    ranks: Vec<Rank>,
    /// Output that passes through this process.
    pub streams: Vec<Stream>,
    /// Standard input that passes through this process.
    pub input: Option<Input>,
    /// By a stream's id: bytes of it that are on their way.
    pub unwritten: Vec<usize>,
    /// The ranks' process manager.
    pub pmi: pmi::Server,
    /// Where processes ask for what they did not inherit. `None` where there are no abstract sockets.
    pub requests: Option<Requests>,
    /// Where an interface's name was not given: the address that others reach.
    address: Option<String>,
}

/// How ranks are connected to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connect {
    /// They have this process's output and input, unless something is to be done with it.
    Inherit,
    /// All passes through this process.
    Pipes,
}

impl<'a> Ranks<'a> {
    /// Makes what the ranks share; none is started yet.
    pub fn new(
        job: &'a NodeJob,
        plan: &'a Plan<'a>,
        keeper: Keeper,
        address: Option<String>,
    ) -> Result<Ranks<'a>, LaunchError> {
        let places: Vec<Place> = plan.ranks.iter().map(|rank| rank.slot.place).collect();
        let appnum: Vec<u32> = plan.ranks.iter().map(|rank| rank.section_number).collect();
        let segment = JobSegment::create(&JobSpec {
            places: &places,
            available_cores: plan.available_cores as u32,
            appnum: &appnum,
            job_size: job.size,
            members: &job.members,
        })?;
        Ok(Ranks {
            job,
            plan,
            segment,
            keeper,
            ranks: Vec::with_capacity(plan.ranks.len()),
            streams: Vec::new(),
            input: None,
            unwritten: Vec::new(),
            pmi: pmi::Server::new(job.size, &job.name, job.size as usize == job.members.len()),
            requests: Requests::open().ok(),
            address,
        })
    }

    /// Starts all ranks.
    pub fn start(&mut self, connect: Connect) -> Result<(), LaunchError> {
        self.check_programs()?;
        for (index, plan) in self.plan.ranks.iter().enumerate() {
            let (mut command, connection) = self.command(index, plan, connect)?;
            let streams = self.connect_output(&mut command, index, connect);
            let streams = streams.map_err(doing("cannot make pipes for a rank's output"))?;
            let inherit = [self.segment.as_fd(), connection.as_fd()];
            let setup = ChildSetup {
                inherit: &inherit,
                cpus: plan.slot.cpus.as_ref(),
                keeper: Some(&self.keeper),
            };
            let started = Process::spawn(&mut command, setup);
            let mut process = started.map_err(|source| self.exec_error(plan, source))?;
            if let Some(cpus) = &plan.slot.cpus {
                check_binding(plan.rank, process.pid(), cpus);
            }
            self.streams.extend(streams);
            if let Some(pipe) = process.stdin.take() {
                set_nonblocking(pipe.as_fd()).map_err(doing("cannot set up standard input"))?;
                self.input = Some(Input::new(pipe));
            }
            self.ranks.push(Rank {
                process,
                exit: None,
            });
        }
        Ok(())
    }

    /// How many ranks there are on the node.
    pub fn count(&self) -> usize {
        self.plan.ranks.len()
    }

    /// Numbers on the node of the ranks that run.
    pub fn alive(&self) -> Vec<usize> {
        (0..self.ranks.len())
            .filter(|&index| self.ranks[index].is_alive())
            .collect()
    }

    /// Rank and process of those that run, for people.
    pub fn describe_alive(&self) -> String {
        let alive = self.alive().into_iter();
        let names = alive.map(|index| {
            let (rank, process) = (self.plan.ranks[index].rank, &self.ranks[index].process);
            format!("rank {rank} (pid {})", process.pid())
        });
        names.collect::<Vec<_>>().join(", ")
    }

    /// The descriptor that is readable when the rank with this number on the node has ended.
    pub fn process_fd(&self, index: usize) -> BorrowedFd<'_> {
        self.ranks[index].process.as_fd()
    }

    /// Reaps ranks and says how they ended.
    pub fn reap(&mut self, ended: &[usize]) -> Result<Vec<RankEnd>, LaunchError> {
        let mut ends = Vec::new();
        for &index in ended {
            let process = &self.ranks[index].process;
            let exit = process.try_wait().map_err(doing("waitid"))?;
            let Some(exit) = exit else { continue };
            let pid = process.pid();
            self.ranks[index].exit = Some(exit);
            self.keeper.forget(pid);
            let stage = self.stage(index);
            ends.push(RankEnd {
                rank: self.plan.ranks[index].rank,
                pid,
                cause: Cause::of(exit, stage),
                without_init: exit == Exit::Code(0) && stage == Stage::NotInitialized,
            });
        }
        Ok(ends)
    }

    /// Sends a signal to all that run. Answers how many ranks this process may not signal.
    pub fn signal(&self, number: i32) -> usize {
        let alive = self.ranks.iter().filter(|rank| rank.is_alive());
        let refused = alive.filter(|rank| rank.process.signal_group(number).is_err());
        refused.count()
    }

    /// Sends a signal to one rank, if it runs.
    pub fn signal_one(&self, index: usize, number: i32) {
        if self.ranks[index].is_alive() {
            let _ = self.ranks[index].process.signal_group(number);
        }
    }

    fn stage(&self, index: usize) -> Stage {
        if let Some(code) = self.pmi.aborted(index) {
            return Stage::Aborted { code };
        }
        match self.segment.rank_state(self.plan.ranks[index].rank) {
            RankState::Absent => match self.pmi.progress(index) {
                pmi::Progress::Silent => Stage::NotInitialized,
                pmi::Progress::Initialized => Stage::Running,
                pmi::Progress::Finalized => Stage::Finalized,
            },
            RankState::Running { .. } => Stage::Running,
            RankState::Finalized => Stage::Finalized,
            RankState::Aborted { code } => Stage::Aborted { code },
        }
    }

    /// A rank that runs and is between MPI_Init and MPI_Finalize, which wait for all ranks of the job.
    pub fn first_in_world(&self) -> Option<u32> {
        let is_in = |&index: &usize| {
            let rank = self.plan.ranks[index].rank;
            // A rank of another library, or one that is still in MPI_Init.
            let by_pmi = self.segment.rank_state(rank) == RankState::Absent
                && self.stage(index) == Stage::Running;
            by_pmi || self.segment.block(rank).is_in_world()
        };
        let index = self.alive().into_iter().find(is_in)?;
        Some(self.plan.ranks[index].rank)
    }

    /// A rank that has exited with 0 and never called MPI_Init, and its process.
    pub fn first_without_init(&self) -> Option<(u32, u32)> {
        let mut all = self.ranks.iter().enumerate();
        let (index, rank) = all.find(|(index, rank)| {
            rank.exit == Some(Exit::Code(0)) && self.stage(*index) == Stage::NotInitialized
        })?;
        Some((self.plan.ranks[index].rank, rank.process.pid()))
    }

    /// A line for each rank: what it waits for, or how it has ended. `host` is named if there are several.
    pub fn hang_lines(&self, host: Option<&str>) -> Vec<(u32, String)> {
        let line = |(index, state): (usize, &Rank)| {
            let rank = self.plan.ranks[index].rank;
            let (pid, stage) = (state.process.pid(), self.stage(index));
            let line = match state.exit {
                Some(exit) => ended_line(rank, pid, host, exit, stage),
                None => hang_line(rank, pid, host, stage, self.waits_for(index)),
            };
            (rank, line)
        };
        self.ranks.iter().enumerate().map(line).collect()
    }

    fn waits_for(&self, index: usize) -> Option<String> {
        let rank = self.plan.ranks[index].rank;
        match self.segment.rank_state(rank) {
            RankState::Absent if self.job.pmi => Some("waits in MPI_Init for other ranks".into()),
            RankState::Absent => Some("is in a program of another MPI library".into()),
            _ => self.segment.wait_report(rank),
        }
    }

    /// Serves processes that ask for what they did not inherit.
    pub fn serve_requests(&mut self) {
        let Some(requests) = &mut self.requests else {
            return;
        };
        let (segment, pmi, members) = (&self.segment, &mut self.pmi, &self.job.members);
        let mut give = |request: Request| -> Result<OwnedFd, String> {
            let index = members.iter().position(|&rank| rank == request.rank);
            let index =
                index.ok_or_else(|| format!("rank {} is not on this node", request.rank))?;
            match request.wanted {
                Wanted::Segment => {
                    let copy = segment.as_fd().try_clone_to_owned();
                    copy.map_err(|error| error.to_string())
                }
                Wanted::Manager => match pmi.replace(index) {
                    Ok(Some(theirs)) => Ok(theirs.into()),
                    Ok(None) => Err(format!("rank {} has used its connection", request.rank)),
                    Err(error) => Err(error.to_string()),
                },
            }
        };
        if requests.serve(&mut give).is_err() {
            // No more descriptors, say: better no service than a loop that never sleeps.
            self.requests = None;
        }
    }

    /// What each rank has sent.
    pub fn traffic(&self) -> Vec<Sent> {
        let ranks = self.plan.ranks.iter();
        ranks
            .map(|plan| self.segment.block(plan.rank).traffic())
            .collect()
    }

    /// The memory of the areas of communicators.
    pub fn areas(&self) -> Budget<'_> {
        self.segment.area_budget()
    }

    /// What the ranks have counted of late arrivals, together.
    pub fn late(&self) -> Late {
        let mut late = Late::default();
        for plan in &self.plan.ranks {
            late.add(self.segment.late_table(plan.rank));
        }
        late
    }

    /// Reaps processes that were left to this one.
    pub fn reap_orphans(&self) {
        reap_orphans(&|pid| {
            let of = |rank: &Rank| rank.is_alive() && rank.process.pid() == pid;
            self.ranks.iter().any(of)
        });
    }

    /// Passes on what the streams of ranks that have ended still hold, as far as `sink` takes it.
    pub fn drain(&mut self, ended: &[usize], sink: &mut dyn FnMut(Target, Vec<u8>, u32) -> bool) {
        let of_ended = self.streams.iter_mut();
        for stream in of_ended.filter(|stream| ended.contains(&stream.rank)) {
            while is_readable(stream) {
                let pumped = stream.pump();
                let goes_on = sink(stream.target(), pumped.text, stream.id);
                if !pumped.is_open || !goes_on {
                    break;
                }
            }
        }
    }

    /// Leaves nothing behind: ranks (if the start failed half-way), what they started, the keeper. Answers what could not
    /// be ended, in words.
    pub fn clean_up(&mut self, sink: &mut dyn FnMut(Target, Vec<u8>)) -> Option<String> {
        self.signal(signal::SIGKILL);
        let left = end_children(END_LIMIT);
        // All writers are gone; what they wrote is in the pipes.
        for mut stream in self.streams.drain(..) {
            let mut is_open = true;
            while is_open && is_readable(&stream) {
                let pumped = stream.pump();
                sink(stream.target(), pumped.text);
                is_open = pumped.is_open;
            }
            if is_open {
                // Somebody who could not be ended holds it.
                sink(stream.target(), stream.rest());
            }
        }
        self.keeper.dismiss();
        let names: Vec<String> = left.iter().map(|&pid| process_name(pid)).collect();
        (!names.is_empty()).then(|| {
            format!(
                "could not end {}, which the job left behind: the kernel does not let go of it, or it runs as another user",
                names.join(", ")
            )
        })
    }
}

fn is_readable(stream: &Stream) -> bool {
    let ready = wait_readable(&[stream.as_fd()], Some(Duration::ZERO));
    ready.is_ok_and(|ready| ready[0])
}

/// `process 4711 (sleep)`.
fn process_name(pid: u32) -> String {
    let name = proc_is_ours().then(|| std::fs::read_to_string(format!("/proc/{pid}/comm")));
    match name {
        Some(Ok(name)) => format!("process {pid} ({})", name.trim_end()),
        _ => format!("process {pid}"),
    }
}

/// Says so if a rank's process may run elsewhere than planned: the kernel refused to bind it.
fn check_binding(rank: u32, pid: u32, cpus: &CpuSet) {
    if let Ok(actual) = affinity_of(pid)
        && !actual.iter().all(|cpu| cpus.contains(cpu))
    {
        say(format_args!(
            "mpiexec: rank {rank} is not bound to processors {cpus}: the kernel refused it\n"
        ));
    }
}
