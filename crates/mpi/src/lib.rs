//! MPI's semantics: communicators, requests, point to point, collectives, windows, files,
//! topologies, sessions, the tool interface (MPI 5.0).
//!
//! Objects of one process are in [`mica_objects`], whose modules are here under their names; what
//! collectives are made of is in [`mica_collective`].
//!
//! Safe Rust only: memory is named by [`mica_memory`]'s regions and views, callbacks are
//! closures. The `abi` crate turns C's pointers and handles into these, and errors into codes.
#![forbid(unsafe_code)]

pub mod buffered;
pub mod collective;
pub mod comm;
pub mod dynamic;
pub mod file;
pub mod generalized;
mod hang;
pub mod init;
mod lenient;
mod numbers;
pub mod partitioned;
pub mod persistent;
pub mod pt2pt;
pub mod raise;
pub mod request;
pub mod session;
pub mod tool;
pub mod topology;
pub mod window;
pub mod world;

pub use mica_collective::late;
pub(crate) use mica_objects::sync;
pub use mica_objects::{
    Error, Result, attribute, constants, datatype, errhandler, error, error_codes, group, handle,
    info, op, process, status,
};
