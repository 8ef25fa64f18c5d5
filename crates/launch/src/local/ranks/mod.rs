//! The processes of a node's ranks, and what this process keeps for each.
//!
//! A rank goes through these states; nothing goes back:
//!
//! ```text
//! planned --start_some--> runs --reap--> ended
//!                              \-reap--> lingers --end_lingering--> ended
//! ```
//!
//! Planned: `ranks` has no entry yet; ranks are started in the order of the plan, so that the index
//! of an entry is the rank's number on the node. Runs: `exit` is `None`, and its process is in
//! `alive`. Lingers: its first process has exited with zero and what it started still has its
//! output open ([`lingering`]). Ended: it is reported as a [`RankEnd`], once. The
//! [`supervisor`](crate::local::supervisor) alone moves ranks, from the event loop's thread.
//!
//! How far a rank is with MPI ([`RankStage`]) is the rank's to say: in the job segment if it runs
//! Mica, by its PMI commands if it runs another library. Those words change under the reader's
//! eyes; what is decided by them is decided after the rank's process was reaped, when they stand
//! still, except for the hang report and for checks that are repeated.
//!
//! Orders that matter: what a rank wrote is read ([`RankProcesses::drain`]) before its process is
//! reaped, and reaped before its end is reported; a process id is signalled only as long as it is
//! not reaped (`mica_node::process`). [`RankProcesses::clean_up`] runs on every way out: it kills
//! what is left, takes the last output, dismisses the keeper, and names what the kernel does not
//! let go.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use mica_bootstrap::inherited::{DescriptorKind, DescriptorRequest};
use mica_node::handover::FileIdentity;
use mica_node::proc_mount::proc_is_ours;
use mica_node::process::{
    ChildProcess, ChildSetup, Exit, Keeper, end_children, is_foreground, reap_orphans,
    set_nonblocking, signal, take_terminal_back,
};
use mica_node::segment::{AreaBudget, RankState, WaitKind};
use mica_node::topology::{CpuSet, affinity_of};
use mica_profile::rank_tables::DIRECTORY_VARIABLE;
use mica_symbols::Symbolizer;

use crate::error::{LaunchError, doing};
use crate::local::callers::HandoverCallers;
use crate::local::departed::{RankActivity, WaitingRank};
use crate::local::input::Input;
use crate::local::pmi;
use crate::local::requests::Requests;
use crate::local::world::JobWorld;
use crate::output::OutputTarget;
use crate::output::file_writer::FileWriter;
use crate::output::redirect::Redirect;
use crate::output::stream::RankStream;
use crate::placement::environment;
use crate::placement::node_job::NodeJob;
use crate::placement::plan::{NodePlan, RankPlan};
use crate::report::ended_ranks::{self, ProcessEnd};
use crate::report::late::LateArrivals;
use crate::report::rank_end::{Cause, RankEnd, RankStage};
use crate::report::traffic::CounterValues;

mod attach;
mod command;
mod hang;
mod lingering;

/// Time for processes that the ranks started to die.
const END_LIMIT: Duration = Duration::from_secs(10);

/// A rank's process.
struct RankProcess {
    process: ChildProcess,
    /// Its output streams that pass through this process.
    streams: Vec<u32>,
    /// Files other than pipes to this process that it has as its output.
    outputs: Vec<FileIdentity>,
    /// How it ended, once it has.
    exit: Option<Exit>,
    /// It has ended, and what it started works on ([`lingering`]).
    lingers: bool,
}

impl RankProcess {
    fn is_alive(&self) -> bool {
        self.exit.is_none() || self.lingers
    }
}

/// Takes text of a stream, and returns whether it takes more.
type DrainSink<'a> = dyn FnMut(&mut RankStream, Vec<u8>) -> bool + 'a;

