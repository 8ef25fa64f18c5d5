//! Processes as the launcher needs them: started into a process group of their own, bound, held by
//! a pidfd, and never left behind.
//!
//! Everything unsafe that `mpiexec` does is here, so that the launcher itself forbids unsafe code.
//! Three lines of defence keep processes from being left behind:
//!
//! 1. a rank dies with the launcher (`PR_SET_PDEATHSIG`), even if that is killed with SIGKILL;
//! 2. orphaned descendants of ranks become the launcher's children (`PR_SET_CHILD_SUBREAPER`), and
//!    the launcher kills them when the job is over;
//! 3. if the launcher itself is killed, the [`Keeper`] ends the ranks' process groups.

mod events;
mod interfaces;
mod keeper;
mod limits;
mod probe;
mod system;
mod terminal;

pub use events::{Signals, is_foreground, set_nonblocking, wait_readable, wait_ready};
pub use interfaces::{Interface, interfaces};
pub use keeper::Keeper;
pub use limits::allow_many_descriptors;
pub use probe::{CmaRefusal, cma_between_ranks, memfd};
pub use system::{Resource, limits, outlive_file_size_limit, pidfd};
pub use terminal::take_terminal_back;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use crate::topology::CpuSet;

/// Signal numbers, so that the launcher needs no libc of its own.
pub mod signal {
    pub use libc::{
        SIGABRT, SIGBUS, SIGCHLD, SIGCONT, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGKILL, SIGPIPE,
        SIGQUIT, SIGSEGV, SIGSTOP, SIGSYS, SIGTERM, SIGTRAP, SIGTSTP, SIGUSR1, SIGUSR2,
    };
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

/// What a child gets besides its command.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChildSetup<'a> {
    /// Descriptors that it inherits under their present numbers.
    pub inherit: &'a [BorrowedFd<'a>],
    /// The processors that it is bound to.
    pub cpus: Option<&'a CpuSet>,
    /// Who ends its process group if the launcher is killed.
    pub keeper: Option<&'a Keeper>,
    /// It takes the terminal on standard input for itself.
    pub terminal: bool,
}

/// A child process, held by a pidfd: a handle that can never come to mean another process.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    pidfd: OwnedFd,
    /// The write end of its standard input, if it was piped.
    pub stdin: Option<ChildStdin>,
    /// The read end of its standard output, if it was piped.
    pub stdout: Option<ChildStdout>,
    /// The read end of its standard error, if it was piped.
    pub stderr: Option<ChildStderr>,
}

impl Process {
    /// Starts `command` in a process group of its own. The child is killed when the calling thread
    /// ends.
    pub fn spawn(command: &mut Command, setup: ChildSetup<'_>) -> io::Result<Process> {
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
                prepare_child(parent, &inherit, keeper, cpus.as_ref())?;
                if terminal { terminal::take() } else { Ok(()) }
            });
        }
        let mut child = command.spawn()?;
        let pid = child.id();
        // Nobody else reaps our children, so the pid is still this child's.
        // SAFETY: pidfd_open takes plain numbers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if fd < 0 {
            let error = io::Error::last_os_error();
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        // SAFETY: pidfd_open returned a new descriptor that nobody else owns.
        let pidfd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        Ok(Process {
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

    /// How it ended, if it has; reaps it. Must not be called again once it has answered.
    pub fn try_wait(&self) -> io::Result<Option<Exit>> {
        let (kind, id) = (libc::P_PIDFD, self.pidfd.as_raw_fd() as libc::id_t);
        match wait_id(kind, id, libc::WEXITED | libc::WNOHANG)? {
            Some(info) => Ok(Some(exit_of(&info))),
            None => Ok(None),
        }
    }

    /// Sends a signal to its process group: to itself and to what it started. A group that is gone
    /// is no error.
    pub fn signal_group(&self, number: i32) {
        // SAFETY: kill takes plain numbers. The group's id cannot have been taken by another
        // group while the process is not yet reaped; the caller signals only then.
        unsafe { libc::kill(-(self.pid as libc::pid_t), number) };
    }
}

impl AsFd for Process {
    /// The pidfd: readable when the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Runs in the child between fork and exec. Only async-signal-safe system calls.
fn prepare_child(
    parent: libc::pid_t,
    inherit: &[i32],
    keeper: Option<i32>,
    cpus: Option<&CpuSet>,
) -> io::Result<()> {
    // A shell starts background jobs with these ignored. Ours are forwarded on purpose, so a rank shall see them.
    for number in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: a plain system call; SIG_DFL is always a valid disposition.
        if unsafe { libc::signal(number, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: PR_SET_PDEATHSIG takes a signal number.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // The launcher may have died before the line above: then the signal will not come.
    // SAFETY: getppid has no preconditions.
    if unsafe { libc::getppid() } != parent {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    if let Some(pipe) = keeper {
        keeper::announce(pipe)?;
    }
    limits::restore()?;
    for &fd in inherit {
        // SAFETY: F_SETFD takes a plain number; a wrong descriptor is reported as EBADF.
        check(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) })?;
    }
    if let Some(cpus) = cpus {
        let words = cpus.words();
        // SAFETY: the kernel reads `size_of_val(words)` bytes from the slice.
        let done = unsafe {
            libc::syscall(
                libc::SYS_sched_setaffinity,
                0,
                size_of_val(words),
                words.as_ptr(),
            )
        };
        check(done as i32)?;
    }
    // The launcher blocks the signals that it reads from a descriptor; the child must not.
    // SAFETY: sigset_t is plain data, initialised by sigemptyset before use.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        check(libc::sigprocmask(
            libc::SIG_SETMASK,
            &none,
            std::ptr::null_mut(),
        ))?;
    }
    Ok(())
}

