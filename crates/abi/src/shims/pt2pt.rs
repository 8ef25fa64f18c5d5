//! Point to point (MPI 5.0, chapter 3).
#![allow(clippy::too_many_arguments, reason = "the argument lists are MPI's own")]

use std::ffi::{c_int, c_void};

use mica_memory::{Region, Shape, View};
use mica_mpi::Result;
use mica_mpi::comm::{self, Comm};
use mica_mpi::constants as c;
use mica_mpi::datatype::{self, Datatype};
use mica_mpi::pt2pt;
pub use mica_mpi::pt2pt::Mode;
use mica_mpi::request::Request;
use mica_mpi::status::{Cancelled, Status};

use crate::convert::{Out, flag};
use crate::raise::{ErrorOn, ErrorTarget};
use crate::status;
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
        (*to).MPI_internal[status::LOW] = status.bytes as c_int;
        (*to).MPI_internal[status::HIGH] = (status.bytes >> 32) as c_int;
        (*to).MPI_internal[status::CANCELLED] = (status.cancelled == Cancelled::Yes).into();
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

/// The bytes of a message in the caller's memory.
///
/// # Safety
/// The obligations of [`View::user`] for `count` elements of `datatype` at `buf`.
#[inline(always)]
pub(crate) unsafe fn message(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<View> {
    let shape = datatype::shape_of(datatype.raw(), buf.addr(), count)?;
    // SAFETY: passed on to the caller; the shape is that of the elements.
    Ok(unsafe { View::user(buf, shape) })
}

/// Stores the handle of the request that `make` makes on the communicator.
///
/// # Safety
/// `request` is null or writable.
pub(crate) unsafe fn put_request(
    request: *mut MPI_Request,
    comm: MPI_Comm,
    make: impl FnOnce(&Comm) -> Result<Request>,
) -> Result<()> {
    // SAFETY: by the contract above.
    let request = unsafe { Out::new(request, "request")? };
    let made = comm::with(comm.raw(), make)??;
    request.give(made)
}

/// The caller's memory for `count` elements of `datatype` at `buf`; none if there is no such
/// datatype or number of elements, which the call then reports.
///
/// # Safety
/// The obligations of [`Region::user`] for `count` elements of `datatype` at `buf`.
pub(crate) unsafe fn elements(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Region {
    let datatype = Datatype::resolve(datatype.raw());
    let bounds = datatype.map_or(0..0, |datatype| datatype.bounds(count));
    // SAFETY: passed on to the caller.
    unsafe { Region::user(buf, bounds) }
}

/// Calls `f` with the bytes of a message. Compiled twice: for a predefined datatype without gaps
/// and right arguments, inline, and out of line for all else.
///
/// # Safety
/// The obligations of [`View::user`] for `count` elements of `datatype` at `buf`.
#[inline(always)]
unsafe fn with_message<R>(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    f: impl FnOnce(&View) -> Result<R>,
) -> Result<R> {
    match datatype::dense_bytes(datatype.raw(), buf.addr(), count) {
        // SAFETY: passed on to the caller; the shape is that of the elements.
        Some(bytes) => f(&unsafe { View::user(buf, Shape::Contiguous { bytes }) }),
        // SAFETY: passed on to the caller.
        None => unsafe { with_derived(buf, count, datatype, f) },
    }
}

/// # Safety
/// As [`with_message`].
#[cold]
#[inline(never)]
unsafe fn with_derived<R>(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    f: impl FnOnce(&View) -> Result<R>,
) -> Result<R> {
    // SAFETY: passed on to the caller.
    f(&unsafe { message(buf, count, datatype)? })
}

/// MPI_Send, MPI_Ssend, MPI_Rsend.
///
/// # Safety
/// `buf` is readable for `count` elements of `datatype`, as MPI asks of the caller.
#[inline(always)]
pub unsafe fn send(
    mode: Mode,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let send = |view: &View| pt2pt::send(comm.raw(), mode, view, dest, tag);
    // SAFETY: as the caller promises; the send is over when this returns.
    unsafe { with_message(buf, count, datatype, send) }
}

/// MPI_Isend, MPI_Issend, MPI_Irsend.
///
/// # Safety
/// `buf` is readable for `count` elements of `datatype` until the request is complete; `request` is
/// null or writable.
#[inline]
pub unsafe fn isend(
    mode: Mode,
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
    let start = |view: &View| pt2pt::isend(comm.raw(), mode, view, dest, tag);
    // SAFETY: as the caller promises.
    let handle = unsafe { with_message(buf, count, datatype, start)? };
    request.set(MPI_Request::from_raw(handle));
    Ok(())
}

/// MPI_Recv, MPI_Recv_c.
///
/// # Safety
/// `buf` is writable for `count` elements of `datatype`; `status` is null or writable.
#[inline]
pub unsafe fn mpi_recv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: as the caller promises; the receive is over when this returns.
    unsafe {
        let deliver = |got: &Status| put_status(status, got);
        let receive = |view: &View| pt2pt::recv(comm.raw(), view, source, tag, deliver);
        with_message(buf, count, datatype, receive)
    }
}

/// MPI_Irecv, MPI_Irecv_c.
///
/// # Safety
/// `buf` is writable for `count` elements of `datatype` until the request is complete; `request` is
/// null or writable.
pub unsafe fn mpi_irecv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let request = unsafe { Out::new(request, "request")? };
    let start = |view: &View| pt2pt::irecv(comm.raw(), view, source, tag);
    // SAFETY: as the caller promises.
    let handle = unsafe { with_message(buf, count, datatype, start)? };
    request.set(MPI_Request::from_raw(handle));
    Ok(())
}

