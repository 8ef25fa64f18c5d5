//! Tests of a node's memory: behaviour level by level, timing against closed forms, and random
//! accesses against a naive model, real programs against cachegrind.

mod cachegrind;
mod injection;
mod levels;
mod merging;
mod naive;
mod reference;
mod timing;

use super::NodeMemory;
use crate::machine::SimulatedMachine;

/// A small machine: L1s of 4 sets, an L2 of 12, an L3 of 24, all of 4 ways; lines of 64 bytes; 10
/// cycles to the L2, 40 to the L3, 200 to memory, which takes 8 cycles for a line.
const SMALL: &str = r#"
description = "small"
[processor]
mhz = 1000
cycles_per_instruction = 1
miss_overlap = 0
store_overlap = 0
cores = 2
intervention_cycles = 70
loose_access_cycles = 3
[caches]
line = 64
l1i = { size_kib = 1, ways = 4 }
l1d = { size_kib = 1, ways = 4 }
l2 = { size_kib = 3, ways = 4, slices = 3, latency = 10, inclusion = "inclusive" }
l3 = { size_kib = 6, ways = 4, slices = 3, latency = 40, inclusion = "victim" }
[memory]
queue = 4
timing = { latency_ns = 200, bandwidth_gb_s = 8 }
[device]
load_ns = 300
store_ns = 60
[adapter]
eager_max = 1024
command_ns = 1
event_ns = 1
arrival_ns = 1
loopback_ns = 1
dma_gb_s = 1
[network]
latency_ns = 1000
gap_ns = 1
gap_per_byte_ns = 1
link_bandwidth_gb_s = 1
hop_latency_ns = 1
topology = { kind = "crossbar" }
"#;

const LINE: u64 = 64;

/// [`SMALL`] with settings in place of some values.
fn small(settings: &[&str]) -> SimulatedMachine {
    let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
    SimulatedMachine::parse(SMALL, "small", &settings).unwrap_or_else(|e| panic!("{e}"))
}

/// [`small`], without the L3 unless a setting describes one.
fn machine_of(settings: &[String]) -> SimulatedMachine {
    let mut machine = small(&settings.iter().map(String::as_str).collect::<Vec<_>>());
    if !settings.iter().any(|s| s.starts_with("caches.l3")) {
        machine.caches.l3 = None;
    }
    machine
}

fn memory(settings: &[&str]) -> NodeMemory {
    NodeMemory::new(&small(settings))
}
