//! Processes as the launcher needs them: each started into its own process group, bound to
//! processors, held by a pidfd, and never left behind.
//!
//! All unsafe code of `mpiexec` is here, so that the launcher crate itself forbids unsafe code.
//! Three mechanisms keep processes from being left behind:
//!
//! 1. a rank dies with the launcher (`PR_SET_PDEATHSIG`), even if that is killed with SIGKILL;
//! 2. orphaned descendants of ranks become the launcher's children (`PR_SET_CHILD_SUBREAPER`), and
//!    the launcher kills them when the job is over;
//! 3. if the launcher itself is killed, the [`Keeper`] ends the ranks' process groups.

mod cgroup;
mod children;
mod events;
mod interfaces;
mod keeper;
mod keeper_socket;
mod limits;
mod probe;
mod start;
mod system;
mod tcp_peer;
mod terminal;

pub use children::{
    Orphan, adopt_orphans, await_orphans, end_children, is_ending, is_running_child, orphans,
    reap_orphans, signal_child, signal_orphans, unreaped_orphans,
};
pub use events::{
    Signals, has_writer, is_foreground, is_ignored, set_nonblocking, take_dispositions,
    wait_readable, wait_ready,
};
pub use interfaces::{Interface, interfaces};
pub use keeper::Keeper;
pub use limits::allow_many_descriptors;
pub use probe::{CmaRefusal, cma_between_ranks, memfd};
pub use system::{LimitResource, keep_descriptors, limits, outlive_file_size_limit, pidfd};
pub use tcp_peer::tcp_peer_answers;
pub use terminal::take_terminal_back;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use crate::topology::CpuSet;

/// Signal numbers, so that the launcher does not need libc.
pub mod signal {
    use std::ops::RangeInclusive;

    pub use libc::{
        SIGABRT, SIGALRM, SIGBUS, SIGCHLD, SIGCONT, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGIO, SIGKILL,
        SIGPIPE, SIGPROF, SIGPWR, SIGQUIT, SIGSEGV, SIGSTKFLT, SIGSTOP, SIGSYS, SIGTERM, SIGTRAP,
        SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
    };

    /// The real-time signals that the C library leaves to programs.
    pub fn real_time() -> RangeInclusive<i32> {
        libc::SIGRTMIN()..=libc::SIGRTMAX()
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this status.
    Code(i32),
    /// A signal killed it.
    Signal {
        /// The signal's number.
        number: i32,
        /// Whether a core file was written.
        core_dumped: bool,
    },
}

/// The setup of a child besides its command.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChildSetup<'a> {
    /// Descriptors that it inherits under their present numbers.
    pub inherit: &'a [BorrowedFd<'a>],
    /// The processors that it is bound to.
    pub cpus: Option<&'a CpuSet>,
    /// The keeper that ends its process group if the launcher is killed.
    pub keeper: Option<&'a Keeper>,
    /// It becomes the foreground process of the terminal on standard input.
    pub terminal: bool,
}

/// A child process, held by a pidfd: a handle that can never refer to another process.
#[derive(Debug)]
pub struct ChildProcess {
    pid: u32,
    pidfd: OwnedFd,
    /// The write end of its standard input, if it was piped.
    pub stdin: Option<ChildStdin>,
    /// The read end of its standard output, if it was piped.
    pub stdout: Option<ChildStdout>,
    /// The read end of its standard error, if it was piped.
    pub stderr: Option<ChildStderr>,
}

impl ChildProcess {
    /// Starts `command` in a process group of its own. The child is killed when the calling thread
    /// ends.
    pub fn spawn(command: &mut Command, setup: ChildSetup<'_>) -> io::Result<ChildProcess> {
        let inherit: Vec<i32> = setup.inherit.iter().map(|fd| fd.as_raw_fd()).collect();
        let keeper = setup.keeper.map(|keeper| keeper.as_fd().as_raw_fd());
        let cpus = setup.cpus.cloned();
        let terminal = setup.terminal;
        // SAFETY: getpid has no preconditions.
        let parent = unsafe { libc::getpid() };
        command.process_group(0);
        // SAFETY: between fork and exec the closure makes system calls only: it allocates nothing
        // and takes no lock. The captured values were made before the fork.
        unsafe {
            command.pre_exec(move || {
                start::prepare_child(parent, &inherit, keeper, cpus.as_ref())?;
                if terminal { terminal::take() } else { Ok(()) }
            });
        }
        let mut child = command.spawn()?;
        let pid = child.id();
        // No other process reaps our children, so the pid is still this child's.
        let pidfd = match children::hold(pid) {
            Ok(pidfd) => pidfd,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        Ok(ChildProcess {
            pid,
            pidfd,
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
        })
    }

    /// The process id, which is also the id of its process group.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, if it has; reaps it. Must not be called again after it has returned an
    /// [`Exit`].
    pub fn try_wait(&self) -> io::Result<Option<Exit>> {
        let (kind, id) = (libc::P_PIDFD, self.pidfd.as_raw_fd() as libc::id_t);
        match wait_id(kind, id, libc::WEXITED | libc::WNOHANG)? {
            Some(info) => Ok(Some(exit_of(&info))),
            None => Ok(None),
        }
    }

    /// Sends a signal to its process group: to itself and to what it started. If the group is gone,
    /// this is not an error. Nothing is sent once the process is reaped.
    ///
    /// # Errors
    /// `EPERM` when the whole group runs as users that this process may not signal.
    pub fn signal_group(&self, number: i32) -> io::Result<()> {
        let (kind, id) = (libc::P_PIDFD, self.pidfd.as_raw_fd() as libc::id_t);
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        if wait_id(kind, id, options).is_err() {
            // ECHILD: it is no longer our child, and its number may mean another group.
            return Ok(());
        }
        let sent = match children::signal_group_of(self.pidfd.as_fd(), number) {
            // Before Linux 6.9, groups can be signalled by number only.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                // SAFETY: kill takes plain numbers. The group's number is that of a child which is
                // not reaped.
                check(unsafe { libc::kill(-(self.pid as libc::pid_t), number) })
            }
            sent => sent,
        };
        match sent {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            done => done,
        }
    }
}

