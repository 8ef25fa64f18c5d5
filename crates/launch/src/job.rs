//! The life of a job: start the ranks, wait for what happens to them, end them all.
//!
//! One thread, one `poll` over everything: a pidfd per rank (it becomes readable when the rank has
//! ended), a descriptor for signals, the pipes of labelled output, a terminal's input. Nothing is
//! asked periodically, so a dead rank is found at once and an idle launcher costs no time.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use mica_node::process::{
    ChildSetup, Exit, Keeper, Process, Signals, adopt_orphans, host_name, is_foreground,
    kill_orphans, reap_orphans, set_nonblocking, signal, stop_self, wait_readable,
};
use mica_node::segment::{JobSegment, JobSpec, PREFIX_VARIABLE, RankState, SegmentError};
use mica_node::topology::Place;
use mica_node::tunables::STATS;

use crate::options::Options;
use crate::output::{Stream, Target};
use crate::plan::{Plan, RankPlan, command_line};
use crate::report::{Cause, Ending, Failure, Stage, hang_line, say, signal_name};
use crate::traffic;

/// The launcher could not start the job.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A system call that the launcher needs failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The shared memory of the job could not be made.
    #[error("cannot create the job's shared memory: {0}")]
    Segment(#[from] SegmentError),
    /// A program could not be started.
    #[error("cannot start {program:?} for rank {rank}: {source}{hint}")]
    Exec {
        /// The program.
        program: String,
        /// The rank.
        rank: usize,
        /// What the system said.
        source: io::Error,
        /// What may help.
        hint: String,
    },
}

impl LaunchError {
    /// The exit status, as a shell would choose it.
    pub fn status(&self) -> u8 {
        match self {
            LaunchError::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            LaunchError::Exec { .. } => 126,
            _ => crate::INTERNAL,
        }
    }
}

/// Says what was tried when a system call fails.
fn doing(what: &'static str) -> impl FnOnce(io::Error) -> LaunchError {
    move |source| LaunchError::System { what, source }
}

/// Runs the job and answers its exit status.
pub fn run(options: &Options, plan: &Plan<'_>) -> Result<u8, LaunchError> {
    // Before anything else is open: the keeper is a copy of this process.
    let keeper = Keeper::start().map_err(doing("cannot start the keeper process"))?;
    adopt_orphans().map_err(doing("cannot become the subreaper"))?;
    let signals = Signals::take(&[
        signal::SIGINT,
        signal::SIGTERM,
        signal::SIGHUP,
        signal::SIGCHLD,
        signal::SIGUSR1,
        signal::SIGTSTP,
        signal::SIGCONT,
    ])
    .map_err(doing("cannot watch signals"))?;
    let places: Vec<Place> = plan.ranks.iter().map(|rank| rank.slot.place).collect();
    let appnum: Vec<u32> = plan.ranks.iter().map(|rank| rank.section_number).collect();
    let segment = JobSegment::create(&JobSpec::on_one_node(
        &places,
        plan.available_cores as u32,
        &appnum,
    ))?;
    let mut job = Job {
        options,
        plan,
        segment,
        signals,
        keeper,
        ranks: Vec::with_capacity(plan.ranks.len()),
        streams: Vec::new(),
        input: None,
        ending: None,
        kill_at: None,
        timeout_at: options.timeout.map(|time| Instant::now() + time),
        report_at: options.hang_report.map(|time| Instant::now() + time),
    };
    let result = job.start_ranks().and_then(|()| job.wait_for_ranks());
    job.clean_up();
    if result.is_ok() && job.wants_traffic() {
        let ranks = 0..plan.ranks.len() as u32;
        let sent: Vec<_> = ranks
            .map(|rank| job.segment.block(rank).traffic())
            .collect();
        say(traffic::table(&sent));
    }
    result.map(|()| job.ending.as_ref().map_or(0, Ending::status))
}

/// A rank's process.
struct Rank {
    process: Process,
    alive: bool,
}

