//! Requests and their completion: the wait and test families (MPI 5.0, 3.7.3 to 3.7.6).

use mica_protocol::{Fault, RecvId, SendId, State, WaitKind, Waiting};

use crate::comm::Comm;
use crate::constants as c;
use crate::error::{Error, Result};
use crate::handle::{self, Table};
use crate::process;
use crate::pt2pt::{self, Status};

/// An operation under way.
#[derive(Debug, Clone)]
pub struct Request {
    comm: Option<Comm>,
    work: Work,
}

#[derive(Debug, Clone, Copy)]
enum Work {
    /// A send that was complete when its call returned.
    Sent,
    Send(SendId),
    Receive(RecvId),
    Done(Status),
}

/// How a request ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its status.
    pub status: Status,
    /// Its error, if it failed.
    pub error: Option<Error>,
    /// Communicator of the request (0: none): where the error is raised.
    pub comm: u32,
}

impl Outcome {
    const EMPTY: Outcome = Outcome {
        status: Status::EMPTY,
        error: None,
        comm: 0,
    };
}

static REQUESTS: Table<Request> = Table::new(handle::Kind::Request);

/// The handle that all sends share which were complete when their call returned: nothing needs to be remembered of them.
const SENT_HANDLE: u32 = handle::Kind::Request.reserved_handle();

impl Request {
    /// A send that is complete already.
    pub const SENT: Request = Request {
        comm: None,
        work: Work::Sent,
    };

    pub(crate) fn send(comm: &Comm, id: SendId) -> Request {
        Request {
            comm: Some(comm.clone()),
            work: Work::Send(id),
        }
    }

    pub(crate) fn receive(comm: &Comm, id: RecvId) -> Request {
        Request {
            comm: Some(comm.clone()),
            work: Work::Receive(id),
        }
    }

    pub(crate) fn done(comm: &Comm, status: Status) -> Request {
        Request {
            comm: Some(comm.clone()),
            work: Work::Done(status),
        }
    }

    /// A handle for the request, to be completed or freed.
    pub fn register(self) -> u32 {
        match self.work {
            Work::Sent => SENT_HANDLE,
            _ => REQUESTS.insert(self),
        }
    }

    /// The request of a handle; `None` for `MPI_REQUEST_NULL`.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST`.
    fn resolve(handle: u32) -> Result<Option<Request>> {
        match handle {
            c::REQUEST_NULL => Ok(None),
            SENT_HANDLE => Ok(Some(Request::SENT)),
            _ => REQUESTS.get(handle).map(Some).ok_or_else(|| {
                let reason = "this is no request, or it was completed or freed already";
                Error::argument(c::ERR_REQUEST, "request", format!("{handle:#x}"), reason)
            }),
        }
    }

    /// Its end, if it has come. `take`: the engine forgets the operation then.
    fn poll(&self, state: &mut State, take: bool) -> Option<Outcome> {
        let comm = self.comm.as_ref();
        let (status, error) = match self.work {
            Work::Sent => (Status::EMPTY, None),
            Work::Done(status) => (status, None),
            Work::Send(id) => {
                let sent = if take {
                    state.take_send(id)
                } else {
                    state.is_sent(id)
                };
                if !sent {
                    return None;
                }
                (Status::EMPTY, None)
            }
            Work::Receive(id) => {
                let done = if take {
                    state.take_received(id)
                } else {
                    state.received(id)
                }?;
                pt2pt::outcome(comm.expect("a receive has a communicator"), &done)
            }
        };
        Some(Outcome {
            status,
            error,
            comm: comm.map_or(0, Comm::handle),
        })
    }

    fn waiting(&self, state: &State) -> Waiting {
        let unexpected = state.unexpected_messages() as u32;
        let (kind, peer, tag, context) = match self.work {
            Work::Send(id) => {
                let (peer, context, tag) = state.send_target(id);
                (WaitKind::Send, peer as i32, tag, context)
            }
            Work::Receive(id) => {
                let p = state.receive_pattern(id);
                (
                    WaitKind::Receive,
                    p.source.map_or(-1, |s| s as i32),
                    p.tag.unwrap_or(-1),
                    p.context,
                )
            }
            Work::Sent | Work::Done(_) => (WaitKind::Requests, -1, -1, 0),
        };
        Waiting {
            kind,
            peer,
            tag,
            context,
            unexpected,
        }
    }

