//! Requests: their representation, their handles, and how their completion is detected. `complete`
//! and `many` have the wait and test families.

mod complete;
mod followed;
mod many;
mod plain;

use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use mica_node::lock::SoleThread;
use mica_protocol::{
    EngineState, OneThreadAtATime, Pending, RecvId, ScheduleId, SendId, WaitKind, WaitList,
};

use crate::comm::Comm;
use crate::constants as c;
use crate::error::{Error, Result};
use crate::handle::{HandleKind, HandleTable, Then};
use crate::lenient;
use crate::process;
use crate::status::{self, Status};
use crate::sync::lock;
use mica_collective::members::outcome;
use mica_collective::{CallLabel, execute};

pub use complete::{status, test, test_all, wait, wait_all};
pub(crate) use followed::followed_operation;
pub use followed::{RequestFollower, follow};
pub use many::{FoundRequests, status_any, status_some, test_any, test_some, wait_any, wait_some};
pub use plain::{RequestElement, wait_plain, wait_plain_among};

/// An operation under way.
#[derive(Debug, Clone)]
pub struct Request {
    comm: Option<Comm>,
    work: RequestWork,
}

#[derive(Debug, Clone)]
enum RequestWork {
    /// A send that was complete when its call returned.
    Sent,
    Send(SendId),
    Receive(RecvId),
    Done(Status),
    Schedule(ScheduleId, CallLabel),
    Persistent(Arc<Persistent>),
    Custom(Arc<dyn RequestOperation>),
}

/// What becomes of a request when a poll finds that it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCompletion {
    /// It is used up, or inactive if it is persistent, and the engine forgets the operation.
    Take,
    /// It stays: the program only asked (`MPI_Request_get_status`).
    Keep,
}

/// An operation of another kind, which defines how its completion is detected.
pub trait RequestOperation: Any + Send + Sync + Debug {
    /// Its name in reports: "a generalized request".
    fn name(&self) -> &'static str;

    /// Handle of the object that its errors are raised on, if that is no communicator.
    fn bearer(&self) -> u32 {
        0
    }

    /// Context of its messages, if they are no communicator's.
    fn context(&self) -> Option<u64> {
        None
    }

    /// The request whose description in reports is its own.
    fn described_by(&self) -> Option<Request> {
        None
    }

    /// Its completion, if it is complete. Runs inside the engine.
    fn poll(&self, state: &mut EngineState) -> Option<(Status, Option<Error>)>;

    /// Called outside the engine after [`RequestOperation::poll`] has returned the completion: may
    /// call the program.
    fn complete(&self, status: Status, _then: OnCompletion) -> (Status, Option<Error>) {
        (status, None)
    }

    /// `MPI_Cancel`. Runs outside the engine: may call the program.
    ///
    /// # Errors
    /// What the program's function returned.
    fn cancel(&self) -> Result<()> {
        Ok(())
    }

    /// `MPI_Request_free`: the operation continues, and its completion is never queried. Runs
    /// outside the engine: may call the program. Returns whether the handle is used up.
    ///
    /// # Errors
    /// What the program's function returned.
    fn abandon(&self) -> Result<bool> {
        Ok(true)
    }
}

/// What a persistent request starts, again and again. Its functions run outside the engine.
pub trait PersistentOperation: Any + Send + Sync {
    /// `MPI_Start`: starts the operation and returns the active request.
    ///
    /// # Errors
    /// Those of the operation.
    fn begin(self: Arc<Self>) -> Result<Request>;

    /// The request was freed; what is active goes on. Called once.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    fn end(&self) -> Result<()> {
        Ok(())
    }

    /// The usual case of `MPI_Pready`: marks a partition as ready that is not, where others of its
    /// message are missing. False: it has done nothing.
    fn ready_early(&self, _partition: usize, _sole: &SoleThread<'_>) -> bool {
        false
    }

    /// The usual case of `MPI_Parrived`: whether a partition is there, and known to have arrived.
    fn has_arrived(&self, _partition: usize) -> bool {
        false
    }
}

