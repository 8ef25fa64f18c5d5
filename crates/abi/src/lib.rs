//! The extern "C" layer: `libmpi_abi.so.1`, the MPI 5.0 standard ABI (MPI 5.0, chapter 20).
//!
//! `generated` holds the exported functions, `shims` what they call: validate, convert, call
//! `mica_mpi`, convert back. How the two meet is in `docs/design/bindings.md`.

mod collective;
mod convert;
mod export;
mod generated;
mod late;
pub mod poly;
pub mod raise;
mod shims;
pub mod status;
pub mod types;
mod unsupported;
