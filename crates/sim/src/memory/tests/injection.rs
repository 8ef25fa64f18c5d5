//! What the adapter's writes do to the caches (leon-2009 2.1, 2.2, 3.1).

use super::{LINE, memory};
use crate::machine::WriteMode;
use crate::memory::{InjectTarget, NodeMemory};
use crate::time::SimTime;

const L2: InjectTarget = InjectTarget::L2 { core: 0 };
const OTHER: InjectTarget = InjectTarget::L2 { core: 1 };
const BUFFER: u64 = 1 << 20;

fn write(memory: &mut NodeMemory, address: u64, length: u64, target: InjectTarget) {
    memory.adapter_write(SimTime(0), address, length, target, WriteMode::Clean);
}

#[test]
fn a_write_to_memory_invalidates_cached_copies() {
    let mut memory = memory(&[]);
    memory.load(0, BUFFER, 8);
    memory.store(0, BUFFER, 8);
    write(&mut memory, BUFFER, LINE, InjectTarget::Memory);
    assert!(!memory.holds(BUFFER, L2));
    assert_eq!(memory.load(9000, BUFFER, 8).cycles(), 200);
    // The change was overwritten as a whole: nothing is written back.
    assert_eq!(memory.counts().memory_writes.write_backs, 0);
    assert_eq!(memory.counts().memory_writes.adapter, 1);
}

#[test]
fn injected_lines_are_read_from_their_cache_and_counted_as_used_once() {
    for (target, cycles) in [(L2, 10), (InjectTarget::L3, 40), (OTHER, 70)] {
        let mut memory = memory(&[]);
        memory.load(0, BUFFER, 8);
        write(&mut memory, BUFFER, LINE, target);
        assert!(memory.holds(BUFFER, target));
        assert_eq!(memory.load(9000, BUFFER, 8).cycles(), cycles, "{target:?}");
        memory.load(9000, BUFFER, 8);
        let counts = memory.counts();
        assert_eq!(counts.injected.used, 1);
        assert_eq!(counts.memory_reads.demand, 1);
        // Write-through: memory has the data, too, and the line is clean.
        assert_eq!(counts.memory_writes.adapter, 1);
    }
}

#[test]
fn dirty_lines_are_written_when_they_are_evicted_and_not_before() {
    let mut memory = memory(&[]);
    for n in 0..9 {
        memory.adapter_write(SimTime(0), BUFFER + n * 24 * LINE, LINE, L2, WriteMode::Dirty);
        let writes = memory.counts().memory_writes;
        assert_eq!(writes.adapter, 0);
        // 4 in the L2, 4 in the L3 of victims.
        assert_eq!(writes.write_backs, u64::from(n == 8));
    }
    let injected = memory.counts().injected;
    assert_eq!((injected.demoted, injected.evicted), (5, 1));
}

#[test]
fn lines_evicted_before_use_are_bad_injections() {
    let mut memory = memory(&[]);
    for n in 0..6 {
        write(&mut memory, BUFFER + n * 24 * LINE, LINE, InjectTarget::L3);
    }
    assert_eq!(memory.counts().injected.evicted, 2);
    memory.load(0, BUFFER + 5 * 24 * LINE, 8);
    write(&mut memory, BUFFER + 4 * 24 * LINE, LINE, InjectTarget::L3);
    let injected = memory.counts().injected;
    assert_eq!((injected.used, injected.overwritten), (1, 1));
}

#[test]
fn parts_of_lines_are_written_with_flush() {
    let mut memory = memory(&[]);
    for n in 0..4 {
        memory.store(0, BUFFER + n * LINE, 8);
    }
    // From the middle of the first line to the middle of the fourth.
    write(&mut memory, BUFFER + 32, 3 * LINE, L2);
    let held: Vec<bool> = (0..4).map(|n| memory.holds(BUFFER + n * LINE, L2)).collect();
    assert_eq!(held, [false, true, true, false]);
    let counts = memory.counts();
    assert_eq!(counts.memory_writes.write_backs, 2);
    assert_eq!(counts.memory_writes.adapter, 4);
    assert_eq!(counts.injected.l2, 2);
}

#[test]
fn a_write_inside_one_line_is_a_part_and_no_bytes_are_none() {
    let mut memory = memory(&[]);
    write(&mut memory, BUFFER + 8, 16, L2);
    assert!(!memory.holds(BUFFER, L2));
    assert_eq!(memory.counts().memory_writes.adapter, 1);
    write(&mut memory, BUFFER, 0, L2);
    write(&mut memory, BUFFER + 8, 0, L2);
    assert_eq!(memory.counts().memory_writes.adapter, 1);
}

#[test]
fn an_inclusive_l3_has_what_is_injected_into_the_l2() {
    let mut memory = memory(&["caches.l3.inclusion=inclusive"]);
    write(&mut memory, BUFFER, LINE, L2);
    assert!(memory.holds(BUFFER, L2) && memory.holds(BUFFER, InjectTarget::L3));
}

#[test]
fn targets_that_do_not_exist_are_memory() {
    let mut memory = memory(&[]);
    let core = 7;
    write(&mut memory, BUFFER, LINE, InjectTarget::L2 { core });
    assert_eq!(memory.counts().injected.memory, 1);
    assert_eq!(memory.load(0, BUFFER, 8).cycles(), 200);
}

#[test]
fn the_adapter_reads_from_caches_that_have_the_line() {
    let mut memory = memory(&[]);
    memory.store(0, BUFFER, 8);
    memory.adapter_read(SimTime(0), BUFFER, 4 * LINE);
    assert_eq!(memory.counts().adapter_reads_cached, 1);
    assert_eq!(memory.counts().memory_reads.adapter, 3);
}

/// The thesis's microbenchmark (2.3.2): a linear pass over received data. Injection cuts the reads
/// of memory by 96 % there; prefetching reads as much as before, and sooner.
#[test]
fn injection_saves_memory_reads_and_prefetching_only_time() {
    let machine = crate::machine::SimulatedMachine::named("power5-redstorm").unwrap();
    let off = "prefetch.streams=0".to_owned();
    let base = crate::machine::SimulatedMachine::with("power5-redstorm", &[off]).unwrap();
    let pass = |machine, target| {
        let mut memory = NodeMemory::new(machine);
        let bytes = 4 << 20;
        write(&mut memory, BUFFER, bytes, target);
        let mut now = 1 << 40;
        for at in (0..bytes).step_by(8) {
            now += 10;
            now += memory.load(now, BUFFER + at, 8).cycles();
        }
        (memory.counts().memory_reads.total(), now - (1 << 40))
    };
    let (reads, cycles) = pass(&base, InjectTarget::Memory);
    let (reads_prefetch, cycles_prefetch) = pass(&machine, InjectTarget::Memory);
    let (reads_injected, cycles_injected) = pass(&base, InjectTarget::L3);
    assert_eq!(reads, (4 << 20) / 128);
    assert!(reads_injected * 25 < reads, "{reads_injected}");
    assert!(reads_prefetch >= reads);
    assert!(cycles_prefetch < cycles_injected && cycles_injected < cycles);
}
