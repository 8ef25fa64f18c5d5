//! What a front end of another ABI, or of Fortran, shares with the library of the standard ABI: the
//! C types ([`types`]), kinds of parameters ([`argument`]), arrays that are converted
//! ([`mod@array`]) and the lengths of those that no parameter says ([`processes`]), the table of
//! functions that MPI has no name for ([`table`]), how a function gets its two names ([`pair!`]),
//! and what the front ends of MPICH's ABI share ([`mpich`]).
//!
//! `libmpi_abi.so.1` is the library; it uses the types, and exports the table. A front end of
//! another ABI (`crates/mpich`) loads that library and calls its `PMPI_` functions with converted
//! arguments. So a process has one library, however many ABIs its parts were built for
//! (`docs/design/bindings.md`).

pub mod argument;
pub mod array;
mod export;
pub mod mpich;
pub mod processes;
pub mod table;
pub mod types;
