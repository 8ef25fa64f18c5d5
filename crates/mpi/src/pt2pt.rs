//! Point to point: from (communicator, rank, tag) to (job-wide rank, context, tag), and back (MPI
//! 5.0, chapter 3).

use mica_channel::memory::View;
use mica_protocol::{
    EngineState, Fault, MatchPattern, MessageId, Pending, ProbedMessage, ReceiveCompletion, SendId,
    StartedReceive, WaitKind,
};

use crate::comm::{self, Comm, Route};
use crate::constants as c;
use crate::error::{Error, Result};
use crate::handle::{HandleKind, HandleTable};
use crate::process;
use crate::request::{Request, SENT_HANDLE};
use crate::status::{Cancelled, Status, outcome, status_of};

/// Whose traffic: the program's, or that of collectives and the library itself. The two never match
/// each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plane {
    /// The program's messages.
    User,
    /// Messages inside a collective.
    Collective,
}

/// When a send completes (MPI 5.0, 3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// When the buffer is free.
    Standard,
    /// When the buffer is free and the receive has started.
    Synchronous,
    /// As standard; the program promises that the receive is posted.
    Ready,
}

/// The largest tag (attribute `MPI_TAG_UB`).
pub const TAG_UB: i32 = i32::MAX;

#[inline(always)]
fn context(comm: &Comm, plane: Plane) -> u64 {
    match plane {
        Plane::User => comm.context(),
        Plane::Collective => comm.context() | 1,
    }
}

#[cold]
fn bad_rank(comm: &Comm, argument: &'static str, rank: i32) -> Error {
    Error::argument(
        c::ERR_RANK,
        argument,
        rank,
        format!(
            "the communicator has ranks 0 to {}",
            comm.remote_or_local_size() - 1
        ),
    )
}

#[cold]
fn bad_tag(argument: &'static str, tag: i32) -> Error {
    Error::argument(
        c::ERR_TAG,
        argument,
        tag,
        format!("tags go from 0 to {TAG_UB}"),
    )
}

/// Job-wide rank of `dest`; `None` for `MPI_PROC_NULL`.
#[inline(always)]
pub(crate) fn destination(comm: &Comm, dest: i32, tag: i32) -> Result<Option<u32>> {
    if tag < 0 {
        return Err(bad_tag("tag", tag));
    }
    if (dest as usize) < comm.remote_or_local_size() && dest >= 0 {
        Ok(Some(comm.peer(dest as usize)))
    } else if dest == c::PROC_NULL {
        Ok(None)
    } else {
        Err(bad_rank(comm, "dest", dest))
    }
}

/// The match pattern of a receive or probe; `None` for `MPI_PROC_NULL`.
#[inline(always)]
pub(crate) fn pattern(
    comm: &Comm,
    plane: Plane,
    source: i32,
    tag: i32,
) -> Result<Option<MatchPattern>> {
    let tag = match tag {
        c::ANY_TAG => None,
        tag if tag >= 0 => Some(tag),
        _ => return Err(bad_tag("tag", tag)),
    };
    let source = if source >= 0 && (source as usize) < comm.remote_or_local_size() {
        Some(comm.peer(source as usize))
    } else if source == c::ANY_SOURCE {
        None
    } else if source == c::PROC_NULL {
        return Ok(None);
    } else {
        return Err(bad_rank(comm, "source", source));
    };
    Ok(Some(MatchPattern {
        context: context(comm, plane),
        source,
        tag,
    }))
}

/// [`send`] in standard mode to rank `dest` of a communicator that has a [`Route`]. `None`: this
/// path does not apply; nothing has happened, and [`send`] must be called instead.
#[inline(always)]
pub fn send_by_route(comm: u32, view: &View, dest: i32, tag: i32) -> Option<Result<()>> {
    let route = Route::of(comm)?;
    let peer = route.peer(dest).filter(|_| tag >= 0)?;
    let engine = process::engine().ok()?;
    Some(
        engine
            .send(peer, route.context(), tag, view, false)
            .map_err(Error::from),
    )
}

