//! How the progress thread is woken: where no message wakes it, so that short messages pay nothing
//! for it.

use std::sync::{Condvar, Mutex, PoisonError};

/// Where the progress thread sleeps while there is no long message.
#[derive(Debug, Default)]
pub(crate) struct ProgressWakeup {
    is_due: Mutex<bool>,
    wakeup: Condvar,
}

impl ProgressWakeup {
    /// Wakes the thread if it sleeps, or is about to sleep.
    pub fn wake(&self) {
        *self.is_due.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wakeup.notify_one();
    }

    /// Sleeps until it is woken.
    pub fn sleep(&self) {
        let mut is_due = self.is_due.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_due {
            is_due = self
                .wakeup
                .wait(is_due)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *is_due = false;
    }
}
