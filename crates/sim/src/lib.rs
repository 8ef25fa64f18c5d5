//! A cluster that does not exist: the models of which `mica sim` is made (leon-2009).
//!
//! Everything here is plain data and functions of it: no process, no clock of the host, no
//! randomness that is not seeded. The plugin (`sim-plugin`) runs a node's memory and adapter inside
//! the emulator; `mica sim` runs the network between the nodes and keeps their clocks together.
//!
//! - [`time`]: simulated time.
//! - [`machine`]: a machine as a TOML file describes it, a crate of its own.
//! - [`memory`]: a node's caches, prefetcher and memory, with injection by the adapter.
//! - [`adapter`]: matching and transfers of the network adapter, and the policies of injection.
//! - [`network`]: LogGP with topology and contention.
//! - [`port`]: the messages between a node and the simulator at the end of each quantum.
//! - [`loggp`] and [`replay`]: the LogGP parameters of a channel, and prediction from a trace.
#![forbid(unsafe_code)]

pub mod adapter;
mod calendar;
pub mod loggp;
pub mod memory;
pub mod network;
pub mod port;
pub mod replay;
pub mod time;

pub use mica_machine as machine;