/// [`isend_handle`] in standard mode, as [`send_by_route`].
#[inline(always)]
pub fn isend_by_route(comm: u32, view: &View, dest: i32, tag: i32) -> Option<Result<u32>> {
    let route = Route::of(comm)?;
    let peer = route.peer(dest).filter(|_| tag >= 0)?;
    let engine = process::engine().ok()?;
    Some(
        match engine.enter(|state| state.send(peer, route.context(), tag, view, false)) {
            Ok(None) => Ok(SENT_HANDLE),
            Ok(Some(id)) => comm::with(comm, |comm| Request::send(comm, id).register()).flatten(),
            Err(fault) => Err(fault.into()),
        },
    )
}

/// [`recv_outcome`] from rank `source` of a communicator that has a [`Route`], with a tag or any,
/// as [`send_by_route`]. `deliver` gets the status, also that of a message that does not fit, for
/// which the result is the error.
#[inline(always)]
pub fn recv_by_route(
    comm: u32,
    view: &View,
    source: i32,
    tag: i32,
    deliver: impl Fn(&Status),
) -> Option<Result<()>> {
    let (route, pattern) = routed_pattern(comm, source, tag)?;
    let engine = process::engine().ok()?;
    let received = engine.receive(pattern, view);
    if let Ok(done) = &received
        && done.sent <= done.capacity
    {
        deliver(&routed_status(&route, done));
        return Some(Ok(()));
    }
    Some(recv_failed(comm, received, deliver))
}

#[cold]
fn recv_failed(
    comm: u32,
    received: std::result::Result<ReceiveCompletion, Fault>,
    deliver: impl Fn(&Status),
) -> Result<()> {
    let done = received?;
    let (status, error) = comm::with(comm, |comm| outcome(comm, &done))?;
    deliver(&status);
    error.map_or(Ok(()), Err)
}

/// [`irecv`] with the request's handle, as [`recv_by_route`].
#[inline(always)]
pub fn irecv_by_route(comm: u32, view: &View, source: i32, tag: i32) -> Option<Result<u32>> {
    let (route, pattern) = routed_pattern(comm, source, tag)?;
    let engine = process::engine().ok()?;
    Some(match engine.start_receive(pattern, view) {
        Ok(StartedReceive::Received(done)) => {
            Request::done(routed_status(&route, &done)).register()
        }
        Ok(StartedReceive::Posted(id)) => {
            comm::with(comm, |comm| Request::receive(comm, id).register()).flatten()
        }
        Err(fault) => Err(fault.into()),
    })
}

#[inline(always)]
fn routed_pattern(comm: u32, source: i32, tag: i32) -> Option<(Route, MatchPattern)> {
    let route = Route::of(comm)?;
    let source = route.peer(source)?;
    let tag = match tag {
        c::ANY_TAG => None,
        tag if tag >= 0 => Some(tag),
        _ => return None,
    };
    let pattern = MatchPattern {
        context: route.context(),
        source: Some(source),
        tag,
    };
    Some((route, pattern))
}

/// The status of a message that fits its buffer.
#[inline(always)]
fn routed_status(route: &Route, done: &ReceiveCompletion) -> Status {
    Status {
        source: route.rank_of(done.envelope.source),
        tag: done.envelope.tag,
        bytes: done.sent as u64,
        cancelled: Cancelled::No,
    }
}

/// Sends `view`. Blocks until the buffer is free (and, if synchronous, the receive has started).
///
/// # Errors
/// `MPI_ERR_RANK`, `MPI_ERR_TAG`; `MPI_ERR_NO_MEM`.
#[inline(always)]
pub fn send(comm: &Comm, plane: Plane, mode: Mode, view: &View, dest: i32, tag: i32) -> Result<()> {
    let Some(peer) = destination(comm, dest, tag)? else {
        return Ok(());
    };
    let sync = mode == Mode::Synchronous;
    process::engine()?.send(peer, context(comm, plane), tag, view, sync)?;
    Ok(())
}

/// Starts a send.
///
/// # Errors
/// `MPI_ERR_RANK`, `MPI_ERR_TAG`; `MPI_ERR_NO_MEM`.
pub fn isend(
    comm: &Comm,
    plane: Plane,
    mode: Mode,
    view: &View,
    dest: i32,
    tag: i32,
) -> Result<Request> {
    Ok(match start_send(comm, plane, mode, view, dest, tag)? {
        None => Request::SENT,
        Some(id) => Request::send(comm, id),
    })
}

