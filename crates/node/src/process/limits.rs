//! Descriptors: a launcher needs several for each rank, and the usual soft limit of 1024 is for
//! programs that use `select`. The launcher raises its own; the programs that it starts get the
//! limit back that it had.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::check;

/// The soft limit before it was raised; 0: it was not.
static BEFORE: AtomicU64 = AtomicU64::new(0);

/// Raises this process's soft limit of open descriptors to its hard limit.
pub fn allow_many_descriptors() -> io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writes.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    if limit.rlim_cur == limit.rlim_max {
        return Ok(());
    }
    let before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is valid for reads.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
    // Only this process's children read it, after a fork.
    BEFORE.store(before, Ordering::Relaxed);
    Ok(())
}

/// Gives a child between fork and exec the limit that its parent had. Async-signal-safe.
pub(super) fn restore() -> io::Result<()> {
    let before = BEFORE.load(Ordering::Relaxed);
    if before == 0 {
        return Ok(());
    }
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writes.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    limit.rlim_cur = before;
    // SAFETY: `limit` is valid for reads.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })
}
