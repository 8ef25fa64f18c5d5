//! Point to point (MPI 5.0, chapter 3).
#![allow(clippy::too_many_arguments, reason = "the argument lists are MPI's own")]

use std::ffi::c_int;

use mica_mpi::Result;
use mica_mpi::comm;
use mica_mpi::constants as c;
use mica_mpi::pt2pt;
pub use mica_mpi::pt2pt::Mode;
use mica_mpi::request::Request;
use mica_mpi::status::{Cancelled, Status};

use crate::convert::Out;
use crate::elements::{RECEIVE, SEND, UserElements};
use crate::raise::{ErrorOn, ErrorTarget};
use crate::types::*;

/// Stores a status, unless the caller ignores it. `MPI_ERROR` is left as it is: [`put_error`] sets
/// it where a call completes several requests and returns `MPI_ERR_IN_STATUS` (MPI 5.0, 3.2.5), and
/// [`put_empty`].
///
/// # Safety
/// `to` is null or writable.
#[inline(always)]
pub(crate) unsafe fn put_status(to: *mut MPI_Status, status: &Status) {
    if to.is_null() {
        return;
    }
    // SAFETY: by the contract above. No reference is made: the caller's status need not be
    // initialized.
    unsafe {
        (*to).MPI_SOURCE = status.source;
        (*to).MPI_TAG = status.tag;
        (*to).MPI_internal[status_word::LOW] = status.bytes as c_int;
        (*to).MPI_internal[status_word::HIGH] = (status.bytes >> 32) as c_int;
        (*to).MPI_internal[status_word::CANCELLED] = (status.cancelled == Cancelled::Yes).into();
    }
}

/// Stores the empty status of a null or inactive request, whose `MPI_ERROR` is `MPI_SUCCESS` (MPI
/// 5.0, 3.7.3), unless the caller ignores it.
///
/// # Safety
/// `to` is null or writable.
pub(crate) unsafe fn put_empty(to: *mut MPI_Status) {
    // SAFETY: as the caller promises.
    unsafe {
        put_status(to, &Status::EMPTY);
        put_error(to, c::SUCCESS);
    }
}

/// Stores the error code of one of several operations, unless the caller ignores the statuses.
///
/// # Safety
/// `to` is null or writable.
pub(crate) unsafe fn put_error(to: *mut MPI_Status, code: c_int) {
    if !to.is_null() {
        // SAFETY: by the contract above; no reference is made.
        unsafe { (*to).MPI_ERROR = code };
    }
}

/// MPI_Send, MPI_Ssend, MPI_Rsend.
///
/// # Safety
/// The elements are readable, as MPI asks of the caller.
#[inline(always)]
pub unsafe fn send(
    mode: Mode,
    elements: UserElements,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: as the caller promises; the send is over when this returns.
    unsafe { elements.with(|view| pt2pt::send(comm.raw(), mode, view, dest, tag)) }
}

/// MPI_Isend, MPI_Issend, MPI_Irsend.
///
/// # Safety
/// The elements are readable until the request is complete; `request` is null or writable.
#[inline(always)]
pub unsafe fn isend(
    mode: Mode,
    elements: UserElements,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        let request = Out::new(request, "request")?;
        request.give(elements.with(|view| pt2pt::isend(comm.raw(), mode, view, dest, tag))?)
    }
}

/// MPI_Irecv, MPI_Irecv_c.
///
/// # Safety
/// The elements are writable until the request is complete; `request` is null or writable.
pub unsafe fn mpi_irecv(
    elements: UserElements,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        let request = Out::new(request, "request")?;
        request.give(elements.with(|view| pt2pt::irecv(comm.raw(), view, source, tag))?)
    }
}

/// MPI_Recv, MPI_Recv_c.
///
/// # Safety
/// The elements are writable; `status` is null or writable.
#[inline(always)]
pub unsafe fn mpi_recv(
    elements: UserElements,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: as the caller promises; the receive is over when this returns.
    unsafe {
        let deliver = |got: &Status| put_status(status, got);
        elements.with(|view| pt2pt::recv(comm.raw(), view, source, tag, deliver))
    }
}

/// MPI_Sendrecv, MPI_Sendrecv_c.
///
/// # Safety
/// `send` is readable, `receive` writable, and they are disjoint; `status` is null or writable.
pub unsafe fn mpi_sendrecv(
    send: UserElements,
    dest: c_int,
    sendtag: c_int,
    receive: UserElements,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    comm::with(comm.raw(), |comm| {
        // SAFETY: as the caller promises; both operations are over when this returns.
        let (out, into) = unsafe { (send.view_as(&SEND)?, receive.view_as(&RECEIVE)?) };
        let (got, error) = pt2pt::sendrecv(comm, &out, dest, sendtag, &into, source, recvtag)?;
        // SAFETY: as the caller promises.
        unsafe { put_status(status, &got) };
        error.map_or(Ok(()), Err)
    })?
}

/// MPI_Sendrecv_replace, MPI_Sendrecv_replace_c.
///
/// # Safety
/// The elements are readable and writable; `status` is null or writable.
pub unsafe fn mpi_sendrecv_replace(
    elements: UserElements,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    comm::with(comm.raw(), |comm| {
        // SAFETY: as the caller promises; both operations are over when this returns.
        let view = unsafe { elements.view()? };
        let copy = pt2pt::packed_copy(&view)?;
        let (got, error) = pt2pt::sendrecv(comm, &copy, dest, sendtag, &view, source, recvtag)?;
        // SAFETY: as the caller promises.
        unsafe { put_status(status, &got) };
        error.map_or(Ok(()), Err)
    })?
}

/// Starts the receive of a matched message; its handle becomes `MPI_MESSAGE_NULL`.
///
/// # Safety
/// The elements are writable until the request is complete; `message` is null or valid.
unsafe fn start_matched(elements: UserElements, message: *mut MPI_Message) -> Result<Request> {
    // SAFETY: as the caller promises.
    let (handle, view) = unsafe { (Out::new(message, "message")?, elements.view()?) };
    let started = pt2pt::imrecv(handle.get().raw(), &view)?;
    handle.set(MPI_Message::from_raw(c::MESSAGE_NULL));
    Ok(started)
}

/// MPI_Mrecv, MPI_Mrecv_c.
///
/// # Safety
/// The elements are writable; `message` is null or valid; `status` is null or writable.
pub unsafe fn mpi_mrecv(
    elements: UserElements,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises; the receive is over when this returns.
    let outcome = unsafe { start_matched(elements, message)? }.wait()?;
    // SAFETY: as the caller promises.
    unsafe { put_status(status, &outcome.status) };
    match outcome.error {
        None => Ok(()),
        Some(error) => Err(ErrorOn::new(ErrorTarget::Comm(outcome.comm), error)),
    }
}

/// MPI_Imrecv, MPI_Imrecv_c.
///
/// # Safety
/// The elements are writable until the request is complete; `message` is null or valid; `request`
/// is null or writable.
pub unsafe fn mpi_imrecv(
    elements: UserElements,
    message: *mut MPI_Message,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let request = unsafe { Out::new(request, "request")? };
    // SAFETY: as the caller promises.
    let started = unsafe { start_matched(elements, message)? };
    request.give(started)
}