struct Job<'a> {
    options: &'a Options,
    plan: &'a Plan<'a>,
    segment: JobSegment,
    signals: Signals,
    keeper: Keeper,
    ranks: Vec<Rank>,
    streams: Vec<Stream>,
    input: Option<Input>,
    /// Why the job is being ended, once it is.
    ending: Option<Ending>,
    /// When what has not ended by itself is killed.
    kill_at: Option<Instant>,
    timeout_at: Option<Instant>,
    report_at: Option<Instant>,
}

impl Job<'_> {
    fn start_ranks(&mut self) -> Result<(), LaunchError> {
        for (rank, plan) in self.plan.ranks.iter().enumerate() {
            let mut command = self.command(rank, plan);
            let setup = ChildSetup {
                inherit: Some(self.segment.as_fd()),
                cpus: plan.slot.cpus.as_ref(),
                keeper: Some(&self.keeper),
            };
            let started = Process::spawn(&mut command, setup);
            let mut process = started.map_err(|source| exec_error(rank, plan, source))?;
            if let Some(pipe) = process.stdout.take() {
                self.streams.push(Stream::new(rank, pipe, Target::Out));
            }
            if let Some(pipe) = process.stderr.take() {
                self.streams.push(Stream::new(rank, pipe, Target::Err));
            }
            if let Some(pipe) = process.stdin.take() {
                set_nonblocking(pipe.as_fd()).map_err(doing("cannot set up standard input"))?;
                self.input = Some(Input::new(pipe));
            }
            self.ranks.push(Rank {
                process,
                alive: true,
            });
        }
        Ok(())
    }

    fn command(&self, rank: usize, plan: &RankPlan<'_>) -> Command {
        let section = plan.section;
        let mut command = Command::new(&section.command[0]);
        command.args(&section.command[1..]);
        if let Some(directory) = &section.directory {
            command.current_dir(directory);
            command.env(
                "PWD",
                std::path::absolute(directory).unwrap_or(directory.clone()),
            );
        }
        for (name, value) in self.options.environment.iter().chain(&section.environment) {
            command.env(name, value);
        }
        let size = self.plan.ranks.len().to_string();
        command
            .env(
                "MICA_SEGMENT_FD",
                self.segment.as_fd().as_raw_fd().to_string(),
            )
            .env("MICA_RANK", rank.to_string())
            .env("MICA_SIZE", &size)
            .envs(installation().map(|prefix| (PREFIX_VARIABLE, prefix)))
            .env("MPI_LOCALRANKID", rank.to_string())
            .env("MPI_LOCALNRANKS", &size);
        // A terminal must be read by the launcher: the ranks' process groups are in the
        // terminal's background, where reading stops a process.
        command.stdin(match rank {
            0 if io::IsTerminal::is_terminal(&io::stdin()) => Stdio::piped(),
            0 => Stdio::inherit(),
            _ => Stdio::null(),
        });
        if self.options.label {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        command
    }

    /// Until every rank has ended.
    fn wait_for_ranks(&mut self) -> Result<(), LaunchError> {
        while self.ranks.iter().any(|rank| rank.alive) {
            self.wait_for_event()?;
            while let Some(number) = self.signals.next() {
                self.on_signal(number);
            }
            self.on_deadlines();
        }
        Ok(())
    }

    /// Waits for one of the descriptors and serves those that are ready.
    fn wait_for_event(&mut self) -> Result<(), LaunchError> {
        let stdin = io::stdin();
        let read_input = match &self.input {
            Some(input) => input.pending.is_empty() && is_foreground(stdin.as_fd()),
            None => false,
        };
        let alive: Vec<usize> = (0..self.ranks.len())
            .filter(|&rank| self.ranks[rank].alive)
            .collect();
        let mut fds = vec![self.signals.as_fd()];
        fds.extend(alive.iter().map(|&rank| self.ranks[rank].process.as_fd()));
        let first_stream = fds.len();
        fds.extend(self.streams.iter().map(Stream::as_fd));
        if read_input {
            fds.push(stdin.as_fd());
        }
        let ready = wait_readable(&fds, self.time_to_wait()).map_err(doing("poll"))?;

        // Output first: what a rank wrote comes before the report of its end.
        let mut stream_ready = ready[first_stream..].iter();
        self.streams.retain_mut(|stream| match stream_ready.next() {
            Some(true) => stream.pump(),
            _ => true,
        });
        let ended = alive.iter().zip(&ready[1..]).filter(|(_, ready)| **ready);
        let ended: Vec<usize> = ended.map(|(&rank, _)| rank).collect();
        self.on_ended(&ended)?;
        if let Some(input) = &mut self.input {
            let open = if read_input && ready[ready.len() - 1] {
                input.read()
            } else {
                input.write()
            };
            if !open {
                self.input = None;
            }
        }
        Ok(())
    }

    /// Until the next deadline.
    fn time_to_wait(&self) -> Option<Duration> {
        let pending = self
            .input
            .as_ref()
            .is_some_and(|input| !input.pending.is_empty());
        let retry = pending.then(|| Instant::now() + Duration::from_millis(20));
        let deadlines = [self.kill_at, self.timeout_at, self.report_at, retry];
        let next = deadlines.into_iter().flatten().min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Reaps ranks and, if one of them failed, ends the others.
    fn on_ended(&mut self, ended: &[usize]) -> Result<(), LaunchError> {
        let mut failures: Vec<(usize, Cause)> = Vec::new();
        for &rank in ended {
            let exit: Option<Exit> = self.ranks[rank]
                .process
                .try_wait()
                .map_err(doing("waitid"))?;
            let Some(exit) = exit else { continue };
            self.ranks[rank].alive = false;
            self.keeper.forget(self.ranks[rank].process.pid());
            failures.extend(Cause::of(exit, self.stage(rank)).map(|cause| (rank, cause)));
        }
        let first = failures
            .into_iter()
            .min_by_key(|(rank, cause)| (cause.order(), *rank));
        if let Some((rank, cause)) = first.filter(|_| self.ending.is_none()) {
            let failure = Failure {
                rank,
                pid: self.ranks[rank].process.pid(),
                host: host_name(),
                program: command_line(&self.plan.ranks[rank].section.command),
                cause,
                others: self.ranks.iter().filter(|rank| rank.alive).count(),
            };
            say(&failure);
            self.end(Ending::Failed(failure), signal::SIGTERM);
        }
        Ok(())
    }

    fn on_signal(&mut self, number: i32) {
        match number {
            signal::SIGCHLD => {
                let keeper = self.keeper.pid();
                let ranks = &self.ranks;
                reap_orphans(&|pid| {
                    pid == keeper || ranks.iter().any(|r| r.alive && r.process.pid() == pid)
                });
            }
            signal::SIGUSR1 => say(self.hang_report()),
            signal::SIGTSTP => {
                self.signal_ranks(signal::SIGTSTP);
                stop_self();
            }
            signal::SIGCONT => self.signal_ranks(signal::SIGCONT),
            // The second time somebody is impatient.
            _ if self.ending.is_some() => self.kill_at = Some(Instant::now()),
            _ => {
                let name = signal_name(number);
                say(format_args!(
                    "mpiexec: got signal {number} ({name}), ending the job.\n"
                ));
                self.end(Ending::Signalled(number), number);
            }
        }
    }

    fn on_deadlines(&mut self) {
        let now = Instant::now();
        let passed = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        if passed(self.report_at) {
            self.report_at = None;
            say(self.hang_report());
        }
        if passed(self.timeout_at) && self.ending.is_none() {
            let time = self.options.timeout.unwrap_or_default();
            say(format_args!(
                "mpiexec: the job's time of {} s is over.\n",
                time.as_secs_f64()
            ));
            say(self.hang_report());
            self.end(Ending::TimedOut, signal::SIGTERM);
        }
        if passed(self.kill_at) {
            self.kill_at = None;
            self.signal_ranks(signal::SIGKILL);
        }
    }

    /// Asks the ranks to end; those that do not are killed after the grace.
    fn end(&mut self, ending: Ending, number: i32) {
        self.ending = Some(ending);
        self.timeout_at = None;
        self.report_at = None;
        self.kill_at = Some(Instant::now() + self.options.grace);
        self.signal_ranks(number);
        // A stopped process does not look at signals.
        self.signal_ranks(signal::SIGCONT);
    }

    fn signal_ranks(&self, number: i32) {
        for rank in self.ranks.iter().filter(|rank| rank.alive) {
            rank.process.signal_group(number);
        }
    }

    fn stage(&self, rank: usize) -> Stage {
        match self.segment.rank_state(rank as u32) {
            RankState::Absent => Stage::NotInitialized,
            RankState::Running { .. } => Stage::Running,
            RankState::Finalized => Stage::Finalized,
            RankState::Aborted { code } => Stage::Aborted { code },
        }
    }

    /// Whether `MICA_STATS=table` is in force for the ranks.
    fn wants_traffic(&self) -> bool {
        let given = self
            .options
            .environment
            .iter()
            .rfind(|(name, _)| *name == STATS.env);
        match given {
            Some((_, value)) => *value == *"table",
            None => STATS.text() == "table",
        }
    }

    fn hang_report(&self) -> String {
        let running = self.ranks.iter().filter(|rank| rank.alive).count();
        let mut text = format!(
            "mpiexec: {running} of {} ranks are running:\n",
            self.ranks.len()
        );
        for (rank, _) in self.ranks.iter().enumerate().filter(|(_, rank)| rank.alive) {
            let pid = self.ranks[rank].process.pid();
            let waits_for = self.segment.wait_report(rank as u32);
            text.push_str(&hang_line(rank, pid, self.stage(rank), waits_for));
        }
        text
    }

    /// Leaves nothing behind: ranks (if the start failed half-way), what they started, the keeper.
    fn clean_up(&mut self) {
        self.signal_ranks(signal::SIGKILL);
        let keeper = self.keeper.pid();
        kill_orphans(&|pid| pid == keeper);
        // All writers are gone; what they wrote is in the pipes.
        for stream in &mut self.streams {
            let readable = |stream: &Stream| {
                let ready = wait_readable(&[stream.as_fd()], Some(Duration::ZERO));
                ready.is_ok_and(|ready| ready[0])
            };
            while readable(stream) && stream.pump() {}
        }
        self.keeper.dismiss();
    }
}

/// Why the program could not be started, and what may help.
fn exec_error(rank: usize, plan: &RankPlan<'_>, source: io::Error) -> LaunchError {
    let program = Path::new(&plan.section.command[0]);
    let directory = plan.section.directory.as_deref().unwrap_or(Path::new("."));
    let found = directory.join(program).is_file();
    let by_path = program.components().count() > 1 || program.is_absolute();
    let hint = match source.kind() {
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
        rank,
        source,
        hint,
    }
}

/// A terminal's input on its way to rank 0.
struct Input {
    pipe: ChildStdin,
    /// Read from the terminal, not yet taken by the rank.
    pending: Vec<u8>,
}

impl Input {
    fn new(pipe: ChildStdin) -> Input {
        let pending = Vec::new();
        Input { pipe, pending }
    }

    /// Reads what the terminal has. Answers whether input goes on.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        match io::stdin().lock().read(&mut buffer) {
            Ok(0) => return false,
            Ok(read) => self.pending.extend_from_slice(&buffer[..read]),
            Err(error) => return error.kind() == io::ErrorKind::Interrupted,
        }
        self.write()
    }

    /// Writes as much as the pipe takes without waiting. Answers whether the rank still reads.
    fn write(&mut self) -> bool {
        while !self.pending.is_empty() {
            match self.pipe.write(&self.pending) {
                Ok(written) => drop(self.pending.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}

/// The folder that this program is installed in, if it lies in a `bin`.
fn installation() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent().filter(|bin| bin.ends_with("bin"))?;
    folder.parent().map(Path::to_owned)
}
