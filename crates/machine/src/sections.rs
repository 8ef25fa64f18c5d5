//! The sections of a machine's file that describe a node and its chips.

use serde::{Deserialize, Serialize};

/// `[processor]`: the cores. One of them runs the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// Clock frequency.
    pub mhz: f64,
    /// Cycles of an instruction that does not wait for memory; hits in the L1 are part of it.
    pub cycles_per_instruction: f64,
    /// Part of the latency of loads and instruction fetches that other work hides, 0 to 1.
    pub miss_overlap: f64,
    /// That part for stores, most of which wait in the store queue and not in the core.
    pub store_overlap: f64,
    /// Cores of a chip. Those beside the first matter to the simulator only as targets of
    /// injections.
    pub cores: u32,
    /// Cycles to get a line out of the cache of another core.
    pub intervention_cycles: u32,
    /// Cycles of an access in loose mode, which has no caches.
    #[serde(default)]
    pub loose_access_cycles: u32,
}

/// `[caches]`: the caches of a core, and the L3.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caches {
    /// Bytes of a line, the same in all caches.
    pub line: u32,
    /// L1 of instructions.
    pub l1i: L1Parameters,
    /// L1 of data.
    pub l1d: L1Parameters,
    /// L2 of a core.
    pub l2: CacheParameters,
    /// L3, if there is one.
    pub l3: Option<CacheParameters>,
}

/// An L1. It has a power of two of sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct L1Parameters {
    /// Size in KiB.
    pub size_kib: u64,
    /// Lines of a set.
    pub ways: u32,
    /// Which line of a set makes room.
    #[serde(default)]
    pub replacement: Replacement,
    /// Cycles of a hit beyond those that `cycles_per_instruction` has.
    #[serde(default)]
    pub latency: u32,
    /// When stores reach the next level.
    #[serde(default)]
    pub write: WritePolicy,
}

/// An L2 or L3. Its number of sets need not be a power of two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheParameters {
    /// Size in KiB.
    pub size_kib: u64,
    /// Lines of a set.
    pub ways: u32,
    /// Slices, which lines take turns at; as many sets in each.
    #[serde(default = "one")]
    pub slices: u32,
    /// Which line of a set makes room.
    #[serde(default)]
    pub replacement: Replacement,
    /// Cycles from the access of the core until it has the data.
    pub latency: u32,
    /// What it holds of the lines of the caches above it.
    pub inclusion: Inclusion,
    /// When stores reach the next level.
    #[serde(default)]
    pub write: WritePolicy,
}

fn one() -> u32 {
    1
}

/// Which line of a full set makes room for another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// The one that was used least recently.
    #[default]
    Lru,
    /// The one that a binary tree points at, whose nodes point away from what was used last. With
    /// a number of ways that is not a power of two, the tree lacks its last leaves.
    Plru,
}

/// What a cache holds of the lines of the caches above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inclusion {
    /// All of them: what it evicts is evicted above, too.
    Inclusive,
    /// None of them: a line comes when it is evicted above, and goes when it is used there.
    Exclusive,
    /// A line comes when it is evicted above, and stays when it is used there (Power5's L3).
    Victim,
    /// A line comes when it is read from below; neither evicts because of the other.
    None,
}

/// When a store in a cache reaches the next level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WritePolicy {
    /// When the line is evicted. A store that misses brings the line.
    #[default]
    Back,
    /// At once. A store that misses in such an L1 does not bring the line.
    Through,
}

/// `[memory]`: memory controller and DRAM, by `clocks` or by `timing`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryParameters {
    /// Requests that the controller holds; the core waits while it is full.
    pub queue: u32,
    /// How much slower controller and DRAM are: 1, 2.5, 5 and 7.5 in leon-2009 (Table 5.1).
    #[serde(default = "unchanged")]
    pub slow_down: f64,
    /// By the clocks of its parts.
    pub clocks: Option<DramClocks>,
    /// By latency and bandwidth.
    pub timing: Option<DramTiming>,
}

