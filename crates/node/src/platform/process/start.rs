//! The code of a child between fork and exec. It makes only async-signal-safe system calls, and
//! neither allocates nor takes a lock.

use std::io;

use super::{check, events, keeper, limits};
use crate::topology::CpuSet;

/// Prepares the calling child to become a rank's program.
///
/// A failure to bind it is not an error: the launcher checks the resulting affinity.
pub(super) fn prepare_child(
    parent: libc::pid_t,
    inherit: &[i32],
    keeper: Option<i32>,
    cpus: Option<&CpuSet>,
) -> io::Result<()> {
    // A shell starts background jobs with these ignored. The launcher forwards them on purpose, so
    // a rank must receive them.
    for number in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: a plain system call; SIG_DFL is always a valid disposition.
        if unsafe { libc::signal(number, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    events::restore_dispositions();
    // SAFETY: PR_SET_PDEATHSIG takes a signal number.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // The launcher may have died before the call above: then no signal will come.
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
        unsafe {
            libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(words), words.as_ptr())
        };
    }
    // The launcher blocks the signals that it reads from a descriptor; the child must not.
    // SAFETY: sigset_t is plain data, initialised by sigemptyset before use.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        check(libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()))?;
    }
    Ok(())
}