/// As [`isend`], with the request's handle.
///
/// # Errors
/// As [`isend`].
#[inline]
pub fn isend_handle(
    comm: &Comm,
    plane: Plane,
    mode: Mode,
    view: &View,
    dest: i32,
    tag: i32,
) -> Result<u32> {
    match start_send(comm, plane, mode, view, dest, tag)? {
        None => Ok(SENT_HANDLE),
        Some(id) => Request::send(comm, id).register(),
    }
}

/// Starts a send; `None` when it is complete at once.
#[inline]
pub(crate) fn start_send(
    comm: &Comm,
    plane: Plane,
    mode: Mode,
    view: &View,
    dest: i32,
    tag: i32,
) -> Result<Option<SendId>> {
    let Some(peer) = destination(comm, dest, tag)? else {
        return Ok(None);
    };
    let sync = mode == Mode::Synchronous;
    let context = context(comm, plane);
    Ok(process::engine()?.enter(|state| state.send(peer, context, tag, view, sync))?)
}

/// Receives into `view`. Blocks.
///
/// # Errors
/// `MPI_ERR_RANK`, `MPI_ERR_TAG`; `MPI_ERR_TRUNCATE` when the message is longer than the view,
/// which holds its beginning then; `MPI_ERR_NO_MEM`.
#[inline(always)]
pub fn recv(comm: &Comm, plane: Plane, view: &View, source: i32, tag: i32) -> Result<Status> {
    let (status, error) = recv_outcome(comm, plane, view, source, tag)?;
    match error {
        None => Ok(status),
        Some(error) => Err(error),
    }
}

/// As [`recv`], with the status also of a message that did not fit.
///
/// # Errors
/// `MPI_ERR_RANK`, `MPI_ERR_TAG`; `MPI_ERR_NO_MEM`.
#[inline(always)]
pub fn recv_outcome(
    comm: &Comm,
    plane: Plane,
    view: &View,
    source: i32,
    tag: i32,
) -> Result<(Status, Option<Error>)> {
    let Some(pattern) = pattern(comm, plane, source, tag)? else {
        return Ok((Status::PROC_NULL, None));
    };
    let done = process::engine()?.receive(pattern, view)?;
    Ok(outcome(comm, &done))
}

/// Starts a receive.
///
/// # Errors
/// `MPI_ERR_RANK`, `MPI_ERR_TAG`; `MPI_ERR_NO_MEM`.
pub fn irecv(comm: &Comm, plane: Plane, view: &View, source: i32, tag: i32) -> Result<Request> {
    let Some(pattern) = pattern(comm, plane, source, tag)? else {
        return Ok(Request::done(Status::PROC_NULL));
    };
    Ok(match process::engine()?.start_receive(pattern, view)? {
        StartedReceive::Received(done) => Request::done(status_of(comm, &done.envelope, done.sent)),
        StartedReceive::Posted(id) => Request::receive(comm, id),
    })
}

/// Waits for a message and returns its status; the message stays. Blocks.
///
/// # Errors
/// `MPI_ERR_RANK`, `MPI_ERR_TAG`; `MPI_ERR_NO_MEM`.
pub fn probe(comm: &Comm, source: i32, tag: i32) -> Result<Status> {
    let Some(pattern) = pattern(comm, Plane::User, source, tag)? else {
        return Ok(Status::PROC_NULL);
    };
    let found = process::engine()?.probe(pattern, |state| state.probe(&pattern))?;
    Ok(status_of(comm, &found.envelope, found.bytes))
}

/// The status of a message that has arrived, if one has; it stays.
///
/// # Errors
/// `MPI_ERR_RANK`, `MPI_ERR_TAG`; `MPI_ERR_NO_MEM`.
pub fn iprobe(comm: &Comm, source: i32, tag: i32) -> Result<Option<Status>> {
    let poll = process::begin_poll();
    let Some(pattern) = pattern(comm, Plane::User, source, tag)? else {
        return Ok(Some(Status::PROC_NULL));
    };
    let question = |state: &mut EngineState, arrived: &mut bool| {
        *arrived = state.progress()?;
        Ok(state.probe(&pattern))
    };
    let found = poll?.try_once(question, |_, list| list.add(probe_of(&pattern)))?;
    Ok(found.map(|a| status_of(comm, &a.envelope, a.bytes)))
}

/// The description of a probe in hang reports.
fn probe_of(pattern: &MatchPattern) -> Pending {
    Pending {
        peer: pattern.source,
        tag: pattern.tag,
        context: Some(pattern.context),
        ..Pending::of(WaitKind::Probe)
    }
}

