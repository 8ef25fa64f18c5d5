//! Buffered sends and their buffers (MPI 5.0, 3.6).
#![allow(
    clippy::too_many_arguments,
    reason = "the argument lists are MPI's own"
)]

use std::ffi::{c_int, c_void};

use mica_mpi::buffered::{self, BufferOwner};
use mica_mpi::comm::{self, Comm};
use mica_mpi::request::Request;
use mica_mpi::session::Session;
use mica_mpi::{Result, persistent};

use super::pt2pt::{message, put_request};
use crate::convert::Out;
use crate::poly::PolyOut;
use crate::types::*;

fn of_comm(comm: MPI_Comm) -> Result<BufferOwner> {
    Ok(BufferOwner::comm(&Comm::resolve(comm.raw())?))
}

fn of_session(session: MPI_Session) -> Result<BufferOwner> {
    Ok(BufferOwner::Session(
        Session::resolve(session.raw())?.handle(),
    ))
}

/// Detaches the buffer of `owner` and returns its address and size to the caller.
///
/// # Safety
/// `buffer_addr` is null or writable for a pointer, `size` is null or writable.
unsafe fn detach(owner: BufferOwner, buffer_addr: *mut c_void, size: PolyOut) -> Result<()> {
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

/// A request for the flush of `owner`'s buffer.
///
/// # Safety
/// `request` is null or writable.
unsafe fn iflush(owner: BufferOwner, request: *mut MPI_Request) -> Result<()> {
    // SAFETY: as the caller promises.
    let request = unsafe { Out::new(request, "request")? };
    request.set(MPI_Request::from_raw(buffered::iflush(owner)?.register()?));
    Ok(())
}

/// MPI_Buffer_attach, MPI_Buffer_attach_c.
///
/// # Safety
/// None: the library does not touch the buffer.
pub unsafe fn mpi_buffer_attach(buffer: *mut c_void, size: MPI_Count) -> Result<()> {
    buffered::attach(BufferOwner::Process, buffer.expose_provenance(), size)
}

/// MPI_Comm_attach_buffer, MPI_Comm_attach_buffer_c.
///
/// # Safety
/// As [`mpi_buffer_attach`].
pub unsafe fn mpi_comm_attach_buffer(
    comm: MPI_Comm,
    buffer: *mut c_void,
    size: MPI_Count,
) -> Result<()> {
    buffered::attach(of_comm(comm)?, buffer.expose_provenance(), size)
}

/// MPI_Session_attach_buffer, MPI_Session_attach_buffer_c.
///
/// # Safety
/// As [`mpi_buffer_attach`].
pub unsafe fn mpi_session_attach_buffer(
    session: MPI_Session,
    buffer: *mut c_void,
    size: MPI_Count,
) -> Result<()> {
    buffered::attach(of_session(session)?, buffer.expose_provenance(), size)
}

/// MPI_Buffer_detach, MPI_Buffer_detach_c.
///
/// # Safety
/// `buffer_addr` is null or writable for a pointer, `size` is null or writable.
pub unsafe fn mpi_buffer_detach(buffer_addr: *mut c_void, size: PolyOut) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { detach(BufferOwner::Process, buffer_addr, size) }
}

/// MPI_Comm_detach_buffer, MPI_Comm_detach_buffer_c.
///
/// # Safety
/// As [`mpi_buffer_detach`].
pub unsafe fn mpi_comm_detach_buffer(
    comm: MPI_Comm,
    buffer_addr: *mut c_void,
    size: PolyOut,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { detach(of_comm(comm)?, buffer_addr, size) }
}

/// MPI_Session_detach_buffer, MPI_Session_detach_buffer_c.
///
/// # Safety
/// As [`mpi_buffer_detach`].
pub unsafe fn mpi_session_detach_buffer(
    session: MPI_Session,
    buffer_addr: *mut c_void,
    size: PolyOut,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { detach(of_session(session)?, buffer_addr, size) }
}

/// MPI_Buffer_flush.
pub fn mpi_buffer_flush() -> Result<()> {
    buffered::flush(BufferOwner::Process)
}

/// MPI_Comm_flush_buffer.
pub fn mpi_comm_flush_buffer(comm: MPI_Comm) -> Result<()> {
    buffered::flush(of_comm(comm)?)
}

/// MPI_Session_flush_buffer.
pub fn mpi_session_flush_buffer(session: MPI_Session) -> Result<()> {
    buffered::flush(of_session(session)?)
}

/// MPI_Buffer_iflush.
///
/// # Safety
/// `request` is null or writable.
pub unsafe fn mpi_buffer_iflush(request: *mut MPI_Request) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { iflush(BufferOwner::Process, request) }
}

/// MPI_Comm_iflush_buffer.
///
/// # Safety
/// `request` is null or writable.
pub unsafe fn mpi_comm_iflush_buffer(comm: MPI_Comm, request: *mut MPI_Request) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { iflush(of_comm(comm)?, request) }
}

/// MPI_Session_iflush_buffer.
///
/// # Safety
/// `request` is null or writable.
pub unsafe fn mpi_session_iflush_buffer(
    session: MPI_Session,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { iflush(of_session(session)?, request) }
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
    request.set(MPI_Request::from_raw(Request::SENT.register()?));
    Ok(())
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
