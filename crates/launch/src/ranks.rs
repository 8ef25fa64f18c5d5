//! The processes of a node's ranks: starting them, asking how they are, signalling them, ending what they leave.

use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use mica_node::area::Budget;
use mica_node::process::{
    ChildSetup, Keeper, Process, kill_orphans, reap_orphans, set_nonblocking, signal, wait_readable,
};
use mica_node::segment::{JobSegment, JobSpec, PREFIX_VARIABLE, RankState};
use mica_node::topology::Place;

use crate::job::{LaunchError, doing};
use crate::late::Late;
use crate::output::{Stream, Target};
use crate::plan::{Plan, RankPlan};
use crate::pmi;
use crate::report::{Cause, Stage, end_text, hang_line};
use crate::traffic::Sent;
use crate::wire::{NodeJob, NodeReport, RankEnd};

/// Variables of other process managers, or for the launcher alone: a rank must not take itself for theirs.
const FOREIGN: [&str; 3] = ["PMI_", "PMIX_", "MICA_VIRTUAL_NODES"];

/// Time for ranks that sleep in MPI to answer what they wait for; the others have half of it.
const ASK_TIME: Duration = Duration::from_secs(2);

/// Time for answers to become complete.
const SETTLE_TIME: Duration = Duration::from_millis(20);

