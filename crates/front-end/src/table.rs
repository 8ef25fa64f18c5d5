//! The functions of `libmpi_abi.so.1` that only front ends of other ABIs call: MPI's functions with
//! a callback, where the callback gets a state, since it converts what a callback of the program
//! gets.
//!
//! The library exports the table as [`SYMBOL`]. A front end compares [`FrontEndTable::layout`]
//! before it reads anything else.

use std::ffi::{c_char, c_int, c_void};

use crate::types::{MPI_Count, MPI_Datatype, MPI_Errhandler, MPI_Op, MPI_Request};

/// The name of the exported table, with its final zero.
pub const SYMBOL: &[u8] = b"mica_front_end\0";

/// Changes whenever [`FrontEndTable`] does.
pub const LAYOUT: u32 = 3;

/// A callback's state. `drop` is called once, after the last call of the callback.
#[repr(C)]
#[derive(Debug)]
pub struct CallbackState {
    /// What the callback gets as its last argument.
    pub state: *mut c_void,
    /// Frees it.
    pub drop: unsafe extern "C" fn(*mut c_void),
}

/// A user's operator: input, input and output, number of elements, datatype, state.
pub type OperatorCallback =
    unsafe extern "C" fn(*mut c_void, *mut c_void, MPI_Count, MPI_Datatype, *mut c_void);

/// A user's error handler: the handle of the object, the error code, state.
pub type ErrorCallback = unsafe extern "C" fn(usize, c_int, *mut c_void);

/// Copies an attribute: object, keyval, state, value, place for the copy, whether there is one.
pub type CopyCallback =
    unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;

/// Deletes an attribute: object, keyval, value, state.
pub type DeleteCallback = unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int;

/// Learns of an [`event`] of a request: the event, the partition if it is about one, state. It
/// calls neither MPI nor the program.
pub type RequestCallback = unsafe extern "C" fn(c_int, c_int, *mut c_void);

/// Frees what a front end keeps in MPI.
pub type EndCallback = unsafe extern "C" fn();

/// The events of a request that is followed.
pub mod event {
    use std::ffi::c_int;

    /// A persistent operation is about to start.
    pub const STARTING: c_int = 0;
    /// The operation is complete, or could not be started. May come more than once.
    pub const COMPLETED: c_int = 1;
    /// A partition is about to be marked as ready.
    pub const READY: c_int = 2;
    /// A partition was found to have arrived.
    pub const ARRIVED: c_int = 3;
}

/// The kinds of objects that callbacks are for.
pub mod object {
    use std::ffi::c_int;

    /// Communicators.
    pub const COMM: c_int = 0;
    /// Windows.
    pub const WIN: c_int = 1;
    /// Files.
    pub const FILE: c_int = 2;
    /// Sessions.
    pub const SESSION: c_int = 3;
    /// Datatypes.
    pub const DATATYPE: c_int = 4;
}

/// The table. Each function returns an error code of the standard ABI, after it has raised the
/// error; the state is dropped then.
#[repr(C)]
#[derive(Debug)]
pub struct FrontEndTable {
    /// [`LAYOUT`] of the library.
    pub layout: u32,
    /// `MPI_Op_create`: callback, state, the most elements that it takes at once (of an `int` or of
    /// an `MPI_Count`), whether it commutes, place for the operator.
    pub op_create: unsafe extern "C" fn(
        Option<OperatorCallback>,
        CallbackState,
        MPI_Count,
        c_int,
        *mut MPI_Op,
    ) -> c_int,
    /// `MPI_Comm_create_errhandler` and its kin: [kind](object), callback, state, place for the
    /// handler.
    pub create_errhandler: unsafe extern "C" fn(
        c_int,
        Option<ErrorCallback>,
        CallbackState,
        *mut MPI_Errhandler,
    ) -> c_int,
    /// `MPI_Comm_create_keyval` and its kin: [kind](object), callbacks, state, place for the key.
    /// Without a callback nothing is copied, and nothing happens when an attribute is deleted.
    pub create_keyval: unsafe extern "C" fn(
        c_int,
        Option<CopyCallback>,
        Option<DeleteCallback>,
        CallbackState,
        *mut c_int,
    ) -> c_int,
    /// Raises the error of a function that the library does not have, whose name is given.
    pub unsupported: unsafe extern "C" fn(*const c_char) -> c_int,
    /// Raises the error of a call, whose name is given, for whose arguments there is no memory.
    pub out_of_memory: unsafe extern "C" fn(*const c_char, usize) -> c_int,
    /// A buffered send is charged this many bytes beside its data, unless it is charged less:
    /// `MPI_BSEND_OVERHEAD` of the other ABI.
    pub limit_bsend_overhead: unsafe extern "C" fn(c_int),
    /// Has the callback called at the events of a request that a call has just returned, whichever
    /// part of the program makes the calls. The state is dropped with the request, which is before
    /// the operation is complete if the program frees the request first.
    pub follow_request: unsafe extern "C" fn(MPI_Request, RequestCallback, CallbackState) -> c_int,
    /// A number of a datatype that no other one gets, unlike its handle; 0 where the handle is a
    /// constant or names none.
    pub datatype_serial: unsafe extern "C" fn(MPI_Datatype) -> u64,
    /// Has the callback called whenever MPI ends: the world model and all sessions. It may free
    /// datatypes, and call no other function that communicates or starts or ends MPI.
    pub at_end: unsafe extern "C" fn(EndCallback),
    /// How many codes of processes this thread's last call of `MPI_Comm_spawn` or
    /// `MPI_Comm_spawn_multiple` has stored: only the root's arguments say it.
    pub spawned_codes: extern "C" fn() -> usize,
}
