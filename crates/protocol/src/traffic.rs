//! Traffic by path: plain counters of one rank.

use std::sync::atomic::{AtomicU64, Ordering};

/// The path of a message, as its sender counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrafficClass {
    /// To this rank itself.
    Own,
    /// In a ring slot.
    Inline,
    /// In a ring's arena.
    Ring,
    /// Through cells.
    Cells,
    /// Copied once, by the kernel.
    Direct,
    /// Copied once, by load and store in memory that both ranks have mapped.
    Mapped,
    /// Over the network.
    Net,
    /// In a collective, through the area of its communicator.
    Area,
}

/// What collectives have transferred without messages. A collective counts as one message of the
/// bytes that this rank contributed.
#[derive(Debug, Default)]
pub struct CollectiveTraffic {
    sent: [(AtomicU64, AtomicU64); WAYS],
}

impl CollectiveTraffic {
    /// Counts a collective.
    #[inline]
    pub fn count(&self, way: TrafficClass, bytes: usize) {
        let (collectives, total) = &self.sent[way as usize];
        // Plain counters: if two threads count at the same time, one count may be lost. Atomic
        // additions would cost more than that is worth.
        let add = |counter: &AtomicU64, more: u64| {
            counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        };
        add(collectives, 1);
        add(total, bytes as u64);
    }

    /// Adds all counts to `traffic`.
    pub(crate) fn add_to(&self, traffic: &mut Traffic) {
        for ((collectives, bytes), sent) in self.sent.iter().zip(&mut traffic.sent) {
            sent.0 += collectives.load(Ordering::Relaxed);
            sent.1 += bytes.load(Ordering::Relaxed);
        }
    }
}

/// Number of [`TrafficClass`]s.
pub const WAYS: usize = mica_node::segment::TRAFFIC_WAYS;

/// Messages and bytes sent by each path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages and bytes, by [`TrafficClass`].
    pub sent: [(u64, u64); WAYS],
}

impl Traffic {
    /// Counts a message.
    #[inline(always)]
    pub fn count(&mut self, way: TrafficClass, bytes: usize) {
        let (messages, total) = &mut self.sent[way as usize];
        *messages += 1;
        *total += bytes as u64;
    }
}
