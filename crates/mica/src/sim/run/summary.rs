//! What a simulation came to: times and counts of the nodes, as text and JSON. The text has the
//! figures that follow from the counts first ([`super::figures`]), then the counts by what they
//! count.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use mica_sim::machine::SimulatedMachine;
use mica_sim::port::NodeSummary;
use mica_sim::time::SimTime;
use serde::{Deserialize, Serialize};

use super::figures::{self, DerivedFigure};
use super::options::SimRunOptions;

/// The counts by what they count: the beginnings of their names. A count belongs to the first group
/// that has it; the last has all others.
const GROUPS: &[(&str, &[&str])] = &[
    ("processor", &["instructions"]),
    ("loads, by the level that had the data", &["loads"]),
    ("stores", &["stores"]),
    ("instruction fetches", &["fetches"]),
    ("lines read and written by the memory controller", &["memory_"]),
    ("lines that the adapter put into caches", &["injected_", "adapter_lines"]),
    ("prefetcher", &["prefetch"]),
    ("messages", &["messages_", "received_bytes", "commands", "events"]),
    ("other", &[""]),
];

/// What remains of a node: how its process ended, and what it counted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeEnd {
    /// The node.
    pub node: u32,
    /// Its process's exit code, or 128 + the signal that ended it.
    pub code: i32,
    /// What it counted.
    pub summary: NodeSummary,
}

/// An exit code as the status of a command.
pub fn status(code: i32) -> u8 {
    code.clamp(0, 255) as u8
}

/// The results of a simulation.
#[derive(Debug, Clone, Serialize)]
pub struct RunSummary {
    /// Number of nodes.
    pub nodes: u32,
    /// The machine's name or file.
    pub machine: String,
    /// The values that replaced the machine's.
    pub set: Vec<String>,
    /// The policy of injection.
    pub policy: String,
    /// The program and its arguments.
    pub program: Vec<String>,
    /// The quantum in ns.
    pub quantum_ns: f64,
    /// When the last program ended, in simulated ns.
    pub end_ns: f64,
    /// The longest time of a node in the region of interest, in simulated ns.
    pub region_ns: f64,
    /// Seconds that the simulation took.
    pub host_seconds: f64,
    /// Rates and shares that follow from the counts.
    pub figures: Vec<DerivedFigure>,
    /// Sums of the nodes' counts.
    pub counts: BTreeMap<String, u64>,
    /// The nodes.
    pub by_node: Vec<NodeEnd>,
}

impl RunSummary {
    /// Sums up.
    pub fn new(
        options: &SimRunOptions,
        machine: &SimulatedMachine,
        quantum: SimTime,
        took: Duration,
        ends: Vec<NodeEnd>,
    ) -> RunSummary {
        let latest =
            |time: fn(&NodeEnd) -> SimTime| ends.iter().map(time).max().unwrap_or_default().ns();
        let mut counts = BTreeMap::new();
        for end in &ends {
            *counts.entry("instructions".to_owned()).or_insert(0) += end.summary.instructions;
            for (name, count) in &end.summary.counts {
                *counts.entry(name.clone()).or_insert(0) += count;
            }
        }
        let nodes: Vec<&NodeSummary> = ends.iter().map(|end| &end.summary).collect();
        RunSummary {
            nodes: options.n,
            machine: options.machine.clone(),
            set: options.set.clone(),
            policy: options.policy.clone(),
            program: options.program.clone(),
            quantum_ns: quantum.ns(),
            end_ns: latest(|end| end.summary.end),
            region_ns: latest(|end| end.summary.region),
            host_seconds: took.as_secs_f64(),
            figures: figures::derive(&counts, &nodes, machine),
            counts,
            by_node: ends,
        }
    }

