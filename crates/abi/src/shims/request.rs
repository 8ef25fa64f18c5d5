//! Requests (MPI 5.0, 3.7 and 3.9).

use std::cell::Cell;
use std::ffi::c_int;

use mica_memory::{try_collect, try_collect_valid};
use mica_mpi::constants as c;
use mica_mpi::handle::HandleKind;
use mica_mpi::request::{self, FoundRequests, RequestOutcome};
use mica_mpi::{Error, Result};

use super::pt2pt::{put_empty, put_error, put_status};
use crate::convert::{Out, flag, slice, slice_mut};
use crate::raise::{ErrorOn, ErrorTarget};
use crate::types::*;

const NULL: MPI_Request = MPI_Request::from_raw(c::REQUEST_NULL);

/// An error of a request of this communicator, or file (0: none).
#[cold]
fn on_comm(comm: u32, error: Error) -> ErrorOn {
    match comm {
        0 => error.into(),
        file if HandleKind::File.owns(file) => ErrorOn::new(ErrorTarget::File(file), error),
        comm => ErrorOn::new(ErrorTarget::Comm(comm), error),
    }
}

/// An error of a call on one request, which stays: raised on its communicator, if it has one.
#[cold]
pub(crate) fn of_request(handle: u32, error: Error) -> ErrorOn {
    on_comm(request::comm(handle), error)
}

/// Stores the status of one request.
///
/// # Safety
/// `status` is null or writable.
unsafe fn put(outcome: &RequestOutcome, status: *mut MPI_Status) {
    match outcome.empty {
        // SAFETY: as the caller promises.
        true => unsafe { put_empty(status) },
        // SAFETY: as the caller promises.
        false => unsafe { put_status(status, &outcome.status) },
    }
}

/// Stores the outcome of one request.
///
/// # Safety
/// `status` is null or writable.
unsafe fn deliver(
    outcome: RequestOutcome,
    status: *mut MPI_Status,
) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    unsafe { put(&outcome, status) };
    match outcome.error {
        None => Ok(()),
        Some(error) => Err(on_comm(outcome.comm, error)),
    }
}

/// The status of request number `i`.
fn status_at(statuses: *mut MPI_Status, i: usize) -> *mut MPI_Status {
    match statuses.is_null() {
        true => statuses,
        false => statuses.wrapping_add(i),
    }
}

/// Stores the outcomes of several requests, `statuses[before + i]` being that of `outcomes[i]`;
/// those of the `before` first ones, which succeeded, are stored already. If a request failed the
/// error is `MPI_ERR_IN_STATUS`, and each status has the code of its request (MPI 5.0, 3.7.5).
///
/// # Safety
/// `statuses` is null or writable for as many.
unsafe fn deliver_all<'a>(
    outcomes: impl Iterator<Item = &'a RequestOutcome> + Clone,
    before: usize,
    statuses: *mut MPI_Status,
) -> std::result::Result<(), ErrorOn> {
    for (i, outcome) in outcomes.clone().enumerate() {
        // SAFETY: as the caller promises.
        unsafe { put(outcome, status_at(statuses, before + i)) };
    }
    let Some(failed) = outcomes.clone().find(|outcome| outcome.error.is_some()) else {
        return Ok(());
    };
    let codes = outcomes.map(|outcome| outcome.error.as_ref().map_or(c::SUCCESS, Error::code));
    let codes = std::iter::repeat_n(c::SUCCESS, before).chain(codes);
    for (i, code) in codes.enumerate() {
        // SAFETY: as the caller promises.
        unsafe { put_error(status_at(statuses, i), code) };
    }
    Err(on_comm(failed.comm, Error::InStatus))
}

/// Nulls the handles that are used up.
fn clear(requests: &mut [MPI_Request], outcomes: &[RequestOutcome]) {
    for (request, outcome) in requests.iter_mut().zip(outcomes) {
        if !outcome.keep {
            *request = NULL;
        }
    }
}

fn cells(requests: &mut [MPI_Request]) -> &[Cell<MPI_Request>] {
    Cell::from_mut(requests).as_slice_of_cells()
}

