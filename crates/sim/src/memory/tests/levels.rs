//! Where lines are after accesses of the core, level by level.

use super::{LINE, memory};
use crate::machine::WriteMode;
use crate::memory::{InjectTarget, MemoryMode, NodeMemory, Stall};
use crate::time::SimTime;

const L2: InjectTarget = InjectTarget::L2 { core: 0 };

/// Loads `count` lines that fall into one set of a cache with `sets` sets, the first at 1 MiB.
fn load_set(memory: &mut NodeMemory, sets: u64, count: u64) {
    for n in 0..count {
        memory.load(0, line_of(n, sets), 8);
    }
}

fn line_of(n: u64, sets: u64) -> u64 {
    // 1 MiB is no multiple of 3 lines; the distance between the lines is what matters.
    (1 << 20) + n * sets * LINE
}

#[test]
fn misses_come_from_memory_once_and_hit_after() {
    let mut memory = memory(&[]);
    assert_eq!(memory.load(0, 4096, 8).cycles(), 200);
    assert_eq!(memory.load(200, 4100, 4), Stall(0));
    assert_eq!(memory.load(200, 4096 + 56, 8), Stall(0));
    let loads = memory.counts().loads;
    assert_eq!((loads.accesses, loads.from_memory, loads.l1_misses()), (3, 1, 1));
}

#[test]
fn an_access_that_straddles_lines_waits_for_both_and_counts_once() {
    let mut memory = memory(&[]);
    assert_eq!(memory.load(0, 4096 + 60, 8).cycles(), 400);
    let loads = memory.counts().loads;
    assert_eq!((loads.accesses, loads.from_memory), (1, 1));
    assert_eq!(memory.counts().memory_reads.demand, 2);
    assert_eq!(memory.load(400, 4096, 8), Stall(0));
    assert_eq!(memory.load(400, 4096 + 64, 8), Stall(0));
    // Half in the L1: counts as the farther half.
    memory.load(400, 8192, 8);
    memory.load(400, 8192 + 60, 8);
    assert_eq!(memory.counts().loads.from_memory, 3);
}

#[test]
fn lines_that_leave_the_l1_come_from_the_l2() {
    let mut memory = memory(&[]);
    load_set(&mut memory, 4, 5);
    assert_eq!(memory.load(9000, line_of(0, 4), 8).cycles(), 10);
    assert_eq!(memory.counts().loads.from_l2, 1);
}

#[test]
fn an_inclusive_l2_evicts_from_the_l1() {
    let mut memory = memory(&["caches.l1d={ size_kib = 8, ways = 8 }"]);
    load_set(&mut memory, 12, 5);
    let first = line_of(0, 12);
    assert!(!memory.holds(first, L2));
    // The L3 is a victim cache: the line went there, and stays when it is used.
    assert!(memory.holds(first, InjectTarget::L3));
    assert_eq!(memory.load(9000, first, 8).cycles(), 40);
    assert!(memory.holds(first, InjectTarget::L3));
    assert!(memory.holds(first, L2));
}

#[test]
fn an_exclusive_l3_gives_the_line_away() {
    let mut memory = memory(&["caches.l3.inclusion=exclusive"]);
    load_set(&mut memory, 12, 5);
    let first = line_of(0, 12);
    assert_eq!(memory.load(9000, first, 8).cycles(), 40);
    assert!(!memory.holds(first, InjectTarget::L3));
    assert!(memory.holds(first, L2));
}

#[test]
fn an_inclusive_l3_takes_its_victims_out_of_the_l2() {
    let settings = ["caches.l3.inclusion=inclusive", "caches.l2.size_kib=12", "caches.l2.ways=16"];
    let mut memory = memory(&settings);
    load_set(&mut memory, 24, 5);
    assert!(!memory.holds(line_of(0, 24), InjectTarget::L3));
    assert!(!memory.holds(line_of(0, 24), L2));
    assert!(memory.holds(line_of(1, 24), L2));
}

#[test]
fn without_inclusion_levels_evict_alone() {
    let mut memory = memory(&["caches.l2.inclusion=none", "caches.l1d.size_kib=8"]);
    load_set(&mut memory, 12, 5);
    let first = line_of(0, 12);
    assert!(!memory.holds(first, L2));
    assert_eq!(memory.load(9000, first, 8), Stall(0));
}

#[test]
fn dirty_lines_are_written_back_once_when_they_leave_the_last_cache() {
    let mut memory = memory(&["caches.l3={ size_kib = 3, ways = 4, latency = 40, \
                               inclusion = 'victim' }"]);
    memory.store(0, line_of(0, 12), 8);
    for n in 1..8 {
        memory.load(0, line_of(n, 12), 8);
    }
    assert_eq!(memory.counts().memory_writes.write_backs, 0);
    memory.load(0, line_of(8, 12), 8);
    assert_eq!(memory.counts().memory_writes.write_backs, 1);
}

