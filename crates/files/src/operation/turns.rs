//! The order of the collective accesses of a file.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use mica_objects::sync::lock;

/// Whose turn it is. Clones are the same order.
#[derive(Clone, Debug, Default)]
pub struct Turns(Arc<Mutex<TurnState>>);

#[derive(Debug, Default)]
struct TurnState {
    /// The number of the next access that begins.
    next: u64,
    /// The number of the one whose turn it is.
    serving: u64,
}

/// The place of an access in the order; it ends when this is dropped.
#[derive(Debug)]
pub struct Turn {
    turns: Turns,
    number: u64,
}

impl Turns {
    /// Takes the next place.
    pub fn take(&self) -> Turn {
        let mut state = lock(&self.0);
        state.next += 1;
        Turn { turns: self.clone(), number: state.next - 1 }
    }
}

impl Turn {
    /// Waits until all accesses before this one have ended.
    pub async fn comes(&self) {
        poll_fn(|_| match lock(&self.turns.0).serving == self.number {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Of those that are dropped before their turn, none is left: the process ends.
        lock(&self.turns.0).serving += 1;
    }
}
