//! What a node's memory has counted.

use serde::{Deserialize, Serialize};

/// Accesses of the core, by the farthest level that one of their lines came from. An access that
/// straddles lines counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessCounts {
    /// All, in every mode.
    pub accesses: u64,
    /// To device registers.
    pub device: u64,
    /// In loose and fast-forward mode.
    pub unmodelled: u64,
    /// Stores to the line of the store before, which waits in the store queue of an L1 that writes
    /// through.
    pub merged: u64,
    /// Came from the L2.
    pub from_l2: u64,
    /// Came from the L3.
    pub from_l3: u64,
    /// Came from the L2 of another core.
    pub from_other_core: u64,
    /// Came from memory.
    pub from_memory: u64,
}

impl AccessCounts {
    /// Missed the L1.
    pub fn l1_misses(&self) -> u64 {
        self.from_l2 + self.l2_misses()
    }

    /// Missed the L2, too.
    pub fn l2_misses(&self) -> u64 {
        self.from_l3 + self.from_other_core + self.from_memory
    }
}

/// Lines that the memory controller has read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryReads {
    /// Because the core wanted them.
    pub demand: u64,
    /// Because the prefetcher did.
    pub prefetch: u64,
    /// Because the adapter did.
    pub adapter: u64,
}

impl MemoryReads {
    /// All.
    pub fn total(&self) -> u64 {
        self.demand + self.prefetch + self.adapter
    }
}

/// Lines, or parts of them, that the memory controller has written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryWrites {
    /// Dirty lines that left the caches, and stores that caches let through.
    pub write_backs: u64,
    /// From the adapter.
    pub adapter: u64,
}

/// Lines that the adapter has put into caches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Injections {
    /// Into the L2 of the core that runs the program.
    pub l2: u64,
    /// Into the L2 of another core.
    pub other_core: u64,
    /// Into the L3.
    pub l3: u64,
    /// Whole lines that went to memory.
    pub memory: u64,
    /// Injected lines that the program has used.
    pub used: u64,
    /// That went from an L2 to the L3 before use; they may still be used from there.
    pub demoted: u64,
    /// That left the caches before use: bad injections.
    pub evicted: u64,
    /// That the adapter wrote again before use.
    pub overwritten: u64,
}

impl Injections {
    /// Lines that were put into any cache.
    pub fn lines(&self) -> u64 {
        self.l2 + self.other_core + self.l3
    }
}

/// What the prefetcher has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefetches {
    /// Lines that it brought into the L1 or L2.
    pub lines: u64,
    /// That the program has used.
    pub used: u64,
    /// That it left out because the memory's queue was full.
    pub dropped: u64,
}

/// All counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryCounts {
    /// Loads.
    pub loads: AccessCounts,
    /// Stores.
    pub stores: AccessCounts,
    /// Instruction fetches.
    pub fetches: AccessCounts,
    /// Reads of the memory.
    pub memory_reads: MemoryReads,
    /// Writes of the memory.
    pub memory_writes: MemoryWrites,
    /// Writes of the adapter.
    pub injected: Injections,
    /// The prefetcher.
    pub prefetched: Prefetches,
    /// Lines that the adapter read and a cache had.
    pub adapter_reads_cached: u64,
}
