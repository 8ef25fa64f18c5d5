//! The statuses that callers pass.

use mica_mpi::constants as c;
use mica_mpi::{Error, Result};

use crate::types::MPI_Status;

/// The caller's status; `MPI_STATUS_IGNORE` is an error where a status is read.
///
/// # Safety
/// `status` is null or points to a readable status.
pub unsafe fn read<'a>(status: *const MPI_Status) -> Result<&'a MPI_Status> {
    // SAFETY: by the contract above.
    unsafe { status.as_ref() }.ok_or_else(no_status)
}

/// The caller's status, to be changed.
///
/// # Safety
/// `status` is null or points to a status that no other code uses meanwhile.
pub unsafe fn write<'a>(status: *mut MPI_Status) -> Result<&'a mut MPI_Status> {
    // SAFETY: by the contract above.
    unsafe { status.as_mut() }.ok_or_else(no_status)
}

#[cold]
fn no_status() -> Error {
    Error::argument(c::ERR_ARG, "status", "MPI_STATUS_IGNORE", "a status is needed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_status_is_an_error() {
        // SAFETY: null is allowed.
        let error = unsafe { read(std::ptr::null()) }.unwrap_err();
        assert_eq!(error.code(), c::ERR_ARG);
    }
}
