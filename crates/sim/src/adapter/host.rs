//! The process's memory, as its adapter reaches it.

use crate::memory::{InjectTarget, Injections};
use crate::time::SimTime;

/// The process's memory as the adapter reaches it. Transfers take time on the memory's side, which
/// the implementation models and returns. A transfer may begin before another that was asked for
/// earlier, since the adapter overlaps them.
pub trait AdapterHost {
    /// Reads `out.len()` bytes at `address` from `at` on. Returns when the last has been read.
    fn read(&mut self, at: SimTime, address: u64, out: &mut [u8]) -> SimTime;

    /// Writes `bytes` to `address` from `at` on. Returns when the last has been written.
    fn write(&mut self, at: SimTime, address: u64, bytes: &[u8], to: InjectTarget) -> SimTime;

    /// Whether the cache line that holds `address` is in the cache of this target.
    fn holds(&self, address: u64, cache: InjectTarget) -> bool;

    /// What became of the lines that were injected since the start.
    fn injections(&self) -> InjectionCounts;
}

/// What became of injected lines. Those that are neither used nor evicted yet are in `injected`
/// alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InjectionCounts {
    /// Lines that were injected into any cache.
    pub injected: u64,
    /// Of these, those that the program has used before they were evicted.
    pub used: u64,
    /// Of these, those that left the caches, or were written again, before use.
    pub evicted: u64,
}

impl InjectionCounts {
    /// From the counts of a node's memory.
    pub fn of(counts: &Injections) -> InjectionCounts {
        InjectionCounts {
            injected: counts.l2 + counts.other_core + counts.l3,
            used: counts.used,
            evicted: counts.evicted + counts.overwritten,
        }
    }

    /// Lines that are neither used nor evicted yet.
    pub fn pending(&self) -> u64 {
        self.injected.saturating_sub(self.used + self.evicted)
    }

    /// What was added since `earlier`.
    pub fn since(&self, earlier: &InjectionCounts) -> InjectionCounts {
        InjectionCounts {
            injected: self.injected.saturating_sub(earlier.injected),
            used: self.used.saturating_sub(earlier.used),
            evicted: self.evicted.saturating_sub(earlier.evicted),
        }
    }
}
