//! The ranks of this node.

pub mod agent;
mod attach;
pub mod departed;
mod foreign;
mod input;
mod pmi;
mod ranks;
mod requests;
pub mod supervisor;
