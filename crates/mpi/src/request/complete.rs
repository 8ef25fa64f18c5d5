//! The wait and test families of one request and of all (MPI 5.0, 3.7.3, 3.7.5). `many` has those
//! of any and of some.

use mica_memory::{try_collect, try_collect_valid};
use mica_protocol::EngineState;

use super::{
    OnCompletion, PROC_NULL_HANDLE, Request, RequestElement, RequestOutcome, SENT_HANDLE,
    is_shared, list_all, plain, release,
};
use crate::error::Result;
use crate::process;

/// Frees the handle, unless the request is persistent, and returns the outcome as the program sees
/// it: of several calls that found the request complete, one gets its outcome.
pub(super) fn finish(handle: u32, outcome: RequestOutcome) -> RequestOutcome {
    match outcome.keep || is_shared(handle) || release(handle, &outcome) {
        true => outcome.settled(),
        false => RequestOutcome::gone(outcome.comm),
    }
}

/// `MPI_Wait`: blocks until the request is complete; the handle is used up.
///
/// # Errors
/// `MPI_ERR_REQUEST`; `MPI_ERR_NO_MEM`. The operation's own error is in the outcome.
pub fn wait(handle: u32) -> Result<RequestOutcome> {
    let Some(request) = Request::resolve(handle)? else {
        return Ok(RequestOutcome::EMPTY);
    };
    Ok(finish(handle, request.wait()?))
}

/// `MPI_Test`: the outcome if the request is complete; the handle is used up then.
///
/// # Errors
/// As [`wait`].
#[inline]
pub fn test(handle: u32) -> Result<Option<RequestOutcome>> {
    Ok(get(handle, OnCompletion::Take)?.map(|outcome| finish(handle, outcome)))
}

/// `MPI_Request_get_status`: as [`test()`], but the request stays.
///
/// # Errors
/// As [`wait`].
pub fn status(handle: u32) -> Result<Option<RequestOutcome>> {
    Ok(get(handle, OnCompletion::Keep)?.map(RequestOutcome::settled))
}

#[inline(always)]
fn get(handle: u32, then: OnCompletion) -> Result<Option<RequestOutcome>> {
    match plain::is_incomplete(handle)? {
        true => Ok(None),
        false => get_any(handle, then),
    }
}

/// As [`get`], for a request of any kind.
#[inline(never)]
fn get_any(handle: u32, then: OnCompletion) -> Result<Option<RequestOutcome>> {
    // No poll: what completed in its own call does not show that the program waits.
    match handle {
        SENT_HANDLE => return Ok(Some(RequestOutcome::SENT)),
        PROC_NULL_HANDLE => return Ok(Some(RequestOutcome::PROC_NULL)),
        _ => {}
    }
    let poll = process::begin_poll();
    let Some(request) = Request::resolve(handle)? else {
        return Ok(Some(RequestOutcome::EMPTY));
    };
    let question = |state: &mut EngineState, arrived: &mut bool| {
        if let Some(outcome) = request.poll(state, then) {
            return Ok(Some(outcome));
        }
        *arrived = state.progress()?;
        Ok(request.poll(state, then))
    };
    Ok(poll?.try_once(question, |state, list| list_all([&request], state, list))?)
}

/// The active requests among some; the others count as complete.
fn resolve_all(handles: &[u32]) -> Result<Vec<Option<Request>>> {
    try_collect_valid(handles.iter().map(|&handle| Request::resolve_active(handle)))
}

/// `MPI_Waitall`: blocks until all requests are complete; all handles are used up. One outcome for
/// each.
///
/// # Errors
/// As [`wait`].
pub fn wait_all(handles: &[u32]) -> Result<Vec<RequestOutcome>> {
    let requests = resolve_all(handles)?;
    let outcome = |(i, &handle): (usize, &u32)| match &requests[i] {
        None => Ok(RequestOutcome::EMPTY),
        Some(request) => Ok(finish(handle, request.wait_among(&requests[i + 1..])?)),
    };
    try_collect_valid(handles.iter().enumerate().map(outcome))
}

/// `MPI_Testall`: the outcomes if all requests are complete; all handles are used up then.
///
/// # Errors
/// As [`wait`].
pub fn test_all<H: RequestElement>(handles: &[H]) -> Result<Option<Vec<RequestOutcome>>> {
    if plain::is_one_incomplete(handles)? {
        return Ok(None);
    }
    let poll = process::begin_poll();
    let handles = try_collect(handles.iter().map(|&handle| handle.into()))?;
    let requests = resolve_all(&handles)?;
    let question = |state: &mut EngineState, arrived: &mut bool| {
        *arrived = state.progress()?;
        let all = |state: &mut EngineState, then: OnCompletion| -> Option<Vec<RequestOutcome>> {
            requests
                .iter()
                .map(|r| r.as_ref().map_or(Some(RequestOutcome::EMPTY), |r| r.poll(state, then)))
                .collect()
        };
        Ok(match all(state, OnCompletion::Keep) {
            None => None,
            Some(_) => all(state, OnCompletion::Take),
        })
    };
    let outcomes =
        poll?.try_once(question, |state, list| list_all(requests.iter().flatten(), state, list))?;
    Ok(outcomes.map(|all| all.into_iter().zip(handles).map(|(o, h)| finish(h, o)).collect()))
}
