//! The front end of Fortran (MPI 5.0, 19.1), for two ABIs: `libmpifort_abi.so.1` is that of the
//! standard ABI (20.4), `libmpifort.so.12` that of MPICH's.
//!
//! Its functions convert what Fortran passes and call those of C. It needs no compiler's library,
//! and has none of its modules: those of the standard ABI are compiled from `include/fortran` where
//! they are used (`wrappers/mpicc`). `docs/design/fortran.md` explains it.
//!
//! The package `crates/mpich-fortran` compiles these files as well, with `mpich_abi` set. What the
//! ABIs differ in is all in the module `abi`: the words of handles and statuses, constants, the
//! names of functions and of variables, and the descriptors of arrays.

// Each macro declares the functions of C that it calls; some are declared by hand, too.
#![allow(clashing_extern_declarations)]

mod argument;
mod attribute;
mod by_hand;
mod callback;
mod choice;
mod completion;
mod completion_exports;
mod descriptor;
mod export;
mod generated;
#[cfg(mpich_abi)]
mod mpich;
mod processes;
mod processes_exports;
mod section;
#[cfg(not(mpich_abi))]
mod standard;
mod text;

#[cfg(mpich_abi)]
use mpich as abi;
#[cfg(not(mpich_abi))]
use standard as abi;