    /// Waits for its end without a handle. Blocks.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when progress fails.
    pub fn wait(&self) -> Result<Outcome> {
        if let Work::Sent = self.work {
            return Ok(Outcome::EMPTY);
        }
        let engine = process::engine()?;
        Ok(engine.drive(|state| self.waiting(state), |state| self.poll(state, true))?)
    }
}

fn forget(handle: u32) {
    if handle != SENT_HANDLE {
        REQUESTS.remove(handle);
    }
}

/// `MPI_Wait`: blocks until the request is complete; the handle is used up.
///
/// # Errors
/// `MPI_ERR_REQUEST`; `MPI_ERR_NO_MEM`. The operation's own error is in the outcome.
pub fn wait(handle: u32) -> Result<Outcome> {
    let Some(request) = Request::resolve(handle)? else {
        return Ok(Outcome::EMPTY);
    };
    let outcome = request.wait()?;
    forget(handle);
    Ok(outcome)
}

/// `MPI_Test`: the outcome if the request is complete; the handle is used up then.
///
/// # Errors
/// As [`wait`].
pub fn test(handle: u32) -> Result<Option<Outcome>> {
    let outcome = get(handle, true)?;
    if outcome.is_some() && handle != c::REQUEST_NULL {
        forget(handle);
    }
    Ok(outcome)
}

/// `MPI_Request_get_status`: as [`test`], but the request stays.
///
/// # Errors
/// As [`wait`].
pub fn status(handle: u32) -> Result<Option<Outcome>> {
    get(handle, false)
}

fn get(handle: u32, take: bool) -> Result<Option<Outcome>> {
    let Some(request) = Request::resolve(handle)? else {
        return Ok(Some(Outcome::EMPTY));
    };
    Ok(process::engine()?.enter(|state| {
        if let Some(outcome) = request.poll(state, take) {
            return Ok::<_, Fault>(Some(outcome));
        }
        state.progress()?;
        Ok(request.poll(state, take))
    })?)
}

fn resolve_all(handles: &[u32]) -> Result<Vec<Option<Request>>> {
    handles
        .iter()
        .map(|&handle| Request::resolve(handle))
        .collect()
}

/// `MPI_Waitall`: blocks until all requests are complete; all handles are used up. One outcome for each.
///
/// # Errors
/// As [`wait`].
pub fn wait_all(handles: &[u32]) -> Result<Vec<Outcome>> {
    let requests = resolve_all(handles)?;
    let mut outcomes = Vec::with_capacity(handles.len());
    for (request, &handle) in requests.iter().zip(handles) {
        outcomes.push(match request {
            None => Outcome::EMPTY,
            Some(request) => {
                let outcome = request.wait()?;
                forget(handle);
                outcome
            }
        });
    }
    Ok(outcomes)
}

/// `MPI_Testall`: the outcomes if all requests are complete; all handles are used up then.
///
/// # Errors
/// As [`wait`].
pub fn test_all(handles: &[u32]) -> Result<Option<Vec<Outcome>>> {
    let requests = resolve_all(handles)?;
    let outcomes = process::engine()?.enter(|state| {
        state.progress()?;
        let all = |state: &mut State, take: bool| -> Option<Vec<Outcome>> {
            requests
                .iter()
                .map(|r| {
                    r.as_ref()
                        .map_or(Some(Outcome::EMPTY), |r| r.poll(state, take))
                })
                .collect()
        };
        Ok::<_, Fault>(match all(state, false) {
            None => None,
            Some(_) => all(state, true),
        })
    })?;
    if outcomes.is_some() {
        handles
            .iter()
            .filter(|&&h| h != c::REQUEST_NULL)
            .for_each(|&h| forget(h));
    }
    Ok(outcomes)
}

/// The first complete request, in turn.
fn any(requests: &[Option<Request>], state: &mut State) -> Option<(usize, Outcome)> {
    requests
        .iter()
        .enumerate()
        .find_map(|(i, r)| Some((i, r.as_ref()?.poll(state, true)?)))
}

/// All requests that are complete; `None` if none is.
fn some(requests: &[Option<Request>], state: &mut State) -> Option<Vec<(usize, Outcome)>> {
    let done: Vec<(usize, Outcome)> = requests
        .iter()
        .enumerate()
        .filter_map(|(i, r)| Some((i, r.as_ref()?.poll(state, true)?)))
        .collect();
    (!done.is_empty()).then_some(done)
}

fn drive_any<R>(
    requests: &[Option<Request>],
    pick: impl Fn(&[Option<Request>], &mut State) -> Option<R>,
) -> Result<Option<R>> {
    let Some(first) = requests.iter().flatten().next() else {
        return Ok(None);
    };
    let engine = process::engine()?;
    let waiting = |state: &State| Waiting {
        kind: WaitKind::Requests,
        ..first.waiting(state)
    };
    Ok(Some(engine.drive(waiting, |state| pick(requests, state))?))
}