/// A message that a matched probe has taken (MPI 5.0, 3.8.2).
#[derive(Debug, Clone)]
struct MatchedMessage {
    comm: Comm,
    id: MessageId,
}

static MESSAGES: HandleTable<MatchedMessage> = HandleTable::new(HandleKind::Message);

/// Waits for a message and takes it out of the queue: its handle for `MPI_Mrecv`, and its status.
/// Blocks.
///
/// # Errors
/// `MPI_ERR_RANK`, `MPI_ERR_TAG`; `MPI_ERR_NO_MEM`.
pub fn mprobe(comm: &Comm, source: i32, tag: i32) -> Result<(u32, Status)> {
    let Some(pattern) = pattern(comm, Plane::User, source, tag)? else {
        return Ok((c::MESSAGE_NO_PROC, Status::PROC_NULL));
    };
    let (id, found) = process::engine()?.probe(pattern, |state| state.probe_matched(&pattern))?;
    let handle = MESSAGES.insert(MatchedMessage {
        comm: comm.clone(),
        id,
    })?;
    Ok((handle, status_of(comm, &found.envelope, found.bytes)))
}

/// As [`mprobe`], if a message has arrived.
///
/// # Errors
/// `MPI_ERR_RANK`, `MPI_ERR_TAG`; `MPI_ERR_NO_MEM`.
pub fn improbe(comm: &Comm, source: i32, tag: i32) -> Result<Option<(u32, Status)>> {
    let poll = process::begin_poll();
    let Some(pattern) = pattern(comm, Plane::User, source, tag)? else {
        return Ok(Some((c::MESSAGE_NO_PROC, Status::PROC_NULL)));
    };
    let question = |state: &mut EngineState, arrived: &mut bool| {
        *arrived = state.progress()?;
        Ok(state.probe_matched(&pattern))
    };
    let found = poll?.try_once(question, |_, list| list.add(probe_of(&pattern)))?;
    let message = |(id, a): (_, ProbedMessage)| {
        let handle = MESSAGES.insert(MatchedMessage {
            comm: comm.clone(),
            id,
        })?;
        Ok((handle, status_of(comm, &a.envelope, a.bytes)))
    };
    found.map(message).transpose()
}

/// Starts the receive of a message that a matched probe has taken; its handle is used up.
///
/// # Errors
/// `MPI_ERR_REQUEST` when the handle names no message; `MPI_ERR_NO_MEM`.
pub fn imrecv(message: u32, view: &View) -> Result<Request> {
    if message == c::MESSAGE_NO_PROC {
        return Ok(Request::done(Status::PROC_NULL));
    }
    let message = MESSAGES.remove(message).ok_or_else(|| {
        let reason = "no matched probe has returned this message, or it was received already";
        Error::argument(c::ERR_REQUEST, "message", format!("{message:#x}"), reason)
    })?;
    let id = process::engine()?.enter(|state| state.receive_probed(message.id, view))?;
    Ok(Request::receive(&message.comm, id))
}

/// Sends `out` and receives into `into` concurrently. Blocks until both are done.
///
/// # Errors
/// As [`isend`] and [`recv_outcome`].
// MPI's own argument list.
pub fn sendrecv(
    comm: &Comm,
    out: &View,
    dest: i32,
    sendtag: i32,
    into: &View,
    source: i32,
    recvtag: i32,
) -> Result<(Status, Option<Error>)> {
    // The receive's arguments are checked before anything is sent.
    pattern(comm, Plane::User, source, recvtag).map_err(|e| e.renamed(&[("tag", "recvtag")]))?;
    let sent = start_send(comm, Plane::User, Mode::Standard, out, dest, sendtag)
        .map_err(|e| e.renamed(&[("tag", "sendtag")]))?;
    let received = recv_outcome(comm, Plane::User, into, source, recvtag);
    if let Some(id) = sent {
        // Also if the receive failed: the buffer is in use until then.
        Request::send(comm, id).wait()?;
    }
    received
}

/// A packed copy of a message, in memory of the library.
///
/// # Errors
/// `MPI_ERR_NO_MEM`.
pub fn packed_copy(view: &View) -> Result<View> {
    use mica_channel::memory::{Block, Shape};
    let copy = Block::allocate(view.len())?.view(Shape::Contiguous { bytes: view.len() });
    copy.copy_from(view);
    Ok(copy)
}
