//! Calls that this version of Mica does not implement: an error, never a pretended success.

use std::ffi::c_int;

use mica_mpi::Error;

use crate::raise::{ErrorTarget, raise};

/// Raises `MPI_ERR_UNSUPPORTED_OPERATION` with the call's name.
#[cold]
#[inline(never)]
pub fn unsupported(call: &'static str, target: ErrorTarget) -> c_int {
    raise(call, target, Error::unsupported(call).into())
}
