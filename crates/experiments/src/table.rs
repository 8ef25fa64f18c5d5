//! Runs as data, and what the tables of an experiment are made of.

use serde::{Deserialize, Serialize};

/// How much of an experiment is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Fewer points and smaller clusters, for some minutes on two cores.
    Quick,
    /// All points that the thesis has, as far as a machine of this kind can simulate them.
    Full,
}

impl Extent {
    /// `quick`, or both.
    pub fn choose<T: Copy>(self, quick: &[T], further: &[T]) -> Vec<T> {
        match self {
            Extent::Quick => quick.to_vec(),
            Extent::Full => [quick, further].concat(),
        }
    }
}

/// What an experiment is called, and what it asks.
#[derive(Debug, Clone, Copy)]
pub struct Heading {
    /// As the command names it.
    pub name: &'static str,
    /// The heading of its report.
    pub title: &'static str,
    /// What it asks.
    pub question: &'static str,
    /// Where the thesis has it.
    pub source: &'static str,
}

/// What is simulated of the accesses to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SimulationMode {
    /// Caches and memory, in the region of interest.
    Accurate,
    /// No caches.
    Loose,
}

/// Whether the processor prefetches. The thesis does not say whether it did in chapter 5: its table
/// of the machine names no prefetcher, a Power5 has one. What injection gains depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefetcherSetting {
    /// As the machine says.
    On,
    /// Not at all.
    Off,
}

impl PrefetcherSetting {
    pub const BOTH: [PrefetcherSetting; 2] = [PrefetcherSetting::On, PrefetcherSetting::Off];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            PrefetcherSetting::On => "with the prefetcher",
            PrefetcherSetting::Off => "without a prefetcher",
        }
    }
}

/// One simulation. All runs have the region that the program marks by `MPI_Pcontrol`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimulationRun {
    /// File of the program, in the folder of programs.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Number of nodes.
    pub nodes: u32,
    /// The machine's name.
    pub machine: String,
    /// Values in place of the machine's, each `section.key=value`.
    pub settings: Vec<String>,
    /// The policy of injection.
    pub policy: String,
    /// Accurate or loose.
    pub mode: SimulationMode,
    /// The quantum, if it is not the network's shortest latency.
    pub quantum_ns: Option<f64>,
}

impl SimulationRun {
    /// A run on the thesis's machine without injection.
    pub fn of(program: &str, nodes: u32) -> SimulationRun {
        SimulationRun {
            program: program.to_owned(),
            arguments: Vec::new(),
            nodes,
            machine: "power5-redstorm".to_owned(),
            settings: Vec::new(),
            policy: "base".to_owned(),
            mode: SimulationMode::Accurate,
            quantum_ns: None,
        }
    }

    /// With these arguments, separated by spaces.
    pub fn arguments(mut self, arguments: &str) -> SimulationRun {
        self.arguments = arguments.split_whitespace().map(str::to_owned).collect();
        self
    }

    /// With this value in place of the machine's.
    pub fn set(mut self, key: &str, value: impl std::fmt::Display) -> SimulationRun {
        self.settings.push(format!("{key}={value}"));
        self
    }

    /// With this policy.
    pub fn policy(mut self, policy: &str) -> SimulationRun {
        self.policy = policy.to_owned();
        self
    }

    /// With or without the machine's prefetcher.
    pub fn prefetcher(self, prefetcher: PrefetcherSetting) -> SimulationRun {
        match prefetcher {
            PrefetcherSetting::On => self,
            PrefetcherSetting::Off => self.set("prefetch.streams", 0),
        }
    }

    /// Accurate or loose.
    pub fn mode(mut self, mode: SimulationMode) -> SimulationRun {
        self.mode = mode;
        self
    }

    /// With this quantum.
    pub fn quantum(mut self, ns: f64) -> SimulationRun {
        self.quantum_ns = Some(ns);
        self
    }

    /// What names the run in a file name and for people: all that differs from the usual.
    pub fn name(&self) -> String {
        let mut parts = vec![self.program.clone(), format!("{}n", self.nodes)];
        parts.extend(self.arguments.iter().cloned());
        parts.push(self.policy.clone());
        if self.machine != "power5-redstorm" {
            parts.push(self.machine.clone());
        }
        parts.extend(self.settings.iter().cloned());
        if self.mode == SimulationMode::Loose {
            parts.push("loose".to_owned());
        }
        parts.extend(self.quantum_ns.map(|ns| format!("quantum {ns} ns")));
        parts.join(" ")
    }

    /// Name of the file of its result: unlike for unlike runs.
    pub fn file_name(&self) -> String {
        let plain = |c: char| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' => c,
            '=' => '-',
            _ => '_',
        };
        let name: String = self.name().chars().map(plain).collect();
        format!("{name}.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_differs() {
        let run = SimulationRun::of("fft", 4)
            .arguments("1024")
            .set("memory.slow_down", 2.5)
            .policy("payload")
            .quantum(500.0);
        assert_eq!(run.name(), "fft 4n 1024 payload memory.slow_down=2.5 quantum 500 ns");
        assert_eq!(run.file_name(), "fft_4n_1024_payload_memory.slow_down-2.5_quantum_500_ns.json");
        assert_ne!(run.file_name(), run.clone().mode(SimulationMode::Loose).file_name());
    }
}
