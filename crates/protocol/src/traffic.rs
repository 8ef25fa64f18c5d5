//! Traffic by path: plain counters of one rank.

use mica_node::counters::{Counters, TRAFFIC_CLASSES, TrafficClass};
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
        // Plain counters: if two threads count at the same time, one count may be lost. Atomic
        // additions would cost more than that is worth.
        let add = |counter: &AtomicU64, more: u64| {
            counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        };
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
