//! Harness of the multi-process tests: finds the installed tree, compiles the programs of `tests/c`
//! with its `mpicc`, runs jobs under a watchdog, and reads the test list (MPICH's habit: program,
//! ranks, arguments, environment, one line each).
//!
//! `MICA_PREFIX` names the installed tree (default `target/dist`). The programs are portable, so
//! the prefix of another MPI works as well; that is how they were checked before the library
//! existed.
//!
//! Tests assert what happened, never how fast: the watchdog's limit only ends a hang.

mod launchers;
mod list;
mod machine;
pub mod netns;

pub use launchers::Launcher;
use netns::Namespaces;

pub use list::{Entry, Verdict, parse_list};
pub use machine::Machine;

/// The variables that split this machine into two nodes that talk over its loopback interface.
pub const TWO_NODES: [(&str, &str); 3] =
    [("MICA_VIRTUAL_NODES", "2"), ("MICA_NET_PROVIDER", "tcp"), ("MICA_NET_INTERFACE", "lo")];

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How long a job may take before it counts as hung.
pub const WATCHDOG: Duration = Duration::from_secs(120);

/// Environment variable that marks every process of one job, so that survivors can be found.
pub const MARK: &str = "MICA_TEST_JOB";

/// The workspace's root directory.
pub fn workspace() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("tests/ lies in the workspace").to_path_buf()
}

/// The directory for what tests build and write: `target` of the workspace.
pub fn target() -> PathBuf {
    workspace().join("target")
}

/// An installed MPI: `bin/mpiexec`, `bin/mpicc`, `lib/`.
#[derive(Debug, Clone)]
pub struct Install {
    prefix: PathBuf,
}

impl Install {
    /// The tree named by `MICA_PREFIX`, or `target/dist`.
    ///
    /// # Panics
    /// If there is no `mpiexec` in it.
    pub fn find() -> Self {
        let prefix =
            std::env::var_os("MICA_PREFIX").map_or_else(|| target().join("dist"), PathBuf::from);
        let install = Self { prefix };
        let mpiexec = install.bin("mpiexec");
        assert!(
            mpiexec.exists(),
            "{} does not exist: build and install first (make), or set MICA_PREFIX",
            mpiexec.display()
        );
        install
    }

    /// A program of the tree.
    pub fn bin(&self, name: &str) -> PathBuf {
        self.prefix.join("bin").join(name)
    }

    /// The tree's root.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// True unless another MPI is tested in place of Mica.
    pub fn is_mica(&self) -> bool {
        self.prefix.join("lib/libmpi_abi.so.1").exists() && self.bin("mica").exists()
    }

    /// Compiles `tests/c/SOURCE.c` unless it is up to date, and returns the program.
    ///
    /// # Panics
    /// If it does not compile, with the compiler's messages.
    pub fn program(&self, source: &str) -> PathBuf {
        let dir = workspace().join("tests/c");
        const TOOLS: [&str; 6] = [
            "tools/attach",
            "tools/nocma",
            "tools/cma_probe",
            "tools/deny",
            "tools/refuse",
            "tools/unkillable",
        ];
        let tool = TOOLS.contains(&source);
        let out_dir =
            target().join("tests-c").join(self.prefix.to_string_lossy().replace('/', "_"));
        fs::create_dir_all(&out_dir).expect("target is writable");
        let out = out_dir.join(Path::new(source).file_name().expect("a program's name"));
        // Test binaries run one after the other, but nothing forbids two `cargo test` at once.
        let lock = File::create(out.with_extension("lock")).expect("target is writable");
        lock.lock().expect("lock of the program being built");
        let src = dir.join(source).with_extension("c");
        let mut inputs = vec![src.clone()];
        let headers = fs::read_dir(&dir).expect("tests/c").flatten();
        let headers = headers.map(|entry| entry.path());
        inputs.extend(headers.filter(|path| path.extension().is_some_and(|end| end == "h")));
        inputs.extend([self.bin("mpicc"), self.prefix.join("include/mpi.h")]);
        if up_to_date(&out, &inputs) {
            return out;
        }
        let compiler = if tool { PathBuf::from("cc") } else { self.bin("mpicc") };
        let fresh = out.with_extension("new");
        let done = Command::new(&compiler)
            .args([
                "-std=c11",
                "-D_GNU_SOURCE",
                "-O2",
                "-g",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pthread",
            ])
            .arg("-o")
            .args([&fresh, &src])
            .arg("-lm")
            .output()
            .unwrap_or_else(|e| panic!("{}: {e}", compiler.display()));
        assert!(
            done.status.success(),
            "{} {}:\n{}",
            compiler.display(),
            src.display(),
            String::from_utf8_lossy(&done.stderr)
        );
        fs::rename(&fresh, &out).expect("target is writable");
        out
    }