/// An operation that is all in what starts it.
struct Begin<F>(F);

impl<F: Fn() -> Result<Request> + Send + Sync + 'static> PersistentOperation for Begin<F> {
    fn begin(self: Arc<Self>) -> Result<Request> {
        (self.0)()
    }
}

/// A persistent request (MPI 5.0, 3.9, 6.13): what `MPI_Start` does, and the operation while it is
/// active.
struct Persistent {
    operation: Arc<dyn PersistentOperation>,
    active: Mutex<Option<Request>>,
    freed: AtomicBool,
}

impl Debug for Persistent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Persistent").field("active", &self.active).finish_non_exhaustive()
    }
}

/// How a request ended.
#[derive(Debug, Clone)]
pub struct RequestOutcome {
    /// Its status.
    pub status: Status,
    /// Its error, if it failed.
    pub error: Option<Error>,
    /// Communicator of the request, or another object (0: none): where the error is raised.
    pub comm: u32,
    /// The handle stays: the request is persistent (or there was none).
    pub keep: bool,
    /// There was no request, or an inactive one: the status is the empty one, to which an error
    /// code belongs (MPI 5.0, 3.7.3).
    pub empty: bool,
    /// Another call, or the same call for another element of its array, took the completion.
    gone: bool,
    /// The operation to [complete](RequestOperation::complete) outside the engine, and whether it
    /// was taken.
    after: Option<(Arc<dyn RequestOperation>, OnCompletion)>,
}

impl RequestOutcome {
    const EMPTY: RequestOutcome = RequestOutcome {
        status: Status::EMPTY,
        error: None,
        comm: 0,
        keep: true,
        empty: true,
        gone: false,
        after: None,
    };

    /// The outcome of a send that was complete when its call returned.
    const SENT: RequestOutcome = RequestOutcome { keep: false, ..RequestOutcome::EMPTY };

    /// The outcome of a receive from `MPI_PROC_NULL`.
    const PROC_NULL: RequestOutcome =
        RequestOutcome { status: Status::PROC_NULL, empty: false, ..RequestOutcome::SENT };

    /// The outcome of a request of `comm` (0: none) whose completion was taken already.
    #[cold]
    fn gone(comm: u32) -> RequestOutcome {
        let reason = "another call completed or freed this request meanwhile, \
                      or the call's array has it twice";
        let value = "a request that is gone";
        RequestOutcome {
            error: Some(Error::argument(c::ERR_REQUEST, "request", value, reason)),
            comm,
            gone: true,
            ..RequestOutcome::SENT
        }
    }

    /// Must be called outside the engine before the outcome is returned.
    fn settled(mut self) -> RequestOutcome {
        if let Some((operation, taken)) = self.after.take() {
            let (status, error) = operation.complete(self.status, taken);
            self.status = status;
            self.error = self.error.or(error);
        }
        self
    }
}

static REQUESTS: HandleTable<Request> = HandleTable::new(HandleKind::Request);

/// The handle shared by all sends that were complete when their call returned: there is nothing to
/// remember about them.
pub(crate) const SENT_HANDLE: u32 = HandleKind::Request.reserved_handle(0);

/// The handle shared by all receives from `MPI_PROC_NULL`.
pub(crate) const PROC_NULL_HANDLE: u32 = HandleKind::Request.reserved_handle(1);

/// Whether the handle is one of the two that requests share, and that are never used up.
#[inline(always)]
const fn is_shared(handle: u32) -> bool {
    const { assert!(SENT_HANDLE & 1 == 0 && PROC_NULL_HANDLE == SENT_HANDLE | 1) };
    handle | 1 == PROC_NULL_HANDLE
}

/// The status of a request whose handle [is shared](is_shared).
#[inline(always)]
const fn shared_status(handle: u32) -> Status {
    match handle {
        PROC_NULL_HANDLE => Status::PROC_NULL,
        _ => Status::EMPTY,
    }
}

