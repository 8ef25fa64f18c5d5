//! The calls that start, complete and free requests, as Fortran makes them.
//!
//! Fortran passes the address of everything, requests are `INTEGER`, and indices begin with 1. Each
//! function here is generic over the function of C that it calls (`MPI_` or `PMPI_`), and returns
//! what that returned. A null address is passed on: the library reports it. A null count counts as
//! -1, which the library reports as well.
//!
//! Operations on copies of sections ([`deferred`]) are finished here: a call that completes a
//! request takes its copies out of the table first. Programs without such operations pay for one
//! load.

mod arrays;
mod request_array;

use std::ffi::c_int;
use std::ptr::null_mut;

use mica_front_end::types::MPI_Status;

use self::request_array::is_set;
use crate::argument::{to_c, to_fortran};
use crate::generated::constants as c;
use crate::section::deferred::{self, Taken};

pub use self::arrays::{
    request_get_status_all, request_get_status_any, request_get_status_some, startall, testall,
    testany, waitall, waitany, waitsome, waitsome as testsome,
};

/// `MPI_Wait`.
pub type WaitFunction = unsafe extern "C" fn(*mut usize, *mut MPI_Status) -> c_int;
/// `MPI_Test`.
pub type TestFunction = unsafe extern "C" fn(*mut usize, *mut c_int, *mut MPI_Status) -> c_int;
/// `MPI_Request_get_status`.
pub type StatusFunction = unsafe extern "C" fn(usize, *mut c_int, *mut MPI_Status) -> c_int;
/// `MPI_Start`, `MPI_Request_free`.
pub type RequestFunction = unsafe extern "C" fn(*mut usize) -> c_int;

/// Calls `call` with the place of a request, which is written back if it has changed.
///
/// # Safety
/// `request` is null or points to a request.
#[inline(always)]
unsafe fn with_request(request: *mut c_int, call: impl FnOnce(*mut usize) -> c_int) -> c_int {
    if request.is_null() {
        return call(null_mut());
    }
    // SAFETY: as the caller promises.
    let before = unsafe { request.read() };
    let mut handle = to_c(before);
    let code = call(&mut handle);
    if handle != to_c(before) {
        // SAFETY: as the caller promises.
        unsafe { request.write(to_fortran(handle)) };
    }
    code
}

/// The request at an address, which may be null; then no request.
///
/// # Safety
/// `request` is null or points to a request.
unsafe fn take(request: *const c_int) -> Option<Taken> {
    // SAFETY: as the caller promises.
    unsafe { request.as_ref() }.and_then(|&request| deferred::take(request))
}

/// `MPI_WAIT`.
///
/// # Safety
/// The arguments are as MPI asks of the caller; `status` may be null.
#[inline]
pub unsafe fn wait(call: WaitFunction, request: *mut c_int, status: *mut MPI_Status) -> c_int {
    if deferred::any() {
        // SAFETY: as the caller promises.
        return unsafe { wait_and_finish(call, request, status) };
    }
    // SAFETY: as the caller promises.
    unsafe { with_request(request, |handle| call(handle, status)) }
}

/// # Safety
/// As for [`wait`].
#[cold]
unsafe fn wait_and_finish(
    call: WaitFunction,
    request: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let taken = take(request);
        let code = with_request(request, |handle| call(handle, status));
        if let Some(taken) = taken {
            taken.complete();
        }
        code
    }
}

/// `MPI_TEST`.
///
/// # Safety
/// The arguments are as MPI asks of the caller; `status` may be null.
#[inline]
pub unsafe fn test(
    call: TestFunction,
    request: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    if deferred::any() {
        // SAFETY: as the caller promises.
        return unsafe { test_and_finish(call, request, flag, status) };
    }
    // SAFETY: as the caller promises.
    unsafe { with_request(request, |handle| call(handle, flag, status)) }
}

/// # Safety
/// As for [`test()`].
#[cold]
unsafe fn test_and_finish(
    call: TestFunction,
    request: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let taken = take(request);
        let before = request.as_ref().copied();
        let code = with_request(request, |handle| call(handle, flag, status));
        if let Some(taken) = taken {
            // A failed operation is completed as well, and its flag may be unwritten.
            let has_changed = request.as_ref().copied() != before;
            if has_changed || (code == c::SUCCESS && is_set(flag)) {
                taken.complete();
            } else {
                taken.put_back();
            }
        }
        code
    }
}

/// `MPI_REQUEST_GET_STATUS`.
///
/// # Safety
/// The arguments are as MPI asks of the caller; `status` may be null.
pub unsafe fn request_get_status(
    call: StatusFunction,
    request: *const c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let taken = if deferred::any() { take(request) } else { None };
        let handle = request.as_ref().map_or(0, |&request| to_c(request));
        let code = call(handle, flag, status);
        if let Some(taken) = taken {
            if code == c::SUCCESS && is_set(flag) { taken.observe() } else { taken.put_back() }
        }
        code
    }
}

/// `MPI_START`.
///
/// # Safety
/// The arguments are as MPI asks of the caller.
#[inline]
pub unsafe fn start(call: RequestFunction, request: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        if deferred::any()
            && let Some(&request) = request.as_ref()
        {
            deferred::starting(request);
        }
        with_request(request, |handle| call(handle))
    }
}

/// `MPI_REQUEST_FREE`.
///
/// # Safety
/// The arguments are as MPI asks of the caller.
pub unsafe fn request_free(call: RequestFunction, request: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let taken = if deferred::any() { take(request) } else { None };
        let code = with_request(request, |handle| call(handle));
        if let Some(taken) = taken {
            if code == c::SUCCESS { taken.free() } else { taken.put_back() }
        }
        code
    }
}
