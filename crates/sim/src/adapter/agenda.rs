//! What will happen at an adapter, by time. Equal times keep the order of their entry.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::SimTime;

/// Entries by time and order.
#[derive(Debug)]
pub(super) struct Agenda<T> {
    entries: BinaryHeap<Reverse<Entry<T>>>,
    next: u64,
}

#[derive(Debug)]
struct Entry<T> {
    due: SimTime,
    order: u64,
    what: T,
}

impl<T> Agenda<T> {
    pub fn new() -> Agenda<T> {
        Agenda { entries: BinaryHeap::new(), next: 0 }
    }

    /// Enters something that happens at `due`.
    pub fn enter(&mut self, due: SimTime, what: T) {
        let order = self.next;
        self.next += 1;
        self.entries.push(Reverse(Entry { due, order, what }));
    }

    /// When the next is due.
    pub fn next_due(&self) -> Option<SimTime> {
        self.entries.peek().map(|entry| entry.0.due)
    }

    /// Takes the next, if it is due at `now`.
    pub fn take(&mut self, now: SimTime) -> Option<(SimTime, T)> {
        if self.next_due()? > now {
            return None;
        }
        let entry = self.entries.pop()?.0;
        Some((entry.due, entry.what))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}
