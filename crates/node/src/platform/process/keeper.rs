//! The keeper: a small process that ends the ranks' process groups if the launcher is killed.
//!
//! `PR_SET_PDEATHSIG` reaches the ranks but not the processes that they started (for example a
//! program under a shell script). Ranks announce their process groups to the keeper through a
//! socket whose other end only the launcher keeps open. An end of file without a `FAREWELL` message
//! means that the launcher died.
//!
//! If the keeper is killed, the job continues: a process that writes to it gets an error, not
//! SIGPIPE, and ignores it. The keeper is missed only if the launcher is killed too; where a user
//! may make a cgroup, not even then ([`cgroup`](super::cgroup)).
//!
//! The keeper is a clone that sends no signal when it exits: `waitid` for ordinary children ignores
//! it, so that [`end_children`](super::end_children) need not know of it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::cgroup::GuardedCgroup;
use super::keeper_socket::{FAREWELL, hear, send_message, socket_pair};
use super::{check, children};

/// The launcher's handle of its keeper.
#[derive(Debug)]
pub struct Keeper {
    pid: libc::pid_t,
    socket: OwnedFd,
}

impl Keeper {
    /// Starts the keeper. The process must not have a second thread: the keeper is a plain fork.
    pub fn start() -> io::Result<Keeper> {
        // SAFETY: takes a flag. It has no effect in a process of one thread, and fails with EINVAL
        // in any other; if a filter refuses the call, the result is unknown.
        let shared = unsafe { libc::unshare(libc::CLONE_THREAD) } < 0
            && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
        if shared {
            let reason = "the keeper needs a process of one thread, this one has several";
            return Err(io::Error::other(reason));
        }
        let (ours, theirs) = socket_pair()?;
        let launcher = std::process::id();
        // SAFETY: this is the only thread, so the child finds every lock free and may run any code.
        // Without flags and addresses clone is a fork on any architecture; without an exit signal,
        // `waitid` sees the child with __WCLONE only.
        let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } as libc::pid_t;
        check(pid)?;
        if pid == 0 {
            drop(ours);
            keep(theirs.as_raw_fd(), launcher);
        }
        Ok(Keeper { pid, socket: ours })
    }

    /// The keeper's process id.
    pub fn pid(&self) -> u32 {
        self.pid as u32
    }

    /// Announces that a process group is gone.
    pub fn forget(&mut self, group: u32) {
        let _ = send_message(self.socket.as_raw_fd(), -(group as i32));
    }

    /// Ends the keeper: the launcher has ended the job itself.
    pub fn dismiss(&mut self) {
        let _ = send_message(self.socket.as_raw_fd(), FAREWELL);
        let options = libc::WEXITED | libc::__WCLONE;
        let _ = super::wait_id(libc::P_PID, self.pid as libc::id_t, options);
    }
}

impl AsFd for Keeper {
    /// The launcher's end of the socket.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Announces the calling process's group to the keeper. A rank does this itself before exec: the
/// launcher could be killed before it has announced the group.
pub(super) fn announce(socket: i32) -> io::Result<()> {
    // SAFETY: getpgrp has no preconditions.
    match send_message(socket, unsafe { libc::getpgrp() }) {
        Err(error) => match error.raw_os_error() {
            // The keeper was killed.
            Some(libc::EPIPE | libc::ECONNRESET) => Ok(()),
            _ => Err(error),
        },
        done => done,
    }
}

/// A rank's process group, as the keeper knows it.
struct KeptGroup {
    number: i32,
    /// A pidfd of the leader, which pins the number. `None` if the leader was gone already, or no
    /// descriptor was left.
    leader: Option<OwnedFd>,
}

/// The main function of the keeper.
fn keep(socket: i32, launcher: u32) -> ! {
    // Leave the launcher's session, so that Ctrl-C does not reach the keeper; and close its
    // descriptors, so that no process waits for the keeper to close them.
    // A batch system that warns every process of a job by a signal does not mean the keeper.
    // SAFETY: system calls with plain numbers, a string that outlives the call, and a sigset_t,
    // which is plain data that sigfillset initialises; this process uses none of the descriptors
    // that it closes.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"mpiexec-keeper".as_ptr());
        let socket = socket as u32;
        if socket > 0 {
            libc::syscall(libc::SYS_close_range, 0u32, socket - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, socket + 1, u32::MAX, 0);
    }
    // One descriptor for each rank.
    let _ = super::allow_many_descriptors();
    let launcher = hold_launcher(launcher);
    let mut groups: Vec<KeptGroup> = Vec::new();
    let mut launcher = Some(launcher);
    let mut cgroup = None;
    while let Some(message) = hear(socket) {
        match message {
            FAREWELL => {
                cgroup.iter().for_each(GuardedCgroup::dismiss);
                exit()
            }
            number if number > 0 => {
                groups.push(KeptGroup { number, leader: children::hold(number as u32).ok() });
                // The first rank: a launcher that starts none needs no cgroup.
                if let Some(launcher) = launcher.take() {
                    cgroup = GuardedCgroup::start(launcher, socket);
                }
                if let Some(cgroup) = &cgroup {
                    cgroup.take(number as u32);
                }
            }
            number => groups.retain(|known| known.number != -number),
        }
    }
    groups.iter().for_each(end_group);
    cgroup.iter().for_each(GuardedCgroup::end);
    exit()
}

/// A pidfd of the launcher; `None` if it is gone already.
fn hold_launcher(pid: u32) -> Option<OwnedFd> {
    let held = children::hold(pid).ok()?;
    // SAFETY: getppid has no preconditions.
    let parent = unsafe { libc::getppid() };
    // Else the number may be another process's.
    (parent as u32 == pid).then_some(held)
}

fn end_group(group: &KeptGroup) {
    if let Some(leader) = &group.leader {
        let sent = children::signal_group_of(leader.as_fd(), libc::SIGKILL);
        // Before Linux 6.9, groups can be signalled by number only.
        if !sent.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL)) {
            return;
        }
    }
    // SAFETY: kill takes plain numbers.
    unsafe { libc::kill(-group.number, libc::SIGKILL) };
}

/// Exits without running the launcher's exit handlers.
fn exit() -> ! {
    // SAFETY: _exit takes a number and does not return.
    unsafe { libc::_exit(0) }
}
