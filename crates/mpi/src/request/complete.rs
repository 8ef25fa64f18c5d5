//! The wait and test families: of one request, of all, of any and of some (MPI 5.0, 3.7.3 to
//! 3.7.6).

use mica_channel::memory::try_collect_valid;
use mica_protocol::{EngineState, Poll, WaitList};

use super::{
    OnCompletion, PROC_NULL_HANDLE, Request, RequestOutcome, SENT_HANDLE, is_shared, list_all,
    plain, release,
};
use crate::constants as c;
use crate::error::Result;
use crate::process;

/// Frees the handle, unless the request is persistent, and returns the outcome as the program sees
/// it: of several calls that found the request complete, one gets its outcome.
fn finish(handle: u32, outcome: RequestOutcome) -> RequestOutcome {
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
pub fn test_all(handles: &[u32]) -> Result<Option<Vec<RequestOutcome>>> {
    let poll = process::begin_poll();
    let requests = resolve_all(handles)?;
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
    Ok(outcomes.map(|all| all.into_iter().zip(handles).map(|(o, &h)| finish(h, o)).collect()))
}

/// The first complete request, in the order of the list.
fn any(requests: &[Option<Request>], state: &mut EngineState) -> Option<(usize, RequestOutcome)> {
    requests
        .iter()
        .enumerate()
        .find_map(|(i, r)| Some((i, r.as_ref()?.poll(state, OnCompletion::Take)?)))
}

/// All requests that are complete; `None` if none is.
fn some(
    requests: &[Option<Request>],
    state: &mut EngineState,
) -> Option<Vec<(usize, RequestOutcome)>> {
    let done: Vec<(usize, RequestOutcome)> = requests
        .iter()
        .enumerate()
        .filter_map(|(i, r)| Some((i, r.as_ref()?.poll(state, OnCompletion::Take)?)))
        .collect();
    (!done.is_empty()).then_some(done)
}

/// Those of the first requests that are complete now, `most` at most; those behind them are not
/// looked at. A send or receive that is not complete costs two looks, and none of the requests is
/// held: who takes thousands one by one, in any order, pays nanoseconds for each that is skipped.
fn complete_now(handles: &[u32], most: usize) -> Result<Vec<(usize, RequestOutcome)>> {
    let poll = |handle, state: &mut EngineState| -> Result<Option<RequestOutcome>> {
        if handle == c::REQUEST_NULL || plain::is_known_incomplete(handle, state) {
            return Ok(None);
        }
        let request = Request::resolve_active(handle)?;
        Ok(request.and_then(|request| request.poll(state, OnCompletion::Take)))
    };
    process::engine()?.enter(|state| {
        let mut done = Vec::new();
        for (i, &handle) in handles.iter().enumerate() {
            match poll(handle, state) {
                Ok(None) => {}
                Ok(Some(outcome)) => done.push((i, outcome)),
                // What is complete is not lost: the next call meets the error.
                Err(_) if !done.is_empty() => break,
                Err(error) => return Err(error),
            }
            if done.len() >= most {
                break;
            }
        }
        Ok(done)
    })
}

fn drive_any<R>(
    requests: &[Option<Request>],
    pick: impl Fn(&[Option<Request>], &mut EngineState) -> Option<R>,
) -> Result<Option<R>> {
    if none_active(requests) {
        return Ok(None);
    }
    let engine = process::engine()?;
    let waiting = |state: &EngineState, list: &mut WaitList| {
        list_all(requests.iter().flatten(), state, list);
    };
    Ok(Some(engine.drive(waiting, |state| pick(requests, state))?))
}

fn test_any_with<R>(
    poll: Poll<'_>,
    requests: &[Option<Request>],
    pick: impl Fn(&[Option<Request>], &mut EngineState) -> Option<R>,
) -> Result<Option<R>> {
    let question = |state: &mut EngineState, arrived: &mut bool| {
        *arrived = state.progress()?;
        Ok(pick(requests, state))
    };
    let about = |state: &EngineState, list: &mut WaitList| {
        list_all(requests.iter().flatten(), state, list);
    };
    Ok(poll.try_once(question, about)?)
}

/// What a call on several requests found: nothing to wait for, nothing complete yet, or what
/// completed.
#[derive(Debug, Clone)]
pub enum FoundRequests<T> {
    /// All handles are `MPI_REQUEST_NULL`.
    NoneActive,
    /// Nothing is complete.
    NotYet,
    /// These are complete, and their handles are used up.
    Complete(T),
}

fn found_one(
    handles: &[u32],
    found: Option<(usize, RequestOutcome)>,
) -> FoundRequests<(usize, RequestOutcome)> {
    match found {
        None => FoundRequests::NotYet,
        Some((i, outcome)) => FoundRequests::Complete((i, finish(handles[i], outcome))),
    }
}

fn found_some(
    handles: &[u32],
    found: Option<Vec<(usize, RequestOutcome)>>,
) -> FoundRequests<Vec<(usize, RequestOutcome)>> {
    match found {
        None => FoundRequests::NotYet,
        Some(done) => FoundRequests::Complete(
            done.into_iter().map(|(i, outcome)| (i, finish(handles[i], outcome))).collect(),
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
pub fn wait_any(handles: &[u32]) -> Result<FoundRequests<(usize, RequestOutcome)>> {
    if let Some(found) = complete_now(handles, 1)?.pop() {
        return Ok(found_one(handles, Some(found)));
    }
    let requests = resolve_all(handles)?;
    if none_active(&requests) {
        return Ok(FoundRequests::NoneActive);
    }
    Ok(found_one(handles, drive_any(&requests, any)?))
}

/// `MPI_Testany`.
///
/// # Errors
/// As [`wait`].
pub fn test_any(handles: &[u32]) -> Result<FoundRequests<(usize, RequestOutcome)>> {
    let poll = process::begin_poll();
    if let Some(found) = complete_now(handles, 1)?.pop() {
        return Ok(found_one(handles, Some(found)));
    }
    let requests = resolve_all(handles)?;
    if none_active(&requests) {
        return Ok(FoundRequests::NoneActive);
    }
    Ok(found_one(handles, test_any_with(poll?, &requests, any)?))
}

/// `MPI_Waitsome`: blocks until at least one request is complete.
///
/// # Errors
/// As [`wait`].
pub fn wait_some(handles: &[u32]) -> Result<FoundRequests<Vec<(usize, RequestOutcome)>>> {
    let done = complete_now(handles, usize::MAX)?;
    if !done.is_empty() {
        return Ok(found_some(handles, Some(done)));
    }
    let requests = resolve_all(handles)?;
    if none_active(&requests) {
        return Ok(FoundRequests::NoneActive);
    }
    Ok(found_some(handles, drive_any(&requests, some)?))
}

/// `MPI_Testsome`.
///
/// # Errors
/// As [`wait`].
pub fn test_some(handles: &[u32]) -> Result<FoundRequests<Vec<(usize, RequestOutcome)>>> {
    let poll = process::begin_poll();
    let done = complete_now(handles, usize::MAX)?;
    if !done.is_empty() {
        return Ok(found_some(handles, Some(done)));
    }
    let requests = resolve_all(handles)?;
    if none_active(&requests) {
        return Ok(FoundRequests::NoneActive);
    }
    Ok(found_some(handles, test_any_with(poll?, &requests, some)?))
}
