//! What a simulation came to: times and counts of the nodes, as text and JSON.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use mica_sim::port::NodeSummary;
use mica_sim::time::SimTime;
use serde::{Deserialize, Serialize};

use super::options::SimRunOptions;

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
    /// Sums of the nodes' counts.
    pub counts: BTreeMap<String, u64>,
    /// The nodes.
    pub by_node: Vec<NodeEnd>,
}

impl RunSummary {
    /// Sums up.
    pub fn new(
        options: &SimRunOptions,
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
            counts,
            by_node: ends,
        }
    }

    /// The highest exit code of a node's program.
    pub fn exit_code(&self) -> u8 {
        let codes = self.by_node.iter().map(|end| end.code);
        codes.max().unwrap_or(0).clamp(0, 255) as u8
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let slow_down = self.host_seconds / (self.end_ns * 1e-9);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "simulated {} nodes of {} for {:.3} ms in {:.1} s (slow-down {slow_down:.0}); region \
             of interest {:.3} ms",
            self.nodes,
            self.machine,
            self.end_ns / 1e6,
            self.host_seconds,
            self.region_ns / 1e6,
        );
        let width = self.counts.keys().map(String::len).max().unwrap_or(0);
        for (name, count) in &self.counts {
            let _ = writeln!(text, "  {name:width$}  {count:>16}");
        }
        text
    }
}
