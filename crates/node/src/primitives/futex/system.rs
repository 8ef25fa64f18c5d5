//! The system call.

use super::FutexScope;
use crate::sync::AtomicU32;
use std::ptr;
use std::time::Duration;

/// Sleeps while `word` holds `expected`, until a wake-up, a signal or the limit.
pub fn wait(word: &AtomicU32, expected: u32, scope: FutexScope, limit: Option<Duration>) {
    let timeout = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: limit.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    let operation = libc::FUTEX_WAIT | flag(scope);
    // SAFETY: the word and the timeout outlive the call, which only reads them.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, timeout) };
}

/// Wakes one thread that sleeps on `word`.
pub fn wake_one(word: &AtomicU32, scope: FutexScope) {
    wake(word, scope, 1);
}

/// Wakes all threads that sleep on `word`.
pub fn wake_all(word: &AtomicU32, scope: FutexScope) {
    wake(word, scope, i32::MAX);
}

fn wake(word: &AtomicU32, scope: FutexScope, most: i32) {
    let operation = libc::FUTEX_WAKE | flag(scope);
    // SAFETY: FUTEX_WAKE uses the word's address alone.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, most) };
}

fn flag(scope: FutexScope) -> i32 {
    match scope {
        FutexScope::Process => libc::FUTEX_PRIVATE_FLAG,
        FutexScope::Node => 0,
    }
}
