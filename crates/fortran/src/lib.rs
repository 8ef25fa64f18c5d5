//! The front end of Fortran, `libmpifort_abi.so.1` (MPI 5.0, 19.1 and 20.4).
//!
//! Its functions convert what Fortran passes and call those of C. It needs no compiler's library,
//! and has none of its modules: those are compiled from `include/fortran` where they are used
//! (`wrappers/mpicc`). `docs/design/fortran.md` explains it.

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
mod processes;
mod processes_exports;
mod section;
mod sentinel;
mod table;
mod text;
