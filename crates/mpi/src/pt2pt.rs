//! Point to point: from (communicator, rank, tag) to (job-wide rank, context, tag), and back (MPI
//! 5.0, chapter 3).

use mica_memory::View;
use mica_protocol::{
    EngineState, MatchPattern, MessageId, Pending, ProbedMessage, ReceiveCompletion,
    SendCompletion, SendId, StartedReceive, WaitKind,
};

use crate::comm::{self, Comm, Route};
use crate::constants as c;
use crate::error::{Error, Result};
use crate::handle::{HandleKind, HandleTable};
use crate::process;
use crate::request::{PROC_NULL_HANDLE, Request, SENT_HANDLE};
use crate::status::{Cancelled, Status};
use mica_collective::members::{outcome, status_of};

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

impl Mode {
    #[inline(always)]
    fn completion(self) -> SendCompletion {
        match self {
            Mode::Synchronous => SendCompletion::Matched,
            Mode::Standard | Mode::Ready => SendCompletion::Local,
        }
    }
}

/// The largest tag (attribute `MPI_TAG_UB`).
pub const TAG_UB: i32 = i32::MAX;

#[cold]
fn bad_rank(comm: &Comm, argument: &'static str, rank: i32) -> Error {
    Error::argument(
        c::ERR_RANK,
        argument,
        rank,
        format!("the communicator has ranks 0 to {}", comm.remote_or_local_size() - 1),
    )
}

