//! The functions of the library of C that MPI has no name for.

use mica_front_end::table::FrontEndTable;

unsafe extern "C" {
    static mica_front_end: FrontEndTable;
}

/// The table.
pub fn table() -> &'static FrontEndTable {
    // SAFETY: the library's, which stays; it comes with this one, and is of its version.
    unsafe { &mica_front_end }
}
