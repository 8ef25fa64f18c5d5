//! A command under a watchdog: a test's job, what it wrote, and what it left behind.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use mica_node::process_stat::ProcessStat;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};

use crate::cores::Cores;
use crate::stacks::stacks;

/// How long processes of a job that has ended may take to end: they do so at once, but the machine
/// may be loaded.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a job may take before it counts as hung.
pub const WATCHDOG: Duration = Duration::from_secs(120);

/// Environment variable that marks every process of one job, so that survivors can be found.
pub const MARK: &str = "MICA_TEST_JOB";

/// A command to run under the watchdog.
#[derive(Debug)]
pub struct Job {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(String, Option<String>)>,
    stdin: Option<Vec<u8>>,
    dir: Option<PathBuf>,
    limit: Duration,
    patience: Duration,
    cores: usize,
}

/// The result of a job: its status and everything that it wrote.
#[derive(Debug)]
pub struct Outcome {
    /// The command line.
    pub command: String,
    /// Its exit status.
    pub status: ExitStatus,
    /// From its start to its end.
    pub wall: Duration,
    /// The processor time of the command and of all that it waited for.
    pub core: Duration,
    /// If the watchdog ended it: what its processes were doing then.
    pub hang: Option<String>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Processes of the job that were left when it had ended (they were killed then).
    pub survivors: Vec<String>,
}

impl Job {
    /// Runs `program`.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: None,
            dir: None,
            limit: WATCHDOG,
            patience: PATIENCE,
            cores: 1,
        }
    }

    /// Says how many cores it keeps busy. The default is one, which is what jobs of 2 to 8
    /// ranks came to: their ranks wait for one another, and for their start and end.
    pub fn cores(mut self, busy: usize) -> Self {
        self.cores = busy;
        self
    }

    /// Adds arguments.
    pub fn args<I, S>(mut self, args: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.args.extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Sets a variable in the command's environment.
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.env.push((key.to_owned(), Some(value.to_owned())));
        self
    }

    /// Gives the command this standard input; the default is empty.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Runs it in this directory.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Replaces the watchdog's limit.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// How long processes of a job that has ended may take to end. Those that are left then are its
    /// survivors.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Starts the job and waits until it ends, or kills it when the limit has passed.
    pub fn run(self) -> Outcome {
        self.start().finish()
    }

    /// Starts the job, once the cores that it keeps busy are free. They are, when this thread has
    /// a job that runs.
    ///
    /// # Panics
    /// If the program cannot be started.
    pub fn start(self) -> Running {
        let cores = Cores::take(self.cores);
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let shown = std::iter::once(self.program.as_os_str())
            .chain(self.args.iter().map(OsString::as_os_str))
            .map(|a| a.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join(" ");
        let env = self.env.iter().filter_map(|(k, v)| v.as_ref().map(|v| format!("{k}={v} ")));
        let command = env.collect::<String>() + &shown;
        let mut cmd = Command::new(&self.program);
        cmd.args(&self.args)
            .env(MARK, &mark)
            .stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        for (key, value) in &self.env {
            match value {
                Some(value) => cmd.env(key, value),
                None => cmd.env_remove(key),
            };
        }
        if let Some(dir) = &self.dir {
            cmd.current_dir(dir);
        }
        let mut child = cmd.spawn().unwrap_or_else(|e| panic!("{command}: {e}"));
        if let (Some(bytes), Some(mut pipe)) = (self.stdin, child.stdin.take()) {
            // The reader may exit early; failing to write the rest is no error here.
            thread::spawn(move || drop(pipe.write_all(&bytes)));
        }
        let stdout = Stream::read(child.stdout.take().expect("piped"));
        let stderr = Stream::read(child.stderr.take().expect("piped"));
        let started = Instant::now();
        let deadline = started + self.limit;
        let patience = self.patience;
        Running { command, mark, child, stdout, stderr, started, deadline, patience, _cores: cores }
    }
}

/// A stream of a running command, read by its own thread.
#[derive(Debug)]
struct Stream {
    chunks: mpsc::Receiver<Vec<u8>>,
    seen: Vec<u8>,
}