/// The ranks of this node.
pub struct RankProcesses<'a> {
    job: &'a NodeJob,
    plan: &'a NodePlan<'a>,
    /// The ranks' place in the job segment.
    pub world: &'a JobWorld,
    keeper: Keeper,
    /// Those that have been started, in the order of the plan.
    ranks: Vec<RankProcess>,
    /// The process ids of those whose process runs.
    alive: HashSet<u32>,
    /// The files of ranks, until all are started.
    files: Redirect,
    /// Output that passes through this process, by the stream's id.
    pub streams: BTreeMap<u32, RankStream>,
    /// Whether they were asked to end.
    asked_to_end: bool,
    /// Standard input that passes through this process.
    pub input: Option<Input>,
    /// Writes the files of ranks that pass through this process.
    pub file_writer: FileWriter,
    /// The id of the next stream.
    next_stream: u32,
    /// What the user is to be told of the start of ranks.
    pub notes: Vec<String>,
    /// The ranks' process manager.
    pub pmi: pmi::PmiServer,
    /// Where processes ask for descriptors that they did not inherit. `None` where there are no
    /// abstract sockets.
    pub requests: Option<Requests>,
    /// Where tools attach. `None` where there are no abstract sockets.
    pub attach: Option<HandoverCallers>,
    /// When the job was started: milliseconds since 1970.
    started_ms: u64,
    /// A rank has the terminal.
    terminal_lent: bool,
    /// Only one rank of the node gets standard input.
    has_one_reader: bool,
    /// The address that others reach, if no interface was named.
    address: Option<String>,
}

/// How ranks are connected to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connect {
    /// They have this process's output and input, unless options require it to process them.
    Inherit,
    /// All output and input passes through this process.
    Pipes,
}