fn test_any_with<R>(
    requests: &[Option<Request>],
    pick: impl Fn(&[Option<Request>], &mut State) -> Option<R>,
) -> Result<Option<R>> {
    Ok(process::engine()?.enter(|state| {
        state.progress()?;
        Ok::<_, Fault>(pick(requests, state))
    })?)
}

/// What a call on several requests found: nothing to wait for, nothing complete yet, or what completed.
#[derive(Debug, Clone)]
pub enum Found<T> {
    /// All handles are `MPI_REQUEST_NULL`.
    NoneActive,
    /// Nothing is complete.
    NotYet,
    /// This is, and its handles are used up.
    Complete(T),
}

fn found_one(handles: &[u32], found: Option<(usize, Outcome)>) -> Found<(usize, Outcome)> {
    match found {
        None => Found::NotYet,
        Some((i, outcome)) => {
            forget(handles[i]);
            Found::Complete((i, outcome))
        }
    }
}

fn found_some(
    handles: &[u32],
    found: Option<Vec<(usize, Outcome)>>,
) -> Found<Vec<(usize, Outcome)>> {
    match found {
        None => Found::NotYet,
        Some(done) => {
            done.iter().for_each(|(i, _)| forget(handles[*i]));
            Found::Complete(done)
        }
    }
}

fn none_active(requests: &[Option<Request>]) -> bool {
    requests.iter().all(Option::is_none)
}

/// `MPI_Waitany`: blocks until one request is complete.
///
/// # Errors
/// As [`wait`].
pub fn wait_any(handles: &[u32]) -> Result<Found<(usize, Outcome)>> {
    let requests = resolve_all(handles)?;
    if none_active(&requests) {
        return Ok(Found::NoneActive);
    }
    Ok(found_one(handles, drive_any(&requests, any)?))
}

/// `MPI_Testany`.
///
/// # Errors
/// As [`wait`].
pub fn test_any(handles: &[u32]) -> Result<Found<(usize, Outcome)>> {
    let requests = resolve_all(handles)?;
    if none_active(&requests) {
        return Ok(Found::NoneActive);
    }
    Ok(found_one(handles, test_any_with(&requests, any)?))
}

/// `MPI_Waitsome`: blocks until at least one request is complete.
///
/// # Errors
/// As [`wait`].
pub fn wait_some(handles: &[u32]) -> Result<Found<Vec<(usize, Outcome)>>> {
    let requests = resolve_all(handles)?;
    if none_active(&requests) {
        return Ok(Found::NoneActive);
    }
    Ok(found_some(handles, drive_any(&requests, some)?))
}

/// `MPI_Testsome`.
///
/// # Errors
/// As [`wait`].
pub fn test_some(handles: &[u32]) -> Result<Found<Vec<(usize, Outcome)>>> {
    let requests = resolve_all(handles)?;
    if none_active(&requests) {
        return Ok(Found::NoneActive);
    }
    Ok(found_some(handles, test_any_with(&requests, some)?))
}

/// `MPI_Cancel`: marks a receive for cancellation if nothing matches it yet. Sends are never cancelled, which the
/// standard allows (MPI 5.0, 3.8.4).
///
/// # Errors
/// `MPI_ERR_REQUEST`, also for `MPI_REQUEST_NULL`.
pub fn cancel(handle: u32) -> Result<()> {
    let request = Request::resolve(handle)?.ok_or_else(null_request)?;
    if let Work::Receive(id) = request.work {
        process::engine()?.enter(|state| state.cancel_receive(id));
    }
    Ok(())
}

/// `MPI_Request_free`: the operation goes on and nobody will ask for its end.
///
/// # Errors
/// `MPI_ERR_REQUEST`, also for `MPI_REQUEST_NULL`.
pub fn free(handle: u32) -> Result<()> {
    let request = Request::resolve(handle)?.ok_or_else(null_request)?;
    process::engine()?.enter(|state| match request.work {
        Work::Send(id) => state.abandon_send(id),
        Work::Receive(id) => state.abandon_receive(id),
        Work::Sent | Work::Done(_) => {}
    });
    forget(handle);
    Ok(())
}

#[cold]
fn null_request() -> Error {
    Error::argument(
        c::ERR_REQUEST,
        "request",
        "MPI_REQUEST_NULL",
        "an active request is needed",
    )
}
