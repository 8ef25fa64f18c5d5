//! What a node has counted, by names that experiments and users refer to (docs/sim.md).

use mica_sim::adapter::AdapterCounts;
use mica_sim::memory::{AccessCounts, MemoryCounts};

/// All counts by name.
pub fn by_name(memory: &MemoryCounts, adapter: &AdapterCounts) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    let mut add = |name: &str, count: u64| all.push((name.to_owned(), count));
    for (kind, counts) in
        [("loads", &memory.loads), ("stores", &memory.stores), ("fetches", &memory.fetches)]
    {
        accesses(&mut add, kind, counts);
    }
    add("stores_merged", memory.stores.merged);
    add("memory_reads", memory.memory_reads.total());
    add("memory_reads_demand", memory.memory_reads.demand);
    add("memory_reads_prefetch", memory.memory_reads.prefetch);
    add("memory_reads_adapter", memory.memory_reads.adapter);
    add("memory_writes_back", memory.memory_writes.write_backs);
    add("memory_writes_adapter", memory.memory_writes.adapter);
    let injected = &memory.injected;
    add("injected_l2", injected.l2);
    add("injected_l3", injected.l3);
    add("injected_other_core", injected.other_core);
    add("injected_used", injected.used);
    add("injected_demoted", injected.demoted);
    add("injected_evicted", injected.evicted);
    add("injected_overwritten", injected.overwritten);
    add("adapter_lines_to_memory", injected.memory);
    add("prefetched", memory.prefetched.lines);
    add("prefetched_used", memory.prefetched.used);
    add("prefetch_dropped", memory.prefetched.dropped);
    add("commands", adapter.commands);
    add("events", adapter.events);
    add("messages_preposted", adapter.preposted);
    add("messages_unexpected", adapter.unexpected);
    add("messages_pulled", adapter.pulled);
    add("received_bytes", adapter.received_bytes);
    add("policy_changes", adapter.policy_changes);
    add("strays", adapter.strays);
    all
}

/// Accesses of one kind by the level that they came from.
fn accesses(add: &mut impl FnMut(&str, u64), kind: &str, counts: &AccessCounts) {
    add(kind, counts.accesses);
    for (level, count) in [
        ("l2", counts.from_l2),
        ("l3", counts.from_l3),
        ("other_core", counts.from_other_core),
        ("memory", counts.from_memory),
    ] {
        add(&format!("{kind}_from_{level}"), count);
    }
}
