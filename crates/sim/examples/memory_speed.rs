//! Prints the host's nanoseconds for an access in the model of a node's memory, for hits and
//! misses at each level.
//!
//!     cargo run --release -p mica-sim --example memory_speed [MACHINE]

use std::env;
use std::fs;
use std::hint::black_box;

use mica_sim::machine::SimulatedMachine;
use mica_sim::memory::NodeMemory;

/// Accesses of a measurement.
const ACCESSES: u64 = 20_000_000;

fn main() {
    let name = env::args().nth(1);
    let name = name.as_deref().unwrap_or("power5-redstorm");
    let machine = SimulatedMachine::named(name).unwrap_or_else(|error| panic!("{error}"));
    let line = u64::from(machine.caches.line);
    let l1 = machine.caches.l1d.size_kib * 1024;
    let l2 = machine.caches.l2.size_kib * 1024;
    let far = machine.caches.l3.as_ref().map_or(l2, |l3| l3.size_kib * 1024);
    println!("{name}: {}", machine.description);
    for (what, stride, bytes) in [
        ("loads of one word", 0, line),
        ("loads of the words of the L1", 8, l1 / 2),
        ("loads of the words of the L2", 8, l2 / 2),
        ("loads of the words of memory", 8, 4 * far),
        ("loads of the lines of the L1", line, l1 / 2),
        ("loads of the lines of the L2", line, l2 / 2),
        ("loads of the lines of the L3", line, far / 2),
        ("loads of the lines of memory", line, 4 * far),
    ] {
        let mut memory = NodeMemory::new(&machine);
        run(&mut memory, stride, bytes, ACCESSES / 10);
        report(what, || run(&mut memory, stride, bytes, ACCESSES));
    }
    let mut memory = NodeMemory::new(&machine);
    report("stores to the words of the L1", || {
        let mut now = 0;
        for n in 0..ACCESSES {
            now += 1 + memory.store(now, black_box(n * 8 % (l1 / 2)), 8).cycles();
        }
        now
    });
    report("instruction fetches in the L1", || {
        let mut now = 0;
        for n in 0..ACCESSES {
            now += 1 + memory.fetch(now, black_box(n * 4 % (l1 / 2)), 4).cycles();
        }
        now
    });
}

/// Cycles through `bytes` in steps of `stride`; returns the simulated cycles.
fn run(memory: &mut NodeMemory, stride: u64, bytes: u64, accesses: u64) -> u64 {
    let mut now = 0;
    let mut at = 0;
    for _ in 0..accesses {
        now += 1 + memory.load(now, black_box(1 << 32 | at), 8).cycles();
        at += stride;
        if at >= bytes {
            at = 0;
        }
    }
    now
}

fn report(what: &str, measure: impl FnOnce() -> u64) {
    let start = cpu_time_ns();
    let cycles = black_box(measure());
    let ns = (cpu_time_ns() - start) as f64 / ACCESSES as f64;
    let simulated = cycles as f64 / ACCESSES as f64;
    println!("{what:32} {ns:7.2} ns on the host, {simulated:8.2} cycles simulated");
}

/// CPU time of this process, so that others on this core do not count.
fn cpu_time_ns() -> u64 {
    let times = fs::read_to_string("/proc/self/schedstat").expect("Linux with schedstat");
    let first = times.split_whitespace().next().expect("three numbers");
    first.parse().expect("a number")
}
