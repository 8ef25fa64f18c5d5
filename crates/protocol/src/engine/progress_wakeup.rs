//! How the progress thread waits, and how it is woken: where no message wakes it, so that short
//! messages pay nothing for it.

use std::sync::{Condvar, Mutex, PoisonError};

/// What the progress thread does while there is something to wait for, and nothing comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdleThread {
    /// It polls for a while before it sleeps.
    PollsAndSleeps,
    /// It never sleeps: the dedicated thread of jiang-2004, 4.2.1.
    Polls,
    /// It sleeps at once, and arrivals wake it: the event-driven thread of jiang-2004, 4.2.2.
    Sleeps,
}

/// Where the progress thread sleeps while there is no long message.
#[derive(Debug)]
pub(crate) struct ProgressWakeup {
    pub idle: IdleThread,
    is_due: Mutex<bool>,
    wakeup: Condvar,
}

impl ProgressWakeup {
    /// For a thread that waits like this.
    pub fn new(idle: IdleThread) -> ProgressWakeup {
        ProgressWakeup { idle, is_due: Mutex::new(false), wakeup: Condvar::new() }
    }

    /// Wakes the thread if it sleeps, or is about to sleep.
    pub fn wake(&self) {
        *self.is_due.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wakeup.notify_one();
    }

    /// Sleeps until it is woken.
    pub fn sleep(&self) {
        let mut is_due = self.is_due.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_due {
            is_due = self.wakeup.wait(is_due).unwrap_or_else(PoisonError::into_inner);
        }
        *is_due = false;
    }
}
