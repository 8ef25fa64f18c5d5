//! Communicators (MPI 5.0, 7.4 and 7.8).

use std::ffi::{c_char, c_int};

use mica_mpi::Result;
use mica_mpi::comm::{self, Comm};
use mica_mpi::constants as c;
use mica_mpi::info::Info;
use mica_mpi::request::Request;

use crate::convert::{Out, put_text};
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

/// MPI_Comm_idup.
///
/// # Safety
/// `newcomm` and `request` are null or writable.
pub unsafe fn mpi_comm_idup(
    comm: MPI_Comm,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { idup(comm, None, newcomm, request) }
}

/// MPI_Comm_idup_with_info.
///
/// # Safety
/// `newcomm` and `request` are null or writable.
pub unsafe fn mpi_comm_idup_with_info(
    comm: MPI_Comm,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let hints = Info::resolve_hints(info.raw())?;
    // SAFETY: as the caller promises.
    unsafe { idup(comm, Some(&hints), newcomm, request) }
}

/// # Safety
/// `newcomm` and `request` are null or writable.
unsafe fn idup(
    comm: MPI_Comm,
    hints: Option<&Info>,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (newcomm, request) =
        unsafe { (Out::new(newcomm, "newcomm")?, Out::new(request, "request")?) };
    newcomm.give(Comm::resolve(comm.raw())?.duplicate_at_once(hints)?)?;
    // The communicator is ready, so the request is one that is complete already.
    request.give(Request::SENT)
}

/// MPI_Comm_free.
///
/// # Safety
/// `comm` is null or points to a handle that may be overwritten.
pub unsafe fn mpi_comm_free(comm: *mut MPI_Comm) -> Result<()> {
    // SAFETY: as the caller promises.
    let comm = unsafe { Out::new(comm, "comm")? };
    Comm::free(comm.get().raw())?;
    comm.set(MPI_Comm::from_raw(c::COMM_NULL));
    Ok(())
}

/// MPI_Comm_disconnect: as free. The program must complete pending communication first.
///
/// # Safety
/// As for `MPI_Comm_free`.
pub unsafe fn mpi_comm_disconnect(comm: *mut MPI_Comm) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { mpi_comm_free(comm) }
}

/// MPI_Comm_get_name.
///
/// # Safety
/// `comm_name` is null or writable for `MPI_MAX_OBJECT_NAME` bytes, `resultlen` null or writable.
pub unsafe fn mpi_comm_get_name(
    comm: MPI_Comm,
    comm_name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let resultlen = unsafe { Out::new(resultlen, "resultlen")? };
    let name = match comm.raw() {
        c::COMM_NULL => "MPI_COMM_NULL".to_owned(), // has a name, too (MPI 5.0, 7.8)
        handle => Comm::resolve(handle)?.name(),
    };
    // SAFETY: as the caller promises.
    resultlen.set(unsafe { put_text(comm_name, c::MAX_OBJECT_NAME, &name, "comm_name")? });
    Ok(())
}
