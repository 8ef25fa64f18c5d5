//! Test&Set (jiang-2004, 4.3.1): the attempts of an origin, with exponential back-off.

use crate::sync::Ordering;
use crate::window::lock::WindowLock;
use crate::window::lock::ticket::LockTicket;
use crate::window::lock::words::{LockMode, exclusive};

/// The most polls between two attempts of the Test&Set design: about 10 us of polling.
const MOST_POLLS: u32 = 1 << 10;

impl WindowLock<'_> {
    /// Tries once.
    pub(in crate::window::lock) fn test_and_set(&self, origin: u32, mode: LockMode) -> bool {
        let owners = &self.target.owners;
        // SYNC window-lock: Acquire pairs with the Release of `release`.
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let is_held = match mode {
            LockMode::Exclusive => {
                owners.compare_exchange(0, exclusive(origin), acquire, relaxed).is_ok()
            }
            LockMode::Shared => self.join_holders(),
        };
        if is_held {
            let line = &self.origins[origin as usize];
            // Relaxed: for reports.
            line.state.store(mode.holds(), Ordering::Relaxed);
        }
        is_held
    }

    /// Tries once if the pause is over, and doubles the pause if it fails.
    pub(in crate::window::lock) fn try_after_pause(&self, ticket: &mut LockTicket) -> bool {
        if !ticket.ends_pause() {
            return false;
        }
        ticket.pause((2 * ticket.interval()).min(MOST_POLLS));
        self.test_and_set(ticket.origin(), ticket.mode())
    }
}