/// Makes orphaned descendants children of this process instead of children of init.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes a number.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) })
}

/// Undoes what [`Process::spawn`] arranged for this process: it goes on when its parent dies, and finds out by itself.
pub fn outlive_parent() -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number, 0 for none.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0) })
}

/// Reaps children that ended and are not in `spare` (those are reaped by their owner).
pub fn reap_orphans(spare: &dyn Fn(u32) -> bool) {
    for pid in children() {
        if !spare(pid) {
            let _ = wait_id(libc::P_PID, pid, libc::WEXITED | libc::WNOHANG);
        }
    }
}

/// Kills and reaps every child that is not in `spare`, and then the children that these leave to
/// us, until there is none. Call [`adopt_orphans`] before.
pub fn kill_orphans(spare: &dyn Fn(u32) -> bool) {
    loop {
        let victims: Vec<u32> = children().into_iter().filter(|&pid| !spare(pid)).collect();
        if victims.is_empty() {
            return;
        }
        for &pid in &victims {
            // SAFETY: kill takes plain numbers; `pid` is our child and not yet reaped.
            unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
        }
        for pid in victims {
            let _ = wait_id(libc::P_PID, pid, libc::WEXITED);
        }
    }
}

/// The pids of this process's children.
fn children() -> Vec<u32> {
    let own = std::process::id();
    if let Ok(list) = std::fs::read_to_string(format!("/proc/self/task/{own}/children")) {
        return list
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect();
    }
    // A kernel without that file: look at everyone's parent.
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| parent_of(*pid) == Some(own)).collect()
}

/// The parent from `/proc/PID/stat`: "pid (name) state parent ...", where the name may hold anything.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

/// Stops this process as SIGTSTP would have done. Returns when it is continued.
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
        code => Exit::Signal {
            number: status,
            core_dumped: code == libc::CLD_DUMPED,
        },
    }
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// The name of this machine.
pub fn host_name() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = text.trim();
    if name.is_empty() {
        "localhost".to_owned()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    fn wait(process: &Process) -> Exit {
        wait_readable(&[process.as_fd()], None).unwrap();
        process
            .try_wait()
            .unwrap()
            .expect("the pidfd said that it ended")
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        command
    }

    #[test]
    fn exit_codes_and_signals() {
        let process = Process::spawn(&mut shell("exit 7"), ChildSetup::default()).unwrap();
        assert_eq!(wait(&process), Exit::Code(7));
        let process = Process::spawn(&mut shell("kill -9 $$"), ChildSetup::default()).unwrap();
        let killed = Exit::Signal {
            number: libc::SIGKILL,
            core_dumped: false,
        };
        assert_eq!(wait(&process), killed);
    }

    #[test]
    fn a_running_process_has_not_ended_and_takes_signals() {
        let process =
            Process::spawn(&mut shell("sleep 1000 & wait"), ChildSetup::default()).unwrap();
        assert_eq!(process.try_wait().unwrap(), None);
        process.signal_group(libc::SIGKILL);
        assert!(matches!(
            wait(&process),
            Exit::Signal {
                number: libc::SIGKILL,
                ..
            }
        ));
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
        let setup = ChildSetup {
            inherit: &[file.as_fd()],
            cpus: Some(&cpus),
            ..ChildSetup::default()
        };
        let mut process = Process::spawn(&mut command, setup).unwrap();
        let text = std::io::read_to_string(process.stdout.take().unwrap()).unwrap();
        assert_eq!(wait(&process), Exit::Code(0));
        assert_eq!(text, format!("Cpus_allowed_list:\t{first}\ninherited\n"));
    }

    #[test]
    fn a_program_that_is_not_there() {
        let error =
            Process::spawn(&mut Command::new("/no/such"), ChildSetup::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
