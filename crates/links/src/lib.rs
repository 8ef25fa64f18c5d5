//! Which links between the chips of a node make a collective slow (muecke-2010), as a library for
//! the tools: it makes no MPI call and is no part of the library that ranks load.
//!
//! [`data`] has the table of observed calls, which every source fills and every analysis reads;
//! [`file`] stores it. [`analysis`] has the statistics, as pure functions over columns;
//! [`predictor`] says before a call whether it will be long; [`explain`] brings them together for
//! one observation.

#![forbid(unsafe_code)]

pub mod analysis;
pub mod data;
pub mod explain;
pub mod file;
pub mod predictor;

pub use data::{Calls, LinkSet, Observation, PairBytes, Provenance, Source, Workload};
