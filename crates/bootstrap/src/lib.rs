//! How a process learns who it is and meets the others of its job: under launchers of others, our
//! own, or alone.
//!
//! [`join()`] is the way in: it finds the launcher by its environment, speaks its interface, and
//! returns the segment that the ranks of this node share, with the place of every rank of the job.
//! The interfaces are behind one trait,
//! [`ProcessManager`]: PMI-1 ([`pmi1`]), PMI-2 ([`pmi2`]) and PMIx ([`pmix`]). docs/design/bootstrap.md tells why it is so.
#![forbid(unsafe_code)]

mod announced;
mod choose;
#[doc(hidden)]
pub mod endpoint_record;
mod environment;
mod error;
mod exchange;
#[cfg(test)]
mod fake;
pub mod inherited;
mod join;
mod manager;
mod nodes;
mod parts;
pub mod pmi1;
pub mod pmi2;
pub mod pmix;
#[cfg(test)]
mod tests;

pub use announced::{Announced, announced};
pub use error::BootstrapError;
pub use join::{EXCHANGE_VARIABLE, Joined, join};
pub use manager::{ProcessManager, exchange};
pub use nodes::NodeMap;
