//! Waiting for processes, signals and pipes at once.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::check;
use crate::signals::disposition;

/// Signals as a descriptor: they are blocked, and read from it instead of interrupting.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Blocks `numbers` for the calling thread (and the threads it starts) and reads them from now
    /// on.
    pub fn take(numbers: &[i32]) -> io::Result<Signals> {
        // SAFETY: sigset_t is plain data, initialised by sigemptyset before use.
        let fd = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for &number in numbers {
                check(libc::sigaddset(&mut set, number))?;
            }
            check(libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()))?;
            libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        check(fd)?;
        // SAFETY: signalfd returned a new descriptor that has no other owner.
        Ok(Signals(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next pending signal, if any.
    pub fn next(&self) -> Option<i32> {
        // SAFETY: signalfd_siginfo is plain data for which all zeros is a value.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let bytes = size_of::<libc::signalfd_siginfo>();
        // SAFETY: `info` is valid for writes of `bytes` bytes.
        let read = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), bytes) };
        (read == bytes as isize).then_some(info.ssi_signo as i32)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether [`take_dispositions`] changed the disposition of SIGXFSZ.
static FILE_SIZE_TAKEN: AtomicBool = AtomicBool::new(false);

/// Sets the dispositions of two signals as a launcher needs them, whatever this process inherited.
/// With an ignored SIGCHLD, the kernel would reap children before their exit status is read.
/// SIGXFSZ would end this process when it writes to a file beyond its limit (`ulimit -f`); while it
/// is ignored, the write fails instead. Children get the usual dispositions.
pub fn take_dispositions() {
    // SAFETY: plain system calls; both are always valid dispositions.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        let before = libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        // Only this process's children read it, after a fork.
        FILE_SIZE_TAKEN.store(before != libc::SIG_IGN, Ordering::Relaxed);
    }
}

/// Undoes [`take_dispositions`] in a child between fork and exec. Async-signal-safe.
pub(super) fn restore_dispositions() {
    if FILE_SIZE_TAKEN.load(Ordering::Relaxed) {
        // SAFETY: a plain system call; SIG_DFL is always a valid disposition.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
    }
}

/// Whether this process ignores a signal, for example SIGHUP under `nohup`.
pub fn is_ignored(number: i32) -> bool {
    disposition(number).is_some_and(|action| action.sa_sigaction == libc::SIG_IGN)
}

/// Waits until a descriptor is readable or its other end closed, or until the timeout. Returns
/// which.
pub fn wait_readable(fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<Vec<bool>> {
    wait_ready(fds, &[], timeout)
}

/// Waits until one of `reads` is readable or one of `writes` is writable (or the other end of
/// either closed), or until the timeout. Returns which, in the order of `reads`, then `writes`.
pub fn wait_ready(
    reads: &[BorrowedFd<'_>],
    writes: &[BorrowedFd<'_>],
    timeout: Option<Duration>,
) -> io::Result<Vec<bool>> {
    let entry =
        |fd: &BorrowedFd<'_>, events| libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    let reads = reads.iter().map(|fd| entry(fd, libc::POLLIN));
    let writes = writes.iter().map(|fd| entry(fd, libc::POLLOUT));
    let mut polled: Vec<libc::pollfd> = reads.chain(writes).collect();
    // Round up, so that a deadline has passed when the wait for it returns.
    let milliseconds =
        timeout.map_or(-1, |t| i32::try_from(t.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX));
    // SAFETY: `polled` has the stated number of entries, valid for writes.
    let ready =
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
    match check(ready) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        Err(_) => Ok(vec![false; polled.len()]),
        Ok(()) => Ok(polled.iter().map(|p| p.revents != 0).collect()),
    }
}

/// Whether a process still has the other end of this pipe open for writing. Bytes that are left in
/// the pipe do not matter.
pub fn has_writer(pipe: BorrowedFd<'_>) -> bool {
    let mut polled = libc::pollfd { fd: pipe.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one entry, valid for writes; no time to wait.
    let known = unsafe { libc::poll(&mut polled, 1, 0) } >= 0;
    !known || polled.revents & libc::POLLHUP == 0
}

/// Whether `fd` is a terminal whose foreground group is this process's group, so that reading it
/// does not stop us.
pub fn is_foreground(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: both calls take plain numbers; tcgetpgrp fails if `fd` is not a terminal.
    unsafe { libc::tcgetpgrp(fd.as_raw_fd()) == libc::getpgrp() }
}

/// Makes writes to `fd` fail with `WouldBlock` instead of blocking.
pub fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: fcntl with F_GETFL and F_SETFL takes plain numbers.
    unsafe {
        let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
        check(flags)?;
        check(libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn readable_ends_are_named() {
        let (quiet, _keep) = std::io::pipe().unwrap();
        let (ready, mut write) = std::io::pipe().unwrap();
        let fds = [quiet.as_fd(), ready.as_fd()];
        let none = wait_readable(&fds, Some(Duration::ZERO)).unwrap();
        assert_eq!(none, [false, false]);
        write.write_all(b"x").unwrap();
        assert_eq!(wait_readable(&fds, None).unwrap(), [false, true]);
    }

    #[test]
    fn a_closed_end_counts_as_readable() {
        let (read, write) = std::io::pipe().unwrap();
        drop(write);
        assert_eq!(wait_readable(&[read.as_fd()], None).unwrap(), [true]);
    }

    #[test]
    fn a_pipe_with_bytes_and_no_writer_has_none() {
        let (read, mut write) = std::io::pipe().unwrap();
        write.write_all(b"x").unwrap();
        let copy = write.try_clone().unwrap();
        drop(write);
        assert!(has_writer(read.as_fd()));
        drop(copy);
        assert!(!has_writer(read.as_fd()));
    }

    #[test]
    fn a_full_pipe_takes_no_bytes() {
        let (mut read, mut write) = std::io::pipe().unwrap();
        set_nonblocking(write.as_fd()).unwrap();
        let now = Some(Duration::ZERO);
        assert_eq!(wait_ready(&[], &[write.as_fd()], now).unwrap(), [true]);
        while write.write(&[0; 4096]).is_ok() {}
        let both = wait_ready(&[read.as_fd()], &[write.as_fd()], now).unwrap();
        assert_eq!(both, [true, false]);
        let mut all = vec![0; 1 << 16];
        std::io::Read::read_exact(&mut read, &mut all).unwrap();
        assert_eq!(wait_ready(&[], &[write.as_fd()], None).unwrap(), [true]);
    }

    #[test]
    fn blocked_signals_are_read() {
        let signals = Signals::take(&[libc::SIGUSR2]).unwrap();
        assert_eq!(signals.next(), None);
        // SAFETY: sends this thread a signal that it blocks.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) };
        assert_eq!(wait_readable(&[signals.as_fd()], None).unwrap(), [true]);
        assert_eq!(signals.next(), Some(libc::SIGUSR2));
    }
}
