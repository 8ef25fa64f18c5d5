//! The futex system call: a thread sleeps while a word holds a value, and is woken by a thread that
//! has changed the word.
//!
//! The kernel compares the word and queues the thread atomically with regard to wake-ups, so a
//! waker that changes the word first misses no sleeper. A sleep may end early (a signal, the
//! limit), so a sleeper checks its condition again in a loop. Do not rely on the calls for memory
//! ordering; the atomic accesses to the word provide it. Under loom, a queue of sleeping threads
//! replaces the kernel's, so that a model in which a wake-up is lost ends in a deadlock, which loom
//! reports.

#[cfg(not(loom))]
mod system;
#[cfg(loom)]
#[path = "system_under_loom.rs"]
mod system;

pub use system::{wait, wake_all, wake_one};

/// Which threads sleep on a word and wake from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FutexScope {
    /// Threads of one process: the kernel finds the queue by the address alone.
    Process,
    /// Threads of any process that has mapped the word.
    Node,
}