/// Elides the lock of the handle table: the program has promised to keep its threads apart.
pub(crate) fn elide_table_lock(promise: OneThreadAtATime) {
    REQUESTS.elide_lock(promise);
}

/// Puts the lock of the handle table in force again.
pub(crate) fn share_table() {
    REQUESTS.share();
}

impl Request {
    /// A send that is complete already.
    pub const SENT: Request = Request { comm: None, work: RequestWork::Sent };

    pub(crate) fn send(comm: &Comm, id: SendId) -> Request {
        Request { comm: Some(comm.clone()), work: RequestWork::Send(id) }
    }

    pub(crate) fn receive(comm: &Comm, id: RecvId) -> Request {
        Request { comm: Some(comm.clone()), work: RequestWork::Receive(id) }
    }

    /// An operation that is already complete, without error.
    pub(crate) const fn done(status: Status) -> Request {
        Request { comm: None, work: RequestWork::Done(status) }
    }

    pub(crate) fn schedule(comm: &Comm, id: ScheduleId, label: CallLabel) -> Request {
        Request { comm: Some(comm.clone()), work: RequestWork::Schedule(id, label) }
    }

    /// An operation of another kind; its errors are raised on `comm`, if there is one.
    pub fn custom(comm: Option<&Comm>, operation: Arc<dyn RequestOperation>) -> Request {
        Request { comm: comm.cloned(), work: RequestWork::Custom(operation) }
    }

    /// A persistent request, inactive at first; `begin` starts its operation.
    pub fn persistent(
        comm: &Comm,
        begin: impl Fn() -> Result<Request> + Send + Sync + 'static,
    ) -> Request {
        Request::persistent_of(comm, Arc::new(Begin(begin)))
    }

    /// A persistent request of this operation, inactive at first.
    pub fn persistent_of(comm: &Comm, operation: Arc<dyn PersistentOperation>) -> Request {
        let persistent =
            Persistent { operation, active: Mutex::new(None), freed: AtomicBool::new(false) };
        Request { comm: Some(comm.clone()), work: RequestWork::Persistent(Arc::new(persistent)) }
    }

    /// A handle for the request, to be completed or freed.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when no handle is left: a receive is then cancelled; any other operation
    /// continues, and its completion is never queried.
    #[inline(always)]
    pub fn register(self) -> Result<u32> {
        match self.work {
            RequestWork::Sent => Ok(SENT_HANDLE),
            _ => REQUESTS.try_insert(self).or_else(without_handle),
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
            PROC_NULL_HANDLE => Ok(Some(Request::done(Status::PROC_NULL))),
            _ => REQUESTS.get(handle).map(Some).ok_or_else(|| {
                let reason = "this is no request, or it was completed or freed already";
                Error::argument(c::ERR_REQUEST, "request", format!("{handle:#x}"), reason)
            }),
        }
    }

    /// As [`Request::resolve`]; `None` also for an inactive persistent request.
    fn resolve_active(handle: u32) -> Result<Option<Request>> {
        Ok(Request::resolve(handle)?.filter(|request| match &request.work {
            RequestWork::Persistent(persistent) => lock(&persistent.active).is_some(),
            _ => true,
        }))
    }

