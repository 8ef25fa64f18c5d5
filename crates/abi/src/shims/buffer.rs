//! Buffered sends and their buffers (MPI 5.0, 3.6).
#![allow(clippy::too_many_arguments, reason = "the argument lists are MPI's own")]

use std::ffi::{c_int, c_void};

use mica_mpi::buffered::{self, BufferOwner};
use mica_mpi::comm::{self, Comm};
use mica_mpi::request::Request;
use mica_mpi::{Result, persistent};

use super::pt2pt::{message, put_request};
use crate::convert::Out;
use crate::poly::PolyOut;
use crate::types::*;

/// Detaches the buffer of `owner` and returns its address and size to the caller.
///
/// # Safety
/// `buffer_addr` is null or writable for a pointer, `size` is null or writable.
pub unsafe fn detach(owner: BufferOwner, buffer_addr: *mut c_void, size: PolyOut) -> Result<()> {
    // SAFETY: as the caller promises.
    let place = unsafe { Out::new(buffer_addr.cast::<*mut c_void>(), "buffer_addr")? };
    let (address, bytes) = buffered::detach(owner)?;
    place.set(std::ptr::with_exposed_provenance_mut(address));
    if !size.is_null() {
        // SAFETY: as the caller promises. What was attached as an int fits one.
        unsafe { size.set_or_undefined(0, bytes) };
    }
    Ok(())
}

/// MPI_Bsend, MPI_Bsend_c.
///
/// # Safety
/// `buf` is readable for `count` elements of `datatype`.
pub unsafe fn mpi_bsend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    comm::with(comm.raw(), |comm| {
        // SAFETY: as the caller promises; the message is copied when this returns.
        let view = unsafe { message(buf, count, datatype)? };
        buffered::bsend(comm, &view, dest, tag)
    })?
}

/// MPI_Ibsend, MPI_Ibsend_c.
///
/// # Safety
/// `buf` is readable for `count` elements of `datatype`; `request` is null or writable.
pub unsafe fn mpi_ibsend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let request = unsafe { Out::new(request, "request")? };
    // SAFETY: as the caller promises.
    unsafe { mpi_bsend(buf, count, datatype, dest, tag, comm)? };
    request.give(Request::SENT)
}

/// MPI_Bsend_init, MPI_Bsend_init_c.
///
/// # Safety
/// `buf` is readable for `count` elements of `datatype` whenever the request is started; `request`
/// is null or writable.
pub unsafe fn mpi_bsend_init(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let make = |comm: &Comm| {
        // SAFETY: as the caller promises.
        let view = unsafe { message(buf, count, datatype)? };
        persistent::bsend_init(comm, view, dest, tag)
    };
    // SAFETY: as the caller promises.
    unsafe { put_request(request, comm, make) }
}
