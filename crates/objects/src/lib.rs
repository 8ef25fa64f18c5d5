//! MPI's local objects (MPI 5.0, 2.5.1): handles, constants, errors, datatypes, operators, groups,
//! info, attributes, the status of a message; and this process with its engine ([`process`]). What
//! concerns no other process is here; what needs others, in the crates above.
//!
//! Safe Rust only: memory is named by [`mica_memory`]'s regions and views, callbacks are closures.
#![forbid(unsafe_code)]

pub mod attribute;
pub mod constants;
pub mod datatype;
pub mod errhandler;
pub mod error;
pub mod error_codes;
pub mod group;
pub mod handle;
pub mod info;
pub mod last_used;
pub mod op;
pub mod process;
pub mod status;
pub mod sync;

pub use error::{Error, Result};