    /// Its completion, if it is complete.
    pub(crate) fn poll(
        &self,
        state: &mut EngineState,
        then: OnCompletion,
    ) -> Option<RequestOutcome> {
        let take = then == OnCompletion::Take;
        let comm = self.comm.as_ref();
        if self.is_gone(state) {
            return Some(RequestOutcome::gone(comm.map_or(0, Comm::handle)));
        }
        let mut after = None;
        let mut bearer = comm.map_or(0, Comm::handle);
        let (status, error) = match &self.work {
            RequestWork::Sent => (Status::EMPTY, None),
            RequestWork::Done(status) => (*status, None),
            RequestWork::Send(id) => {
                let end = if take { state.take_send(*id) } else { state.sent(*id) }?;
                (status::of_send(end), None)
            }
            RequestWork::Receive(id) => {
                let done = if take { state.take_received(*id) } else { state.received(*id) }?;
                outcome(comm.expect("a receive has a communicator"), &done)
            }
            RequestWork::Schedule(id, _) => {
                let end = if take { state.take_schedule(*id) } else { state.schedule_result(*id) }?;
                let comm = comm.expect("a collective has a communicator");
                (Status::EMPTY, end.err().map(|failure| execute::error_of(comm, failure)))
            }
            RequestWork::Persistent(persistent) => {
                let mut active = lock(&persistent.active);
                let Some(request) = active.as_ref() else {
                    return Some(RequestOutcome::EMPTY);
                };
                let outcome = request.poll(state, then)?;
                if take {
                    *active = None;
                }
                return Some(RequestOutcome {
                    keep: true,
                    comm: comm.map_or(0, Comm::handle),
                    ..outcome
                });
            }
            RequestWork::Custom(operation) => {
                let end = operation.poll(state)?;
                if comm.is_none() {
                    bearer = operation.bearer();
                }
                after = Some((operation.clone(), then));
                end
            }
        };
        let comm = bearer;
        Some(RequestOutcome { status, error, comm, keep: false, empty: false, gone: false, after })
    }

    /// Whether the engine has forgotten the operation: its completion was taken by way of the same
    /// handle, in another thread or another place of an array.
    fn is_gone(&self, state: &EngineState) -> bool {
        match &self.work {
            RequestWork::Send(id) => !state.has_send(*id),
            RequestWork::Receive(id) => !state.has_receive(*id),
            RequestWork::Schedule(id, _) => !state.has_schedule(*id),
            RequestWork::Sent
            | RequestWork::Done(_)
            | RequestWork::Persistent(_)
            | RequestWork::Custom(_) => false,
        }
    }

    /// Its description in reports, unless it is complete.
    fn pending(&self, state: &EngineState) -> Option<Pending> {
        match &self.work {
            RequestWork::Sent | RequestWork::Done(_) => None,
            RequestWork::Send(id) => (!state.is_sent(*id)).then(|| state.pending_send(*id)),
            RequestWork::Receive(id) => {
                (!state.is_received(*id)).then(|| state.pending_receive(*id))
            }
            RequestWork::Schedule(id, label) => {
                state.schedule_result(*id).is_none().then(|| Pending {
                    context: self.comm.as_ref().map(|comm| comm.context()),
                    name: label.name().map(Into::into),
                    ..Pending::of(WaitKind::Collective)
                })
            }
            RequestWork::Persistent(persistent) => {
                lock(&persistent.active).as_ref()?.pending(state)
            }
            RequestWork::Custom(operation) => match operation.described_by() {
                Some(request) => request.pending(state),
                None => Some(Pending {
                    context: match &self.comm {
                        Some(comm) => Some(comm.context()),
                        None => operation.context(),
                    },
                    name: Some(operation.name().into()),
                    ..Pending::of(WaitKind::Requests)
                }),
            },
        }
    }

    /// Blocks until an operation that the library itself defines is complete.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when progress fails.
    pub fn wait(&self) -> Result<RequestOutcome> {
        self.wait_among(&[])
    }

    /// As [`wait`](Self::wait), where the program also waits for `others`.
    fn wait_among(&self, others: &[Option<Request>]) -> Result<RequestOutcome> {
        if let RequestWork::Sent = self.work {
            return Ok(RequestOutcome { keep: false, empty: false, ..RequestOutcome::EMPTY });
        }
        let engine = process::engine()?;
        Ok(engine.drive(
            |state, list| {
                list_all(std::iter::once(self).chain(others.iter().flatten()), state, list)
            },
            |state| self.poll(state, OnCompletion::Take),
        )?)
    }

