//! Requests that a front end follows: it learns what becomes of them, in whichever language the
//! calls are made.
//!
//! Fortran passes a contiguous copy of a section of an array where no datatype can stand for the
//! section, and has to write back what arrives in the copy. The request may be completed by a part
//! of the program in another language, so the request itself carries who follows it ([`follow`]).
//!
//! A nonblocking operation that is followed is a [`RequestOperation`] around the request, and a
//! persistent one is a [`PersistentOperation`] around the operation. A request that no front
//! end follows costs nothing more.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex};

use mica_protocol::EngineState;

use super::{
    OnCompletion, PersistentOperation, REQUESTS, Request, RequestOperation, RequestOutcome,
    RequestWork, downcast, is_shared, null_request,
};
use crate::error::{Error, Result};
use crate::status::Status;
use crate::sync::lock;

/// What learns of a request's events. Its functions call neither MPI nor the program. It is dropped
/// with the request: a request that is freed while its operation goes on drops it before
/// [`completed`](Self::completed).
pub trait RequestFollower: Send + Sync {
    /// A persistent operation is about to start.
    fn starting(&self);

    /// The operation that was started last is complete; or it could not be started. Called whenever
    /// a call finds that, so more than once if `MPI_Request_get_status` does.
    fn completed(&self);

    /// `MPI_Pready` marks this partition as ready: its data are about to be read. Runs inside the
    /// engine for some, outside for others.
    fn ready(&self, partition: i32);

    /// `MPI_Parrived` finds that this partition has arrived.
    fn arrived(&self, partition: i32);
}

/// From now on `follower` follows a request, of which no other thread knows yet. It follows what a
/// persistent request starts. Of a request that is null, or whose operation was complete when its
/// call returned and whose handle is therefore shared, it learns the completion at once.
///
/// # Errors
/// `MPI_ERR_REQUEST`.
pub fn follow(handle: u32, follower: Arc<dyn RequestFollower>) -> Result<()> {
    let request = match Request::resolve(handle)? {
        Some(request) if !is_shared(handle) => request,
        _ => {
            follower.completed();
            return Ok(());
        }
    };
    let comm = request.comm.clone();
    let followed = match &request.work {
        RequestWork::Persistent(persistent) => {
            let operation = Arc::clone(&persistent.operation);
            let comm = comm.ok_or_else(null_request)?;
            Request::persistent_of(&comm, Arc::new(FollowedPersistent { operation, follower }))
        }
        _ => followed(request, follower),
    };
    REQUESTS.replace(handle, followed);
    Ok(())
}

/// A request that is complete when this one is, and that `follower` follows.
fn followed(request: Request, follower: Arc<dyn RequestFollower>) -> Request {
    let comm = request.comm.clone();
    let phase = Mutex::new(FollowedPhase::UnderWay(request));
    Request { comm, work: RequestWork::Custom(Arc::new(Followed { follower, phase })) }
}

/// An operation under way.
struct Followed {
    follower: Arc<dyn RequestFollower>,
    phase: Mutex<FollowedPhase>,
}

enum FollowedPhase {
    UnderWay(Request),
    /// Taken from the engine. Another call may still find it so, in another place of an array.
    Complete(RequestOutcome),
}

impl Followed {
    /// The request, unless it is complete.
    fn under_way(&self) -> Option<Request> {
        match &*lock(&self.phase) {
            FollowedPhase::UnderWay(request) => Some(request.clone()),
            FollowedPhase::Complete(_) => None,
        }
    }
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed").field("request", &self.under_way()).finish_non_exhaustive()
    }
}

impl RequestOperation for Followed {
    fn name(&self) -> &'static str {
        "an operation on a copy"
    }

    fn described_by(&self) -> Option<Request> {
        self.under_way()
    }

    fn poll(&self, state: &mut EngineState) -> Option<(Status, Option<Error>)> {
        let phase = &mut *lock(&self.phase);
        if let FollowedPhase::UnderWay(request) = phase {
            *phase = FollowedPhase::Complete(request.poll(state, OnCompletion::Take)?);
        }
        match phase {
            FollowedPhase::Complete(outcome) => Some((outcome.status, outcome.error.clone())),
            FollowedPhase::UnderWay(_) => None,
        }
    }

    fn complete(&self, status: Status, then: OnCompletion) -> (Status, Option<Error>) {
        let after = match &*lock(&self.phase) {
            FollowedPhase::Complete(outcome) => outcome.after.clone(),
            FollowedPhase::UnderWay(_) => None,
        };
        let completed = match after {
            Some((operation, _)) => operation.complete(status, then),
            None => (status, None),
        };
        self.follower.completed();
        completed
    }

    fn cancel(&self) -> Result<()> {
        self.under_way().map_or(Ok(()), |request| request.cancel())
    }

    fn abandon(&self) -> Result<bool> {
        self.under_way().map_or(Ok(true), |request| request.abandon())
    }
}

/// What a persistent request starts.
struct FollowedPersistent {
    operation: Arc<dyn PersistentOperation>,
    follower: Arc<dyn RequestFollower>,
}

impl PersistentOperation for FollowedPersistent {
    fn begin(self: Arc<Self>) -> Result<Request> {
        self.follower.starting();
        match Arc::clone(&self.operation).begin() {
            Ok(request) => Ok(followed(request, Arc::clone(&self.follower))),
            Err(error) => {
                self.follower.completed();
                Err(error)
            }
        }
    }

    fn end(&self) -> Result<()> {
        self.operation.end()
    }
}

/// An operation, and who follows it.
pub(crate) type FollowedOperation<T> = (Arc<T>, Arc<dyn RequestFollower>);

/// The operation of a persistent request that is followed, if it is a `T`, and who follows it.
/// [`look_persistent`](super::look_persistent) does not find these.
///
/// # Errors
/// `MPI_ERR_REQUEST`, also for `MPI_REQUEST_NULL`.
#[cold]
pub(crate) fn followed_operation<T: PersistentOperation>(
    handle: u32,
) -> Result<Option<FollowedOperation<T>>> {
    let found = super::persistent_operation::<FollowedPersistent>(handle)?;
    Ok(found.and_then(|followed| {
        let operation: Arc<dyn Any + Send + Sync> = Arc::clone(&followed.operation) as _;
        Some((downcast(operation)?, Arc::clone(&followed.follower)))
    }))
}
