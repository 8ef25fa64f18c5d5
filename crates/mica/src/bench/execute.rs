//! Runs a command under a time limit and leaves no processes behind.
//!
//! A command gets its own process group. When its time is over the group gets SIGTERM, which lets a
//! launcher clean up, and then SIGKILL. Processes that it started elsewhere (a daemon, a rank in
//! another session) become children of this process, which adopts orphans, and are killed too.
//! Output goes to files, because a pipe would stay open as long as any left-over process holds it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mica_node::process::{self, ChildProcess, ChildSetup, Exit, Keeper, Signals, signal};
use mica_node::topology::CpuSet;

/// Time for a command to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);
/// Time for the processes that a command left behind to die.
const LEFT_LIMIT: Duration = Duration::from_secs(30);

/// A command to run.
pub struct BenchCommand<'a> {
    pub command: &'a [String],
    pub env: &'a BTreeMap<String, String>,
    pub cpus: Option<&'a CpuSet>,
    pub limit: Duration,
}

/// The result of a command.
pub struct CommandOutcome {
    pub end: CommandEnd,
    pub seconds: f64,
    pub stdout: String,
    pub stderr: String,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandEnd {
    Exited(Exit),
    /// It was killed after this many seconds.
    TimedOut(u64),
    /// The user interrupted this program.
    Interrupted,
    /// It could not be started.
    Failed(String),
}

impl CommandEnd {
    /// The error, if any.
    pub fn complaint(&self) -> Option<String> {
        match self {
            CommandEnd::Exited(Exit::Code(0)) => None,
            CommandEnd::Exited(Exit::Code(code)) => Some(format!("exit code {code}")),
            CommandEnd::Exited(Exit::Signal { number, .. }) => {
                Some(format!("killed by signal {number}"))
            }
            CommandEnd::TimedOut(seconds) => Some(format!("no end after {seconds} s; killed")),
            CommandEnd::Interrupted => Some("interrupted".to_owned()),
            CommandEnd::Failed(error) => Some(error.clone()),
        }
    }
}

/// Runs commands, one after the other.
pub struct Executor {
    scratch: PathBuf,
    /// Ends what is left if `mica bench` itself is killed; `None` where a test's threads do not
    /// permit it.
    keeper: Option<Keeper>,
    signals: Option<Signals>,
}

impl Executor {
    /// An executor for the command: it has a keeper, and Ctrl-C stops the running command. Call it
    /// before there is a second thread.
    pub fn new(work: &Path) -> io::Result<Executor> {
        let signals = [signal::SIGINT, signal::SIGTERM, signal::SIGHUP];
        let keeper = Keeper::start()?;
        let mut executor = Executor::plain(work)?;
        executor.keeper = Some(keeper);
        executor.signals = Some(Signals::take(&signals)?);
        Ok(executor)
    }

    /// An executor without keeper and signals, for tests.
    pub fn plain(work: &Path) -> io::Result<Executor> {
        process::adopt_orphans()?;
        let scratch = work.join(format!("run-{}", std::process::id()));
        fs::create_dir_all(&scratch)?;
        Ok(Executor { scratch, keeper: None, signals: None })
    }

    /// The folder for files of this run.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Runs one command until it ends.
    pub fn run(&mut self, job: &BenchCommand<'_>) -> CommandOutcome {
        let start = Instant::now();
        let (out, err) = (self.scratch.join("stdout"), self.scratch.join("stderr"));
        let end = match self.start(job, &out, &err) {
            Ok(process) => self.wait(process, job.limit),
            Err(error) => CommandEnd::Failed(format!("{}: {error}", job.command[0])),
        };
        CommandOutcome {
            end,
            seconds: start.elapsed().as_secs_f64(),
            stdout: lossy(&out),
            stderr: lossy(&err),
        }
    }

    /// Runs a command that must succeed. The error has the last `lines` lines of its output.
    pub fn succeed(
        &mut self,
        command: &[String],
        env: &BTreeMap<String, String>,
        limit: Duration,
        lines: usize,
    ) -> Result<CommandOutcome, String> {
        let done = self.run(&BenchCommand { command, env, cpus: None, limit });
        done.end.complaint().map_or(Ok(()), |complaint| {
            Err(format!("`{}`: {complaint}\n{}", command.join(" "), tail(&done, lines)))
        })?;
        Ok(done)
    }

    fn start(&self, job: &BenchCommand<'_>, out: &Path, err: &Path) -> io::Result<ChildProcess> {
        let (out, err) = (File::create(out)?, File::create(err)?);
        let mut command = Command::new(&job.command[0]);
        command.args(&job.command[1..]).envs(job.env).stdin(Stdio::null()).stdout(out).stderr(err);
        let setup =
            ChildSetup { cpus: job.cpus, keeper: self.keeper.as_ref(), ..ChildSetup::default() };
        ChildProcess::spawn(&mut command, setup)
    }

    fn wait(&mut self, process: ChildProcess, limit: Duration) -> CommandEnd {
        let (end, ended) = self.wait_until(&process, limit);
        if !ended {
            let _ = process.signal_group(signal::SIGTERM);
            if reap(&process, Some(GRACE)).is_none() {
                let _ = process.signal_group(signal::SIGKILL);
                let _ = reap(&process, None);
            }
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.forget(process.pid());
        }
        process::end_children(LEFT_LIMIT);
        end
    }

    /// Returns how the command ended or what ended the wait, and whether it is reaped.
    fn wait_until(&self, process: &ChildProcess, limit: Duration) -> (CommandEnd, bool) {
        let deadline = Instant::now() + limit;
        loop {
            match process.try_wait() {
                Ok(Some(exit)) => return (CommandEnd::Exited(exit), true),
                Ok(None) => {}
                Err(error) => return (CommandEnd::Failed(format!("waiting: {error}")), false),
            }
            if self.signals.as_ref().is_some_and(|s| s.next().is_some()) {
                return (CommandEnd::Interrupted, false);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return (CommandEnd::TimedOut(limit.as_secs()), false);
            }
            let signals = self.signals.iter().map(|signals| signals.as_fd());
            let fds: Vec<_> = [process.as_fd()].into_iter().chain(signals).collect();
            if let Err(error) = process::wait_readable(&fds, Some(left)) {
                return (CommandEnd::Failed(format!("waiting: {error}")), false);
            }
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            keeper.dismiss();
        }
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// Waits for the end, at most `limit`. Also returns `None` for a process that is no longer a child:
/// there is nothing to wait for.
fn reap(process: &ChildProcess, limit: Option<Duration>) -> Option<Exit> {
    let deadline = limit.map(|limit| Instant::now() + limit);
    loop {
        if let Some(exit) = process.try_wait().ok()? {
            return Some(exit);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return None;
        }
        process::wait_readable(&[process.as_fd()], left).ok()?;
    }
}

/// A command of these words.
pub fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| word.to_string()).collect()
}

fn lossy(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// The last lines of a command's output, stdout followed by stderr.
pub fn tail(done: &CommandOutcome, lines: usize) -> String {
    let text = format!("{}\n{}", done.stdout.trim_end(), done.stderr.trim_end());
    let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
