//! What no machine can be: impossible geometry, and numbers outside their range.

use super::description::SimulatedMachine;
use super::error::MachineError;
use super::network::{NetworkParameters, NetworkTopology};
use super::sections::{
    CacheParameters, Caches, ChipParameters, Frequency, Inclusion, L1Parameters, MemoryParameters,
    WritePolicy,
};

/// A value that is not possible, before the file's name is known.
pub(super) struct Mistake {
    field: String,
    value: String,
    reason: String,
}

impl Mistake {
    pub(super) fn new(field: &str, value: impl ToString, reason: &str) -> Mistake {
        Mistake { field: field.to_owned(), value: value.to_string(), reason: reason.to_owned() }
    }

    pub(super) fn of_file(self, file: &str) -> MachineError {
        MachineError::Value {
            file: file.to_owned(),
            field: self.field,
            value: self.value,
            reason: self.reason,
        }
    }
}

pub(super) type Checked = Result<(), Mistake>;

/// A [`Mistake`] unless `holds`.
// flag: the calls pass the condition, as to an assertion.
pub(super) fn require(holds: bool, field: &str, value: impl ToString, reason: &str) -> Checked {
    if holds { Ok(()) } else { Err(Mistake::new(field, value, reason)) }
}

fn positive(field: &str, value: f64) -> Checked {
    require(value.is_finite() && value > 0.0, field, value, "must be above 0")
}

fn not_negative(field: &str, value: f64) -> Checked {
    require(value.is_finite() && value >= 0.0, field, value, "must not be below 0")
}

fn fraction(field: &str, value: f64) -> Checked {
    require((0.0..=1.0).contains(&value), field, value, "must be from 0 to 1")
}

/// Checks all sections.
pub(super) fn machine(machine: &SimulatedMachine) -> Checked {
    let processor = &machine.processor;
    positive("processor.mhz", processor.mhz)?;
    positive("processor.cycles_per_instruction", processor.cycles_per_instruction)?;
    fraction("processor.miss_overlap", processor.miss_overlap)?;
    fraction("processor.store_overlap", processor.store_overlap)?;
    let cores = processor.cores;
    require((1..=1024).contains(&cores), "processor.cores", cores, "must be from 1 to 1024")?;
    caches(&machine.caches)?;
    memory(&machine.memory)?;
    prefetch(machine)?;
    not_negative("device.load_ns", machine.device.load_ns)?;
    not_negative("device.store_ns", machine.device.store_ns)?;
    let adapter = &machine.adapter;
    not_negative("adapter.command_ns", adapter.command_ns)?;
    not_negative("adapter.event_ns", adapter.event_ns)?;
    not_negative("adapter.arrival_ns", adapter.arrival_ns)?;
    not_negative("adapter.loopback_ns", adapter.loopback_ns)?;
    positive("adapter.dma_gb_s", adapter.dma_gb_s)?;
    network(&machine.network)
}

fn caches(caches: &Caches) -> Checked {
    let line = caches.line;
    let holds = line.is_power_of_two() && (32..=1024).contains(&line);
    let reason = "must be a power of two from 32 to 1024";
    require(holds, "caches.line", line, reason)?;
    l1("caches.l1i", &caches.l1i, line)?;
    l1("caches.l1d", &caches.l1d, line)?;
    let back = caches.l1i.write == WritePolicy::Back;
    let reason = "instructions are not written; leave it out";
    require(back, "caches.l1i.write", "\"through\"", reason)?;
    level("caches.l2", &caches.l2, line)?;
    let takes_reads = !matches!(caches.l2.inclusion, Inclusion::Exclusive | Inclusion::Victim);
    let holds = caches.l1d.write == WritePolicy::Back || takes_reads;
    let reason = "needs an L2 whose inclusion is inclusive or none";
    require(holds, "caches.l1d.write", "\"through\"", reason)?;
    if let Some(l3) = &caches.l3 { level("caches.l3", l3, line) } else { Ok(()) }
}

/// Number of sets, if lines and ways divide the size.
fn sets(cache: &str, size_kib: u64, ways: u32, line: u32) -> Result<u64, Mistake> {
    let holds = (1..=32).contains(&ways);
    require(holds, &format!("{cache}.ways"), ways, "must be from 1 to 32")?;
    let bytes_of_ways = u64::from(ways) * u64::from(line);
    let field = format!("{cache}.size_kib");
    let holds = (1..=4 << 20).contains(&size_kib);
    require(holds, &field, size_kib, "must be from 1 to 4194304 (4 GiB)")?;
    let reason = format!("is not a multiple of {ways} ways of lines of {line} bytes");
    let bytes = size_kib * 1024;
    require(bytes.is_multiple_of(bytes_of_ways), &field, size_kib, &reason)?;
    Ok(bytes / bytes_of_ways)
}

fn l1(cache: &str, l1: &L1Parameters, line: u32) -> Checked {
    let sets = sets(cache, l1.size_kib, l1.ways, line)?;
    let reason = format!(
        "makes {sets} sets of {} ways, and the sets of an L1 must be a power of two",
        l1.ways
    );
    let field = format!("{cache}.size_kib");
    require(sets.is_power_of_two(), &field, l1.size_kib, &reason)
}

fn level(cache: &str, level: &CacheParameters, line: u32) -> Checked {
    let sets = sets(cache, level.size_kib, level.ways, line)?;
    let slices = u64::from(level.slices);
    let holds = slices > 0 && sets.is_multiple_of(slices);
    let reason = format!("does not divide the {sets} sets");
    require(holds, &format!("{cache}.slices"), slices, &reason)
}

