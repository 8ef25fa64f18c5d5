//! Functions that this ABI's modules alone call.

use std::ffi::{c_int, c_void};

use super::constants as c;
use super::descriptor::{Descriptor, DimensionRoom};
use crate::choice::{raise, store};
use crate::export::named;

// Since the compiler does not know what it does, the buffer is in memory when it returns.
named! { ["MPI_F_sync_reg_fts", "MPI_F_sync_reg_f08ts", "PMPI_F_sync_reg_fts",
    "PMPI_F_sync_reg_f08ts"]
    fn(_buf: *const c_void) {}
}

named! { ["MPI_Sizeof_fts", "MPI_Sizeof_f08ts", "PMPI_Sizeof_fts", "PMPI_Sizeof_f08ts"]
    fn(x: *const Descriptor, size: *mut c_int, ierror: *mut c_int) {
        let mut room = DimensionRoom::default();
        // SAFETY: a descriptor of Fortran, and places for numbers.
        unsafe {
            let code = match Descriptor::section(x, &mut room) {
                Ok(section) => {
                    size.write(section.element as c_int);
                    c::SUCCESS
                }
                Err(unknown) => raise(unknown.into()),
            };
            store(ierror, code);
        }
    }
}