#[test]
fn an_l1_that_writes_through_keeps_no_dirty_line_and_does_not_allocate() {
    let mut memory = memory(&["caches.l1d.write=through"]);
    // A store that misses goes to the L2 and stays out of the L1.
    assert_eq!(memory.store(0, 4096, 8).cycles(), 200);
    // More stores merge with it until the core does something else outside of the L1.
    assert_eq!(memory.store(0, 4104, 8), Stall(0));
    assert_eq!(memory.counts().stores.merged, 1);
    memory.load(0, 8192, 8);
    assert_eq!(memory.store(0, 4096, 8).cycles(), 10);
    assert_eq!(memory.load(0, 4096, 8).cycles(), 10);
    assert_eq!(memory.store(0, 4096, 8), Stall(0));
    // The L2 has the change: evicting the line writes it to memory in the end.
    for n in 1..=8 {
        memory.load(0, 4096 + n * 24 * LINE, 8);
    }
    assert_eq!(memory.counts().memory_writes.write_backs, 1);
}

#[test]
fn caches_that_write_through_pass_stores_on_at_once() {
    let mut memory =
        memory(&["caches.l1d.write=through", "caches.l2.write=through", "caches.l3.write=through"]);
    memory.load(0, 4096, 8);
    memory.store(0, 4096, 8);
    assert_eq!(memory.counts().memory_writes.write_backs, 1);
}

#[test]
fn instructions_and_data_share_the_l2() {
    let mut memory = memory(&[]);
    assert_eq!(memory.fetch(0, 4096, 4).cycles(), 200);
    assert_eq!(memory.fetch(0, 4100, 4), Stall(0));
    assert_eq!(memory.load(0, 4096, 8).cycles(), 10);
    let fetches = memory.counts().fetches;
    assert_eq!((fetches.accesses, fetches.from_memory), (2, 1));
}

#[test]
fn device_registers_are_never_cached_and_have_their_own_cost() {
    let mut memory = memory(&["network.overhead_ns=5"]);
    memory.load(0, 8192, 8);
    memory.set_device(8192..12288);
    for _ in 0..2 {
        let stall = memory.load(0, 8192, 8);
        assert!(stall.is_device());
        assert_eq!(stall.cycles(), 300);
        assert_eq!(memory.store(0, 12287, 1).cycles(), 65);
    }
    assert!(!memory.store(0, 12288, 1).is_device());
    assert_eq!(memory.counts().loads.device, 2);
    for mode in [MemoryMode::Loose, MemoryMode::FastForward] {
        memory.set_mode(mode);
        assert!(memory.store(0, 8192, 8).is_device());
    }
}

#[test]
fn loose_mode_costs_the_same_everywhere_and_fast_forward_nothing() {
    let mut memory = memory(&[]);
    memory.load(0, 4096, 8);
    memory.set_mode(MemoryMode::Loose);
    assert_eq!(memory.load(0, 4096, 8).cycles(), 3);
    assert_eq!(memory.fetch(0, 1 << 30, 4).cycles(), 3);
    memory.set_mode(MemoryMode::FastForward);
    assert_eq!(memory.store(0, 4096, 8), Stall(0));
    assert_eq!(memory.counts().stores.unmodelled, 1);
}

#[test]
fn outside_accurate_mode_the_l1s_are_empty_and_the_adapter_still_invalidates() {
    for inclusion in ["inclusive", "exclusive", "victim", "none"] {
        let mut memory = memory(&[&format!("caches.l2.inclusion={inclusion}")]);
        memory.store(0, 4096, 8);
        memory.load(0, 8192, 8);
        memory.set_mode(MemoryMode::FastForward);
        assert!(memory.holds(4096, L2) && memory.holds(8192, L2), "{inclusion}");
        memory.adapter_write(SimTime(0), 8192, LINE, InjectTarget::L3, WriteMode::Clean);
        memory.set_mode(MemoryMode::Accurate);
        assert_eq!(memory.load(1000, 4096, 8).cycles(), 10);
        assert_eq!(memory.load(2000, 8192, 8).cycles(), 200);
    }
}

#[test]
fn power5_s_ways_and_slices_hold_as_many_lines_as_they_should() {
    let machine = crate::machine::SimulatedMachine::named("power5-redstorm").unwrap();
    let mut memory = NodeMemory::new(&machine);
    let lines = 1920 * 1024 / 128;
    for n in 0..lines {
        memory.load(0, n * 128, 8);
    }
    // Consecutive lines fill all sets of all ways, so that none has left the L2.
    assert!((0..lines).all(|n| memory.holds(n * 128, L2)));
    memory.load(0, lines * 128, 8);
    assert!(memory.holds(0, InjectTarget::L3));
}

#[test]
fn an_access_to_two_lines_does_not_hit_where_the_first_is_guessed_wrongly() {
    let mut memory = memory(&["caches.l1d.ways=2"]);
    // The first way of the first set, which is also the guess for a line that was never here.
    memory.load(0, 4096, 8);
    assert_eq!(memory.counts().loads.l1_misses(), 1);
    memory.load(0, 4090, 12);
    assert_eq!(memory.counts().loads.l1_misses(), 2);
}
