//! The keeper: a small process that ends the ranks' process groups if the launcher is killed.
//!
//! `PR_SET_PDEATHSIG` reaches the ranks but not what they started (a program under a shell script,
//! say). The keeper is told the ranks' process groups through a pipe whose write end only the launcher
//! keeps. End of file without a farewell means that the launcher died.

use std::fs::File;
use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::check;

/// Message that ends the keeper without further action.
const FAREWELL: i32 = 0;

/// The launcher's hold on its keeper.
#[derive(Debug)]
pub struct Keeper {
    pid: libc::pid_t,
    pipe: PipeWriter,
}

impl Keeper {
    /// Starts the keeper. The process must not have a second thread: the keeper is a plain fork.
    pub fn start() -> io::Result<Keeper> {
        let threads = std::fs::read_dir("/proc/self/task")?.count();
        if threads != 1 {
            let reason =
                format!("the keeper needs a process of one thread, this one has {threads}");
            return Err(io::Error::other(reason));
        }
        let (read, pipe) = io::pipe()?;
        // SAFETY: this is the only thread, so the child finds every lock free and may do what it
        // likes.
        let pid = unsafe { libc::fork() };
        check(pid)?;
        if pid == 0 {
            drop(pipe);
            keep(read.as_raw_fd());
        }
        Ok(Keeper { pid, pipe })
    }

    /// The keeper's process id.
    pub fn pid(&self) -> u32 {
        self.pid as u32
    }

    /// The process group is gone.
    pub fn forget(&mut self, group: u32) {
        self.tell(-(group as i32));
    }

    /// Ends the keeper: the launcher has ended the job itself.
    pub fn dismiss(&mut self) {
        self.tell(FAREWELL);
        let _ = super::wait_id(libc::P_PID, self.pid as libc::id_t, libc::WEXITED);
    }

    /// A keeper that was killed is missed only if the launcher is killed too: no error.
    fn tell(&mut self, message: i32) {
        let _ = self.pipe.write_all(&message.to_ne_bytes());
    }
}

impl AsFd for Keeper {
    /// The write end of the pipe.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// Tells the keeper of the calling process's group. A rank does this itself before it becomes its
/// program: were it left to the launcher, that could be killed in between.
pub(super) fn announce(pipe: i32) -> io::Result<()> {
    // SAFETY: getpgrp has no preconditions.
    let message = unsafe { libc::getpgrp() }.to_ne_bytes();
    // SAFETY: the kernel reads the four bytes of `message`.
    let written = unsafe { libc::write(pipe, message.as_ptr().cast(), message.len()) };
    // A keeper that was killed is missed only if the launcher is killed too.
    if written < 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EPIPE) {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The keeper's whole life.
fn keep(pipe: i32) -> ! {
    // Out of the launcher's session, so that no Ctrl-C reaches us; and without its descriptors, so
    // that nobody waits for us to close them.
    // SAFETY: system calls with plain numbers and a string that outlives the call; this process
    // uses none of the descriptors that it closes.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"mpiexec-keeper".as_ptr());
        let pipe = pipe as u32;
        libc::syscall(libc::SYS_close_range, 0u32, pipe - 1, 0);
        libc::syscall(libc::SYS_close_range, pipe + 1, u32::MAX, 0);
    }
    // SAFETY: the descriptor is this process's own copy of the read end.
    let mut pipe: File = unsafe { std::os::fd::FromRawFd::from_raw_fd(pipe) };
    let mut groups: Vec<i32> = Vec::new();
    let mut message = [0; 4];
    while io::Read::read_exact(&mut pipe, &mut message).is_ok() {
        match i32::from_ne_bytes(message) {
            FAREWELL => exit(),
            group if group > 0 => groups.push(group),
            group => groups.retain(|&known| known != -group),
        }
    }
    for group in groups {
        // SAFETY: kill takes plain numbers.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
    exit()
}

/// Without the launcher's exit handlers.
fn exit() -> ! {
    // SAFETY: _exit takes a number and does not return.
    unsafe { libc::_exit(0) }
}