    /// The highest exit code of a node's program.
    pub fn exit_code(&self) -> u8 {
        let codes = self.by_node.iter().map(|end| end.code);
        status(codes.max().unwrap_or(0))
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let RunSummary { nodes, machine, host_seconds, .. } = self;
        let slow_down = host_seconds / (self.end_ns * 1e-9);
        let [end, region] = [self.end_ns, self.region_ns].map(|ns| ns / 1e6);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "simulated {nodes} nodes of {machine} for {end:.3} ms in {host_seconds:.1} s \
             (slow-down {slow_down:.0}); region of interest {region:.3} ms"
        );
        let width = self.figures.iter().map(|figure| figure.name.len()).max().unwrap_or(0);
        for DerivedFigure { name, value, unit, of } in &self.figures {
            let _ = writeln!(text, "  {name:width$}  {value:>9.3} {unit:5} {of}");
        }
        let width = self.counts.keys().map(String::len).max().unwrap_or(0);
        for (title, counts) in self.groups() {
            let _ = writeln!(text, "{title}");
            for (name, count) in counts {
                let _ = writeln!(text, "  {name:width$}  {count:>16}");
            }
        }
        text
    }

    /// The groups that have counts. A total stands before its parts, since its name begins theirs.
    fn groups(&self) -> Vec<(&'static str, Vec<(&str, u64)>)> {
        let group_of = |name: &str| {
            let has =
                |(_, beginnings): &(_, &[&str])| beginnings.iter().any(|b| name.starts_with(b));
            GROUPS.iter().position(has).unwrap_or(GROUPS.len() - 1)
        };
        let all = GROUPS.iter().enumerate().map(|(place, (title, _))| {
            let counts = self.counts.iter().filter(|(name, _)| group_of(name) == place);
            (*title, counts.map(|(name, count)| (name.as_str(), *count)).collect::<Vec<_>>())
        });
        all.filter(|(_, counts)| !counts.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use mica_sim::port::DetailedRegion;

    use super::*;

    fn summary(counts: &[(&str, u64)]) -> RunSummary {
        let machine = SimulatedMachine::named("power5-redstorm").expect("a known machine");
        let node = |node| NodeEnd {
            node,
            code: 0,
            summary: NodeSummary {
                instructions: 3_000,
                end: SimTime::from_ns(2_000.0),
                region: SimTime::from_ns(1_000.0),
                waited: SimTime::from_ns(250.0 * f64::from(node)),
                counts: counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            },
        };
        let options = SimRunOptions {
            n: 2,
            machine: "power5-redstorm".to_owned(),
            set: Vec::new(),
            policy: "base".to_owned(),
            loose: false,
            region: None::<DetailedRegion>,
            quantum: None,
            growth: 1,
            seed: 0,
            json: None,
            quiet: false,
            stdout: None,
            program: vec!["./a".to_owned()],
        };
        let took = Duration::from_secs(1);
        RunSummary::new(&options, &machine, SimTime::from_ns(100.0), took, vec![node(0), node(1)])
    }

    #[test]
    fn figures_come_first_and_counts_in_groups() {
        let text = summary(&[
            ("events", 7),
            ("loads", 80),
            ("loads_from_l2", 8),
            ("loads_from_memory", 2),
            ("memory_reads", 50),
            ("stores", 20),
            ("unheard_of", 5),
        ])
        .text();
        let place = |word: &str| text.find(word).unwrap_or_else(|| panic!("no {word}: {text}"));
        let order = [
            "waiting for the adapter",
            "L1 data misses",
            "\nprocessor\n",
            "\nloads, by",
            "  loads_from_memory",
            "\nstores\n",
            "\nmessages\n",
            "\nother\n",
            "  unheard_of",
        ];
        assert!(order.windows(2).all(|two| place(two[0]) < place(two[1])), "{text}");
    }

    #[test]
    fn figures_are_shares_and_rates_of_all_nodes() {
        let summary = summary(&[
            ("loads", 80),
            ("stores", 20),
            ("loads_from_l2", 8),
            ("loads_from_memory", 2),
            ("memory_reads", 50),
            ("received_bytes", 4_000),
        ]);
        let value = |name: &str| {
            let found = summary.figures.iter().find(|figure| figure.name == name);
            found.unwrap_or_else(|| panic!("no {name}")).value
        };
        // One of two nodes waited for a quarter of its region.
        assert_eq!(value("waiting for the adapter"), 12.5);
        assert_eq!(value("L1 data misses"), 10.0);
        assert_eq!(value("L2 data misses"), 20.0);
        // 4,000 bytes a node in 2,000 ns, and 50 lines of 128 bytes in 1,000 ns.
        assert!((value("receive bandwidth") - 2.0).abs() < 1e-9);
        assert!((value("memory bandwidth, reads") - 6.4).abs() < 1e-9);
        assert!(!summary.figures.iter().any(|figure| figure.name == "injected lines used"));
    }
}
