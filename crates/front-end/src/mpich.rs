//! What the front ends of MPICH's ABI share: of C (`libmpi.so.12`) and of Fortran
//! (`libmpifort.so.12`).
//!
//! The first exports a [`crate::table::FrontEndTable`] of its own for the second, as
//! `mica_front_end_mpich`: its handles are those of MPICH's ABI in the low halves of words, and its
//! codes are MPICH's.

use std::ffi::c_int;

/// `MPI_Status` of MPICH's ABI, in C and in Fortran.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(non_snake_case, reason = "the names are C's")]
pub struct MpichStatus {
    /// Low half of the number of bytes.
    pub count_lo: c_int,
    /// High half of the number of bytes, and in the lowest bit whether it was cancelled.
    pub count_hi_and_cancelled: c_int,
    /// Rank of the sender.
    pub MPI_SOURCE: c_int,
    /// Tag of the message.
    pub MPI_TAG: c_int,
    /// Error code.
    pub MPI_ERROR: c_int,
}

const _: () = assert!(size_of::<MpichStatus>() == 20 && align_of::<MpichStatus>() == 4);
