//! Cycles against closed forms.

use super::{LINE, memory, small};
use crate::machine::{SimulatedMachine, WriteMode};
use crate::memory::{InjectTarget, MemoryTiming, NodeMemory};
use crate::time::SimTime;

/// Loads `lines` lines in order, one every `between` cycles; the cycles that it takes.
fn stream(memory: &mut NodeMemory, lines: u64, between: u64) -> u64 {
    let start = 1 << 20;
    let mut now = 0;
    for n in 0..lines {
        now += between;
        now += memory.load(now, start + n * LINE, 8).cycles();
    }
    now
}

#[test]
fn dependent_misses_take_the_latency_each_or_the_part_that_does_not_overlap() {
    for (overlap, cycles) in [("0", 201), ("0.5", 101)] {
        let mut memory = memory(&[&format!("processor.miss_overlap={overlap}")]);
        assert_eq!(stream(&mut memory, 1000, 1), 1000 * cycles);
    }
}

#[test]
fn misses_that_overlap_are_bound_by_the_bandwidth_after_the_queue_is_full() {
    let mut memory = memory(&["processor.miss_overlap=1"]);
    // 8 cycles a line; the first 4 lines find room in the queue.
    assert_eq!(stream(&mut memory, 1000, 1), (1000 - 4) * 8 + 1);
    // Slower than the bandwidth, they wait for nothing.
    let mut memory = super::memory(&["processor.miss_overlap=1"]);
    assert_eq!(stream(&mut memory, 1000, 9), 9000);
}

#[test]
fn requests_wait_for_the_lines_before_them() {
    let mut memory = memory(&[]);
    // Six lines at once: the n-th waits n lines.
    for n in 0..6 {
        assert_eq!(memory.load(0, (1 << 20) + n * LINE, 8).cycles(), 200 + 8 * n);
    }
}

#[test]
fn stores_overlap_on_their_own() {
    let mut memory = memory(&["processor.store_overlap=0.75"]);
    assert_eq!(memory.store(0, 4096, 8).cycles(), 50);
    assert_eq!(memory.load(1000, 8192, 8).cycles(), 200);
}

#[test]
fn memory_of_power5_is_230_cycles_away_and_slows_down_as_in_table_5_1() {
    let timing = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
        MemoryTiming::of(&SimulatedMachine::with("power5-redstorm", &settings).unwrap())
    };
    let base = timing(&[]);
    assert_eq!(base.latency_cycles.round(), 230.0);
    // The ratio of processor to memory is the same at every clock of the processor.
    for mhz in ["900", "1650", "2100"] {
        let faster = timing(&[&format!("processor.mhz={mhz}")]);
        assert!((faster.latency_cycles - base.latency_cycles).abs() < 1e-9);
        assert!((faster.line_cycles - base.line_cycles).abs() < 1e-9);
    }
    // With clocks of its own (docs/sim.md), it takes as long as before but for the path to it.
    let [controller, dram] = ["controller={ mhz = 825 }", "dram={ mhz = 275 }"]
        .map(|clock| format!("memory.clocks.{clock}"));
    let apart = timing(&["processor.mhz=3300", &controller, &dram]);
    assert!((apart.latency_cycles - (30.0 + 2.0 * 200.0)).abs() < 1e-9, "{apart:?}");
    assert!((apart.line_cycles - 2.0 * base.line_cycles).abs() < 1e-9, "{apart:?}");
    // Controller 1/2, 1/5, 1/10, 1/15; DRAM 1/6, 1/15, 1/30, 1/50.
    for (slow_down, controller, dram) in
        [("1", 2.0, 6.0), ("2.5", 5.0, 15.0), ("5", 10.0, 30.0), ("7.5", 15.0, 50.0)]
    {
        let slow = timing(&[&format!("memory.slow_down={slow_down}")]);
        let expected = 30.0 + 25.0 * controller + 25.0 * dram;
        assert!((slow.latency_cycles - expected).abs() < 1e-9, "{slow:?}");
        assert!((slow.line_cycles - 4.0 * dram).abs() < 1e-9, "{slow:?}");
    }
}

#[test]
fn latency_and_bandwidth_slow_down_as_a_whole() {
    let timing = MemoryTiming::of(&small(&["memory.slow_down=2.5"]));
    assert_eq!((timing.latency_cycles, timing.line_cycles), (500.0, 20.0));
}

