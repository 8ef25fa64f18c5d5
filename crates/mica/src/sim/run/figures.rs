//! Figures that follow from a simulation's counts: rates and shares, which are what the counts are
//! read for. `docs/sim.md` says what each means.

use std::collections::BTreeMap;

use mica_sim::machine::SimulatedMachine;
use mica_sim::port::NodeSummary;
use serde::Serialize;

/// A rate or a share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DerivedFigure {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// What it is a rate or a share of.
    pub of: &'static str,
}

/// What the figures are made of.
struct Counted<'a> {
    counts: &'a BTreeMap<String, u64>,
    nodes: &'a [&'a NodeSummary],
    machine: &'a SimulatedMachine,
}

/// The figures; those whose whole is nothing are left out.
pub fn derive(
    counts: &BTreeMap<String, u64>,
    nodes: &[&NodeSummary],
    machine: &SimulatedMachine,
) -> Vec<DerivedFigure> {
    let counted = Counted { counts, nodes, machine };
    let sum = |names: &[&str]| counted.sum(names);
    let accesses = sum(&["loads", "stores"]);
    let from_memory = counted.data_from(&["memory"]);
    let l2_misses = counted.data_from(&["l3", "other_core"]) + from_memory;
    let l1_misses = counted.data_from(&["l2"]) + l2_misses;
    let unexpected = sum(&["messages_unexpected"]);
    let messages = sum(&["messages_preposted"]) + unexpected;
    let injected = sum(&["injected_l2", "injected_l3", "injected_other_core"]);
    let (prefetched, hits) = (sum(&["prefetched"]), sum(&["prefetched_used"]));
    let (used, received) = (sum(&["injected_used"]), sum(&["received_bytes"]));
    let writes = ["memory_writes_back", "memory_writes_adapter"];
    let mut all = vec![
        counted.waiting(),
        counted.rate("instructions", "G/s", sum(&["instructions"])),
        counted.memory_rate("memory bandwidth, reads", &["memory_reads"]),
        counted.memory_rate("memory bandwidth, writes", &writes),
        counted.rate("receive bandwidth", "GB/s", received),
        percent("L1 data misses", l1_misses, accesses, "of loads and stores"),
        percent("L2 data misses", l2_misses, l1_misses, "of L1 misses"),
        percent("data from memory", from_memory, accesses, "of loads and stores"),
        percent("prefetched lines used", hits, prefetched, "of lines prefetched"),
        percent("injected lines used", used, injected, "of lines injected"),
        percent("unexpected messages", unexpected, messages, "of messages"),
    ];
    all.retain(Option::is_some);
    all.into_iter().flatten().collect()
}

fn percent(name: &'static str, part: u64, whole: u64, of: &'static str) -> Option<DerivedFigure> {
    let value = 100.0 * part as f64 / whole as f64;
    (whole > 0).then_some(DerivedFigure { name, value, unit: "%", of })
}

impl Counted<'_> {
    fn sum(&self, names: &[&str]) -> u64 {
        names.iter().filter_map(|name| self.counts.get(*name)).sum()
    }

    /// Loads and stores that these levels served.
    fn data_from(&self, levels: &[&str]) -> u64 {
        let of = |kind| levels.iter().map(move |level| format!("{kind}_from_{level}"));
        let names: Vec<String> = of("loads").chain(of("stores")).collect();
        self.sum(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn waiting(&self) -> Option<DerivedFigure> {
        let sum = |time: fn(&&NodeSummary) -> f64| self.nodes.iter().map(time).sum::<f64>();
        let (waited, region) =
            (sum(|node| node.waited.seconds()), sum(|node| node.region.seconds()));
        let value = 100.0 * waited / region;
        let (name, of) = ("waiting for the adapter", "of the time in the region");
        (region > 0.0).then_some(DerivedFigure { name, value, unit: "%", of })
    }

    /// Billions a second and node, of its whole run.
    fn rate(&self, name: &'static str, unit: &'static str, count: u64) -> Option<DerivedFigure> {
        let of = "a node's whole run";
        let seconds: f64 = self.nodes.iter().map(|node| node.end.seconds()).sum();
        let value = count as f64 / seconds / 1e9;
        (seconds > 0.0 && count > 0).then_some(DerivedFigure { name, value, unit, of })
    }

    /// Lines a second and node, in the region, as bytes.
    fn memory_rate(&self, name: &'static str, lines: &[&str]) -> Option<DerivedFigure> {
        let bytes = self.sum(lines) * u64::from(self.machine.caches.line);
        let seconds: f64 = self.nodes.iter().map(|node| node.region.seconds()).sum();
        let value = bytes as f64 / seconds / 1e9;
        let of = "a node's time in the region, whole lines";
        (seconds > 0.0).then_some(DerivedFigure { name, value, unit: "GB/s", of })
    }
}