fn unchanged() -> f64 {
    1.0
}

/// Memory as the sum of the ways through its parts, each in cycles of its own clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DramClocks {
    /// Cycles of the processor until a miss is at the controller, and back. Not slowed down.
    pub path_cycles: f64,
    /// Clock of the controller.
    pub controller: Frequency,
    /// Cycles of the controller for a request.
    pub controller_cycles: f64,
    /// Clock of the DRAM.
    pub dram: Frequency,
    /// Cycles of the DRAM for a request.
    pub dram_cycles: f64,
    /// Bytes that it delivers in a cycle of the DRAM.
    pub bytes_per_dram_cycle: f64,
}

/// A clock frequency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frequency {
    /// In MHz.
    Mhz(f64),
    /// The processor's, divided by this number: changes with the processor's.
    Divisor(f64),
}

impl Frequency {
    /// In MHz, if the processor has `processor_mhz`.
    pub fn mhz(self, processor_mhz: f64) -> f64 {
        match self {
            Frequency::Mhz(mhz) => mhz,
            Frequency::Divisor(divisor) => processor_mhz / divisor,
        }
    }
}

/// Memory by what is measured of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DramTiming {
    /// From the access of the core until it has the data, if nothing else uses the memory.
    pub latency_ns: f64,
    /// Bandwidth.
    pub bandwidth_gb_s: f64,
}

/// `[prefetch]`: the stream prefetcher.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefetchParameters {
    /// Streams that it follows at once; 0 for no prefetcher.
    pub streams: u32,
    /// Lines that the L2 is ahead of the program; the L1 is one ahead.
    pub depth: u32,
    /// Streams end at multiples of this size, since physical pages do; 0 if they do not.
    #[serde(default)]
    pub page_kib: u64,
}

/// `[device]`: access to registers of devices, which are never cached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceParameters {
    /// The core waits this long for a load.
    pub load_ns: f64,
    /// The core waits this long for a store.
    pub store_ns: f64,
}

/// `[adapter]`: the network adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterParameters {
    /// Longer messages are announced and pulled when they are matched.
    pub eager_max: u64,
    /// From the doorbell until a command is decoded and its match found.
    pub command_ns: f64,
    /// From the end of an operation until its event is handed to the memory.
    pub event_ns: f64,
    /// From a packet's last byte until its match is found.
    pub arrival_ns: f64,
    /// From the command of a message to the own rank until it arrives.
    pub loopback_ns: f64,
    /// Bandwidth of its reads and writes of the host's memory.
    pub dma_gb_s: f64,
    /// State of the lines that it injects.
    #[serde(default)]
    pub injected: WriteMode,
}

/// What an injection does besides putting the line into a cache (leon-2009 2.2, 3.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// It writes the memory, too: the line is clean.
    #[default]
    Clean,
    /// Nothing: the line is dirty, and is written back when it is evicted.
    Dirty,
}

/// `[chips]`: the chips of a node and the links between them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChipParameters {
    pub count: usize,
    /// Cores of each chip, if they are not the processor's.
    pub cores: Option<usize>,
    /// What one core copies at most.
    pub core_gb_s: f64,
    /// Bandwidth of each chip's memory.
    pub memory_gb_s: f64,
    /// For a cache line within a chip.
    pub local_latency_ns: f64,
    /// The core of rank 0; later ranks follow, and wrap around.
    #[serde(default)]
    pub first_core: usize,
    /// The chips with I/O.
    pub io: Vec<usize>,
    #[serde(default)]
    pub link: Vec<LinkParameters>,
    #[serde(default)]
    pub route: Vec<ExplicitRoute>,
}

/// A link in both directions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkParameters {
    pub between: [usize; 2],
    /// Each direction.
    pub gb_s: f64,
    pub latency_ns: f64,
    /// Parallel links, each with this bandwidth.
    #[serde(default = "one")]
    pub count: u32,
}

/// The chips on the way between two chips, both included.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplicitRoute {
    pub path: Vec<usize>,
}