fn raw(requests: &[MPI_Request]) -> Result<Vec<u32>> {
    Ok(try_collect(requests.iter().map(|r| r.raw()))?)
}

/// Starts a persistent request; an error is raised on its communicator.
fn start(request: MPI_Request) -> std::result::Result<(), ErrorOn> {
    request::start(request.raw()).map_err(|error| of_request(request.raw(), error))
}

/// MPI_Start.
///
/// # Safety
/// `request` is null or readable.
pub unsafe fn mpi_start(request: *mut MPI_Request) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    start(unsafe { Out::new(request, "request")? }.get())
}

/// MPI_Startall.
///
/// # Safety
/// The array holds `count` requests.
pub unsafe fn mpi_startall(
    count: c_int,
    array_of_requests: *mut MPI_Request,
) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    let requests = unsafe { slice_mut(array_of_requests, count, "array_of_requests", "count")? };
    requests.iter().try_for_each(|&request| start(request))
}

/// MPI_Wait.
///
/// # Safety
/// `request` is null or valid; `status` is null or writable.
#[inline]
pub unsafe fn mpi_wait(
    request: *mut MPI_Request,
    status: *mut MPI_Status,
) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    let request = unsafe { Out::new(request, "request")? };
    if request.get() == NULL {
        // SAFETY: as the caller promises.
        unsafe { put_empty(status) };
        return Ok(());
    }
    let handle = request.get().raw();
    if let Some(plain) = request::wait_plain(handle).map_err(|error| of_request(handle, error))? {
        request.set(NULL);
        // SAFETY: as the caller promises.
        unsafe { put_status(status, &plain) };
        return Ok(());
    }
    let outcome = request::wait(handle).map_err(|error| of_request(handle, error))?;
    if !outcome.keep {
        request.set(NULL);
    }
    // SAFETY: as the caller promises.
    unsafe { deliver(outcome, status) }
}

/// MPI_Test.
///
/// # Safety
/// `request` is null or valid; `done` and `status` are null or writable.
#[inline]
pub unsafe fn mpi_test(
    request: *mut MPI_Request,
    done: *mut c_int,
    status: *mut MPI_Status,
) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    let (request, done) = unsafe { (Out::new(request, "request")?, Out::new(done, "flag")?) };
    let handle = request.get().raw();
    let outcome = request::test(handle).map_err(|error| of_request(handle, error))?;
    done.set(flag(outcome.is_some()));
    let Some(outcome) = outcome else {
        return Ok(());
    };
    if !outcome.keep {
        request.set(NULL);
    }
    // SAFETY: as the caller promises.
    unsafe { deliver(outcome, status) }
}

/// MPI_Request_get_status.
///
/// # Safety
/// `done` and `status` are null or writable.
pub unsafe fn mpi_request_get_status(
    request: MPI_Request,
    done: *mut c_int,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let done = unsafe { Out::new(done, "flag")? };
    let outcome = request::status(request.raw())?;
    done.set(flag(outcome.is_some()));
    if let Some(outcome) = outcome {
        // SAFETY: as the caller promises.
        unsafe { put(&outcome, status) };
    }
    Ok(())
}

/// MPI_Waitall.
///
/// # Safety
/// The arrays hold `count` elements; statuses may be null.
#[inline]
pub unsafe fn mpi_waitall(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    array_of_statuses: *mut MPI_Status,
) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    let requests = unsafe { slice_mut(array_of_requests, count, "array_of_requests", "count")? };
    // Plain requests come first: they need no list of outcomes.
    let mut plain = 0;
    while let Some((request, others)) = requests[plain..].split_first_mut() {
        let others = || others.iter().map(|other| other.raw());
        let status_at = status_at(array_of_statuses, plain);
        if *request == NULL {
            // SAFETY: as the caller promises, for each element.
            unsafe { put_empty(status_at) };
        } else if let Some(status) = request::wait_plain_among(request.raw(), others)? {
            *request = NULL;
            // SAFETY: as the caller promises, for each element.
            unsafe { put_status(status_at, &status) };
        } else {
            break;
        }
        plain += 1;
    }
    if plain == requests.len() {
        return Ok(());
    }
    let rest = &mut requests[plain..];
    let outcomes = request::wait_all(&raw(rest)?)?;
    clear(rest, &outcomes);
    // SAFETY: as the caller promises.
    unsafe { deliver_all(outcomes.iter(), plain, array_of_statuses) }
}

