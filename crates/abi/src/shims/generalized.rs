//! Generalized requests (MPI 5.0, 13.2).

use std::ffi::{c_int, c_void};

use mica_mpi::constants as c;
use mica_mpi::generalized::{self, GeneralizedCallbacks};
use mica_mpi::status::Status;
use mica_mpi::{Error, Result};

use super::pt2pt::put_status;
use crate::convert::{Out, flag};
use crate::types::*;

/// `MPI_Grequest_query_function`.
type Query = unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int;
/// `MPI_Grequest_free_function`.
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
/// `MPI_Grequest_cancel_function`.
type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

fn refuse_null(function: usize, argument: &'static str) -> Result<()> {
    match function {
        0 => {
            let reason = "a function is needed";
            Err(Error::argument(c::ERR_ARG, argument, "NULL", reason))
        }
        _ => Ok(()),
    }
}

/// MPI_Grequest_start.
///
/// # Safety
/// The functions are of the types that their names say and stay in place; `request` is null or
/// writable.
pub unsafe fn mpi_grequest_start(
    query_fn: usize,
    free_fn: usize,
    cancel_fn: usize,
    extra_state: *mut c_void,
    request: *mut MPI_Request,
) -> Result<()> {
    refuse_null(query_fn, "query_fn")?;
    refuse_null(free_fn, "free_fn")?;
    refuse_null(cancel_fn, "cancel_fn")?;
    // SAFETY: as the caller promises.
    let request = unsafe { Out::new(request, "request")? };
    // SAFETY: as the caller promises, these are functions of these types.
    let (query, free, cancel) = unsafe {
        (
            std::mem::transmute::<*const (), Query>(std::ptr::with_exposed_provenance(query_fn)),
            std::mem::transmute::<*const (), Free>(std::ptr::with_exposed_provenance(free_fn)),
            std::mem::transmute::<*const (), Cancel>(std::ptr::with_exposed_provenance(cancel_fn)),
        )
    };
    let extra = extra_state.expose_provenance();
    let extra = move || std::ptr::with_exposed_provenance_mut::<c_void>(extra);
    let callbacks = GeneralizedCallbacks {
        query: Box::new(move || {
            let mut status = MPI_Status::default();
            // SAFETY: the status is writable; the user's function, called as MPI says.
            let code = unsafe {
                put_status(&raw mut status, &Status::EMPTY);
                query(extra(), &raw mut status)
            };
            let status = Status {
                source: status.MPI_SOURCE,
                tag: status.MPI_TAG,
                bytes: status.bytes(),
                cancelled: status.cancelled().into(),
            };
            (status, code)
        }),
        // SAFETY: the user's function, called as MPI says.
        free: Box::new(move || unsafe { free(extra()) }),
        // SAFETY: as above.
        cancel: Box::new(move |complete| unsafe { cancel(extra(), flag(complete)) }),
    };
    let made = generalized::start(callbacks)?;
    request.give(made)
}
