//! MPI's objects and semantics: communicators, groups, datatypes, operators, requests, collectives
//! (MPI 5.0).
//!
//! Safe Rust only: memory is named by [`mica_memory`]'s regions and views, callbacks are
//! closures. The `abi` crate turns C's pointers and handles into these, and errors into codes.
#![forbid(unsafe_code)]

pub mod attribute;
pub mod buffered;
pub mod collective;
pub mod comm;
pub mod constants;
pub mod datatype;
pub mod errhandler;
pub mod error;
pub mod error_codes;
pub mod generalized;
pub mod group;
pub mod handle;
mod hang;
pub mod info;
pub mod init;
pub mod late;
mod lenient;
pub mod op;
pub mod partitioned;
pub mod persistent;
pub mod process;
pub mod pt2pt;
pub mod raise;
pub mod request;
pub mod session;
pub mod status;
mod sync;
pub mod tool;
pub mod topology;
pub mod window;
pub mod world;

pub use error::{Error, Result};