impl<'a> RankProcesses<'a> {
    /// Creates what the ranks share besides their place in the segment; no rank is started yet.
    pub fn new(
        job: &'a NodeJob,
        plan: &'a NodePlan<'a>,
        world: &'a JobWorld,
        keeper: Keeper,
        address: Option<String>,
    ) -> Result<RankProcesses<'a>, LaunchError> {
        let has_one_reader = job.members.iter().filter(|&&rank| job.takes_input(rank)).count() == 1;
        // Tools that attach show the ranks that the job started with.
        let is_first = world.spawned().is_none();
        let attach = is_first.then(|| attach::listen().ok()).flatten();
        let mut pmi = pmi::PmiServer::new(job.size, &job.name, job.members.len());
        pmi.store_nodes(&job.network.placement.table());
        Ok(RankProcesses {
            job,
            plan,
            world,
            keeper,
            ranks: Vec::with_capacity(plan.ranks.len()),
            alive: HashSet::new(),
            files: Redirect::default(),
            streams: BTreeMap::new(),
            asked_to_end: false,
            input: None,
            terminal_lent: false,
            has_one_reader,
            file_writer: FileWriter::new().map_err(doing("cannot make a pipe for output"))?,
            next_stream: 0,
            notes: Vec::new(),
            pmi,
            requests: Requests::open(job.members.len()).ok(),
            attach,
            started_ms: attach::now_ms(),
            address,
        })
    }

    /// Whether there are ranks that have not been started.
    pub fn is_starting(&self) -> bool {
        self.ranks.len() < self.plan.ranks.len()
    }

    /// Starts ranks, one at least, until all are started or the time `until` has come. To be called
    /// as long as some [are to be started](Self::is_starting), after
    /// [`check_programs`](Self::check_programs).
    pub fn start_some(&mut self, connect: Connect, until: Instant) -> Result<(), LaunchError> {
        let mut files = std::mem::take(&mut self.files);
        while let Some(plan) = self.plan.ranks.get(self.ranks.len()) {
            self.start_one(plan, connect, &mut files)?;
            if Instant::now() >= until && self.is_starting() {
                self.files = files;
                break;
            }
        }
        Ok(())
    }

    fn start_one(
        &mut self,
        plan: &RankPlan<'_>,
        connect: Connect,
        files: &mut Redirect,
    ) -> Result<(), LaunchError> {
        let index = self.ranks.len();
        let (mut command, connection) = self.command(index, plan, connect)?;
        let (streams, outputs) = self.connect_output(&mut command, index, files, connect)?;
        let terminal = connect == Connect::Inherit && self.has_terminal(plan.rank);
        self.terminal_lent |= terminal;
        let inherit = [self.world.as_fd(), connection.as_fd()];
        let setup = ChildSetup {
            inherit: &inherit,
            cpus: plan.slot.cpus.as_ref(),
            keeper: Some(&self.keeper),
            terminal,
        };
        let started = ChildProcess::spawn(&mut command, setup);
        let mut process = started.map_err(|source| self.exec_error(plan, source))?;
        if let Some(cpus) = &plan.slot.cpus {
            self.notes.extend(check_binding(plan.rank, process.pid(), cpus));
        }
        let ids = streams.iter().map(|stream| stream.id).collect();
        self.streams.extend(streams.into_iter().map(|stream| (stream.id, stream)));
        if let Some(pipe) = process.stdin.take() {
            set_nonblocking(pipe.as_fd()).map_err(doing("cannot set up standard input"))?;
            self.input.get_or_insert_default().add(pipe);
        }
        self.alive.insert(process.pid());
        self.ranks.push(RankProcess { process, streams: ids, outputs, exit: None, lingers: false });
        Ok(())
    }

    /// Where input for the ranks goes: it is kept as long as ranks are to be started.
    pub fn input_to_come(&mut self) -> Option<&mut Input> {
        if self.is_starting() {
            self.input.get_or_insert_default();
        }
        self.input.as_mut()
    }

    /// How many ranks there are on the node.
    pub fn count(&self) -> usize {
        self.plan.ranks.len()
    }

    /// How many of them have been started: those with the first numbers.
    pub fn started_count(&self) -> usize {
        self.ranks.len()
    }

    /// How many are running.
    pub fn alive_count(&self) -> usize {
        self.alive.len() + self.lingering().count()
    }

    /// Whether the process of the rank with this number on the node has ended.
    pub fn has_exited(&self, index: usize) -> bool {
        self.ranks[index].exit.is_some()
    }

    /// The streams through this process of the rank with this number on the node.
    pub fn stream_ids(&self, index: usize) -> &[u32] {
        &self.ranks[index].streams
    }

    /// Numbers on the node of the ranks that are running.
    fn alive(&self) -> Vec<usize> {
        (0..self.ranks.len()).filter(|&index| self.ranks[index].is_alive()).collect()
    }

    /// Rank and process of those that are running, for people.
    pub fn describe_alive(&self) -> String {
        // The launcher of a spawned job may have a rank's output open, and is waited for itself.
        let spawns = !self.world.launchers_below().is_empty();
        let mut alive = self.alive();
        alive.retain(|&index| !spawns || !self.ranks[index].lingers);
        let alive = alive.into_iter();
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

    /// Reaps the processes of ranks, and returns how these ranks ended: all but those that linger.
    pub fn reap(&mut self, ended: &[usize]) -> Result<Vec<RankEnd>, LaunchError> {
        let mut ends = Vec::new();
        for &index in ended {
            let process = &self.ranks[index].process;
            let exit = process.try_wait().map_err(doing("waitid"))?;
            let Some(exit) = exit else { continue };
            let pid = process.pid();
            self.ranks[index].exit = Some(exit);
            self.alive.remove(&pid);
            if exit == Exit::Code(0) && self.is_still_working(index) {
                self.ranks[index].lingers = true;
            } else {
                ends.push(self.end_of(index, exit));
            }
        }
        Ok(ends)
    }

    /// How a rank ended whose process exited so.
    fn end_of(&mut self, index: usize, exit: Exit) -> RankEnd {
        let pid = self.ranks[index].process.pid();
        self.keeper.forget(pid);
        let stage = self.stage(index);
        let plan = &self.plan.ranks[index];
        if let Some(directory) = environment::value(self.job, plan.section, DIRECTORY_VARIABLE) {
            let end = ProcessEnd { rank: plan.rank, pid, exit, stage, asked: self.asked_to_end };
            ended_ranks::record(&directory, &self.job.host, &self.job.name, end);
        }
        RankEnd {
            rank: self.plan.ranks[index].rank,
            pid,
            cause: Cause::of(exit, stage),
            without_init: exit == Exit::Code(0) && stage == RankStage::NotInitialized,
        }
    }

    /// Sends a signal to all running ranks. Returns how many this process may not signal.
    pub fn signal(&self, number: i32) -> usize {
        self.signal_lingering(number);
        let alive = self.ranks.iter().filter(|rank| rank.is_alive());
        alive.filter(|rank| rank.process.signal_group(number).is_err()).count()
    }

    /// Sends a signal that is to end all running ranks. Returns how many this process may not
    /// signal.
    pub fn end(&mut self, number: i32) -> usize {
        self.asked_to_end = true;
        self.signal(number)
    }

    /// Sends a signal to one rank, if it is running.
    pub fn signal_one(&self, index: usize, number: i32) {
        if self.ranks[index].is_alive() {
            let _ = self.ranks[index].process.signal_group(number);
        }
    }

    /// The number in the job segment of the rank with this number on the node.
    fn number(&self, index: usize) -> u32 {
        self.world.number(self.plan.ranks[index].rank)
    }

    /// Whether a rank has called MPI_Init of this library, or opened a session.
    pub fn has_come(&self, rank: u32) -> bool {
        self.world.rank_state(self.world.number(rank)) != RankState::Absent
    }

    /// Whether [one has](Self::has_come).
    pub fn has_any_come(&self) -> bool {
        self.plan.ranks.iter().any(|plan| self.has_come(plan.rank))
    }

    fn stage(&self, index: usize) -> RankStage {
        if let Some(code) = self.pmi.aborted(index) {
            return RankStage::Aborted { code };
        }
        match self.world.rank_state(self.number(index)) {
            RankState::Absent => match self.pmi.progress(index) {
                pmi::PmiProgress::Silent => RankStage::NotInitialized,
                pmi::PmiProgress::Initialized => RankStage::Running,
                pmi::PmiProgress::Finalized => RankStage::Finalized,
            },
            RankState::Running { .. } => RankStage::Running,
            RankState::Finalized => RankStage::Finalized,
            RankState::Aborted { code } => RankStage::Aborted { code },
        }
    }

    /// A running rank between MPI_Init and MPI_Finalize, which wait for all ranks of the job.
    pub fn first_in_world(&self) -> Option<u32> {
        let is_in = |&index: &usize| {
            let number = self.number(index);
            // A rank of another library, or one that is still in MPI_Init: there, ranks of several
            // nodes wait for each other in a barrier.
            let by_pmi = self.world.rank_state(number) == RankState::Absent
                && self.stage(index) == RankStage::Running;
            by_pmi || self.pmi.is_waiting(index) || self.world.block(number).is_in_world()
        };
        Some(self.plan.ranks[self.alive().into_iter().find(is_in)?].rank)
    }

    /// A rank that has exited with 0 and never called MPI_Init, and its process.
    pub fn first_without_init(&self) -> Option<(u32, u32)> {
        let mut all = self.ranks.iter().enumerate();
        let (index, rank) = all.find(|(index, rank)| {
            !rank.is_alive()
                && rank.exit == Some(Exit::Code(0))
                && self.stage(*index) == RankStage::NotInitialized
        })?;
        Some((self.plan.ranks[index].rank, rank.process.pid()))
    }

    /// What the ranks do that have initialized MPI and not finalized it.
    pub fn activities(&self) -> Vec<RankActivity> {
        let is_amid = |index: &usize| self.stage(*index) == RankStage::Running;
        let doing = |index: usize| {
            let number = self.number(index);
            if matches!(self.world.rank_state(number), RankState::Absent) {
                return RankActivity::Unobserved;
            }
            let Some((waiting, ns)) = self.world.block(number).waiting() else {
                return RankActivity::Runs;
            };
            // Negative: the rank waits for any rank, or for several. A rank of another world is
            // beyond the numbers of this one.
            let peer = u32::try_from(waiting.peer).ok();
            let peer = peer.map(|number| number.wrapping_sub(self.world.first()));
            let is_single = matches!(waiting.kind, WaitKind::Send | WaitKind::Receive);
            RankActivity::Waits(WaitingRank {
                peer: peer.filter(|_| is_single),
                time: Duration::from_nanos(ns),
            })
        };
        self.alive().into_iter().filter(is_amid).map(doing).collect()
    }

    /// What some ranks cannot do that others can, a line for each; empty if there is nothing to
    /// report.
    pub fn limits(&self) -> String {
        let line = |rank: u32| match self.world.block(self.world.number(rank)).limits_in_words() {
            limits if limits.is_empty() => None,
            limits => Some(format!("mpiexec: rank {rank} does without {limits}\n")),
        };
        self.plan.ranks.iter().map(|plan| plan.rank).filter_map(line).collect()
    }

    /// Serves processes that ask for descriptors that they did not inherit. Returns the numbers on
    /// the node of the ranks that have a new connection to the process manager.
    pub fn serve_requests(&mut self) -> Vec<usize> {
        let mut replaced = Vec::new();
        let Some(requests) = &mut self.requests else { return replaced };
        let (world, pmi, members) = (self.world, &mut self.pmi, &self.job.members);
        let mut give = |request: DescriptorRequest| -> Result<OwnedFd, String> {
            let rank = request.rank.wrapping_sub(world.first());
            let index = members.binary_search(&rank);
            let index = index.map_err(|_| format!("rank {} is not on this node", request.rank))?;
            match request.wanted {
                DescriptorKind::Values => pmi.table().map_err(|error| error.to_string()),
                DescriptorKind::Segment => {
                    world.as_fd().try_clone_to_owned().map_err(|error| error.to_string())
                }
                DescriptorKind::Manager => match pmi.replace(index) {
                    Ok(Some(theirs)) => {
                        replaced.push(index);
                        Ok(theirs.into())
                    }
                    Ok(None) => Err(format!("rank {} has used its connection", request.rank)),
                    Err(error) => Err(error.to_string()),
                },
            }
        };
        if requests.serve(&mut give).is_err() {
            // Descriptors may have run out: with the service the loop would never sleep, so it
            // is stopped.
            self.requests = None;
        }
        replaced
    }

    /// The values of each rank's counters.
    pub fn counters(&self) -> Vec<CounterValues> {
        let ranks = self.plan.ranks.iter();
        ranks
            .map(|plan| self.world.block(self.world.number(plan.rank)).counters())
            .map(|counters| CounterValues(*counters.values()))
            .collect()
    }

    /// The memory of the areas of communicators.
    pub fn areas(&self) -> AreaBudget<'_> {
        self.world.area_budget()
    }

    /// The sum of the late arrivals that the ranks have counted.
    pub fn late(&self) -> LateArrivals {
        let (mut late, mut symbols) = (LateArrivals::default(), Symbolizer::default());
        for plan in &self.plan.ranks {
            late.add(self.world.late_table(self.world.number(plan.rank)), &mut symbols);
        }
        late
    }

    /// Reaps orphans that were reparented to this process.
    pub fn reap_orphans(&self) {
        reap_orphans(&|pid| self.alive.contains(&pid));
    }

    /// Passes on what the streams of ended ranks still hold, until `sink` refuses more.
    pub fn drain(&mut self, ended: &[usize], sink: &mut DrainSink<'_>) {
        for id in ended.iter().flat_map(|&index| &self.ranks[index].streams) {
            let Some(stream) = self.streams.get_mut(id) else { continue };
            while stream.is_readable() {
                let pumped = stream.pump();
                let text = stream.pass_to_file(pumped.text, &mut self.file_writer);
                let goes_on = sink(stream, text);
                if !pumped.is_open || !goes_on {
                    break;
                }
            }
        }
    }

    /// Ends everything that is left: ranks (if the start failed half-way), what they started, the
    /// keeper. Returns a message about what could not be ended.
    pub fn clean_up(&mut self, sink: &mut dyn FnMut(OutputTarget, Vec<u8>)) -> Option<String> {
        self.signal(signal::SIGKILL);
        let left = end_children(END_LIMIT);
        // All writers are gone; what they wrote is in the pipes.
        for mut stream in std::mem::take(&mut self.streams).into_values() {
            let mut is_open = true;
            while is_open {
                let text = match stream.is_readable() {
                    true => {
                        let pumped = stream.pump();
                        is_open = pumped.is_open;
                        pumped.text
                    }
                    // A process that could not be ended holds it open.
                    false => {
                        is_open = false;
                        stream.rest()
                    }
                };
                sink(stream.target(), stream.pass_to_file(text, &mut self.file_writer));
            }
        }
        self.keeper.dismiss();
        if self.terminal_lent {
            // An error is harmless: a terminal that has gone needs no foreground group.
            let _ = take_terminal_back(io::stdin().as_fd());
        }
        let names: Vec<String> = left.iter().map(|&pid| process_name(pid)).collect();
        (!names.is_empty()).then(|| {
            format!(
                "could not end {}, which the job left behind: the kernel does not let go of it, or \
                 it runs as another user",
                names.join(", ")
            )
        })
    }
}

/// `process 4711 (sleep)`.
fn process_name(pid: u32) -> String {
    let name = proc_is_ours().then(|| std::fs::read_to_string(format!("/proc/{pid}/comm")));
    match name {
        Some(Ok(name)) => format!("process {pid} ({})", name.trim_end()),
        _ => format!("process {pid}"),
    }
}

/// A note if a rank's process may run elsewhere than planned: the kernel refused to bind it.
fn check_binding(rank: u32, pid: u32, cpus: &CpuSet) -> Option<String> {
    let is_bound = affinity_of(pid).ok()?.iter().all(|cpu| cpus.contains(cpu));
    (!is_bound).then(|| {
        format!("mpiexec: rank {rank} is not bound to processors {cpus}: the kernel refused it\n")
    })
}