fn memory(memory: &MemoryParameters) -> Checked {
    let queue = memory.queue;
    require(queue > 0, "memory.queue", queue, "must be above 0")?;
    let slow_down = memory.slow_down;
    let holds = slow_down.is_finite() && slow_down >= 1.0;
    require(holds, "memory.slow_down", slow_down, "must not be below 1")?;
    match (&memory.clocks, &memory.timing) {
        (Some(clocks), None) => {
            not_negative("memory.clocks.path_cycles", clocks.path_cycles)?;
            not_negative("memory.clocks.controller_cycles", clocks.controller_cycles)?;
            not_negative("memory.clocks.dram_cycles", clocks.dram_cycles)?;
            frequency("memory.clocks.controller", clocks.controller)?;
            frequency("memory.clocks.dram", clocks.dram)?;
            positive("memory.clocks.bytes_per_dram_cycle", clocks.bytes_per_dram_cycle)
        }
        (None, Some(timing)) => {
            not_negative("memory.timing.latency_ns", timing.latency_ns)?;
            positive("memory.timing.bandwidth_gb_s", timing.bandwidth_gb_s)
        }
        (clocks, _) => {
            let found = if clocks.is_some() { "both" } else { "neither" };
            require(false, "memory", found, "give one of memory.clocks and memory.timing")
        }
    }
}

fn frequency(field: &str, frequency: Frequency) -> Checked {
    match frequency {
        Frequency::Mhz(mhz) => positive(&format!("{field}.mhz"), mhz),
        Frequency::Divisor(divisor) => positive(&format!("{field}.divisor"), divisor),
    }
}

fn prefetch(machine: &SimulatedMachine) -> Checked {
    let prefetch = &machine.prefetch;
    let streams = prefetch.streams;
    let reason = "must be at most 64";
    require(streams <= 64, "prefetch.streams", streams, reason)?;
    let depth = prefetch.depth;
    let holds = streams == 0 || (1..=64).contains(&depth);
    require(holds, "prefetch.depth", depth, "must be from 1 to 64")?;
    let page = prefetch.page_kib;
    let holds = page == 0 || page.is_power_of_two();
    require(holds, "prefetch.page_kib", page, "must be 0 or a power of two")
}

fn network(network: &NetworkParameters) -> Checked {
    positive("network.latency_ns", network.latency_ns)?;
    not_negative("network.overhead_ns", network.overhead_ns)?;
    not_negative("network.gap_ns", network.gap_ns)?;
    not_negative("network.gap_per_byte_ns", network.gap_per_byte_ns)?;
    positive("network.link_bandwidth_gb_s", network.link_bandwidth_gb_s)?;
    not_negative("network.hop_latency_ns", network.hop_latency_ns)?;
    positive("network.bandwidth_factor", network.bandwidth_factor)?;
    topology(&network.topology)
}

fn topology(topology: &NetworkTopology) -> Checked {
    match topology {
        NetworkTopology::Crossbar => Ok(()),
        NetworkTopology::Torus { dimensions, rings } => {
            let holds = !dimensions.is_empty() && dimensions.iter().all(|&d| d > 0);
            let value = format!("{dimensions:?}");
            let reason = "must be numbers above 0, one for each dimension";
            require(holds, "network.topology.dimensions", value, reason)?;
            let holds = rings.is_empty() || rings.len() == dimensions.len();
            let value = format!("{rings:?}");
            let reason = format!("must have one value for each of {dimensions:?}");
            require(holds, "network.topology.rings", value, &reason)
        }
        NetworkTopology::FatTree { arity, levels } => {
            let reason = "must be from 2 to 1024";
            let holds = (2..=1024).contains(arity);
            require(holds, "network.topology.arity", arity, reason)?;
            let holds = (1..=8).contains(levels);
            require(holds, "network.topology.levels", levels, "must be from 1 to 8")
        }
    }
}

/// Chips of a machine at most: bounds the tables that are made for it.
const CHIPS_MAX: usize = 64;

/// Checks the section `[chips]`; chips have `cores` each.
pub(super) fn chips(chips: &ChipParameters, cores: usize) -> Checked {
    let count = chips.count;
    let reason = format!("must be from 1 to {CHIPS_MAX}");
    require((1..=CHIPS_MAX).contains(&count), "chips.count", count, &reason)?;
    require((1..=4096).contains(&cores), "chips.cores", cores, "must be from 1 to 4096")?;
    positive("chips.core_gb_s", chips.core_gb_s)?;
    positive("chips.memory_gb_s", chips.memory_gb_s)?;
    positive("chips.local_latency_ns", chips.local_latency_ns)?;
    let below = format!("names a chip above {}", count - 1);
    let is_known = |chips: &[usize]| chips.iter().all(|&chip| chip < count);
    require(is_known(&chips.io), "chips.io", format!("{:?}", chips.io), &below)?;
    for route in &chips.route {
        require(is_known(&route.path), "chips.route.path", format!("{:?}", route.path), &below)?;
    }
    for link in &chips.link {
        let between = format!("{:?}", link.between);
        require(is_known(&link.between), "chips.link.between", &between, &below)?;
        let [a, b] = link.between;
        require(a != b, "chips.link.between", &between, "must name two chips")?;
        positive("chips.link.gb_s", link.gb_s)?;
        positive("chips.link.latency_ns", link.latency_ns)?;
        let holds = (1..=64).contains(&link.count);
        require(holds, "chips.link.count", link.count, "must be from 1 to 64")?;
    }
    Ok(())
}
