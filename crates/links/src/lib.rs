//! Which links between the chips of a node make a collective slow (muecke-2010), as a library for
//! the tools: it makes no MPI call and is no part of the library that ranks load.
//!
//! [`data`] has the table of observed calls, which every source fills and every analysis reads;
//! [`mod@file`] stores it. [`machine`] describes machines, [`schedule`]
//! what a collective moves, [`background`] what others do meanwhile; [`model`] runs the three
//! together on [`network`], by the rates of [`fairness`]. [`discover`] finds
//! a real machine's counters and memory domains.

#![forbid(unsafe_code)]

pub mod background;
pub mod data;
pub mod discover;
pub mod fairness;
pub mod file;
pub mod machine;
pub mod model;
pub mod network;
pub mod schedule;

pub use background::Background;
pub use data::{Calls, LinkSet, Observation, PairBytes, Provenance, Source, Workload};
pub use machine::Machine;
pub use model::observe_model;
pub use schedule::{Schedule, Step};
