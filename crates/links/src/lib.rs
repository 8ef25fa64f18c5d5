//! Which links between the chips of a node make a collective slow (muecke-2010), as a library for
//! the tools: it makes no MPI call and is no part of the library that ranks load.
//!
//! [`data`] has the table of observed calls, which every source fills and every analysis reads;
//! [`mod@file`] stores it. [`ChipMachine`] describes a machine, [`schedule`] what a collective
//! moves ([`described`]: by messages), [`background`] what others do meanwhile; [`model`] runs the
//! three together on [`network`], by the rates of [`fairness`], and [`study`] is what it finds
//! beyond one observation. [`discover`]
//! finds a real machine's counting units and memory domains, [`counters`] the events that count
//! links, [`account`] routes what the library says that it moved. [`analysis`] has the statistics,
//! as pure functions over columns; [`predictor`] says before a call whether it will be long;
//! [`promise`] compares with what a machine's description promises;
//! [`mod@explain`] brings them together for one observation.

#![forbid(unsafe_code)]

pub mod account;
pub mod analysis;
pub mod background;
pub mod counters;
pub mod data;
pub mod described;
pub mod discover;
pub mod explain;
pub mod fairness;
pub mod file;
pub mod intensity;
pub mod model;
pub mod network;
pub mod predictor;
pub mod promise;
pub mod schedule;
pub mod study;

pub use background::Background;
pub use data::{CallWorkload, Calls, LinkSet, LoadSource, Observation, PairBytes, Provenance};
pub use mica_machine::ChipMachine;
pub use model::{ModelPlan, observe_model};
pub use schedule::{RecordedSchedule, RecordedStep};