impl Stream {
    fn read(mut from: impl Read + Send + 'static) -> Self {
        let (sender, chunks) = mpsc::channel();
        thread::spawn(move || {
            let mut buf = [0; 8192];
            while let Ok(n @ 1..) = from.read(&mut buf) {
                if sender.send(buf[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { chunks, seen: Vec::new() }
    }

    /// Takes what has arrived; returns false at the end of the stream.
    fn take(&mut self, wait: Duration) -> bool {
        match self.chunks.recv_timeout(wait) {
            Ok(chunk) => {
                self.seen.extend(chunk);
                true
            }
            Err(mpsc::RecvTimeoutError::Timeout) => true,
            Err(mpsc::RecvTimeoutError::Disconnected) => false,
        }
    }

    fn text(&mut self, until: Instant) -> String {
        while Instant::now() < until && self.take(Duration::from_millis(20)) {}
        String::from_utf8_lossy(&self.seen).into_owned()
    }
}

/// A job that has been started.
#[derive(Debug)]
pub struct Running {
    command: String,
    mark: String,
    child: Child,
    stdout: Stream,
    stderr: Stream,
    started: Instant,
    deadline: Instant,
    patience: Duration,
    _cores: Cores,
}

impl Running {
    /// The value of [`MARK`] in all its processes.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// The process id of the command itself (of `mpiexec`).
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Sends a signal to the command itself.
    pub fn signal(&self, signal: Signal) {
        kill_process(pid(self.pid()), signal).expect("the command is there");
    }

    /// Waits until standard output contains `text`; returns the output so far.
    ///
    /// # Panics
    /// If the job ends, or the limit passes, before that.
    pub fn wait_for(&mut self, text: &str) -> String {
        loop {
            let more = self.stdout.take(Duration::from_millis(20));
            let seen = String::from_utf8_lossy(&self.stdout.seen).into_owned();
            if seen.contains(text) {
                return seen;
            }
            if !more || Instant::now() > self.deadline {
                let err = self.stderr.text(Instant::now() + Duration::from_secs(1));
                self.end();
                panic!("{}: no '{text}' in its output:\n{seen}\n{err}", self.command);
            }
        }
    }

    /// Its standard error so far, after a short wait for more.
    ///
    /// # Panics
    /// If the limit has passed.
    pub fn said(&mut self) -> String {
        self.stderr.take(Duration::from_millis(20));
        let said = String::from_utf8_lossy(&self.stderr.seen).into_owned();
        assert!(
            Instant::now() < self.deadline,
            "{}: not as expected, so far it said:\n{said}",
            self.command
        );
        said
    }

    /// Waits until the job ends, or kills it when the limit has passed.
    pub fn finish(mut self) -> Outcome {
        let mut hang = None;
        let (core, status) = loop {
            if has_ended(self.pid()) {
                let core = processor_time(self.pid());
                break (core, self.child.wait().expect("a child can be waited for"));
            }
            if Instant::now() > self.deadline {
                hang = Some(self.explain_hang());
                let core = processor_time(self.pid());
                self.end();
                break (core, self.child.wait().expect("a child can be waited for"));
            }
            // Drains both pipes meanwhile: a full pipe would block the job.
            self.stdout.take(Duration::from_millis(2));
            self.stderr.take(Duration::from_millis(1));
        };
        let wall = self.started.elapsed();
        // A killed process may take a moment to vanish from /proc.
        let mut left = processes_with_mark(&self.mark);
        let patience = Instant::now() + self.patience;
        while !left.is_empty() && Instant::now() < patience {
            thread::sleep(Duration::from_millis(10));
            left = processes_with_mark(&self.mark);
        }
        let survivors = left.iter().map(|(pid, what)| format!("{pid} {what}")).collect();
        self.end();
        let until = Instant::now() + Duration::from_secs(5);
        Outcome {
            command: std::mem::take(&mut self.command),
            status,
            wall,
            core,
            hang,
            stdout: self.stdout.text(until),
            stderr: self.stderr.text(until),
            survivors,
        }
    }

    /// What a job that does not end is waiting for: mpiexec is asked for its hang report, which
    /// goes to standard error, and the stacks of all processes are returned.
    fn explain_hang(&mut self) -> String {
        let processes = processes_with_mark(&self.mark);
        for (id, line) in &processes {
            let name = line.split_whitespace().next().unwrap_or_default();
            if name.ends_with("mpiexec") || name.ends_with("mpirun") {
                let _ = kill_process(pid(*id), Signal::USR1);
            }
        }
        let until = Instant::now() + Duration::from_secs(3);
        while Instant::now() < until {
            self.stdout.take(Duration::from_millis(2));
            self.stderr.take(Duration::from_millis(20));
        }
        stacks(&processes.iter().map(|(id, _)| *id).collect::<Vec<_>>())
    }

    /// Kills the command's process group and every process that carries the job's mark.
    fn end(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = kill_process_group(pid(self.pid()), Signal::KILL);
        }
        for (id, _) in processes_with_mark(&self.mark) {
            let _ = kill_process(pid(id), Signal::KILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end(); // a failed assertion between start and finish must not leave a job behind
    }
}

/// Whether a child has ended; it is not waited for, so that its times can still be read.
///
/// # Panics
/// If it is no child of this process.
pub fn has_ended(id: i32) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid(id)), options).expect("a child can be waited for").is_some()
}

/// The processor time of a process that is not waited for yet, and of the children that it waited
/// for, to a tick of the kernel's accounts (10 ms).
pub fn processor_time(id: i32) -> Duration {
    let stat = ProcessStat::of(id as u32);
    let ticks = stat.map_or(0, |stat| stat.ticks + stat.children_ticks);
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

fn pid(id: i32) -> Pid {
    Pid::from_raw(id).expect("a process id is positive")
}

/// The living processes whose environment carries this job's mark, with their command lines.
pub fn processes_with_mark(mark: &str) -> Vec<(i32, String)> {
    let wanted = format!("{MARK}={mark}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|s| s.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(environ) = fs::read(entry.path().join("environ")) else {
            continue;
        };
        if environ.split(|b| *b == 0).any(|v| v == wanted.as_bytes()) {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push((id, String::from_utf8_lossy(&line).replace('\0', " ")));
        }
    }
    found
}

impl Outcome {
    /// Whether the watchdog ended it.
    pub fn hung(&self) -> bool {
        self.hang.is_some()
    }

    /// The exit code as a shell reports it: 128 + the signal if a signal ended it.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Command, status and output, for a failed assertion's message.
    pub fn report(&self) -> String {
        let tail = |text: &str| {
            let lines: Vec<_> = text.lines().collect();
            let cut = lines.len().saturating_sub(40);
            let dots = if cut > 0 { format!("    ... {cut} lines ...\n") } else { String::new() };
            dots + &lines[cut..].iter().map(|l| format!("    {l}\n")).collect::<String>()
        };
        format!(
            "$ {}\n  {}{}\n  stdout:\n{}  stderr:\n{}{}{}",
            self.command,
            self.status,
            if self.hung() { " (HUNG: ended by the watchdog)" } else { "" },
            tail(&self.stdout),
            tail(&self.stderr),
            self.hang.as_deref().unwrap_or_default(),
            self.survivors.iter().map(|s| format!("  left behind: {s}\n")).collect::<String>()
        )
    }

    /// Asserts that the job ended with code 0 and left no process.
    pub fn expect_success(self) -> Self {
        assert!(self.code() == 0 && !self.hung() && self.survivors.is_empty(), "{}", self.report());
        self
    }

    /// Asserts that the job ended by itself with a non-zero code and left no process.
    pub fn expect_failure(self) -> Self {
        assert!(self.code() != 0 && !self.hung() && self.survivors.is_empty(), "{}", self.report());
        self
    }

    /// Asserts that the job ended by itself with this code and left no process.
    pub fn expect_code(self, code: i32) -> Self {
        let ok = self.code() == code && !self.hung() && self.survivors.is_empty();
        assert!(ok, "expected exit code {code}:\n{}", self.report());
        self
    }

    /// Asserts that standard error contains `text`.
    pub fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "no '{text}' on stderr:\n{}", self.report());
        self
    }

    /// The lines of standard output, sorted.
    pub fn sorted(&self) -> Vec<&str> {
        let mut lines: Vec<_> = self.stdout.lines().collect();
        lines.sort_unstable();
        lines
    }
}
