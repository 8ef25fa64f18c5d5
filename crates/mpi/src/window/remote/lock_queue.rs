//! The origins that wait for this rank's lock by messages.

use std::collections::VecDeque;

use mica_node::window::{LockMode, LockTicket};
use mica_protocol::EngineState;

/// The lock of this rank's memory, as far as origins hold it or wait for it that share no locks
/// with this rank. They come to it by one ticket at a time, in the order of their requests.
#[derive(Debug, Default)]
pub(super) struct RemoteLocks {
    /// In the order of their requests.
    pub waiting: VecDeque<LockRequest>,
    /// How many hold the lock.
    pub holders: usize,
    pub ticket: Option<LockTicket>,
    /// The engine calls the server in every progress iteration, since a rank of this node has the
    /// lock.
    is_polled: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct LockRequest {
    /// Rank in the window.
    pub origin: usize,
    pub mode: LockMode,
    /// Tag of the answer.
    pub answer: i32,
}

impl RemoteLocks {
    /// Polls the locks in every progress iteration from now on, or no longer.
    pub fn poll(&mut self, state: &mut EngineState, polled: bool) {
        match (std::mem::replace(&mut self.is_polled, polled), polled) {
            (false, true) => state.begin_polling(),
            (true, false) => state.end_polling(),
            _ => {}
        }
    }

    /// The window is being freed.
    pub fn end(&mut self, state: &mut EngineState) {
        self.poll(state, false);
    }
}
