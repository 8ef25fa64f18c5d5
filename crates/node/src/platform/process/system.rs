//! What this system allows a process: limits, and calls that the launcher needs.

use std::io;

use super::check;

/// A limit of setrlimit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitResource {
    /// Address space (`ulimit -v`).
    AddressSpace,
    /// Size of a file that is written, shared memory included (`ulimit -f`).
    FileSize,
    /// Open descriptors (`ulimit -n`).
    Descriptors,
    /// Memory that cannot be swapped out (`ulimit -l`).
    LockedMemory,
    /// Processes of the user (`ulimit -u`).
    Processes,
}

/// Soft and hard limit in force; `None` for each that does not limit.
///
/// # Errors
/// When the system refuses the query.
pub fn limits(resource: LimitResource) -> io::Result<(Option<u64>, Option<u64>)> {
    let number = match resource {
        LimitResource::AddressSpace => libc::RLIMIT_AS,
        LimitResource::FileSize => libc::RLIMIT_FSIZE,
        LimitResource::Descriptors => libc::RLIMIT_NOFILE,
        LimitResource::LockedMemory => libc::RLIMIT_MEMLOCK,
        LimitResource::Processes => libc::RLIMIT_NPROC,
    };
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writes.
    check(unsafe { libc::getrlimit(number, &mut limit) })?;
    let finite = |value| (value != libc::RLIM_INFINITY).then_some(value);
    Ok((finite(limit.rlim_cur), finite(limit.rlim_max)))
}

/// Makes writes beyond the file size limit fail with EFBIG, instead of raising a signal that ends
/// this process. Programs that it starts inherit this.
pub fn outlive_file_size_limit() {
    // SAFETY: SIG_IGN is a valid disposition.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Keeps what this process has open beside its standard streams from programs that it starts.
/// Kernels before Linux 5.11 cannot do it at once: there these inherit what they inherited before.
pub fn keep_descriptors() {
    const CLOSE_RANGE_CLOEXEC: u32 = 1 << 2;
    // SAFETY: plain numbers; descriptors get a flag, and none is closed.
    unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, CLOSE_RANGE_CLOEXEC) };
}

/// Whether the system supports pidfds.
///
/// # Errors
/// The error of pidfd_open.
pub fn pidfd() -> io::Result<()> {
    // SAFETY: getpid has no preconditions; pidfd_open takes plain numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
    check(fd as i32)?;
    // SAFETY: the descriptor is new and has no other owner.
    check(unsafe { libc::close(fd as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let (soft, hard) = limits(LimitResource::Descriptors).unwrap();
        assert!(soft.is_none_or(|soft| soft > 0));
        assert!(hard.is_none_or(|hard| soft.is_some_and(|soft| soft <= hard)));
    }
}
