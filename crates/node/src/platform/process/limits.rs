//! The limit of open descriptors. A launcher needs several for each rank, and the usual soft limit
//! of 1024 is meant for programs that use `select`. The launcher raises its own limit; the programs
//! that it starts get the original limit.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::check;

/// The soft limit before it was raised; 0 if it was not raised.
static BEFORE: AtomicU64 = AtomicU64::new(0);

/// Raises this process's soft limit of open descriptors to its hard limit.
pub fn allow_many_descriptors() -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
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

/// Restores the original limit in a child between fork and exec. Async-signal-safe.
pub(super) fn restore() -> io::Result<()> {
    let before = BEFORE.load(Ordering::Relaxed);
    if before == 0 {
        return Ok(());
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writes.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    limit.rlim_cur = before;
    // SAFETY: `limit` is valid for reads.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })
}
