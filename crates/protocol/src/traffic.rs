//! Traffic by path, of what goes without messages: plain counters of one rank.

use mica_node::counters::{
    ACCESS_CLASSES, AccessClass, Counter, Counters, TRAFFIC_CLASSES, TrafficClass,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// What collectives have moved without messages. A collective counts as one message of the bytes
/// that this rank brought.
#[derive(Debug, Default)]
pub struct CollectiveTraffic {
    sent: [(AtomicU64, AtomicU64); TRAFFIC_CLASSES],
}

impl CollectiveTraffic {
    /// Counts a collective.
    #[inline]
    pub fn count(&self, path: TrafficClass, bytes: usize) {
        let (collectives, total) = &self.sent[path as usize];
        add(collectives, 1);
        add(total, bytes as u64);
    }

    /// Adds all that was counted to `counters`.
    pub(crate) fn add_to(&self, counters: &mut Counters) {
        for (path, (collectives, bytes)) in TrafficClass::ALL.into_iter().zip(&self.sent) {
            let (collectives, bytes) = (
                collectives.load(Ordering::Relaxed),
                bytes.load(Ordering::Relaxed),
            );
            counters.add_messages(path, collectives, bytes);
        }
    }
}

/// The one-sided operations of this rank.
#[derive(Debug, Default)]
pub struct OneSidedTraffic {
    operations: [(AtomicU64, AtomicU64); ACCESS_CLASSES],
    locks: AtomicU64,
    lock_waits: AtomicU64,
}

impl OneSidedTraffic {
    /// Counts an operation on `bytes` bytes.
    #[inline(always)]
    pub fn count(&self, access: AccessClass, bytes: usize) {
        let (operations, total) = &self.operations[access as usize];
        add(operations, 1);
        add(total, bytes as u64);
    }

    /// Counts a lock that this rank asks for.
    #[inline]
    pub fn count_lock(&self) {
        add(&self.locks, 1);
    }

    /// Counts a wait for a lock.
    pub fn count_lock_wait(&self) {
        add(&self.lock_waits, 1);
    }

    /// Adds all that was counted to `counters`.
    pub(crate) fn add_to(&self, counters: &mut Counters) {
        for (access, (operations, bytes)) in AccessClass::ALL.into_iter().zip(&self.operations) {
            let (operations, bytes) = (
                operations.load(Ordering::Relaxed),
                bytes.load(Ordering::Relaxed),
            );
            counters.add_operations(access, operations, bytes);
        }
        counters.add(Counter::WindowLocks, self.locks.load(Ordering::Relaxed));
        counters.add(
            Counter::WindowLockWaits,
            self.lock_waits.load(Ordering::Relaxed),
        );
    }
}

/// Adds to a plain counter: if two threads count at the same time, one count may be lost. Atomic
/// additions would cost more than that is worth.
#[inline(always)]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}
