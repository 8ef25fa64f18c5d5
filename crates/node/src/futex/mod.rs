//! The futex system call: a thread sleeps while a word holds a value, and is woken by who has
//! changed the word.
//!
//! The kernel compares the word and queues the thread as one step with regard to wake-ups, so a
//! waker that changes the word first loses no sleeper. A sleep may end early (a signal, the limit):
//! who sleeps checks again in a loop. Nothing may rely on the calls for memory ordering: that is
//! for the atomic accesses to the word. Under loom a queue of sleeping threads stands in for the
//! kernel's, so that a model in which a wake-up is lost ends in a deadlock, which loom reports.

#[cfg(not(loom))]
mod system;
#[cfg(loom)]
#[path = "system_model.rs"]
mod system;

pub use system::{wait, wake_all, wake_one};

/// Who sleeps on a word and wakes from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FutexScope {
    /// Threads of one process: the kernel finds the queue by the address alone.
    Process,
    /// Threads of any process that has mapped the word.
    Node,
}