#[cold]
fn bad_tag(argument: &'static str, tag: i32) -> Error {
    Error::argument(c::ERR_TAG, argument, tag, format!("tags go from 0 to {TAG_UB}"))
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
pub(crate) fn pattern(comm: &Comm, source: i32, tag: i32) -> Result<Option<MatchPattern>> {
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
    Ok(Some(MatchPattern { context: comm.context(), source, tag }))
}

/// Where a message of the program goes.
#[derive(Debug, Clone, Copy)]
struct Target {
    /// Job-wide rank.
    peer: u32,
    context: u64,
}

/// Where the message `view` to rank `dest` of the communicator `comm` goes; `None` for
/// `MPI_PROC_NULL`.
#[inline(always)]
fn target(comm: u32, view: &View, dest: i32, tag: i32) -> Result<Option<Target>> {
    if let Some(route) = Route::of(comm)
        && let Some(peer) = route.peer(dest)
        && tag >= 0
    {
        let context = route.context();
        return Ok(Some(Target { peer, context }));
    }
    unrouted_target(comm, view, dest, tag)
}

#[cold]
#[inline(never)]
fn unrouted_target(comm: u32, view: &View, dest: i32, tag: i32) -> Result<Option<Target>> {
    comm::with(comm, |comm| {
        let peer = destination(comm, dest, tag)?;
        let context = comm.context();
        if peer.is_some() {
            comm.count_sent(view.len());
        }
        Ok(peer.map(|peer| Target { peer, context }))
    })?
}

/// MPI_Send and its kin. Blocks until the buffer is free (and, if synchronous, the receive has
/// started).
///
/// # Errors
/// `MPI_ERR_COMM`, `MPI_ERR_RANK`, `MPI_ERR_TAG`; `MPI_ERR_NO_MEM`.
#[inline(always)]
pub fn send(comm: u32, mode: Mode, view: &View, dest: i32, tag: i32) -> Result<()> {
    let Some(to) = target(comm, view, dest, tag)? else {
        return Ok(());
    };
    Ok(process::engine()?.send(to.peer, to.context, tag, view, mode.completion())?)
}

/// MPI_Isend and its kin: the handle of the request.
///
/// # Errors
/// As [`send`].
#[inline(always)]
pub fn isend(comm: u32, mode: Mode, view: &View, dest: i32, tag: i32) -> Result<u32> {
    let Some(to) = target(comm, view, dest, tag)? else {
        return Ok(SENT_HANDLE);
    };
    match process::engine()?
        .enter(|state| state.send(to.peer, to.context, tag, view, mode.completion()))?
    {
        None => Ok(SENT_HANDLE),
        Some(id) => comm::with(comm, |comm| Request::send(comm, id).register())?,
    }
}

/// The messages of the program that a receive takes.
#[derive(Debug)]
struct ReceiveSource {
    pattern: MatchPattern,
    /// Translates the rank of the sender, which is known to be a member of the communicator.
    route: Option<Route>,
}

/// The messages from rank `source` of a communicator that has a route.
#[inline(always)]
fn routed_source(comm: u32, source: i32, tag: i32) -> Option<ReceiveSource> {
    let route = Route::of(comm)?;
    let source = Some(route.peer(source)?);
    let tag = match tag {
        c::ANY_TAG => None,
        tag if tag >= 0 => Some(tag),
        _ => return None,
    };
    let context = route.context();
    Some(ReceiveSource { pattern: MatchPattern { context, source, tag }, route: Some(route) })
}

/// The messages from rank `source` of any communicator, or from any rank; `None` for
/// `MPI_PROC_NULL`.
fn unrouted_source(comm: u32, source: i32, tag: i32) -> Result<Option<ReceiveSource>> {
    let pattern = comm::with(comm, |comm| pattern(comm, source, tag))??;
    let route = None;
    Ok(pattern.map(|pattern| ReceiveSource { pattern, route }))
}

/// MPI_Recv. `deliver` gets the status, also that of a message that does not fit, for which the
/// result is the error. Blocks.
///
/// # Errors
/// `MPI_ERR_COMM`, `MPI_ERR_RANK`, `MPI_ERR_TAG`; `MPI_ERR_TRUNCATE`; `MPI_ERR_NO_MEM`.
#[inline(always)]
pub fn recv(
    comm: u32,
    view: &View,
    source: i32,
    tag: i32,
    deliver: impl Fn(&Status),
) -> Result<()> {
    match routed_source(comm, source, tag) {
        Some(source) => source.receive(comm, view, deliver),
        None => recv_unrouted(comm, view, source, tag, deliver),
    }
}

#[cold]
#[inline(never)]
fn recv_unrouted(
    comm: u32,
    view: &View,
    source: i32,
    tag: i32,
    deliver: impl Fn(&Status),
) -> Result<()> {
    match unrouted_source(comm, source, tag)? {
        Some(source) => source.receive(comm, view, deliver),
        None => {
            deliver(&Status::PROC_NULL);
            Ok(())
        }
    }
}

/// MPI_Irecv: the handle of the request.
///
/// # Errors
/// As [`recv`], when the message has arrived.
#[inline(always)]
pub fn irecv(comm: u32, view: &View, source: i32, tag: i32) -> Result<u32> {
    match routed_source(comm, source, tag) {
        Some(source) => source.start_receive(comm, view),
        None => irecv_unrouted(comm, view, source, tag),
    }
}

#[cold]
#[inline(never)]
fn irecv_unrouted(comm: u32, view: &View, source: i32, tag: i32) -> Result<u32> {
    match unrouted_source(comm, source, tag)? {
        Some(source) => source.start_receive(comm, view),
        None => Ok(PROC_NULL_HANDLE),
    }
}

impl ReceiveSource {
    /// Receives into `view`; see [`recv`].
    // Once compiled for routes, whose source is known to be one rank, and once for all else.
    #[inline(always)]
    fn receive(&self, comm: u32, view: &View, deliver: impl Fn(&Status)) -> Result<()> {
        let received = process::engine()?.receive(self.pattern, view);
        if let Ok(done) = &received
            && let Some(status) = self.status_if_it_fits(done)
        {
            deliver(&status);
            return Ok(());
        }
        let (status, error) = unrouted_outcome(comm, &received?)?;
        deliver(&status);
        error.map_or(Ok(()), Err)
    }

    /// Starts a receive into `view`; see [`irecv`].
    #[inline(always)]
    fn start_receive(&self, comm: u32, view: &View) -> Result<u32> {
        match process::engine()?.start_receive(self.pattern, view)? {
            StartedReceive::Received(done) => match self.status_if_it_fits(&done) {
                Some(status) => Request::done(status).register(),
                None => Request::done(unrouted_outcome(comm, &done)?.0).register(),
            },
            StartedReceive::Posted(id) => {
                comm::with(comm, |comm| Request::receive(comm, id).register())?
            }
        }
    }

    /// The status of a received message, where the sender's rank is translated by a route.
    #[inline(always)]
    fn status_if_it_fits(&self, done: &ReceiveCompletion) -> Option<Status> {
        let route = self.route.as_ref().filter(|_| done.sent <= done.capacity)?;
        Some(Status {
            source: route.rank_of(done.envelope.source),
            tag: done.envelope.tag,
            bytes: done.sent as u64,
            cancelled: Cancelled::No,
        })
    }
}

/// The status of a message that has been received on `comm`, and the error if it did not fit.
#[cold]
#[inline(never)]
fn unrouted_outcome(comm: u32, done: &ReceiveCompletion) -> Result<(Status, Option<Error>)> {
    comm::with(comm, |comm| outcome(comm, done))
}

/// As [`isend`], to a member of `comm`.
///
/// # Errors
/// `MPI_ERR_RANK`, `MPI_ERR_TAG`; `MPI_ERR_NO_MEM`.
pub fn isend_on(comm: &Comm, mode: Mode, view: &View, dest: i32, tag: i32) -> Result<Request> {
    Ok(match start_send(comm, mode, view, dest, tag)? {
        None => Request::SENT,
        Some(id) => Request::send(comm, id),
    })
}

/// Starts a send; `None` when it is complete at once.
#[inline]
pub(crate) fn start_send(
    comm: &Comm,
    mode: Mode,
    view: &View,
    dest: i32,
    tag: i32,
) -> Result<Option<SendId>> {
    let Some(peer) = destination(comm, dest, tag)? else {
        return Ok(None);
    };
    comm.count_sent(view.len());
    let context = comm.context();
    Ok(process::engine()?.enter(|state| state.send(peer, context, tag, view, mode.completion()))?)
}

/// As [`recv`], with the status also of a message that did not fit. No message has been received
/// when it fails.
fn recv_outcome(
    comm: &Comm,
    view: &View,
    source: i32,
    tag: i32,
) -> Result<(Status, Option<Error>)> {
    let Some(pattern) = pattern(comm, source, tag)? else {
        return Ok((Status::PROC_NULL, None));
    };
    let done = process::engine()?.receive(pattern, view)?;
    Ok(outcome(comm, &done))
}

/// As [`irecv`], from a member of `comm`.
///
/// # Errors
/// `MPI_ERR_RANK`, `MPI_ERR_TAG`; `MPI_ERR_NO_MEM`.
pub fn irecv_on(comm: &Comm, view: &View, source: i32, tag: i32) -> Result<Request> {
    let Some(pattern) = pattern(comm, source, tag)? else {
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
    let Some(pattern) = pattern(comm, source, tag)? else {
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
    let Some(pattern) = pattern(comm, source, tag)? else {
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
    let Some(pattern) = pattern(comm, source, tag)? else {
        return Ok((c::MESSAGE_NO_PROC, Status::PROC_NULL));
    };
    let (id, found) = process::engine()?.probe(pattern, |state| state.probe_matched(&pattern))?;
    let handle = MESSAGES.insert(MatchedMessage { comm: comm.clone(), id })?;
    Ok((handle, status_of(comm, &found.envelope, found.bytes)))
}

/// As [`mprobe`], if a message has arrived.
///
/// # Errors
/// `MPI_ERR_RANK`, `MPI_ERR_TAG`; `MPI_ERR_NO_MEM`.
pub fn improbe(comm: &Comm, source: i32, tag: i32) -> Result<Option<(u32, Status)>> {
    let poll = process::begin_poll();
    let Some(pattern) = pattern(comm, source, tag)? else {
        return Ok(Some((c::MESSAGE_NO_PROC, Status::PROC_NULL)));
    };
    let question = |state: &mut EngineState, arrived: &mut bool| {
        *arrived = state.progress()?;
        Ok(state.probe_matched(&pattern))
    };
    let found = poll?.try_once(question, |_, list| list.add(probe_of(&pattern)))?;
    let message = |(id, a): (_, ProbedMessage)| {
        let handle = MESSAGES.insert(MatchedMessage { comm: comm.clone(), id })?;
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
/// As [`isend_on`] and [`recv`].
#[expect(clippy::too_many_arguments, reason = "MPI's own argument list")]
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
    pattern(comm, source, recvtag).map_err(|e| e.renamed(&[("tag", "recvtag")]))?;
    let sent = start_send(comm, Mode::Standard, out, dest, sendtag)
        .map_err(|e| e.renamed(&[("tag", "sendtag")]))?;
    let received = recv_outcome(comm, into, source, recvtag);
    // Also if the receive failed: the buffer is in use until then.
    if let Some(id) = sent {
        process::engine()?.finish_send(id)?;
    }
    received
}

/// A packed copy of a message, in memory of the library.
///
/// # Errors
/// `MPI_ERR_NO_MEM`.
pub fn packed_copy(view: &View) -> Result<View> {
    use mica_memory::{Block, Shape};
    let copy = Block::allocate(view.len())?.view(Shape::Contiguous { bytes: view.len() });
    copy.copy_from(view);
    Ok(copy)
}
