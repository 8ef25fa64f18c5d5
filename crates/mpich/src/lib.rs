//! The front end of MPICH's ABI, `libmpi.so.12` (the MPICH ABI Compatibility Initiative: MPICH,
//! Intel MPI, MVAPICH and Cray MPICH), so that programs built for these libraries run on Mica.
//!
//! It has no MPI of its own. It loads `libmpi_abi.so.1`, which lies beside it ([`library`]), and
//! each function converts its arguments, calls the function of that library with the same name, and
//! converts the results ([`export`], [`argument`]): handles ([`handle`]), constants ([`value`]),
//! statuses ([`status`]), and what callbacks get ([`callback`]). The functions are generated from
//! the Forum's description of the API and from the values of both ABIs (`bindings/mpich.py`), but
//! for those in [`by_hand`], [`tools`] and [`extensions`].
//!
//! The handle of an object that the program made has the same bits in both ABIs, in a word here of
//! 32 bits, there of 64; only predefined handles differ.

mod argument;
mod by_hand;
mod callback;
mod export;
mod extensions;
mod front_end;
mod generated;
mod handle;
mod library;
mod mixed;
mod processes;
mod representation;
mod status;
mod tools;
mod value;
mod word;
