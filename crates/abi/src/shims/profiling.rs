//! Profiling control (MPI 5.0, 15.2.4).

use std::ffi::c_int;

/// MPI_Pcontrol: in a simulated process it marks regions of interest. Elsewhere the library does no
/// profiling that a level could control, and the standard requires nothing else. In C more arguments follow `level`; stable Rust cannot define such a
/// function, and on x86-64 and aarch64 a callee that reads only the named argument is not affected
/// by the others.
pub fn mpi_pcontrol(level: c_int) -> mica_mpi::Result<()> {
    mica_mpi::process::mark(level);
    Ok(())
}
