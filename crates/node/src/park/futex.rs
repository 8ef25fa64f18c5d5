//! The futex system call, on words shared between processes; a spinning stand-in under loom.

use crate::sync::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` holds `expected`, until a wake, a signal or the limit.
#[cfg(not(loom))]
pub fn wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) {
    let timeout = limit.map(|d| libc::timespec {
        tv_sec: d.as_secs() as libc::time_t,
        tv_nsec: d.subsec_nanos().into(),
    });
    let timeout = timeout
        .as_ref()
        .map_or(std::ptr::null(), |t| t as *const libc::timespec);
    // SAFETY: the word and the timeout outlive the call; FUTEX_WAIT (not private: the word is shared) only reads them.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            timeout,
        );
    }
}

/// Wakes all who sleep on `word`.
#[cfg(not(loom))]
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE does not access memory beyond the word's address.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}

/// Model: sleeping is yielding until the word changes, so that a lost wake-up shows as a deadlock (a livelock to loom).
#[cfg(loom)]
pub fn wait(word: &AtomicU32, expected: u32, _limit: Option<Duration>) {
    while word.load(crate::sync::Ordering::Relaxed) == expected {
        loom::thread::yield_now();
    }
}

/// Model: the changed word is the wake-up.
#[cfg(loom)]
pub fn wake_all(_word: &AtomicU32) {}
