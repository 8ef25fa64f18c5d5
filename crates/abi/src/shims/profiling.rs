//! Profiling control (MPI 5.0, 15.2.4).

use std::ffi::c_int;

/// MPI_Pcontrol: in a simulated process it marks regions of interest; elsewhere it stops and goes
/// on with the account of transfers (`MICA_TRANSFER_ACCOUNT`). The standard requires nothing. In C
/// more arguments follow `level`; stable Rust cannot define such a function, and on x86-64 and
/// aarch64 a callee that reads only the named argument is not affected by the others.
pub fn mpi_pcontrol(level: c_int) -> mica_mpi::Result<()> {
    mica_mpi::process::mark(level);
    mica_mpi::collective::control_account(level);
    Ok(())
}