/// MPI_Testall.
///
/// # Safety
/// The arrays hold `count` elements; statuses may be null; `done` is null or writable.
#[inline]
pub unsafe fn mpi_testall(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    done: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    let (requests, done) = unsafe {
        (
            slice_mut(array_of_requests, count, "array_of_requests", "count")?,
            Out::new(done, "flag")?,
        )
    };
    let outcomes = request::test_all(requests)?;
    done.set(flag(outcomes.is_some()));
    let Some(outcomes) = outcomes else {
        return Ok(());
    };
    clear(requests, &outcomes);
    // SAFETY: as the caller promises.
    unsafe { deliver_all(outcomes.iter(), 0, array_of_statuses) }
}

/// Stores what a call on any of several requests found. Sets `done` to whether the call is
/// satisfied.
///
/// # Safety
/// `status` is null or writable.
unsafe fn deliver_any(
    found: FoundRequests<(usize, RequestOutcome)>,
    index: Out<c_int>,
    done: impl FnOnce(bool),
    status: *mut MPI_Status,
) -> std::result::Result<(), ErrorOn> {
    match found {
        FoundRequests::NotYet => {
            index.set(c::UNDEFINED);
            done(false);
            Ok(())
        }
        FoundRequests::NoneActive => {
            index.set(c::UNDEFINED);
            done(true);
            // SAFETY: as the caller promises.
            unsafe { put_empty(status) };
            Ok(())
        }
        FoundRequests::Complete((i, outcome)) => {
            index.set(i as c_int);
            done(true);
            // SAFETY: as the caller promises.
            unsafe { deliver(outcome, status) }
        }
    }
}

/// MPI_Waitany.
///
/// # Safety
/// The array holds `count` requests; `index` is null or writable, `status` likewise.
pub unsafe fn mpi_waitany(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    index: *mut c_int,
    status: *mut MPI_Status,
) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    let (requests, index) = unsafe {
        (
            slice_mut(array_of_requests, count, "array_of_requests", "count")?,
            Out::new(index, "index")?,
        )
    };
    let found = request::wait_any(cells(requests))?;
    // SAFETY: as the caller promises.
    unsafe { deliver_any(found, index, |_| (), status) }
}

/// MPI_Testany.
///
/// # Safety
/// The array holds `count` requests; the others are null or writable.
pub unsafe fn mpi_testany(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    index: *mut c_int,
    done: *mut c_int,
    status: *mut MPI_Status,
) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    let (requests, index, done) = unsafe {
        (
            slice_mut(array_of_requests, count, "array_of_requests", "count")?,
            Out::new(index, "index")?,
            Out::new(done, "flag")?,
        )
    };
    let found = request::test_any(cells(requests))?;
    // SAFETY: as the caller promises.
    unsafe { deliver_any(found, index, |yes| done.set(flag(yes)), status) }
}