/// (usual name, name in the send-receive calls) of the arguments of the send and of the receive.
pub(crate) const SEND: [(&str, &str); 4] =
    [("buf", "sendbuf"), ("count", "sendcount"), ("datatype", "sendtype"), ("tag", "sendtag")];
pub(crate) const RECEIVE: [(&str, &str); 4] =
    [("buf", "recvbuf"), ("count", "recvcount"), ("datatype", "recvtype"), ("tag", "recvtag")];

/// MPI_Sendrecv, MPI_Sendrecv_c.
///
/// # Safety
/// `sendbuf` is readable, `recvbuf` writable for their elements, and they are disjoint; `status` is
/// null or writable.
pub unsafe fn mpi_sendrecv(
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
    status: *mut MPI_Status,
) -> Result<()> {
    comm::with(comm.raw(), |comm| {
        // SAFETY: as the caller promises; both operations are over when this returns.
        let (out, into) = unsafe {
            (
                message(sendbuf, sendcount, sendtype).map_err(|e| e.renamed(&SEND))?,
                message(recvbuf, recvcount, recvtype).map_err(|e| e.renamed(&RECEIVE))?,
            )
        };
        let (got, error) = pt2pt::sendrecv(comm, &out, dest, sendtag, &into, source, recvtag)?;
        // SAFETY: as the caller promises.
        unsafe { put_status(status, &got) };
        error.map_or(Ok(()), Err)
    })?
}

/// MPI_Sendrecv_replace, MPI_Sendrecv_replace_c.
///
/// # Safety
/// `buf` is readable and writable for `count` elements of `datatype`; `status` is null or writable.
pub unsafe fn mpi_sendrecv_replace(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    comm::with(comm.raw(), |comm| {
        // SAFETY: as the caller promises; both operations are over when this returns.
        let view = unsafe { message(buf, count, datatype)? };
        let copy = pt2pt::packed_copy(&view)?;
        let (got, error) = pt2pt::sendrecv(comm, &copy, dest, sendtag, &view, source, recvtag)?;
        // SAFETY: as the caller promises.
        unsafe { put_status(status, &got) };
        error.map_or(Ok(()), Err)
    })?
}

/// MPI_Probe.
///
/// # Safety
/// `status` is null or writable.
pub unsafe fn mpi_probe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    let found = comm::with(comm.raw(), |comm| pt2pt::probe(comm, source, tag))??;
    // SAFETY: as the caller promises.
    unsafe { put_status(status, &found) };
    Ok(())
}

/// MPI_Iprobe.
///
/// # Safety
/// `found` and `status` are null or writable.
pub unsafe fn mpi_iprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    found: *mut c_int,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let to = unsafe { Out::new(found, "flag")? };
    let found = comm::with(comm.raw(), |comm| pt2pt::iprobe(comm, source, tag))??;
    to.set(flag(found.is_some()));
    if let Some(found) = found {
        // SAFETY: as the caller promises.
        unsafe { put_status(status, &found) };
    }
    Ok(())
}

/// MPI_Mprobe.
///
/// # Safety
/// `message` and `status` are null or writable.
pub unsafe fn mpi_mprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let message = unsafe { Out::new(message, "message")? };
    let (handle, found) = comm::with(comm.raw(), |comm| pt2pt::mprobe(comm, source, tag))??;
    message.set(MPI_Message::from_raw(handle));
    // SAFETY: as the caller promises.
    unsafe { put_status(status, &found) };
    Ok(())
}

/// MPI_Improbe.
///
/// # Safety
/// `found`, `message` and `status` are null or writable.
pub unsafe fn mpi_improbe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    found: *mut c_int,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (to, message) = unsafe { (Out::new(found, "flag")?, Out::new(message, "message")?) };
    let found = comm::with(comm.raw(), |comm| pt2pt::improbe(comm, source, tag))??;
    to.set(flag(found.is_some()));
    if let Some((handle, found)) = found {
        message.set(MPI_Message::from_raw(handle));
        // SAFETY: as the caller promises.
        unsafe { put_status(status, &found) };
    }
    Ok(())
}

/// Starts the receive of a matched message; its handle becomes `MPI_MESSAGE_NULL`.
///
/// # Safety
/// `buf` is writable for `count` elements of `datatype` until the request is complete; `message` is
/// null or valid.
unsafe fn start_matched(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
) -> Result<Request> {
    // SAFETY: as the caller promises.
    let (handle, view) =
        unsafe { (Out::new(message, "message")?, self::message(buf, count, datatype)?) };
    let started = pt2pt::imrecv(handle.get().raw(), &view)?;
    handle.set(MPI_Message::from_raw(c::MESSAGE_NULL));
    Ok(started)
}

/// MPI_Mrecv, MPI_Mrecv_c.
///
/// # Safety
/// `buf` is writable for `count` elements of `datatype`; `message` is null or valid; `status` is
/// null or writable.
pub unsafe fn mpi_mrecv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises; the receive is over when this returns.
    let outcome = unsafe { start_matched(buf, count, datatype, message)? }.wait()?;
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
/// `buf` is writable for `count` elements of `datatype` until the request is complete; `message` is
/// null or valid; `request` is null or writable.
pub unsafe fn mpi_imrecv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let request = unsafe { Out::new(request, "request")? };
    // SAFETY: as the caller promises.
    let started = unsafe { start_matched(buf, count, datatype, message)? };
    request.give(started)
}
