//! A terminal for one rank alone: its debugger reads the keys, and receives Ctrl-C.
//!
//! The terminal belongs to one process group at a time, the foreground group. A rank is in a group
//! of its own, so it takes the terminal before exec, and the launcher takes it back when the rank
//! has ended.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::check;

/// Makes the calling process's group the foreground group of the terminal on standard input.
/// Async-signal-safe.
pub(super) fn take() -> io::Result<()> {
    // SAFETY: plain system calls; SIG_IGN and SIG_DFL are valid dispositions. A background process
    // that takes the terminal is stopped by SIGTTOU unless it ignores that signal.
    unsafe {
        libc::signal(libc::SIGTTOU, libc::SIG_IGN);
        let taken = check(libc::tcsetpgrp(0, libc::getpgrp()));
        libc::signal(libc::SIGTTOU, libc::SIG_DFL);
        taken
    }
}

/// Makes the calling process's group the foreground group of `terminal` again.
///
/// # Errors
/// When it is not a terminal of this session.
pub fn take_terminal_back(terminal: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: sigset_t is plain data, initialised by sigemptyset before use; the other calls take
    // plain numbers.
    unsafe {
        let mut stops: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut stops);
        libc::sigaddset(&mut stops, libc::SIGTTOU);
        check(libc::pthread_sigmask(libc::SIG_BLOCK, &stops, &mut before))?;
        let taken = check(libc::tcsetpgrp(terminal.as_raw_fd(), libc::getpgrp()));
        check(libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()))?;
        taken
    }
}
