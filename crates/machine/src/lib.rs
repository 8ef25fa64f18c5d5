//! A machine as a TOML file describes it: one node with its chips, its adapter, and the network
//! between nodes. One form for all models: `mica sim` simulates what the sections of a node and of
//! the network say ([`SimulatedMachine`]), `mica links` and its model run on what `[chips]` says
//! ([`ChipMachine`]). A file may have the sections of one use or of both; a use says which section
//! it misses.
//!
//! A machine is named by a name that ships with Mica (`machines/`) or by the path of a file.
//! [`SimulatedMachine::with`] then sets single values, each a string `section.key=value`, which
//! sweeps use. Every section refuses keys that it does not know, and a machine that is read is
//! checked as a whole (`check`): who holds one need not check a geometry again. What is wrong is
//! said in one line that names the field, its value and the file.
//!
//! Units are in the names of the fields. `gb_s` is 10^9 bytes a second, which is bytes a
//! nanosecond. "Cycles" are cycles of the processor unless the name says otherwise.
//!
//! Descriptions of chips had a form of their own once, in bytes a second and in seconds; it is read
//! as well (`old_form`).
#![forbid(unsafe_code)]

mod check;
mod chips;
mod error;
mod network;
mod old_form;
mod read;
mod sections;
#[cfg(test)]
mod tests;

pub use chips::{ChipMachine, Link};
pub use error::MachineError;
pub use network::{NetworkParameters, NetworkTopology};
pub use sections::{
    AdapterParameters, CacheParameters, Caches, DeviceParameters, DramClocks, DramTiming,
    Frequency, Inclusion, L1Parameters, MemoryParameters, PrefetchParameters, Processor,
    Replacement, WriteMode, WritePolicy,
};

use serde::{Deserialize, Serialize};

use read::MachineText;

/// A simulated machine: all nodes are alike.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    pub prefetch: PrefetchParameters,
    /// Access to device registers.
    pub device: DeviceParameters,
    /// The network adapter.
    pub adapter: AdapterParameters,
    /// The network between the adapters.
    pub network: NetworkParameters,
}

/// All that a file may say. Each use takes the sections that it needs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineDescription {
    description: String,
    /// Where the numbers come from.
    #[serde(default)]
    source: String,
    processor: Option<Processor>,
    caches: Option<Caches>,
    memory: Option<MemoryParameters>,
    #[serde(default)]
    prefetch: PrefetchParameters,
    device: Option<DeviceParameters>,
    adapter: Option<AdapterParameters>,
    network: Option<NetworkParameters>,
    chips: Option<chips::ChipParameters>,
}

impl SimulatedMachine {
    /// The machine that ships under this name, or the one that this file describes.
    pub fn named(name_or_path: &str) -> Result<SimulatedMachine, MachineError> {
        SimulatedMachine::with(name_or_path, &[])
    }

    /// As [`SimulatedMachine::named`], with each `section.key=value` of `settings` in place of what
    /// the file says.
    pub fn with(name_or_path: &str, settings: &[String]) -> Result<SimulatedMachine, MachineError> {
        MachineText::find(name_or_path, "processor")?.simulated(settings)
    }

    /// The machine that `text` describes, with `settings`; `file` names it in errors.
    pub fn parse(
        text: &str,
        file: &str,
        settings: &[String],
    ) -> Result<SimulatedMachine, MachineError> {
        MachineText::new(text, file).simulated(settings)
    }

    /// Names of the machines that ship with Mica and can be simulated.
    pub fn names() -> impl Iterator<Item = &'static str> {
        read::shipped_with("processor")
    }
}
