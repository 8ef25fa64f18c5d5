//! The fast path that completes most requests: waiting for one send or receive that succeeds, and
//! testing one that is incomplete.

use mica_protocol::{EngineState, ReceiveCompletion, RecvId, SendId, WaitList};

use super::{REQUESTS, RequestWork, is_shared, list_handles, shared_status};
use crate::error::Result;
use crate::handle::Then;
use crate::process;
use crate::status::{self, Status};
use mica_collective::members::status_of;

/// An element of the program's array of requests; a handle is set to `MPI_REQUEST_NULL` as soon as
/// its completion is taken.
pub trait RequestElement: Copy + Into<u32> + From<u32> {}

impl<H: Copy + Into<u32> + From<u32>> RequestElement for H {}

/// Blocks until a send or receive is complete, and returns the status; the handle is used up.
/// `None` for requests of other kinds and `MPI_REQUEST_NULL`, for receives that fail, and for
/// handles that name no request: nothing has happened then, and [`wait`](super::wait) reports the
/// error.
///
/// # Errors
/// `MPI_ERR_NO_MEM`.
#[inline]
pub fn wait_plain(handle: u32) -> Result<Option<Status>> {
    wait_plain_among(handle, std::iter::empty)
}

/// As [`wait_plain`], where the program also waits for the requests whose handles `others` yields.
///
/// # Errors
/// As [`wait_plain`].
#[inline]
pub fn wait_plain_among<I: Iterator<Item = u32>>(
    handle: u32,
    others: impl Fn() -> I,
) -> Result<Option<Status>> {
    if is_shared(handle) {
        return Ok(Some(shared_status(handle)));
    }
    wait_simple(handle, others)
}

/// What [`wait_simple`] can wait for.
enum Simple {
    Done(Status),
    Send(SendId),
    Receive(RecvId),
    Other,
}

fn wait_simple<I: Iterator<Item = u32>>(
    handle: u32,
    others: impl Fn() -> I,
) -> Result<Option<Status>> {
    // A complete request is used up at once.
    let found = REQUESTS.look_then(handle, |request| match &request.work {
        RequestWork::Done(status) => (Simple::Done(*status), Then::Remove),
        RequestWork::Send(id) => (Simple::Send(*id), Then::Keep),
        RequestWork::Receive(id) => (Simple::Receive(*id), Then::Keep),
        _ => (Simple::Other, Then::Keep),
    });
    let simple = match found {
        Some(Simple::Done(status)) => return Ok(Some(status)),
        Some(simple) => simple,
        None => return Ok(None),
    };
    let engine = process::engine()?;
    let waiting = |state: &EngineState, list: &mut WaitList| {
        list_handles(std::iter::once(handle).chain(others()), state, list);
    };
    match simple {
        Simple::Done(_) | Simple::Other => Ok(None),
        Simple::Send(id) => {
            let end = engine.drive(waiting, |state| state.take_send(id))?;
            // Of the threads that wait for it, the one that frees the handle has completed it.
            Ok(REQUESTS.remove(handle).map(|_| status::of_send(end)))
        }
        Simple::Receive(id) => {
            let fits = |done: &ReceiveCompletion| !done.cancelled && done.sent <= done.capacity;
            let done = engine.drive(waiting, |state| {
                let Some(done) = state.received(id) else {
                    // Gone: another thread has completed it.
                    return (!state.has_receive(id)).then_some(None);
                };
                if !fits(&done) {
                    return Some(None);
                }
                state.take_received(id);
                Some(Some(done))
            })?;
            let Some(done) = done else {
                return Ok(None);
            };
            let request = REQUESTS.remove(handle);
            let comm = request.as_ref().and_then(|request| request.comm.as_ref());
            Ok(comm.map(|comm| status_of(comm, &done.envelope, done.sent)))
        }
    }
}

/// Tests a send or receive, and makes progress: true if it is incomplete. False for everything
/// else: then nothing but progress has happened.
///
/// # Errors
/// `MPI_ERR_NO_MEM`.
#[inline(never)]
pub(super) fn is_incomplete(handle: u32) -> Result<bool> {
    // Without room for a status, unlike `Simple`: it fits two registers.
    enum Tested {
        Send(SendId),
        Receive(RecvId),
    }
    let tested = REQUESTS.look(handle, |request| match &request.work {
        RequestWork::Send(id) => Some(Tested::Send(*id)),
        RequestWork::Receive(id) => Some(Tested::Receive(*id)),
        _ => None,
    });
    match tested {
        Some(Some(Tested::Send(id))) => {
            ask_once(|state| state.is_sent(id), |state, list| list.add(state.pending_send(id)))
        }
        Some(Some(Tested::Receive(id))) => {
            let about =
                |state: &EngineState, list: &mut WaitList| list.add(state.pending_receive(id));
            ask_once(|state| state.is_received(id), about)
        }
        _ => Ok(false),
    }
}

/// As [`is_incomplete`], within the engine and without progress.
#[inline]
pub(super) fn is_known_incomplete(handle: u32, state: &EngineState) -> bool {
    let is_complete = REQUESTS.look(handle, |request| match &request.work {
        RequestWork::Send(id) => state.is_sent(*id),
        RequestWork::Receive(id) => state.is_received(*id),
        _ => true,
    });
    is_complete == Some(false)
}

/// Tests several requests, and makes progress: true if one is a send or receive that is
/// incomplete. Looks no further than to the first of these, and allocates nothing.
#[inline(never)]
pub(super) fn is_one_incomplete<H: RequestElement>(requests: &[H]) -> Result<bool> {
    let handles = || requests.iter().map(|&request| request.into());
    let are_complete = |state: &EngineState| !handles().any(|h| is_known_incomplete(h, state));
    let about = |state: &EngineState, list: &mut WaitList| list_handles(handles(), state, list);
    ask_once(are_complete, about)
}

/// Whether an operation is not complete after one round of progress: apart for sends and receives,
/// since it asks twice.
#[inline(always)]
fn ask_once(
    is_complete: impl Fn(&EngineState) -> bool,
    about: impl Fn(&EngineState, &mut WaitList),
) -> Result<bool> {
    let question = |state: &mut EngineState, arrived: &mut bool| {
        if is_complete(state) {
            return Ok(Some(()));
        }
        *arrived = state.progress()?;
        Ok(is_complete(state).then_some(()))
    };
    let complete = process::begin_poll()?.try_once(question, about)?;
    Ok(complete.is_none())
}
