//! What the functions of Fortran are in the standard ABI (MPI 5.0, chapter 20), the library
//! `libmpifort_abi.so.1`: a handle is an address in C, whose low half is the integer of Fortran.
//!
//! Its functions call those of `libmpi_abi.so.1`.

mod by_hand;
pub mod conversions;
pub mod descriptor;
pub mod names;
pub mod sentinel;

use std::ffi::c_int;

use mica_front_end::table::FrontEndTable;

pub use crate::generated::standard_constants as constants;
pub use mica_front_end::processes::STANDARD as PROCESSES;
pub use mica_front_end::types::MPI_Status as Status;

/// A handle in C.
pub type Word = usize;
/// A file's handle in C.
pub type FileWord = usize;

unsafe extern "C" {
    #[link_name = "mica_front_end"]
    static TABLE: FrontEndTable;
}

/// The functions of the library of C that MPI has no name for.
pub fn table() -> &'static FrontEndTable {
    // SAFETY: the library's, which stays; it comes with this one, and is of its version.
    unsafe { &TABLE }
}

/// Handles below are predefined (MPI 5.0, 20.3.3: they fit ten bits).
const FIRST_DERIVED: Word = 0x400;

/// Whether a datatype is one that MPI has by a name.
#[inline(always)]
pub fn is_predefined(datatype: Word) -> bool {
    datatype < FIRST_DERIVED
}

/// The key in C: the same.
#[inline(always)]
pub fn keyval_to_c(keyval: c_int) -> c_int {
    keyval
}