#[test]
fn transfers_of_the_adapter_follow_its_bandwidth_one_after_another() {
    let mut memory = memory(&[]);
    let write = |memory: &mut NodeMemory, at| {
        memory.adapter_write(
            SimTime::from_ns(at),
            1 << 20,
            1000,
            InjectTarget::Memory,
            WriteMode::Clean,
        )
    };
    // 1 GB/s: 1000 bytes take 1000 ns.
    assert_eq!(write(&mut memory, 500.0), SimTime::from_ns(1500.0));
    assert_eq!(write(&mut memory, 1000.0), SimTime::from_ns(2500.0));
    // Reads have an engine of their own, and wait for memory.
    let read = memory.adapter_read(SimTime::from_ns(1000.0), 1 << 20, 1000);
    assert_eq!(read, SimTime::from_ns(1000.0 + 1000.0 + 200.0));
}

#[test]
fn the_adapter_takes_its_part_of_the_bandwidth_from_the_core() {
    // 2 GB/s of 8: while the adapter writes, a line takes the core 8 / 0.75 cycles.
    let settings = ["processor.miss_overlap=1", "adapter.dma_gb_s=2"];
    let mut memory = memory(&settings);
    memory.adapter_write(SimTime(0), 1 << 30, 1 << 20, InjectTarget::Memory, WriteMode::Clean);
    let cycles = stream(&mut memory, 3000, 1) as f64;
    assert!((cycles / 3000.0 - 8.0 / 0.75).abs() < 0.05, "{cycles}");
    // Dirty injection takes nothing but the write-backs when its 32 lines are evicted.
    let mut memory = super::memory(&settings);
    memory.adapter_write(SimTime(0), 1 << 30, 2048, InjectTarget::L2 { core: 0 }, WriteMode::Dirty);
    assert_eq!(stream(&mut memory, 1000, 1), (1000 + 32 - 4) * 8 + 1);
}

#[test]
fn the_adapter_never_takes_more_than_two_fifths_of_the_memory() {
    let mut memory = memory(&["adapter.dma_gb_s=100"]);
    let end =
        memory.adapter_write(SimTime(0), 1 << 20, 32_000, InjectTarget::Memory, WriteMode::Clean);
    assert_eq!(end, SimTime::from_ns(32_000.0 / (8.0 * 0.4)));
}

#[test]
fn prefetching_hides_the_latency_and_reads_as_much() {
    let lines = 4000;
    let run = |settings: &[&str]| {
        let mut memory = memory(settings);
        (stream(&mut memory, lines, 40), memory.counts().memory_reads)
    };
    let (base, reads) = run(&[]);
    assert_eq!(base, lines * 240);
    let (cycles, with_prefetch) = run(&["prefetch={ streams = 8, depth = 6 }"]);
    // Far enough ahead, only the time between the loads is left.
    assert!(cycles < lines * 41, "{cycles}");
    let total = with_prefetch.total();
    assert!((lines..lines + 10).contains(&total), "{with_prefetch:?}");
    assert_eq!(reads.total(), lines);
    // With pages of 16 KiB, each page of 256 lines starts with two misses.
    let (cycles, _) = run(&["prefetch={ streams = 8, depth = 6, page_kib = 16 }"]);
    assert!(cycles > lines * 41, "{cycles}");
    assert!(cycles < lines * 41 + lines / 256 * 5 * 200, "{cycles}");
}

#[test]
fn a_prefetcher_is_bound_by_the_bandwidth() {
    let mut memory = memory(&["prefetch={ streams = 8, depth = 6 }"]);
    let lines = 4000;
    let cycles = stream(&mut memory, lines, 1);
    assert!(cycles >= lines * 8, "{cycles}");
}

#[test]
fn streams_go_down_as_well_as_up() {
    let mut memory = memory(&["prefetch={ streams = 2, depth = 4 }"]);
    let mut now = 0;
    for n in 0..1000 {
        now += 100;
        now += memory.load(now, (1 << 20) - n * LINE, 8).cycles();
    }
    assert!(memory.counts().memory_reads.demand < 10);
    assert!(memory.counts().prefetched.used > 990);
}
