//! The fields of a status (MPI 5.0, 3.2.5, 3.8.4 and 13.2).

use std::ffi::c_int;

use mica_mpi::Result;

use crate::convert::{Out, flag};
use crate::status;
use crate::types::*;

/// MPI_Test_cancelled.
///
/// # Safety
/// `status` is null or readable; `cancelled` is null or writable.
pub unsafe fn mpi_test_cancelled(status: *const MPI_Status, cancelled: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let (status, cancelled) = unsafe { (status::read(status)?, Out::new(cancelled, "flag")?) };
    cancelled.set(flag(status.cancelled()));
    Ok(())
}

/// MPI_Status_set_cancelled.
///
/// # Safety
/// `status` is null or writable.
pub unsafe fn mpi_status_set_cancelled(status: *mut MPI_Status, cancelled: c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { status::write(status)? }.set_cancelled(cancelled != 0);
    Ok(())
}

/// MPI_Status_get_source.
///
/// # Safety
/// `status` is null or readable; `source` is null or writable.
pub unsafe fn mpi_status_get_source(status: *const MPI_Status, source: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let (status, source) = unsafe { (status::read(status)?, Out::new(source, "source")?) };
    source.set(status.MPI_SOURCE);
    Ok(())
}

/// MPI_Status_set_source.
///
/// # Safety
/// `status` is null or writable.
pub unsafe fn mpi_status_set_source(status: *mut MPI_Status, source: c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { status::write(status)? }.MPI_SOURCE = source;
    Ok(())
}

/// MPI_Status_get_tag.
///
/// # Safety
/// `status` is null or readable; `tag` is null or writable.
pub unsafe fn mpi_status_get_tag(status: *const MPI_Status, tag: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let (status, tag) = unsafe { (status::read(status)?, Out::new(tag, "tag")?) };
    tag.set(status.MPI_TAG);
    Ok(())
}

/// MPI_Status_set_tag.
///
/// # Safety
/// `status` is null or writable.
pub unsafe fn mpi_status_set_tag(status: *mut MPI_Status, tag: c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { status::write(status)? }.MPI_TAG = tag;
    Ok(())
}

/// MPI_Status_get_error.
///
/// # Safety
/// `status` is null or readable; `err` is null or writable.
pub unsafe fn mpi_status_get_error(status: *const MPI_Status, err: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let (status, err) = unsafe { (status::read(status)?, Out::new(err, "err")?) };
    err.set(status.MPI_ERROR);
    Ok(())
}

/// MPI_Status_set_error.
///
/// # Safety
/// `status` is null or writable.
pub unsafe fn mpi_status_set_error(status: *mut MPI_Status, err: c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { status::write(status)? }.MPI_ERROR = err;
    Ok(())
}
