//! Counting the messages of one communicator, while a tool wants to know ([`CommCounts`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::counts::CommCounts;
use super::object::Comm;
use super::route::{MADE_AND_SUSPENDED, Route};
use crate::sync::lock;

/// While it exists, the messages that a communicator sends are counted.
#[derive(Debug)]
pub(crate) struct SentObserver {
    handle: u32,
    counts: Arc<CommCounts>,
}

impl Drop for SentObserver {
    fn drop(&mut self) {
        let _guard = lock(&MADE_AND_SUSPENDED);
        // Relaxed: the lock orders it.
        if self.counts.sent_observers.fetch_sub(1, Ordering::Relaxed) == 1 {
            Route::resume(self.handle);
        }
    }
}

impl Comm {
    /// The communicator's counts.
    pub(crate) fn counts(&self) -> Arc<CommCounts> {
        Arc::clone(self.0.counts.get_or_init(Arc::default))
    }

    /// Counts what is sent from now on.
    pub(crate) fn observe_sent(&self) -> SentObserver {
        let counts = self.counts();
        let guard = lock(&MADE_AND_SUSPENDED);
        // Relaxed: the lock orders it.
        counts.sent_observers.fetch_add(1, Ordering::Relaxed);
        Route::suspend(self.handle());
        drop(guard);
        SentObserver { handle: self.handle(), counts }
    }

    /// Counts a message of the program of `bytes` bytes that is being sent, if someone wants to
    /// know.
    #[inline]
    pub(crate) fn count_sent(&self, bytes: usize) {
        if let Some(counts) = self.0.counts.get() {
            counts.sent.count(bytes);
        }
    }
}
