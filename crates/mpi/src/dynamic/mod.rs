//! Processes that meet or are started while the job runs (MPI 5.0, chapter 11).
//!
//! | file | what |
//! |---|---|
//! | [`port`] | ports: open, close, accept, connect; two processes with a socket join |
//! | [`names`] | services: publish, look up |
//! | [`mod@spawn`] | more processes, and their parent |
//! | [`connections`] | which worlds this process has communicators with |
//!
//! All of them end in an inter-communicator, which is made as `MPI_Intercomm_create` makes one: the
//! two roots exchange their groups, and each tells its own. What differs is how the roots find each
//! other: by a port, which is a rank and a tag. A spawned process knows the port of its parent.
//!
//! Processes reach each other in one job segment. So processes of a job on one node can be
//! connected, those that it was started with and those that were spawned; processes of different
//! jobs, and jobs on several nodes, cannot ([`port`] and [`mod@spawn`] say so).

pub(crate) mod connections;
pub mod names;
pub mod port;
pub mod spawn;

pub use names::{lookup_name, publish_name, unpublish_name};
pub use port::{accept, close_port, connect, join, open_port};
pub use spawn::{SpawnProgram, parent, spawn};
