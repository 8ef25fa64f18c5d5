//! Waiting for sockets, and the errors of system calls.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Instant;

/// Waits until at least one of `fds` can be read (or is closed), or until the deadline. Returns
/// which can be read.
///
/// # Errors
/// `TimedOut` at the deadline.
pub fn wait_readable(fds: &[BorrowedFd<'_>], deadline: Instant) -> io::Result<Vec<bool>> {
    wait_any(fds, libc::POLLIN, deadline)
}

/// Waits until `events` are true of `fd`, or until the deadline.
pub(crate) fn wait(fd: BorrowedFd<'_>, events: i16, deadline: Instant) -> io::Result<()> {
    wait_any(&[fd], events, deadline).map(drop)
}

fn wait_any(fds: &[BorrowedFd<'_>], events: i16, deadline: Instant) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> =
        fds.iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 }).collect();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let ms = left.as_millis().min(i32::MAX as u128 - 1) as i32 + i32::from(!left.is_zero());
        // SAFETY: `polled` is valid for reads and writes of its length.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, ms) };
        if ready > 0 {
            return Ok(polled.iter().map(|p| p.revents != 0).collect());
        }
        if ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return Err(io::Error::last_os_error());
        }
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// The error of a system call that returned `result`, if it failed.
pub(crate) fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