impl AsFd for ChildProcess {
    /// The pidfd: readable when the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Undoes what [`ChildProcess::spawn`] arranged for this process: it survives the death of its
/// parent, and must detect that itself.
pub fn outlive_parent() -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number, 0 for none.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0) })
}

/// Stops this process as SIGTSTP would. Returns when it is continued.
pub fn stop_self() {
    // SAFETY: raise takes a number.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// waitid, repeated when a signal interrupts it. `None` if nothing has ended yet (`WNOHANG`).
fn wait_id(
    kind: libc::idtype_t,
    id: libc::id_t,
    options: i32,
) -> io::Result<Option<libc::siginfo_t>> {
    loop {
        // SAFETY: siginfo_t is plain data for which all zeros is a value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is valid for writes.
        match check(unsafe { libc::waitid(kind, id, &mut info, options) }) {
            Ok(()) => {
                // SAFETY: waitid fills in the fields of SIGCHLD, or leaves the pid zero.
                let pid = unsafe { info.si_pid() };
                return Ok((pid != 0).then_some(info));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn exit_of(info: &libc::siginfo_t) -> Exit {
    // SAFETY: `info` comes from a waitid that reported a child, so the SIGCHLD fields are set.
    let status = unsafe { info.si_status() };
    match info.si_code {
        libc::CLD_EXITED => Exit::Code(status),
        code => Exit::Signal { number: status, core_dumped: code == libc::CLD_DUMPED },
    }
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    fn wait(process: &ChildProcess) -> Exit {
        wait_readable(&[process.as_fd()], None).unwrap();
        process.try_wait().unwrap().expect("the pidfd said that it ended")
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        command
    }

    #[test]
    fn exit_codes_and_signals() {
        let process = ChildProcess::spawn(&mut shell("exit 7"), ChildSetup::default()).unwrap();
        assert_eq!(wait(&process), Exit::Code(7));
        let process = ChildProcess::spawn(&mut shell("kill -9 $$"), ChildSetup::default()).unwrap();
        let killed = Exit::Signal { number: libc::SIGKILL, core_dumped: false };
        assert_eq!(wait(&process), killed);
    }

    #[test]
    fn a_running_process_has_not_ended_and_takes_signals() {
        let process =
            ChildProcess::spawn(&mut shell("sleep 1000 & wait"), ChildSetup::default()).unwrap();
        assert_eq!(process.try_wait().unwrap(), None);
        process.signal_group(libc::SIGKILL).unwrap();
        assert!(matches!(wait(&process), Exit::Signal { number: libc::SIGKILL, .. }));
    }

    #[test]
    fn the_child_is_bound_and_inherits_the_descriptor() {
        let first = crate::topology::affinity().unwrap().iter().next().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let script = format!(
            "grep Cpus_allowed_list /proc/self/status; test -e /proc/self/fd/{} && echo inherited",
            file.as_raw_fd()
        );
        let mut command = shell(&script);
        command.stdout(Stdio::piped());
        let cpus = CpuSet::from_cpus([first]);
        let setup =
            ChildSetup { inherit: &[file.as_fd()], cpus: Some(&cpus), ..ChildSetup::default() };
        let mut process = ChildProcess::spawn(&mut command, setup).unwrap();
        let text = std::io::read_to_string(process.stdout.take().unwrap()).unwrap();
        assert_eq!(wait(&process), Exit::Code(0));
        assert_eq!(text, format!("Cpus_allowed_list:\t{first}\ninherited\n"));
    }

    #[test]
    fn a_program_that_is_not_there() {
        let error =
            ChildProcess::spawn(&mut Command::new("/no/such"), ChildSetup::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
