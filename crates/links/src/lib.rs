//! Which links between the chips of a node make a collective slow (muecke-2010), as a library for
//! the tools: it makes no MPI call and is no part of the library that ranks load.
//!
//! [`data`] has the table of observed calls, which every source fills and every analysis reads;
//! [`file`] stores it. [`machine`] describes machines.

#![forbid(unsafe_code)]

pub mod data;
pub mod file;
pub mod machine;

pub use data::{Calls, LinkSet, Observation, PairBytes, Provenance, Source, Workload};
pub use machine::Machine;