    /// Marks it for cancellation. Outside the engine.
    fn cancel(&self) -> Result<()> {
        match &self.work {
            RequestWork::Send(id) => process::engine()?.enter(|state| state.cancel_send(*id))?,
            RequestWork::Receive(id) => process::engine()?.enter(|state| state.cancel_receive(*id)),
            RequestWork::Custom(operation) => return operation.cancel(),
            RequestWork::Persistent(persistent) => {
                let active = lock(&persistent.active).clone();
                match active {
                    Some(request) => return request.cancel(),
                    None => lenient::INACTIVE_CANCEL.note(),
                }
            }
            RequestWork::Sent | RequestWork::Done(_) | RequestWork::Schedule(..) => {}
        }
        Ok(())
    }

    /// Lets it continue; its completion is never queried. Outside the engine. Returns whether the
    /// handle is used up.
    pub(crate) fn abandon(&self) -> Result<bool> {
        let engine = process::engine()?;
        match &self.work {
            RequestWork::Send(id) => engine.enter(|state| state.abandon_send(*id)),
            RequestWork::Receive(id) => engine.enter(|state| state.abandon_receive(*id)),
            RequestWork::Schedule(id, _) => engine.enter(|state| state.abandon_schedule(*id)),
            RequestWork::Custom(operation) => return operation.abandon(),
            RequestWork::Persistent(persistent) => {
                let active = lock(&persistent.active).take();
                let used_up = active.map_or(Ok(true), |request| request.abandon())?;
                // Relaxed: of two threads that free it, either may.
                if !persistent.freed.swap(true, Ordering::Relaxed) {
                    persistent.operation.end()?;
                }
                return Ok(used_up);
            }
            RequestWork::Sent | RequestWork::Done(_) => {}
        }
        Ok(true)
    }
}

/// Lists the requests that are not complete.
fn list_all<'a>(
    requests: impl IntoIterator<Item = &'a Request>,
    state: &EngineState,
    list: &mut WaitList,
) {
    for request in requests {
        if list.is_complete() {
            return;
        }
        if let Some(pending) = request.pending(state) {
            list.add(pending);
        }
    }
}

/// As [`list_all`], of the requests that these handles name now.
fn list_handles(handles: impl Iterator<Item = u32>, state: &EngineState, list: &mut WaitList) {
    // The table's lock is not held while a request is listed: that may take other locks.
    for request in handles.filter_map(|handle| REQUESTS.get(handle)) {
        list_all([&request], state, list);
        if list.is_complete() {
            break;
        }
    }
}

/// `MPI_Start`: starts a persistent operation that is inactive.
///
/// # Errors
/// `MPI_ERR_REQUEST` when the request is not persistent, or active; those of the operation.
pub fn start(handle: u32) -> Result<()> {
    let request = Request::resolve(handle)?.ok_or_else(null_request)?;
    let RequestWork::Persistent(persistent) = &request.work else {
        let reason = "only a persistent request can be started";
        return Err(Error::argument(c::ERR_REQUEST, "request", format!("{handle:#x}"), reason));
    };
    if lock(&persistent.active).is_some() {
        let reason = "this persistent request is active; complete it first";
        return Err(Error::argument(c::ERR_REQUEST, "request", format!("{handle:#x}"), reason));
    }
    let active = Arc::clone(&persistent.operation).begin()?;
    *lock(&persistent.active) = Some(active);
    Ok(())
}

/// `MPI_Cancel`: cancels a receive, or a send, that is not matched yet (MPI 5.0, 3.8.4).
///
/// # Errors
/// `MPI_ERR_REQUEST`, also for `MPI_REQUEST_NULL`.
pub fn cancel(handle: u32) -> Result<()> {
    let request = Request::resolve(handle)?.ok_or_else(null_request)?;
    request.cancel()
}

/// `MPI_Request_free`: the operation continues, and its completion is never queried.
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

