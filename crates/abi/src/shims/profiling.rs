//! Profiling control (MPI 5.0, 15.2.4).

use std::ffi::c_int;

/// MPI_Pcontrol: the library does no profiling that a level could steer, and the standard asks
/// nothing else of it. In C more arguments follow `level`; stable Rust cannot define such a
/// function, and on x86-64 and aarch64 a callee that reads only the named argument cannot tell.
pub fn mpi_pcontrol(_level: c_int) -> mica_mpi::Result<()> {
    Ok(())
}
