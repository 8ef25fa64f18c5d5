//! How a process learns who it is and meets the others of its job: under launchers of others, our own, or alone.
#![forbid(unsafe_code)]

mod error;
mod manager;
mod nodes;
mod parts;
pub mod pmi1;
pub mod pmi2;

pub use error::BootstrapError;
pub use manager::{ProcessManager, exchange};
pub use nodes::{Joined, Nodes};
