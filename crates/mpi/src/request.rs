//! Requests and their completion: the wait and test families (MPI 5.0, 3.7.3 to 3.7.6).

use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex};

use mica_protocol::{
    Completion, Failure, Fault, OneThreadAtATime, RecvId, ScheduleId, SendId, State, WaitKind,
    Waiting,
};

use crate::comm::Comm;
use crate::constants as c;
use crate::error::{Error, Result};
use crate::handle::{self, Table};
use crate::process;
use crate::pt2pt::{self, Status};
use crate::sync::lock;

/// An operation under way.
#[derive(Debug, Clone)]
pub struct Request {
    comm: Option<Comm>,
    work: Work,
}

#[derive(Debug, Clone)]
enum Work {
    /// A send that was complete when its call returned.
    Sent,
    Send(SendId),
    Receive(RecvId),
    Done(Status),
    Schedule(ScheduleId),
    Persistent(Arc<Persistent>),
    Custom(Arc<dyn Operation>),
}

/// An operation of another kind: whoever defines it says how its end is recognised.
pub trait Operation: Any + Send + Sync + Debug {
    /// Its end, if it has come. `take`: the request is used up then (or inactive, if persistent). Runs inside the engine.
    fn poll(&self, state: &mut State, take: bool) -> Option<(Status, Option<Error>)>;

    /// Called after [`Operation::poll`] has given its end to the program, outside the engine: may call the program. `taken`:
    /// the request is used up; otherwise the program only asked (`MPI_Request_get_status`).
    fn complete(&self, status: Status, _taken: bool) -> (Status, Option<Error>) {
        (status, None)
    }

    /// `MPI_Cancel`. Runs outside the engine: may call the program.
    ///
    /// # Errors
    /// What the program's function returned.
    fn cancel(&self) -> Result<()> {
        Ok(())
    }

    /// `MPI_Request_free`: it goes on and nobody will ask for its end. Runs outside the engine: may call the program. Gives
    /// whether the handle is used up.
    ///
    /// # Errors
    /// What the program's function returned.
    fn abandon(&self) -> Result<bool> {
        Ok(true)
    }
}

/// Starts a persistent operation and gives the active request.
pub type Begin = dyn Fn() -> Result<Request> + Send + Sync;

/// A persistent request (MPI 5.0, 3.9, 6.13): what `MPI_Start` does, and the operation while it is active.
struct Persistent {
    begin: Box<Begin>,
    active: Mutex<Option<Request>>,
}

impl Debug for Persistent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Persistent")
            .field("active", &self.active)
            .finish_non_exhaustive()
    }
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
    /// The handle stays: the request is persistent (or there was none).
    pub keep: bool,
    /// What is to be told outside the engine.
    after: Option<(Arc<dyn Operation>, bool)>,
}

impl Outcome {
    const EMPTY: Outcome = Outcome {
        status: Status::EMPTY,
        error: None,
        comm: 0,
        keep: true,
        after: None,
    };

    /// To be called outside the engine before the outcome is given away.
    fn settled(mut self) -> Outcome {
        if let Some((operation, taken)) = self.after.take() {
            let (status, error) = operation.complete(self.status, taken);
            self.status = status;
            self.error = self.error.or(error);
        }
        self
    }
}

static REQUESTS: Table<Request> = Table::new(handle::Kind::Request);

/// The handle that all sends share which were complete when their call returned: nothing needs to be remembered of them.
pub(crate) const SENT_HANDLE: u32 = handle::Kind::Request.reserved_handle();

/// Does without the lock of the handles: the program has promised to keep its threads apart.
pub(crate) fn elide_table_lock(promise: OneThreadAtATime) {
    REQUESTS.elide_lock(promise);
}

