//! What is counted of one communicator while a tool has a performance variable of it.
//!
//! Counting would cost each message of each program some instructions, so none is counted as long
//! as no tool asks. While one does, the communicator has no `Route`: its messages take the path
//! of communicators without one, which counts. Arrivals are counted by the events of the engine
//! (`tool::event`).
//!
//! `observe` turns this on and off.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The counts of one communicator. They begin with the first `SentObserver`, or when the tool
/// asks for arrivals, and only grow.
#[derive(Debug, Default)]
pub(crate) struct CommCounts {
    /// Handles of variables about what is sent. Read and written with the lock
    /// `route::MADE_AND_SUSPENDED` only.
    pub(super) sent_observers: AtomicU32,
    pub sent: MessageCount,
    pub arrived: MessageCount,
    pub unexpected: MessageCount,
}

/// Messages and their bytes.
#[derive(Debug, Default)]
pub(crate) struct MessageCount {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl MessageCount {
    /// Counts a message. Threads may do so at once.
    pub fn count(&self, bytes: usize) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
