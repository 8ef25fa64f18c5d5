//! Communicators (MPI 5.0, 7.4 and 7.8).

use std::ffi::c_int;

use mica_mpi::Result;
use mica_mpi::comm;
use mica_mpi::constants as c;

use crate::convert::Out;
use crate::types::*;

/// MPI_Comm_rank.
///
/// # Safety
/// `rank` is null or writable.
pub unsafe fn mpi_comm_rank(comm: MPI_Comm, rank: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let rank = unsafe { Out::new(rank, "rank")? };
    comm::with(comm.raw(), |comm| rank.set(comm.rank() as c_int))
}

/// MPI_Comm_size.
///
/// # Safety
/// `size` is null or writable.
pub unsafe fn mpi_comm_size(comm: MPI_Comm, size: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let size = unsafe { Out::new(size, "size")? };
    comm::with(comm.raw(), |comm| size.set(comm.size() as c_int))
}

/// MPI_Comm_get_parent: no process is spawned yet, so none has a parent.
///
/// # Safety
/// `parent` is null or writable.
pub unsafe fn mpi_comm_get_parent(parent: *mut MPI_Comm) -> Result<()> {
    // SAFETY: as the caller promises.
    let parent = unsafe { Out::new(parent, "parent")? };
    mica_mpi::process::engine()?;
    parent.set(MPI_Comm::from_raw(c::COMM_NULL));
    Ok(())
}
