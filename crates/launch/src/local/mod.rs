//! The ranks of this node.
//!
//! [`supervisor`] runs them, for the user or in an [`agent`] for the controller. `ranks` has their
//! processes, `pmi` their process manager, `input` what they read.

pub mod agent;
mod callers;
pub mod departed;
mod foreign;
mod input;
mod pmi;
mod ranks;
mod requests;
pub mod supervisor;
