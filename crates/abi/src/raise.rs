//! From a shim's result to the code that the caller gets (MPI 5.0, 9.3).

use std::ffi::c_int;

use mica_mpi::constants::SUCCESS;
use mica_mpi::errhandler::Errhandler;
use mica_mpi::{Error, raise};

pub use mica_mpi::raise::ErrorTarget;

/// An error, and the object to raise it on where the shim knows better than the call's arguments
/// (`MPI_Wait`: the communicator of the request). `?` makes one of an [`Error`].
#[derive(Debug)]
pub struct ErrorOn {
    error: Error,
    on: Option<ErrorTarget>,
    handler: Option<Errhandler>,
}

impl ErrorOn {
    /// `error`, to be raised on `target`.
    #[cold]
    pub fn new(target: ErrorTarget, error: Error) -> Self {
        Self { error, on: Some(target), handler: None }
    }

    /// `error`, for the handler that the call itself got.
    #[cold]
    pub fn for_handler(handler: Errhandler, target: ErrorTarget, error: Error) -> Self {
        Self { error, on: Some(target), handler: Some(handler) }
    }
}

impl From<Error> for ErrorOn {
    #[cold]
    fn from(error: Error) -> Self {
        Self { error, on: None, handler: None }
    }
}

/// The return code of `call`: success, or what the error handler leaves to return. `target` is the
/// object that the call's arguments name.
#[inline(always)]
pub fn finish<E: Into<ErrorOn>>(
    call: &'static str,
    result: Result<(), E>,
    target: impl FnOnce() -> ErrorTarget,
) -> c_int {
    match result {
        Ok(()) => SUCCESS,
        Err(error) => raise(call, target(), error.into()),
    }
}

/// Invokes the error handler.
#[cold]
#[inline(never)]
pub fn raise(call: &'static str, target: ErrorTarget, error: ErrorOn) -> c_int {
    let ErrorOn { error, on, handler } = error;
    let target = on.unwrap_or(target);
    match handler {
        Some(handler) => raise::raise_with(&handler, call, target, error),
        None => raise::raise(call, target, error),
    }
}
