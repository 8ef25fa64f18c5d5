//! The processes of a node's ranks: starting them, asking how they are, signalling them, ending what they leave.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mica_node::area::Budget;
use mica_node::process::{
    ChildSetup, Keeper, Process, is_foreground, kill_orphans, reap_orphans, set_nonblocking,
    signal, take_terminal_back, wait_readable,
};
use mica_node::segment::{JobSegment, JobSpec, PREFIX_VARIABLE, RankState, WaitKind};
use mica_node::topology::Place;

use crate::environment;
use crate::input::Input;
use crate::job::{LaunchError, doing};
use crate::late::Late;
use crate::left::Wait;
use crate::output::{Stream, Target};
use crate::plan::{Plan, RankPlan};
use crate::pmi;
use crate::redirect::{Outlet, Redirect};
use crate::report::{Cause, Stage, end_text, hang_line};
use crate::tool;
use crate::traffic::Sent;
use crate::wire::{NodeJob, NodeReport, RankEnd};

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
    /// A rank has the terminal.
    terminal_lent: bool,
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
            terminal_lent: false,
            pmi: job.pmi.then(|| pmi::Server::new(job.size, &job.name)),
            address,
        })
    }

    /// Starts all ranks.
    pub fn start(&mut self, connect: Connect) -> Result<(), LaunchError> {
        let mut files = Redirect::default();
        let pipes = connect == Connect::Pipes;
        for (index, plan) in self.plan.ranks.iter().enumerate() {
            let (mut command, connection) = self.command(index, plan, connect)?;
            let [out, err] = self.outlets(plan, &mut files, pipes)?;
            command.stdout(
                out.stdio()
                    .map_err(doing("cannot set up standard output"))?,
            );
            command.stderr(err.stdio().map_err(doing("cannot set up standard error"))?);
            let mut inherit = vec![self.segment.as_fd()];
            inherit.extend(connection.as_ref().map(AsFd::as_fd));
            let terminal = connect == Connect::Inherit && self.has_terminal(plan.rank);
            self.terminal_lent |= terminal;
            let setup = ChildSetup {
                inherit: &inherit,
                cpus: plan.slot.cpus.as_ref(),
                keeper: Some(&self.keeper),
                terminal,
            };
            let started = Process::spawn(&mut command, setup);
            let mut process = started.map_err(|source| self.exec_error(plan, source))?;
            let out = process.stdout.take().and_then(|pipe| out.stream(pipe));
            let err = process.stderr.take().and_then(|pipe| err.stream(pipe));
            self.streams.extend(out.into_iter().chain(err));
            if let Some(pipe) = process.stdin.take() {
                set_nonblocking(pipe.as_fd()).map_err(doing("cannot set up standard input"))?;
                self.input.get_or_insert_default().add(pipe);
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
        let variable = |name: &str| std::env::var(name).ok();
        let (tools, size) = (&self.job.tools, self.job.size);
        let words = tool::command(tools, &section.command, plan.rank, size, &variable)?;
        let mut command = Command::new(environment::find_program(self.job, section, &words[0]));
        command.args(&words[1..]);
        environment::apply(&mut command, self.job, section);
        if let Some(directory) = self.directory(plan) {
            command.env(
                "PWD",
                std::path::absolute(&directory).unwrap_or(directory.clone()),
            );
            command.current_dir(directory);
        }
        if let Some(interface) = &self.job.interface
            && !environment::is_given(self.job, section, INTERFACE_VARIABLE)
        {
            let value = match interface.as_str() {
                "" => self.address.as_ref(),
                _ => Some(interface),
            };
            command.envs(value.map(|value| (INTERFACE_VARIABLE, value)));
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
        let takes_input = self.job.takes_input(plan.rank);
        let readers = self.plan.ranks.iter();
        let alone = readers.filter(|p| self.job.takes_input(p.rank)).count() == 1;
        command.stdin(match connect {
            Connect::Inherit if self.has_terminal(plan.rank) => Stdio::inherit(),
            // A terminal must be read by the launcher: the ranks' process groups are in the
            // terminal's background, where reading stops a process.
            Connect::Inherit
                if takes_input && alone && !io::IsTerminal::is_terminal(&io::stdin()) =>
            {
                Stdio::inherit()
            }
            _ if takes_input => Stdio::piped(),
            _ => Stdio::null(),
        });
        Ok((command, connection))
    }

    /// Whether the rank's debugger has the terminal for itself.
    fn has_terminal(&self, rank: u32) -> bool {
        let mut tools = self.job.tools.iter();
        let stdin = io::stdin();
        tools.any(|tool| tool.debugs_alone(rank, self.job.size))
            && self.job.takes_input(rank)
            && io::IsTerminal::is_terminal(&stdin)
            && is_foreground(stdin.as_fd())
    }

    /// Where a rank's output goes.
    fn outlets(
        &self,
        plan: &RankPlan<'_>,
        files: &mut Redirect,
        pipes: bool,
    ) -> Result<[Outlet; 2], LaunchError> {
        let rank = self.job.pattern_rank(plan.rank);
        let directory = self.job.directory.as_ref().map(PathBuf::from);
        let directory = directory.unwrap_or_default();
        let outlets = files.of_rank(&self.job.output, &rank, pipes, &directory);
        outlets.map_err(LaunchError::OutputFile)
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

    /// What each rank that runs waits for, if it waits in MPI.
    pub fn waits(&self) -> Vec<Option<Wait>> {
        let wait = |index: usize| {
            let rank = self.plan.ranks[index].rank;
            let (waiting, ns) = self.segment.block(rank).waiting()?;
            // Negative: any rank, or several.
            let peer = u32::try_from(waiting.peer).ok();
            let is_single = matches!(waiting.kind, WaitKind::Send | WaitKind::Receive);
            Some(Wait {
                peer: peer.filter(|_| is_single),
                time: Duration::from_nanos(ns),
            })
        };
        self.alive().into_iter().map(wait).collect()
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

    /// What ranks cannot do that others can, a line for each; empty if there is nothing of the
    /// kind.
    pub fn limits(&self) -> String {
        let line = |rank: u32| match self.segment.block(rank).limits_in_words() {
            limits if limits.is_empty() => None,
            limits => Some(format!("mpiexec: rank {rank} does without {limits}\n")),
        };
        let ranks = self.plan.ranks.iter().map(|plan| plan.rank);
        ranks.filter_map(line).collect()
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
        if self.terminal_lent {
            // A terminal that has gone needs nobody in its foreground.
            let _ = take_terminal_back(io::stdin().as_fd());
        }
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

/// The folder that this program is installed in, if it lies in a `bin`.
fn installation() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent().filter(|bin| bin.ends_with("bin"))?;
    folder.parent().map(Path::to_owned)
}
