//! The library's words of an `MPI_Status`.
//!
//! Words 0 and 1 hold the number of received (packed) bytes, low half first; word 2 says whether
//! the operation was cancelled. All zero is the empty status.

use std::ffi::c_int;

use mica_mpi::constants as c;
use mica_mpi::{Error, Result};

use crate::types::MPI_Status;

pub(crate) const LOW: usize = 0;
pub(crate) const HIGH: usize = 1;
pub(crate) const CANCELLED: usize = 2;

impl MPI_Status {
    /// Number of bytes received.
    #[inline]
    pub fn bytes(&self) -> u64 {
        u64::from(self.MPI_internal[LOW] as u32) | u64::from(self.MPI_internal[HIGH] as u32) << 32
    }

    /// Sets the number of bytes received.
    #[inline]
    pub fn set_bytes(&mut self, bytes: u64) {
        self.MPI_internal[LOW] = bytes as c_int;
        self.MPI_internal[HIGH] = (bytes >> 32) as c_int;
    }

    /// Whether the operation was cancelled.
    #[inline]
    pub fn cancelled(&self) -> bool {
        self.MPI_internal[CANCELLED] != 0
    }

    /// Marks the operation as cancelled, or not.
    #[inline]
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.MPI_internal[CANCELLED] = cancelled.into();
    }
}

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
    fn a_status_keeps_large_counts_apart_from_the_flag() {
        let mut status = MPI_Status::default();
        assert_eq!((status.bytes(), status.cancelled()), (0, false));
        for bytes in [1, u64::from(u32::MAX), 1 << 32, u64::MAX] {
            status.set_bytes(bytes);
            assert_eq!((status.bytes(), status.cancelled()), (bytes, false));
        }
        status.set_cancelled(true);
        assert_eq!((status.bytes(), status.cancelled()), (u64::MAX, true));
    }

    #[test]
    fn no_status_is_an_error() {
        // SAFETY: null is allowed.
        let error = unsafe { read(std::ptr::null()) }.unwrap_err();
        assert_eq!(error.code(), c::ERR_ARG);
    }
}
