//! What the functions of Fortran are in MPICH's ABI (the MPICH ABI Compatibility Initiative), the
//! library `libmpifort.so.12`: handles are the same integers in C and in Fortran, a status has five
//! words, and the names are those that MPICH's modules call.
//!
//! Its functions call those of Mica's `libmpi.so.12` (`crates/mpich`), so that a tool of this ABI
//! sees them, and C and Fortran of one process share all objects.

pub mod conversions;
pub mod descriptor;
mod extensions;
pub mod modules;
pub mod names;
pub mod sentinel;

use std::ffi::c_int;

use mica_front_end::processes::ProcessConstants;
use mica_front_end::table::FrontEndTable;

pub use crate::generated::mpich_constants as constants;
pub use mica_front_end::mpich::MpichStatus as Status;

/// A handle in C.
pub type Word = c_int;
/// A file's handle in C.
pub type FileWord = usize;

unsafe extern "C" {
    #[link_name = "mica_front_end_mpich"]
    static TABLE: FrontEndTable;
}

/// The functions of the library of C that MPI has no name for.
pub fn table() -> &'static FrontEndTable {
    // SAFETY: the library's, which stays; it comes with this one, and is of its version.
    unsafe { &TABLE }
}

/// What tells communicators and their topologies apart.
pub const PROCESSES: ProcessConstants<Word> = ProcessConstants {
    null: constants::COMM_NULL,
    cart: constants::CART,
    graph: constants::GRAPH,
    dist_graph: constants::DIST_GRAPH,
};

/// Whether a datatype is one that MPI has by a name.
pub fn is_predefined(datatype: Word) -> bool {
    constants::DATATYPES.binary_search(&datatype).is_ok()
}

/// The key in C: those of MPI itself have other numbers in Fortran, one above.
#[inline(always)]
pub fn keyval_to_c(keyval: c_int) -> c_int {
    let in_c = keyval.wrapping_sub(1);
    if constants::KEYVALS.contains(&in_c) { in_c } else { keyval }
}
