//! A machine as a TOML file describes it: one node, its adapter, and the network between nodes.
//!
//! [`SimulatedMachine::named`] takes the name of a machine that ships with Mica (`machines/`) or
//! the path of a file; [`SimulatedMachine::with`] does the same and then sets single values, each a
//! string `section.key=value`, which sweeps use. Every section refuses keys that it does not know,
//! and a machine that is read is checked as a whole (`check`): who holds a [`SimulatedMachine`]
//! need not check a geometry again. What is wrong is said in one line that names the field, its
//! value and the file.
//!
//! Units are in the names of the fields. `gb_s` is 10^9 bytes a second, which is bytes a
//! nanosecond. "Cycles" are cycles of the processor unless the name says otherwise.
#![forbid(unsafe_code)]

pub mod chips;
mod check;
mod error;
mod network;
mod read;
mod sections;
#[cfg(test)]
mod tests;

pub use error::MachineError;
pub use network::{NetworkParameters, NetworkTopology};
pub use sections::{
    AdapterParameters, CacheParameters, Caches, DeviceParameters, DramClocks, DramTiming,
    Frequency, Inclusion, L1Parameters, MemoryParameters, PrefetchParameters, Processor,
    Replacement, WriteMode, WritePolicy,
};

use serde::{Deserialize, Serialize};

/// A machine: all nodes are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedMachine {
    /// What it is, for people.
    pub description: String,
    /// The cores.
    pub processor: Processor,
    /// The caches between a core and the memory.
    pub caches: Caches,
    /// Memory controller and DRAM.
    pub memory: MemoryParameters,
    /// The stream prefetcher; without this section there is none.
    #[serde(default)]
    pub prefetch: PrefetchParameters,
    /// Access to device registers.
    pub device: DeviceParameters,
    /// The network adapter.
    pub adapter: AdapterParameters,
    /// The network between the adapters.
    pub network: NetworkParameters,
}

impl SimulatedMachine {
    /// The machine that ships under this name, or the one that this file describes.
    pub fn named(name_or_path: &str) -> Result<SimulatedMachine, MachineError> {
        SimulatedMachine::with(name_or_path, &[])
    }

    /// As [`SimulatedMachine::named`], with each `section.key=value` of `settings` in place of what
    /// the file says.
    pub fn with(name_or_path: &str, settings: &[String]) -> Result<SimulatedMachine, MachineError> {
        let source = read::MachineText::find(name_or_path)?;
        source.machine(settings)
    }

    /// The machine that `text` describes, with `settings`; `file` names it in errors.
    pub fn parse(
        text: &str,
        file: &str,
        settings: &[String],
    ) -> Result<SimulatedMachine, MachineError> {
        read::MachineText::new(text, file).machine(settings)
    }

    /// Names of the machines that ship with Mica.
    pub fn names() -> impl Iterator<Item = &'static str> {
        read::SHIPPED.iter().map(|(name, _)| *name)
    }
}
