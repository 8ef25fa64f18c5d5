//! The origins that hold this rank's lock, or wait for it, by messages.
//!
//! They share no lock with this rank, so the server takes it for them, by two numbers of its own:
//! one for all shared origins together, and one for the exclusive ones, in the order of their
//! requests. Two, since a shared origin must not wait for an exclusive one that waits itself
//! ([`WindowLock`]).

use std::collections::VecDeque;

use mica_node::window::{LockMode, LockTicket, WindowLock};
use mica_protocol::EngineState;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct RemoteLocks {
    shared: SharedOrigins,
    exclusive: ExclusiveOrigins,
    /// The engine calls the server in every progress iteration, since a rank of this node has the
    /// lock.
    is_polled: bool,
}

#[derive(Debug, Default)]
struct SharedOrigins {
    waiting: Vec<LockRequest>,
    ticket: Option<LockTicket>,
    /// Ranks in the window.
    holders: Vec<usize>,
}

#[derive(Debug, Default)]
struct ExclusiveOrigins {
    waiting: VecDeque<LockRequest>,
    ticket: Option<LockTicket>,
    /// Rank in the window.
    holder: Option<usize>,
}

/// An origin that asks for the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LockRequest {
    /// Rank in the window.
    pub origin: usize,
    pub mode: LockMode,
    /// Tag of the answer.
    pub answer: i32,
}

impl RemoteLocks {
    /// Adds an origin that asks for the lock.
    pub fn ask(&mut self, request: LockRequest) {
        match request.mode {
            LockMode::Shared => self.shared.waiting.push(request),
            LockMode::Exclusive => self.exclusive.waiting.push_back(request),
        }
    }

    /// `origin` gives the lock back, which was taken with the numbers `proxies`.
    pub fn unlock(
        &mut self,
        (lock, proxies): (WindowLock<'_>, [u32; 2]),
        origin: usize,
        wake: impl FnMut(u32),
    ) {
        let ticket = if self.exclusive.holder == Some(origin) {
            self.exclusive.holder = None;
            self.exclusive.ticket.take()
        } else {
            let holders = &mut self.shared.holders;
            if let Some(at) = holders.iter().position(|&holder| holder == origin) {
                holders.swap_remove(at);
            }
            match holders.is_empty() {
                true => self.shared.ticket.take(),
                false => None,
            }
        };
        self.note_holders(lock, proxies);
        if let Some(ticket) = ticket {
            lock.release(ticket, wake);
        }
    }

    /// Takes the lock for those who wait, as far as it can be had, with the numbers `proxies` for
    /// shared and exclusive origins. Returns those who have it now.
    pub fn advance(&mut self, lock: WindowLock<'_>, proxies: [u32; 2]) -> Vec<LockRequest> {
        let mut granted = Vec::new();
        let shared = &mut self.shared;
        if !shared.waiting.is_empty() {
            let begin = || lock.begin(proxies[0], LockMode::Shared);
            if lock.poll(shared.ticket.get_or_insert_with(begin)) {
                let waiting = shared.waiting.iter();
                shared.holders.extend(waiting.map(|request| request.origin));
                granted.append(&mut shared.waiting);
            }
        }
        let exclusive = &mut self.exclusive;
        if exclusive.holder.is_none()
            && let Some(&first) = exclusive.waiting.front()
        {
            let begin = || lock.begin(proxies[1], LockMode::Exclusive);
            if lock.poll(exclusive.ticket.get_or_insert_with(begin)) {
                exclusive.waiting.pop_front();
                exclusive.holder = Some(first.origin);
                granted.push(first);
            }
        }
        if !granted.is_empty() {
            self.note_holders(lock, proxies);
        }
        granted
    }

    /// For the reports of those who wait.
    fn note_holders(&self, lock: WindowLock<'_>, [shared, exclusive]: [u32; 2]) {
        lock.note_served(shared, &self.shared.holders);
        lock.note_served(exclusive, self.exclusive.holder.as_slice());
    }

    /// Has the engine call the server in every progress iteration while a rank of this node has the
    /// lock that an origin waits for.
    pub fn poll_if_awaited(&mut self, state: &mut EngineState) {
        let is_awaited = !self.shared.waiting.is_empty()
            || self.exclusive.holder.is_none() && !self.exclusive.waiting.is_empty();
        match (std::mem::replace(&mut self.is_polled, is_awaited), is_awaited) {
            (false, true) => state.begin_polling(),
            (true, false) => state.end_polling(),
            _ => {}
        }
    }

    /// The window is being freed.
    pub fn end(&mut self, state: &mut EngineState) {
        if std::mem::take(&mut self.is_polled) {
            state.end_polling();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::park::Fencing;
    use mica_node::window::{LockDesign, OriginLine, TargetLine};

    const PROXIES: [u32; 2] = [1, 2];

    fn request(origin: usize, mode: LockMode) -> LockRequest {
        LockRequest { origin, mode, answer: 1 }
    }

    #[test]
    fn shared_origins_join_and_exclusive_ones_take_turns() {
        use LockMode::{Exclusive, Shared};
        let (target, origins) = (TargetLine::new(), [(); 3].map(|()| OriginLine::new()));
        let lock = WindowLock::new(LockDesign::Mcs, Fencing::Sender, &target, &origins);
        let mut locks = RemoteLocks::default();
        let origins_of = |locks: &mut RemoteLocks| -> Vec<usize> {
            let granted = locks.advance(lock, PROXIES);
            granted.iter().map(|request| request.origin).collect()
        };
        locks.ask(request(5, Shared));
        assert_eq!(origins_of(&mut locks), [5]);
        locks.ask(request(6, Exclusive));
        locks.ask(request(7, Exclusive));
        assert!(origins_of(&mut locks).is_empty());
        // Beside the one that holds it, although an exclusive one waits.
        locks.ask(request(8, Shared));
        assert_eq!(origins_of(&mut locks), [8]);
        assert_eq!(lock.served(PROXIES[0]), Some((5, 2)));
        assert_eq!(lock.served(PROXIES[1]), None);
        locks.unlock((lock, PROXIES), 5, |_| ());
        assert!(origins_of(&mut locks).is_empty());
        locks.unlock((lock, PROXIES), 8, |_| ());
        assert_eq!(origins_of(&mut locks), [6]);
        assert_eq!(lock.served(PROXIES[0]), None);
        assert_eq!(lock.served(PROXIES[1]), Some((6, 1)));
        locks.ask(request(9, Shared));
        assert!(origins_of(&mut locks).is_empty());
        locks.unlock((lock, PROXIES), 6, |_| ());
        assert_eq!(origins_of(&mut locks), [9], "the shared one before the next exclusive one");
        locks.unlock((lock, PROXIES), 9, |_| ());
        assert_eq!(origins_of(&mut locks), [7]);
        locks.unlock((lock, PROXIES), 7, |_| ());
        assert_eq!(lock.holders().count() + lock.waiters().count(), 0);
    }
}
