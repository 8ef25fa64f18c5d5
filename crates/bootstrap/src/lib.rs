//! How a process learns its rank and finds the other processes of its job: under Mica's launcher,
//! under those of other MPIs, or alone.
//!
//! [`join()`] is the entry point: it detects the launcher by the environment, speaks its interface,
//! and returns the segment that the ranks of this node share, with the place of every rank of the
//! job. The interfaces are behind one trait, [`ProcessManager`]: PMI-1 ([`pmi1`]), PMI-2
//! ([`pmi2`]), PMIx ([`pmix`]), and the ranks themselves where variables alone describe the job.
//! See docs/design/bootstrap.md.
#![forbid(unsafe_code)]

mod announced;
mod choose;
mod claim;
mod descent;
#[doc(hidden)]
pub mod endpoint_record;
mod env_job;
mod environment;
mod error;
mod exchange;
#[cfg(test)]
mod fake;
pub mod inherited;
mod join;
mod long_value;
mod manager;
mod nodes;
pub mod pmi1;
pub mod pmi2;
pub mod pmix;
mod published;
pub mod spawned;
#[cfg(test)]
mod tests;

pub use announced::{Announced, LAUNCH_VARIABLE, announced};
pub use env_job::{COOKIE_VARIABLE, describing_variables};
pub use error::BootstrapError;
pub use join::{EXCHANGE_VARIABLE, Joined, join};
pub use manager::{ProcessIdentity, ProcessManager};
pub use nodes::{NodeMap, NodeTable};
pub use published::{PublishedValue, PublishedValues, exchange, publish};
