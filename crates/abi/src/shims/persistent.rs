//! Persistent point to point, and the non-blocking send-receive (MPI 5.0, 3.9 and 3.11).
#![allow(clippy::too_many_arguments, reason = "the argument lists are MPI's own")]

use std::ffi::{c_int, c_void};

use mica_mpi::comm::Comm;
use mica_mpi::pt2pt::{self, Mode};
use mica_mpi::{Result, persistent, request};

use super::pt2pt::{message, put_request};
use crate::convert::{Out, slice_mut};
use crate::raise::{ErrorOn, ErrorTarget};
use crate::types::*;

/// MPI_Send_init, MPI_Ssend_init, MPI_Rsend_init.
///
/// # Safety
/// `buf` is readable for `count` elements of `datatype` while the request is active; `request` is
/// null or writable.
pub unsafe fn send_init(
    mode: Mode,
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
        persistent::send_init(comm, mode, view, dest, tag)
    };
    // SAFETY: as the caller promises.
    unsafe { put_request(request, comm, make) }
}

/// MPI_Recv_init, MPI_Recv_init_c.
///
/// # Safety
/// `buf` is writable for `count` elements of `datatype` while the request is active; `request` is
/// null or writable.
pub unsafe fn mpi_recv_init(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let make = |comm: &Comm| {
        // SAFETY: as the caller promises.
        let view = unsafe { message(buf, count, datatype)? };
        persistent::recv_init(comm, view, source, tag)
    };
    // SAFETY: as the caller promises.
    unsafe { put_request(request, comm, make) }
}

/// Starts a request; an error is raised on the request's communicator.
fn start(request: MPI_Request) -> std::result::Result<(), ErrorOn> {
    request::start(request.raw()).map_err(|error| on_request(request, error))
}

/// Raises an error of a call on the request's communicator, if it has one.
#[cold]
pub(crate) fn on_request(request: MPI_Request, error: mica_mpi::Error) -> ErrorOn {
    match request::comm(request.raw()) {
        0 => error.into(),
        comm => ErrorOn::new(ErrorTarget::Comm(comm), error),
    }
}

/// MPI_Start.
///
/// # Safety
/// `request` is null or readable.
pub unsafe fn mpi_start(request: *mut MPI_Request) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    start(unsafe { Out::new(request, "request")? }.get())
}

/// MPI_Startall.
///
/// # Safety
/// The array holds `count` requests.
pub unsafe fn mpi_startall(
    count: c_int,
    array_of_requests: *mut MPI_Request,
) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    let requests = unsafe { slice_mut(array_of_requests, count, "array_of_requests", "count")? };
    requests.iter().try_for_each(|&request| start(request))
}

/// MPI_Isendrecv, MPI_Isendrecv_c.
///
/// # Safety
/// Until the request is complete, `sendbuf` is readable, `recvbuf` writable for their elements, and
/// they are disjoint; `request` is null or writable.
pub unsafe fn mpi_isendrecv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let make = |comm: &Comm| {
        // SAFETY: as the caller promises.
        let (out, into) = unsafe {
            (message(sendbuf, sendcount, sendtype)?, message(recvbuf, recvcount, recvtype)?)
        };
        persistent::isendrecv(comm, &out, dest, sendtag, &into, source, recvtag)
    };
    // SAFETY: as the caller promises.
    unsafe { put_request(request, comm, make) }
}

/// MPI_Isendrecv_replace, MPI_Isendrecv_replace_c.
///
/// # Safety
/// `buf` is readable and writable for `count` elements of `datatype` until the request is complete;
/// `request` is null or writable.
pub unsafe fn mpi_isendrecv_replace(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let make = |comm: &Comm| {
        // SAFETY: as the caller promises.
        let view = unsafe { message(buf, count, datatype)? };
        let copy = pt2pt::packed_copy(&view)?;
        persistent::isendrecv(comm, &copy, dest, sendtag, &view, source, recvtag)
    };
    // SAFETY: as the caller promises.
    unsafe { put_request(request, comm, make) }
}