/// Puts the lock of the handles in force again.
pub(crate) fn share_table() {
    REQUESTS.share();
}

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

    /// An operation that is complete, without error, already.
    pub(crate) const fn done(status: Status) -> Request {
        Request {
            comm: None,
            work: Work::Done(status),
        }
    }

    pub(crate) fn schedule(comm: &Comm, id: ScheduleId) -> Request {
        Request {
            comm: Some(comm.clone()),
            work: Work::Schedule(id),
        }
    }

    /// An operation of another kind; its errors are raised on `comm`, if there is one.
    pub fn custom(comm: Option<&Comm>, operation: Arc<dyn Operation>) -> Request {
        Request {
            comm: comm.cloned(),
            work: Work::Custom(operation),
        }
    }

    /// A persistent request, inactive at first; `begin` starts its operation.
    pub fn persistent(
        comm: &Comm,
        begin: impl Fn() -> Result<Request> + Send + Sync + 'static,
    ) -> Request {
        let persistent = Persistent {
            begin: Box::new(begin),
            active: Mutex::new(None),
        };
        Request {
            comm: Some(comm.clone()),
            work: Work::Persistent(Arc::new(persistent)),
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

    /// As [`Request::resolve`]; `None` also for an inactive persistent request.
    fn resolve_active(handle: u32) -> Result<Option<Request>> {
        Ok(
            Request::resolve(handle)?.filter(|request| match &request.work {
                Work::Persistent(persistent) => lock(&persistent.active).is_some(),
                _ => true,
            }),
        )
    }

    /// Its end, if it has come. `take`: the engine forgets the operation then.
    pub(crate) fn poll(&self, state: &mut State, take: bool) -> Option<Outcome> {
        let comm = self.comm.as_ref();
        let mut after = None;
        let (status, error) = match &self.work {
            Work::Sent => (Status::EMPTY, None),
            Work::Done(status) => (*status, None),
            Work::Send(id) => {
                let sent = if take {
                    state.take_send(*id)
                } else {
                    state.is_sent(*id)
                };
                if !sent {
                    return None;
                }
                (Status::EMPTY, None)
            }
            Work::Receive(id) => {
                let done = if take {
                    state.take_received(*id)
                } else {
                    state.received(*id)
                }?;
                pt2pt::outcome(comm.expect("a receive has a communicator"), &done)
            }
            Work::Schedule(id) => {
                let end = if take {
                    state.take_schedule(*id)
                } else {
                    state.schedule_end(*id)
                }?;
                (
                    Status::EMPTY,
                    end.err().map(|failure| failed(comm, failure)),
                )
            }
            Work::Persistent(persistent) => {
                let mut active = lock(&persistent.active);
                let Some(request) = active.as_ref() else {
                    return Some(Outcome::EMPTY);
                };
                let outcome = request.poll(state, take)?;
                if take {
                    *active = None;
                }
                return Some(Outcome {
                    keep: true,
                    comm: comm.map_or(0, Comm::handle),
                    ..outcome
                });
            }
            Work::Custom(operation) => {
                let end = operation.poll(state, take)?;
                after = Some((operation.clone(), take));
                end
            }
        };
        let comm = comm.map_or(0, Comm::handle);
        Some(Outcome {
            status,
            error,
            comm,
            keep: false,
            after,
        })
    }

    fn waiting_to_send(state: &State, id: SendId) -> Waiting {
        let (peer, context, tag) = state.send_target(id);
        Waiting {
            kind: WaitKind::Send,
            peer: peer as i32,
            tag,
            context,
            unexpected: state.unexpected_messages() as u32,
        }
    }

    fn waiting_to_receive(state: &State, id: RecvId) -> Waiting {
        let pattern = state.receive_pattern(id);
        Waiting {
            kind: WaitKind::Receive,
            peer: pattern.source.map_or(-1, |source| source as i32),
            tag: pattern.tag.unwrap_or(-1),
            context: pattern.context,
            unexpected: state.unexpected_messages() as u32,
        }
    }

    fn waiting(&self, state: &State) -> Waiting {
        let unexpected = state.unexpected_messages() as u32;
        let (kind, peer, tag, context) = match &self.work {
            Work::Send(id) => return Request::waiting_to_send(state, *id),
            Work::Receive(id) => return Request::waiting_to_receive(state, *id),
            Work::Schedule(id) => {
                let (context, tag) = state.schedule_key(*id);
                (WaitKind::Receive, -1, tag, context)
            }
            Work::Persistent(persistent) => {
                if let Some(request) = lock(&persistent.active).as_ref() {
                    return request.waiting(state);
                }
                (WaitKind::Requests, -1, -1, 0)
            }
            Work::Sent | Work::Done(_) | Work::Custom(_) => (WaitKind::Requests, -1, -1, 0),
        };
        Waiting {
            kind,
            peer,
            tag,
            context,
            unexpected,
        }
    }

    /// Waits for its end, of an operation that the library itself defines. Blocks.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when progress fails.
    pub fn wait(&self) -> Result<Outcome> {
        if let Work::Sent = self.work {
            return Ok(Outcome {
                keep: false,
                ..Outcome::EMPTY
            });
        }
        let engine = process::engine()?;
        Ok(engine.drive(|state| self.waiting(state), |state| self.poll(state, true))?)
    }

    /// Marks it for cancellation. Outside the engine.
    fn cancel(&self) -> Result<()> {
        match &self.work {
            Work::Receive(id) => process::engine()?.enter(|state| state.cancel_receive(*id)),
            Work::Custom(operation) => return operation.cancel(),
            Work::Persistent(persistent) => {
                let active = lock(&persistent.active).clone();
                if let Some(request) = active {
                    return request.cancel();
                }
            }
            Work::Sent | Work::Done(_) | Work::Send(_) | Work::Schedule(_) => {}
        }
        Ok(())
    }

    /// Lets it go on without anybody asking for its end. Outside the engine. Gives whether the handle is used up.
    pub(crate) fn abandon(&self) -> Result<bool> {
        let engine = process::engine()?;
        match &self.work {
            Work::Send(id) => engine.enter(|state| state.abandon_send(*id)),
            Work::Receive(id) => engine.enter(|state| state.abandon_receive(*id)),
            Work::Schedule(id) => engine.enter(|state| state.abandon_schedule(*id)),
            Work::Custom(operation) => return operation.abandon(),
            Work::Persistent(persistent) => {
                let active = lock(&persistent.active).take();
                if let Some(request) = active {
                    return request.abandon();
                }
            }
            Work::Sent | Work::Done(_) => {}
        }
        Ok(true)
    }
}

/// The error of a schedule that ended early.
#[cold]
fn failed(comm: Option<&Comm>, failure: Failure) -> Error {
    match (failure, comm) {
        (Failure::Truncated(done), Some(comm)) => pt2pt::outcome(comm, &done)
            .1
            .expect("a truncated message is an error"),
        (Failure::Truncated(_), None) => Error::other(c::ERR_TRUNCATE, "a message did not fit"),
        (Failure::Local(code), _) => Error::other(code, "the local part of the operation failed"),
        (Failure::Task(error), _) => Error::other(error.code, error.detail),
        (Failure::Fault(fault), _) => fault.into(),
    }
}

/// `MPI_Start`: starts a persistent operation that is inactive.
///
/// # Errors
/// `MPI_ERR_REQUEST` when the request is not persistent, or active; those of the operation.
pub fn start(handle: u32) -> Result<()> {
    let request = Request::resolve(handle)?.ok_or_else(null_request)?;
    let Work::Persistent(persistent) = &request.work else {
        let reason = "only a persistent request can be started";
        return Err(Error::argument(
            c::ERR_REQUEST,
            "request",
            format!("{handle:#x}"),
            reason,
        ));
    };
    if lock(&persistent.active).is_some() {
        let reason = "this persistent request is active; complete it first";
        return Err(Error::argument(
            c::ERR_REQUEST,
            "request",
            format!("{handle:#x}"),
            reason,
        ));
    }
    let active = (persistent.begin)()?;
    *lock(&persistent.active) = Some(active);
    Ok(())
}

/// Takes the handle back, unless the request is persistent, and gives the outcome as the program may see it.
fn finish(handle: u32, outcome: Outcome) -> Outcome {
    if !outcome.keep {
        forget(handle);
    }
    outcome.settled()
}

/// The short way of completing a request: blocks until a send or receive is complete, and gives the status; the handle is
/// used up. `None` for requests of other kinds, for receives that fail, and for handles that name none: nothing has happened
/// then, and [`wait`] tells more.
///
/// # Errors
/// `MPI_ERR_NO_MEM`.
#[inline]
pub fn wait_plain(handle: u32) -> Result<Option<Status>> {
    if handle == SENT_HANDLE || handle == c::REQUEST_NULL {
        return Ok(Some(Status::EMPTY));
    }
    wait_simple(handle)
}

/// What [`wait_simple`] knows how to wait for.
enum Simple {
    Send(SendId),
    Receive(RecvId),
    Done(Status),
}

fn wait_simple(handle: u32) -> Result<Option<Status>> {
    let simple = REQUESTS.look(handle, |request| match &request.work {
        Work::Send(id) => Some(Simple::Send(*id)),
        Work::Receive(id) => Some(Simple::Receive(*id)),
        Work::Done(status) => Some(Simple::Done(*status)),
        _ => None,
    });
    let Some(Some(simple)) = simple else {
        return Ok(None);
    };
    let engine = process::engine()?;
    match simple {
        Simple::Done(status) => {
            forget(handle);
            Ok(Some(status))
        }
        Simple::Send(id) => {
            let waiting = |state: &State| Request::waiting_to_send(state, id);
            engine.drive(waiting, |state| state.take_send(id).then_some(()))?;
            forget(handle);
            Ok(Some(Status::EMPTY))
        }
        Simple::Receive(id) => {
            let waiting = |state: &State| Request::waiting_to_receive(state, id);
            let fits = |done: &Completion| !done.cancelled && done.sent <= done.capacity;
            let done = engine.drive(waiting, |state| {
                let done = state.received(id)?;
                if fits(&done) {
                    state.take_received(id);
                }
                Some(done)
            })?;
            if !fits(&done) {
                return Ok(None);
            }
            let request = REQUESTS.remove(handle);
            let comm = request.as_ref().and_then(|request| request.comm.as_ref());
            Ok(comm.map(|comm| pt2pt::status_of(comm, &done.envelope, done.sent)))
        }
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
    Ok(finish(handle, request.wait()?))
}

/// `MPI_Test`: the outcome if the request is complete; the handle is used up then.
///
/// # Errors
/// As [`wait`].
pub fn test(handle: u32) -> Result<Option<Outcome>> {
    Ok(get(handle, true)?.map(|outcome| finish(handle, outcome)))
}

/// `MPI_Request_get_status`: as [`test`], but the request stays.
///
/// # Errors
/// As [`wait`].
pub fn status(handle: u32) -> Result<Option<Outcome>> {
    Ok(get(handle, false)?.map(Outcome::settled))
}

fn get(handle: u32, take: bool) -> Result<Option<Outcome>> {
    let Some(request) = Request::resolve(handle)? else {
        return Ok(Some(Outcome::EMPTY));
    };
    ask(|state| {
        if let Some(outcome) = request.poll(state, take) {
            return Ok(Some(outcome));
        }
        state.progress()?;
        Ok(request.poll(state, take))
    })
}

/// Asks the engine once, without waiting.
fn ask<R>(
    question: impl FnOnce(&mut State) -> std::result::Result<Option<R>, Fault>,
) -> Result<Option<R>> {
    let engine = process::engine()?;
    let answer = engine.enter(question)?;
    if answer.is_none() {
        engine.nothing_yet();
    }
    Ok(answer)
}

/// The active requests among some; the others count as complete.
fn resolve_all(handles: &[u32]) -> Result<Vec<Option<Request>>> {
    handles
        .iter()
        .map(|&handle| Request::resolve_active(handle))
        .collect()
}

/// `MPI_Waitall`: blocks until all requests are complete; all handles are used up. One outcome for each.
///
/// # Errors
/// As [`wait`].
pub fn wait_all(handles: &[u32]) -> Result<Vec<Outcome>> {
    let requests = resolve_all(handles)?;
    let outcome = |(request, &handle): (&Option<Request>, &u32)| match request {
        None => Ok(Outcome::EMPTY),
        Some(request) => Ok(finish(handle, request.wait()?)),
    };
    requests.iter().zip(handles).map(outcome).collect()
}

/// `MPI_Testall`: the outcomes if all requests are complete; all handles are used up then.
///
/// # Errors
/// As [`wait`].
pub fn test_all(handles: &[u32]) -> Result<Option<Vec<Outcome>>> {
    let requests = resolve_all(handles)?;
    let outcomes = ask(|state| {
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
        Ok(match all(state, false) {
            None => None,
            Some(_) => all(state, true),
        })
    })?;
    Ok(outcomes.map(|all| {
        all.into_iter()
            .zip(handles)
            .map(|(o, &h)| finish(h, o))
            .collect()
    }))
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
    ask(|state| {
        state.progress()?;
        Ok(pick(requests, state))
    })
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
        Some((i, outcome)) => Found::Complete((i, finish(handles[i], outcome))),
    }
}

fn found_some(
    handles: &[u32],
    found: Option<Vec<(usize, Outcome)>>,
) -> Found<Vec<(usize, Outcome)>> {
    match found {
        None => Found::NotYet,
        Some(done) => Found::Complete(
            done.into_iter()
                .map(|(i, outcome)| (i, finish(handles[i], outcome)))
                .collect(),
        ),
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
    request.cancel()
}

/// `MPI_Request_free`: the operation goes on and nobody will ask for its end.
///
/// # Errors
/// `MPI_ERR_REQUEST`, also for `MPI_REQUEST_NULL`.
pub fn free(handle: u32) -> Result<()> {
    let request = Request::resolve(handle)?.ok_or_else(null_request)?;
    if request.abandon()? {
        forget(handle);
    }
    Ok(())
}

/// Takes the handle back.
pub(crate) fn forget(handle: u32) {
    if handle != SENT_HANDLE {
        REQUESTS.remove(handle);
    }
}

/// The operation of a request, if it is a `T` under way (as a persistent one is only while it is active).
///
/// # Errors
/// `MPI_ERR_REQUEST`, also for `MPI_REQUEST_NULL`.
pub(crate) fn operation<T: Operation>(handle: u32) -> Result<Option<Arc<T>>> {
    let request = Request::resolve(handle)?.ok_or_else(null_request)?;
    let work = match &request.work {
        Work::Persistent(persistent) => lock(&persistent.active).as_ref().map(|r| r.work.clone()),
        work => Some(work.clone()),
    };
    let Some(Work::Custom(operation)) = work else {
        return Ok(None);
    };
    let any: Arc<dyn Any + Send + Sync> = operation;
    Ok(any.downcast().ok())
}

/// Whether the request is neither `MPI_REQUEST_NULL` nor persistent and inactive.
///
/// # Errors
/// `MPI_ERR_REQUEST`.
pub fn is_active(handle: u32) -> Result<bool> {
    Ok(Request::resolve_active(handle)?.is_some())
}

/// The communicator on which errors of a request are raised (0: none).
pub fn comm(handle: u32) -> u32 {
    let request = Request::resolve(handle).ok().flatten();
    request.map_or(0, |request| request.comm.as_ref().map_or(0, Comm::handle))
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