/// A rank's process.
struct Rank {
    process: Process,
    alive: bool,
    /// How it ended, for hang reports.
    end: String,
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
    /// The ranks' process manager, if they need one.
    pub pmi: Option<pmi::Server>,
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
            pmi: job.pmi.then(|| pmi::Server::new(job.size, &job.name)),
            address,
        })
    }

    /// Starts all ranks.
    pub fn start(&mut self, connect: Connect) -> Result<(), LaunchError> {
        for (index, plan) in self.plan.ranks.iter().enumerate() {
            let (mut command, connection) = self.command(index, plan, connect)?;
            let mut inherit = vec![self.segment.as_fd()];
            inherit.extend(connection.as_ref().map(AsFd::as_fd));
            let setup = ChildSetup {
                inherit: &inherit,
                cpus: plan.slot.cpus.as_ref(),
                keeper: Some(&self.keeper),
            };
            let started = Process::spawn(&mut command, setup);
            let mut process = started.map_err(|source| self.exec_error(plan, source))?;
            let label = self.job.label.then_some(plan.rank);
            if let Some(pipe) = process.stdout.take() {
                self.streams.push(Stream::new(label, pipe, Target::Out));
            }
            if let Some(pipe) = process.stderr.take() {
                self.streams.push(Stream::new(label, pipe, Target::Err));
            }
            if let Some(pipe) = process.stdin.take() {
                set_nonblocking(pipe.as_fd()).map_err(doing("cannot set up standard input"))?;
                self.input = Some(Input::new(pipe));
            }
            self.ranks.push(Rank {
                process,
                alive: true,
                end: String::new(),
            });
        }
        Ok(())
    }

    /// The command of a rank, and its end of the connection to the process manager.
    fn command(
        &mut self,
        index: usize,
        plan: &RankPlan<'_>,
        connect: Connect,
    ) -> Result<(Command, Option<UnixStream>), LaunchError> {
        let section = plan.section;
        let mut command = Command::new(&section.command[0]);
        command.args(&section.command[1..]);
        for (name, _) in std::env::vars_os() {
            let foreign = |prefix: &&str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
            if FOREIGN.iter().any(&foreign) {
                command.env_remove(&name);
            }
        }
        if let Some(directory) = self.directory(plan) {
            command.env(
                "PWD",
                std::path::absolute(&directory).unwrap_or(directory.clone()),
            );
            command.current_dir(directory);
        }
        for (name, value) in self.job.environment.iter().chain(&section.environment) {
            command.env(name, value);
        }
        if let Some(interface) = &self.job.interface {
            let given = self.job.environment.iter().chain(&section.environment);
            let is_set = given
                .into_iter()
                .any(|(name, _)| name == INTERFACE_VARIABLE);
            if !is_set && std::env::var_os(INTERFACE_VARIABLE).is_none() {
                let value = match interface.as_str() {
                    "" => self.address.as_ref(),
                    _ => Some(interface),
                };
                command.envs(value.map(|value| (INTERFACE_VARIABLE, value)));
            }
        }
        let connection = match &mut self.pmi {
            Some(server) => {
                let theirs = server.add(plan.section_number);
                let theirs = theirs.map_err(doing("cannot connect a rank to its manager"))?;
                command
                    .env("PMI_FD", theirs.as_raw_fd().to_string())
                    .env("PMI_RANK", plan.rank.to_string())
                    .env("PMI_SIZE", self.job.size.to_string())
                    .env("PMI_HOSTNAME", &self.job.host);
                Some(theirs)
            }
            None => None,
        };
        command
            .env(
                "MICA_SEGMENT_FD",
                self.segment.as_fd().as_raw_fd().to_string(),
            )
            .env("MICA_RANK", plan.rank.to_string())
            .env("MICA_SIZE", self.job.size.to_string())
            .envs(installation().map(|prefix| (PREFIX_VARIABLE, prefix)))
            .env("MPI_LOCALRANKID", index.to_string())
            .env("MPI_LOCALNRANKS", self.plan.ranks.len().to_string());
        let is_first = plan.rank == 0 && self.job.takes_input;
        command.stdin(match connect {
            // A terminal must be read by the launcher: the ranks' process groups are in the
            // terminal's background, where reading stops a process.
            Connect::Inherit if is_first && !io::IsTerminal::is_terminal(&io::stdin()) => {
                Stdio::inherit()
            }
            _ if is_first => Stdio::piped(),
            _ => Stdio::null(),
        });
        if self.job.label || connect == Connect::Pipes {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        Ok((command, connection))
    }

    fn directory(&self, plan: &RankPlan<'_>) -> Option<PathBuf> {
        let common = self.job.directory.as_ref().map(PathBuf::from);
        match (&plan.section.directory, common) {
            (Some(own), Some(common)) => Some(common.join(own)),
            (own, common) => own.clone().or(common),
        }
    }

    /// How many ranks there are on the node.
    pub fn count(&self) -> usize {
        self.plan.ranks.len()
    }

    /// Numbers on the node of the ranks that run.
    pub fn alive(&self) -> Vec<usize> {
        (0..self.ranks.len())
            .filter(|&index| self.ranks[index].alive)
            .collect()
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
            self.ranks[index].alive = false;
            self.ranks[index].end = end_text(exit, self.stage(index));
            self.keeper.forget(pid);
            ends.push(RankEnd {
                rank: self.plan.ranks[index].rank,
                pid,
                cause: Cause::of(exit, self.stage(index)),
            });
        }
        Ok(ends)
    }

    /// Sends a signal to all that run.
    pub fn signal(&self, number: i32) {
        for rank in self.ranks.iter().filter(|rank| rank.alive) {
            rank.process.signal_group(number);
        }
    }

    /// Sends a signal to one rank, if it runs.
    pub fn signal_one(&self, index: usize, number: i32) {
        if self.ranks[index].alive {
            self.ranks[index].process.signal_group(number);
        }
    }

    fn stage(&self, index: usize) -> Stage {
        if let Some(code) = self.pmi.as_ref().and_then(|server| server.aborted(index)) {
            return Stage::Aborted { code };
        }
        match self.segment.rank_state(self.plan.ranks[index].rank) {
            RankState::Absent => Stage::NotInitialized,
            RankState::Running { .. } => Stage::Running,
            RankState::Finalized => Stage::Finalized,
            RankState::Aborted { code } => Stage::Aborted { code },
        }
    }

    /// What each rank that runs waits for, and how the others have ended. `host` is named if there are several. Takes up to
    /// [`ASK_TIME`]: the ranks are asked.
    pub fn hang_report(&self, host: Option<&str>) -> NodeReport {
        let asked = |index: &usize| self.stage(*index) == Stage::Running;
        let answers = self.ask(self.alive().into_iter().filter(asked).collect());
        let line = |index: usize| {
            let rank = self.plan.ranks[index].rank;
            let pid = self.ranks[index].process.pid();
            let answer = answers.iter().find(|(answered, _)| *answered == index);
            let waits_for = match answer {
                Some((_, text)) => Some(text.clone()),
                None => self.segment.wait_report(rank),
            };
            (
                rank,
                hang_line(rank, pid, host, self.stage(index), waits_for),
            )
        };
        let ended = |index: usize| {
            let rank = &self.ranks[index];
            (!rank.alive).then(|| (self.plan.ranks[index].rank, rank.end.clone()))
        };
        NodeReport {
            lines: self.alive().into_iter().map(line).collect(),
            ended: (0..self.ranks.len()).filter_map(ended).collect(),
        }
    }

    /// Asks these ranks, by number on the node, what they wait for. Answers those that do.
    fn ask(&self, ranks: Vec<usize>) -> Vec<(usize, String)> {
        let rank_of = |index: usize| self.plan.ranks[index].rank;
        let block = |index: usize| self.segment.block(rank_of(index));
        // One that sleeps in MPI answers when it is woken; one that computes never does.
        let asleep: Vec<bool> = ranks
            .iter()
            .map(|&index| block(index).waiting().is_some())
            .collect();
        let question = self.segment.ask();
        let answer = |index: usize| self.segment.answer_of(rank_of(index), question);
        let began = Instant::now();
        loop {
            let is_missing = |(index, asleep): (&usize, &bool)| {
                let limit = if *asleep { ASK_TIME } else { ASK_TIME / 2 };
                (began.elapsed() < limit && answer(*index).is_none()).then_some(*index)
            };
            let missing: Vec<usize> = ranks.iter().zip(&asleep).filter_map(is_missing).collect();
            if missing.is_empty() {
                break;
            }
            for index in missing {
                self.segment.wake_for_question(rank_of(index));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // Other threads of a rank, and its other polls, may have something to add.
        std::thread::sleep(SETTLE_TIME);
        let answers = ranks.iter().filter_map(|&i| Some((i, answer(i)?)));
        let answers = answers.collect();
        self.segment.end_question();
        answers
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
        let keeper = self.keeper.pid();
        reap_orphans(&|pid| {
            pid == keeper || self.ranks.iter().any(|r| r.alive && r.process.pid() == pid)
        });
    }

    /// Leaves nothing behind: ranks (if the start failed half-way), what they started, the keeper.
    pub fn clean_up(&mut self, sink: &mut dyn FnMut(Target, Vec<u8>)) {
        self.signal(signal::SIGKILL);
        let keeper = self.keeper.pid();
        kill_orphans(&|pid| pid == keeper);
        // All writers are gone; what they wrote is in the pipes.
        for stream in &mut self.streams {
            let readable = |stream: &Stream| {
                let ready = wait_readable(&[stream.as_fd()], Some(Duration::ZERO));
                ready.is_ok_and(|ready| ready[0])
            };
            while readable(stream) && stream.pump(sink) {}
        }
        self.keeper.dismiss();
    }

    /// Why the program could not be started, and what may help.
    fn exec_error(&self, plan: &RankPlan<'_>, source: io::Error) -> LaunchError {
        let program = Path::new(&plan.section.command[0]);
        let directory = self.directory(plan).unwrap_or(PathBuf::from("."));
        let found = directory.join(program).is_file();
        let by_path = program.components().count() > 1 || program.is_absolute();
        let hint = match source.kind() {
            _ if !directory.is_dir() => {
                format!(" (there is no directory {})", directory.display())
            }
            io::ErrorKind::NotFound if found && by_path => {
                " (the file is there, its interpreter or loader is not)".to_owned()
            }
            io::ErrorKind::NotFound if found => {
                format!(
                    " in PATH (a file of this name is here: use ./{})",
                    program.display()
                )
            }
            _ => String::new(),
        };
        LaunchError::Exec {
            program: program.to_string_lossy().into_owned(),
            rank: plan.rank,
            source,
            hint,
        }
    }
}

/// What tells ranks which interface to use among hosts.
const INTERFACE_VARIABLE: &str = "MICA_NET_INTERFACE";

/// Input on its way to rank 0.
pub struct Input {
    pipe: ChildStdin,
    /// Not yet taken by the rank.
    pending: Vec<u8>,
    /// Nothing comes after what is pending.
    ends: bool,
}

impl Input {
    fn new(pipe: ChildStdin) -> Input {
        Input {
            pipe,
            pending: Vec::new(),
            ends: false,
        }
    }

    /// Whether something waits for the rank to take it.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// More bytes for the rank.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Nothing more comes.
    pub fn end(&mut self) {
        self.ends = true;
    }

    /// Writes as much as the pipe takes without waiting. Answers how much that was, and whether the rank still reads and
    /// there can be more for it.
    pub fn write(&mut self) -> (usize, bool) {
        let mut total = 0;
        while !self.pending.is_empty() {
            match self.pipe.write(&self.pending) {
                Ok(written) => {
                    self.pending.drain(..written);
                    total += written;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return (total, true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return (total, false),
            }
        }
        (total, !self.ends)
    }
}

impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// The folder that this program is installed in, if it lies in a `bin`.
fn installation() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent().filter(|bin| bin.ends_with("bin"))?;
    folder.parent().map(Path::to_owned)
}
