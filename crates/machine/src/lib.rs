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
mod description;
mod error;
mod network;
mod old_form;
mod read;
mod sections;
#[cfg(test)]
mod tests;

pub use chips::{ChipMachine, ChipRoutes, Link, shortest_routes};
pub use description::SimulatedMachine;
pub use error::MachineError;
pub use network::{NetworkParameters, NetworkTopology};
pub use sections::{
    AdapterParameters, CacheParameters, Caches, DeviceParameters, DramClocks, DramTiming,
    Frequency, Inclusion, L1Parameters, MemoryParameters, PrefetchParameters, Processor,
    Replacement, WriteMode, WritePolicy,
};