#[cold]
fn without_handle(request: Request) -> Result<u32> {
    request.cancel()?;
    request.abandon()?;
    Err(REQUESTS.used_up())
}

/// Frees the handle of a request that ended with `outcome`. False if another call has done so.
fn release(handle: u32, outcome: &RequestOutcome) -> bool {
    if outcome.gone {
        return false;
    }
    let Some((operation, _)) = &outcome.after else {
        return REQUESTS.remove(handle).is_some();
    };
    let found = REQUESTS.look_then(handle, |request| match &request.work {
        // Cloned: what it holds must not be dropped under the table's lock.
        RequestWork::Custom(here) if Arc::ptr_eq(here, operation) => {
            (Some(request.clone()), Then::Remove)
        }
        _ => (None, Then::Keep),
    });
    found.flatten().is_some()
}

/// Frees the handle.
pub(crate) fn forget(handle: u32) {
    if !is_shared(handle) {
        REQUESTS.remove(handle);
    }
}

/// What `f` does with the operation of a persistent request, while no other thread is inside the
/// library: it neither blocks nor calls the program. `None`: the handle names no such request, or
/// other threads may be inside.
#[inline(always)]
pub(crate) fn sole_persistent<R>(
    handle: usize,
    f: impl FnOnce(&dyn PersistentOperation, &SoleThread<'_>) -> R,
) -> Option<R> {
    let table = REQUESTS.sole(HandleKind::Request)?;
    match &table.get(handle)?.work {
        RequestWork::Persistent(persistent) => Some(f(&*persistent.operation, table.section())),
        _ => None,
    }
}

/// What `f` finds in the operation of a persistent request, if that is a `T`. `f` runs under the
/// lock of the handle table.
///
/// # Errors
/// `MPI_ERR_REQUEST`, also for `MPI_REQUEST_NULL`.
#[inline]
pub(crate) fn look_persistent<T: PersistentOperation, R>(
    handle: u32,
    f: impl FnOnce(&T) -> R,
) -> Result<Option<R>> {
    let found = REQUESTS.look(handle, |request| {
        let RequestWork::Persistent(persistent) = &request.work else {
            return None;
        };
        let operation: &dyn Any = &*persistent.operation;
        operation.downcast_ref().map(f)
    });
    match found {
        Some(found) => Ok(found),
        // No request of a program, or one of those that are shared.
        None => Request::resolve(handle)?.map(|_| None).ok_or_else(null_request),
    }
}

/// The operation of a request, if it is a `T` under way (as a persistent one is only while it is
/// active).
///
/// # Errors
/// `MPI_ERR_REQUEST`, also for `MPI_REQUEST_NULL`.
pub(crate) fn operation<T: RequestOperation>(handle: u32) -> Result<Option<Arc<T>>> {
    let request = Request::resolve(handle)?.ok_or_else(null_request)?;
    let work = match &request.work {
        RequestWork::Persistent(persistent) => {
            lock(&persistent.active).as_ref().map(|r| r.work.clone())
        }
        work => Some(work.clone()),
    };
    let Some(RequestWork::Custom(operation)) = work else {
        return Ok(None);
    };
    Ok(downcast(operation))
}

fn downcast<T: Any + Send + Sync>(operation: Arc<dyn Any + Send + Sync>) -> Option<Arc<T>> {
    operation.downcast().ok()
}

/// The operation of a persistent request, if it is a `T`.
///
/// # Errors
/// `MPI_ERR_REQUEST`, also for `MPI_REQUEST_NULL`.
pub(crate) fn persistent_operation<T: PersistentOperation>(handle: u32) -> Result<Option<Arc<T>>> {
    let request = Request::resolve(handle)?.ok_or_else(null_request)?;
    match &request.work {
        RequestWork::Persistent(persistent) => Ok(downcast(Arc::clone(&persistent.operation) as _)),
        _ => Ok(None),
    }
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
    Error::argument(c::ERR_REQUEST, "request", "MPI_REQUEST_NULL", "an active request is needed")
}
