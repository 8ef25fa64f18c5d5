//! Error handlers, codes and strings (MPI 5.0, 9.3 to 9.5).

use std::ffi::c_int;
use std::sync::Arc;

use mica_mpi::constants as c;
use mica_mpi::errhandler::{self, Callback, Errhandler, HandlerFamily};
use mica_mpi::raise::{self, ErrorTarget};
use mica_mpi::{Error, Result};

use crate::convert::Out;
use crate::types::*;

/// The users' C functions. They are variadic; no further arguments are passed.
type UserFunction<H> = unsafe extern "C" fn(*mut H, *mut c_int, ...);

/// Makes a handler of a C function of the given family and stores its handle.
macro_rules! create {
    ($function:ident, $family:ident, $handle:ident, $errhandler:ident) => {{
        // SAFETY: as the caller of the shim promises.
        let errhandler = unsafe { Out::new($errhandler, "errhandler")? };
        if $function == 0 {
            let reason = "a function is needed";
            return Err(Error::argument(c::ERR_ARG, stringify!($function), "NULL", reason));
        }
        let address = std::ptr::with_exposed_provenance::<()>($function);
        // SAFETY: the caller passed a function of this type, and keeps it in place.
        let function = unsafe { std::mem::transmute::<*const (), UserFunction<$handle>>(address) };
        let callback: Callback = Arc::new(move |object, mut code| {
            let mut object = $handle::from_raw(object);
            // SAFETY: a C function of the user, called as MPI says: with pointers to a handle and
            // to a code.
            unsafe { function(&raw mut object, &raw mut code) }
        });
        let handler = Errhandler::user(HandlerFamily::$family, callback);
        errhandler.give(handler)
    }};
}

/// MPI_Comm_create_errhandler.
///
/// # Safety
/// The function is a `MPI_Comm_errhandler_function`, `errhandler` null or writable.
pub unsafe fn mpi_comm_create_errhandler(
    comm_errhandler_fn: usize,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    create!(comm_errhandler_fn, Comm, MPI_Comm, errhandler)
}

/// MPI_Win_create_errhandler.
///
/// # Safety
/// The function is a `MPI_Win_errhandler_function`, `errhandler` null or writable.
pub unsafe fn mpi_win_create_errhandler(
    win_errhandler_fn: usize,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    create!(win_errhandler_fn, Win, MPI_Win, errhandler)
}

/// MPI_File_create_errhandler.
///
/// # Safety
/// The function is a `MPI_File_errhandler_function`, `errhandler` null or writable.
pub unsafe fn mpi_file_create_errhandler(
    file_errhandler_fn: usize,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    create!(file_errhandler_fn, File, MPI_File, errhandler)
}

/// MPI_Session_create_errhandler.
///
/// # Safety
/// The function is a `MPI_Session_errhandler_function`, `errhandler` null or writable.
pub unsafe fn mpi_session_create_errhandler(
    session_errhandler_fn: usize,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    create!(session_errhandler_fn, Session, MPI_Session, errhandler)
}

/// MPI_File_call_errhandler.
pub fn mpi_file_call_errhandler(fh: MPI_File, errorcode: c_int) -> Result<()> {
    errhandler::file_errhandler(fh.raw())?;
    raise::call(ErrorTarget::File(fh.raw()), errorcode)
}
