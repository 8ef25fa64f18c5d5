//! The C interface of MPI, apart from its exported symbols: what each function checks, converts and
//! calls.
//!
//! `shims` validate, convert, call `mica_mpi` and convert back; `collective` does so for the
//! arguments of collective calls, [`method`] for calls that are a method of an object. Handles,
//! constants and statuses are those of the MPI 5.0 standard ABI ([`types`], [`status`]). A front
//! end is a crate of generated exports made with the macros of [`export`]: `mpi5` is the one of the
//! standard ABI; another ABI's converts its handles, constants and statuses to these types and
//! back. How the two meet is in `docs/design/bindings.md`.

pub use mica_front_end::{pair, table, types};
pub use mica_mpi::constants;

pub mod collective;
mod convert;
pub mod declined;
pub mod elements;
pub mod export;
pub mod front_end;
mod late;
pub mod method;
pub mod poly;
pub mod raise;
pub mod shims;
pub mod status;
pub mod tool;
