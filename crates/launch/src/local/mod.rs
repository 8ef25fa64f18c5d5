//! The ranks of this node.

pub mod agent;
mod callers;
pub mod departed;
mod foreign;
mod input;
mod pmi;
mod ranks;
pub mod supervisor;