/// Stores what a call on some of several requests found.
///
/// # Safety
/// `indices` holds as many elements as the array of requests; `statuses` too, or is null.
unsafe fn deliver_some(
    found: FoundRequests<Vec<(usize, RequestOutcome)>>,
    outcount: Out<c_int>,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> std::result::Result<(), ErrorOn> {
    let done = match found {
        FoundRequests::NotYet => {
            outcount.set(0);
            return Ok(());
        }
        FoundRequests::NoneActive => {
            outcount.set(c::UNDEFINED);
            return Ok(());
        }
        FoundRequests::Complete(done) => done,
    };
    let n = done.len() as c_int;
    // SAFETY: as the caller promises; no more are complete than there are requests.
    let indices = unsafe { slice_mut(indices, n, "array_of_indices", "outcount")? };
    outcount.set(n);
    for (to, (i, _)) in indices.iter_mut().zip(&done) {
        *to = *i as c_int;
    }
    // SAFETY: as the caller promises.
    unsafe { deliver_all(done.iter().map(|(_, outcome)| outcome), 0, statuses) }
}

/// MPI_Waitsome.
///
/// # Safety
/// The arrays hold `incount` elements; statuses may be null; `outcount` is null or writable.
pub unsafe fn mpi_waitsome(
    incount: c_int,
    array_of_requests: *mut MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    unsafe {
        let requests = slice_mut(array_of_requests, incount, "array_of_requests", "incount")?;
        let outcount = Out::new(outcount, "outcount")?;
        let found = request::wait_some(cells(requests))?;
        deliver_some(found, outcount, array_of_indices, array_of_statuses)
    }
}

/// MPI_Testsome.
///
/// # Safety
/// The arrays hold `incount` elements; statuses may be null; `outcount` is null or writable.
pub unsafe fn mpi_testsome(
    incount: c_int,
    array_of_requests: *mut MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    unsafe {
        let requests = slice_mut(array_of_requests, incount, "array_of_requests", "incount")?;
        let outcount = Out::new(outcount, "outcount")?;
        let found = request::test_some(cells(requests))?;
        deliver_some(found, outcount, array_of_indices, array_of_statuses)
    }
}

/// MPI_Request_get_status_all.
///
/// # Safety
/// The arrays hold `count` elements; statuses may be null; `done` is null or writable.
pub unsafe fn mpi_request_get_status_all(
    count: c_int,
    array_of_requests: *const MPI_Request,
    done: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (requests, done) = unsafe {
        (slice(array_of_requests, count, "array_of_requests", "count")?, Out::new(done, "flag")?)
    };
    let outcomes = try_collect_valid(requests.iter().map(|r| request::status(r.raw())))?;
    let all: Option<Vec<RequestOutcome>> = outcomes.into_iter().collect();
    done.set(flag(all.is_some()));
    if let (Some(all), false) = (all, array_of_statuses.is_null()) {
        for (i, outcome) in all.iter().enumerate() {
            // SAFETY: as the caller promises.
            unsafe { put(outcome, array_of_statuses.add(i)) };
        }
    }
    Ok(())
}

/// MPI_Request_get_status_any.
///
/// # Safety
/// The array holds `count` requests; the others are null or writable.
pub unsafe fn mpi_request_get_status_any(
    count: c_int,
    array_of_requests: *const MPI_Request,
    index: *mut c_int,
    done: *mut c_int,
    status: *mut MPI_Status,
) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    let (requests, index, done) = unsafe {
        (
            slice(array_of_requests, count, "array_of_requests", "count")?,
            Out::new(index, "index")?,
            Out::new(done, "flag")?,
        )
    };
    let found = request::status_any(requests.iter().map(|request| request.raw()))?;
    // SAFETY: as the caller promises.
    unsafe { deliver_any(found, index, |yes| done.set(flag(yes)), status) }
}

/// MPI_Request_get_status_some.
///
/// # Safety
/// The arrays hold `incount` elements; statuses may be null; `outcount` is null or writable.
pub unsafe fn mpi_request_get_status_some(
    incount: c_int,
    array_of_requests: *const MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    unsafe {
        let requests = slice(array_of_requests, incount, "array_of_requests", "incount")?;
        let outcount = Out::new(outcount, "outcount")?;
        let found = request::status_some(requests.iter().map(|request| request.raw()))?;
        deliver_some(found, outcount, array_of_indices, array_of_statuses)
    }
}

/// MPI_Cancel.
///
/// # Safety
/// `request` is null or readable.
pub unsafe fn mpi_cancel(request: *mut MPI_Request) -> Result<()> {
    // SAFETY: as the caller promises.
    let request = unsafe { Out::new(request, "request")? };
    request::cancel(request.get().raw())
}
