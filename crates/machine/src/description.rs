//! A description as it is read, and the machine that is simulated.

use serde::{Deserialize, Serialize};

use super::network::NetworkParameters;
use super::sections::{
    AdapterParameters, Caches, ChipParameters, DeviceParameters, MemoryParameters,
    PrefetchParameters, Processor,
};

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
pub(super) struct MachineDescription {
    pub description: String,
    /// Where the numbers come from.
    #[serde(default)]
    pub source: String,
    pub processor: Option<Processor>,
    pub caches: Option<Caches>,
    pub memory: Option<MemoryParameters>,
    #[serde(default)]
    pub prefetch: PrefetchParameters,
    pub device: Option<DeviceParameters>,
    pub adapter: Option<AdapterParameters>,
    pub network: Option<NetworkParameters>,
    pub chips: Option<ChipParameters>,
}
