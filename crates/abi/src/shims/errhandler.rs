//! Error handlers, codes and strings (MPI 5.0, 9.3 to 9.5).

use std::ffi::c_int;
use std::sync::Arc;

use mica_mpi::constants as c;
use mica_mpi::errhandler::{Callback, Errhandler, HandlerFamily};
use mica_mpi::{Error, Result};

use crate::types::*;

/// The users' C functions. They are variadic; no further arguments are passed.
type UserFunction<H> = unsafe extern "C" fn(*mut H, *mut c_int, ...);

/// For each family, a function that makes a handler of a C function.
macro_rules! handlers {
    ($($name:ident $family:ident $handle:ident;)*) => {$(
        /// A handler of a C function, the argument `argument`.
        ///
        /// # Safety
        /// It is null or of this family's type, and stays in place.
        ///
        /// # Errors
        /// `MPI_ERR_ARG` for null.
        pub unsafe fn $name(function: usize, argument: &'static str) -> Result<Errhandler> {
            if function == 0 {
                let reason = "a function is needed";
                return Err(Error::argument(c::ERR_ARG, argument, "NULL", reason));
            }
            let address = std::ptr::with_exposed_provenance::<()>(function);
            type Function = UserFunction<$handle>;
            // SAFETY: the caller passed a function of this type, and keeps it in place.
            let function = unsafe { std::mem::transmute::<*const (), Function>(address) };
            let callback: Callback = Arc::new(move |object, mut code| {
                let mut object = $handle::from_raw(object);
                // SAFETY: a C function of the user, called as MPI says: with pointers to a handle
                // and to a code.
                unsafe { function(&raw mut object, &raw mut code) }
            });
            Ok(Errhandler::user(HandlerFamily::$family, callback))
        }
    )*};
}

handlers! {
    of_comm Comm MPI_Comm;
    of_win Win MPI_Win;
    of_file File MPI_File;
    of_session Session MPI_Session;
}