    /// The helper for launcher and fault tests (`tests/c/tools/job.c`).
    pub fn job(&self) -> PathBuf {
        self.program("tools/job")
    }

    /// `mpiexec ARGS...` on the first of two hosts, for a job on both.
    pub fn mpiexec_on<I, S>(&self, hosts: &Namespaces, args: I) -> Job
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let [program, first @ ..] = hosts.on_first();
        Job::new(program)
            .args(first)
            .args([self.bin("mpiexec")])
            .args(["-hosts", &hosts.hosts()])
            .args(["--launcher-exec", Namespaces::SHELL])
            .args(args)
    }

    /// `mpiexec ARGS...`.
    pub fn mpiexec<I, S>(&self, args: I) -> Job
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        Job::new(self.bin("mpiexec")).args(args)
    }
}

fn up_to_date(out: &Path, inputs: &[PathBuf]) -> bool {
    let time = |p: &Path| fs::metadata(p).and_then(|m| m.modified()).ok();
    let Some(made) = time(out) else { return false };
    inputs.iter().all(|p| time(p).unwrap_or(SystemTime::UNIX_EPOCH) < made)
}

/// Runs one job at a time: with only two cores, a job of eight ranks should have both.
pub fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A command to run under the watchdog.
#[derive(Debug)]
pub struct Job {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(String, Option<String>)>,
    stdin: Option<Vec<u8>>,
    dir: Option<PathBuf>,
    limit: Duration,
}

/// The result of a job: its status and everything that it wrote.
#[derive(Debug)]
pub struct Outcome {
    /// The command line.
    pub command: String,
    /// Its exit status.
    pub status: ExitStatus,
    /// True if the watchdog ended it.
    pub hung: bool,
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
        }
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

    /// Starts the job and waits until it ends, or kills it when the limit has passed.
    pub fn run(self) -> Outcome {
        self.start().finish()
    }

    /// Starts the job.
    ///
    /// # Panics
    /// If the program cannot be started.
    pub fn start(self) -> Running {
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
        Running { command, mark, child, stdout, stderr, deadline: Instant::now() + self.limit }
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
    deadline: Instant,
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
        let mut hung = false;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                break status;
            }
            if Instant::now() > self.deadline {
                hung = true;
                self.end();
                break self.child.wait().expect("a child can be waited for");
            }
            // Drains both pipes meanwhile: a full pipe would block the job.
            self.stdout.take(Duration::from_millis(2));
            self.stderr.take(Duration::from_millis(1));
        };
        // A killed process may take a moment to vanish from /proc.
        let mut left = processes_with_mark(&self.mark);
        let patience = Instant::now() + Duration::from_secs(2);
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
            hung,
            stdout: self.stdout.text(until),
            stderr: self.stderr.text(until),
            survivors,
        }
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
            "$ {}\n  {}{}\n  stdout:\n{}  stderr:\n{}{}",
            self.command,
            self.status,
            if self.hung { " (HUNG: ended by the watchdog)" } else { "" },
            tail(&self.stdout),
            tail(&self.stderr),
            self.survivors.iter().map(|s| format!("  left behind: {s}\n")).collect::<String>()
        )
    }

    /// Asserts that the job ended with code 0 and left no process.
    pub fn expect_success(self) -> Self {
        assert!(self.code() == 0 && !self.hung && self.survivors.is_empty(), "{}", self.report());
        self
    }

    /// Asserts that the job ended by itself with a non-zero code and left no process.
    pub fn expect_failure(self) -> Self {
        assert!(self.code() != 0 && !self.hung && self.survivors.is_empty(), "{}", self.report());
        self
    }

    /// Asserts that the job ended by itself with this code and left no process.
    pub fn expect_code(self, code: i32) -> Self {
        let ok = self.code() == code && !self.hung && self.survivors.is_empty();
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
