//! Callbacks of the program: each gets MPICH's handles and codes, from a function here that the
//! library calls with its own.

use std::ffi::{c_int, c_void};

use mica_front_end::table::{
    CallbackState, CopyCallback, DeleteCallback, ErrorCallback, OperatorCallback, object,
};
use mica_front_end::types::{MPI_Count, MPI_Datatype, MPI_Status};

use crate::argument::made;
use crate::export::standard;
use crate::handle::{Comm, Errhandler, MpichDatatype, MpichFile, Op, Request, Session, Win};
use crate::library::table;
use crate::status::{MpichStatus, from_standard, to_standard};
use crate::value::{ErrorCode, Keyval};
use crate::word::WordKind;

/// A state that the library frees after the last call of its callbacks.
pub fn state<T>(value: T) -> CallbackState {
    unsafe extern "C" fn drop<T>(state: *mut c_void) {
        // SAFETY: the library passes what `state` has made, once.
        std::mem::drop(unsafe { Box::from_raw(state.cast::<T>()) });
    }
    CallbackState { state: Box::into_raw(Box::new(value)).cast(), drop: drop::<T> }
}

/// `MPI_User_function`, with MPICH's handle.
pub type UserFunction = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut c_int);
/// `MPI_User_function_c`.
pub type UserFunctionLarge =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut MPI_Count, *mut c_int);
/// `MPIX_User_function_x`.
pub type UserFunctionExtra =
    unsafe extern "C" fn(*mut c_void, *mut c_void, MPI_Count, c_int, *mut c_void);
/// `MPIX_Destructor_function`.
pub type Destructor = unsafe extern "C" fn(*mut c_void);

/// The program's state of a callback, and what frees it.
#[derive(Debug)]
pub struct ProgramState {
    destructor: Option<Destructor>,
    extra: usize,
}

impl ProgramState {
    /// The state at `extra`.
    pub fn new(extra: *mut c_void, destructor: Option<Destructor>) -> ProgramState {
        ProgramState { destructor, extra: extra.expose_provenance() }
    }

    fn address(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.extra)
    }
}

impl Drop for ProgramState {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: the program's function, for its state, once.
            unsafe { destructor(self.address()) }
        }
    }
}

/// What a user's operator is made of.
#[derive(Debug)]
pub enum Operator {
    /// With a count that is an `int`.
    Plain(UserFunction),
    /// With a count that is an `MPI_Count`.
    Large(UserFunctionLarge),
    /// With the program's state.
    Extra(UserFunctionExtra, ProgramState),
}

unsafe extern "C" fn apply(
    input: *mut c_void,
    inout: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    state: *mut c_void,
) {
    let mut handle = MpichDatatype::to_mpich(datatype.0);
    // SAFETY: the library passes the state that `create_operator` gave it, which is only read. It
    // passes a count that is an `int` to an operator that was created so. The operands have `count`
    // elements; the program's function, called as MPI says.
    unsafe {
        match &*state.cast::<Operator>() {
            Operator::Plain(function) => {
                let mut count = count as c_int;
                function(input, inout, &raw mut count, &raw mut handle);
            }
            Operator::Large(function) => {
                let mut count = count;
                function(input, inout, &raw mut count, &raw mut handle);
            }
            Operator::Extra(function, own) => {
                function(input, inout, count, handle, own.address());
            }
        }
    }
}

/// Creates an operator; its handle is the library's, in MPICH's ABI.
///
/// # Safety
/// `op` is null or writable; the functions are as MPI asks.
pub unsafe fn create_operator(operator: Option<Operator>, commute: c_int, op: *mut c_int) -> c_int {
    let most = match operator {
        Some(Operator::Plain(_)) => c_int::MAX.into(),
        _ => MPI_Count::MAX,
    };
    let function = operator.as_ref().map(|_| apply as OperatorCallback);
    let state = operator.map_or_else(|| state(()), state);
    // SAFETY: the table's function; the state goes with the callback.
    unsafe { made::<Op>(op, |op| (table().op_create)(function, state, most, commute, op.cast())) }
}

/// The program's error handler, for a kind of object: (address of the handle, of the code, ...).
pub type ErrorHandler<W> = unsafe extern "C" fn(*mut W, *mut c_int, ...);
/// `MPIX_Comm_errhandler_function_x` and its kin: handle, code, state.
pub type ErrorHandlerExtra<W> = unsafe extern "C" fn(W, c_int, *mut c_void);

/// What a user's error handler is made of.
#[derive(Debug)]
pub enum Handler<W> {
    /// As MPI has it.
    Plain(ErrorHandler<W>),
    /// With the program's state.
    Extra(ErrorHandlerExtra<W>, ProgramState),
}

unsafe extern "C" fn handle<K: WordKind<Standard = usize>>(
    object: usize,
    code: c_int,
    state: *mut c_void,
) {
    let (mut object, mut code) = (K::to_mpich(object), ErrorCode::to_mpich(code));
    // SAFETY: the library passes the state that it was given, which is only read; the program's
    // function, called as MPI says.
    unsafe {
        match &*state.cast::<Handler<K::Own>>() {
            Handler::Plain(function) => function(&raw mut object, &raw mut code),
            Handler::Extra(function, own) => function(object, code, own.address()),
        }
    }
}

/// A kind of object that has error handlers or attributes.
pub trait CallbackOwner: WordKind<Standard = usize> {
    /// Its number in the library's table.
    const NUMBER: c_int;
}

impl CallbackOwner for Comm {
    const NUMBER: c_int = object::COMM;
}

impl CallbackOwner for Win {
    const NUMBER: c_int = object::WIN;
}

impl CallbackOwner for MpichFile {
    const NUMBER: c_int = object::FILE;
}

impl CallbackOwner for Session {
    const NUMBER: c_int = object::SESSION;
}

impl CallbackOwner for MpichDatatype {
    const NUMBER: c_int = object::DATATYPE;
}

/// Creates an error handler.
///
/// # Safety
/// `errhandler` is null or writable.
pub unsafe fn create_errhandler<K: CallbackOwner>(
    handler: Option<Handler<K::Own>>,
    errhandler: *mut c_int,
) -> c_int {
    let function = handler.as_ref().map(|_| handle::<K> as ErrorCallback);
    let state = handler.map_or_else(|| state(()), state);
    // SAFETY: the table's function; the state goes with the callback.
    unsafe {
        made::<Errhandler>(errhandler, |errhandler| {
            (table().create_errhandler)(K::NUMBER, function, state, errhandler.cast())
        })
    }
}

/// The program's copy callback.
pub type Copy<W> =
    unsafe extern "C" fn(W, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
/// The program's delete callback.
pub type Delete<W> = unsafe extern "C" fn(W, c_int, *mut c_void, *mut c_void) -> c_int;

struct Attribute<W> {
    copy: Option<Copy<W>>,
    delete: Option<Delete<W>>,
    extra: usize,
}

unsafe extern "C" fn copy<K: WordKind<Standard = usize>>(
    object: usize,
    keyval: c_int,
    state: *mut c_void,
    value: *mut c_void,
    place: *mut c_void,
    wanted: *mut c_int,
) -> c_int {
    // SAFETY: the library passes the state that it was given, which is only read.
    let attribute = unsafe { &*state.cast::<Attribute<K::Own>>() };
    let extra = std::ptr::with_exposed_provenance_mut(attribute.extra);
    let (object, keyval) = (K::to_mpich(object), Keyval::to_mpich(keyval));
    match attribute.copy {
        Some(function) => {
            // SAFETY: the program's function, called as MPI says.
            ErrorCode::to_standard(unsafe { function(object, keyval, extra, value, place, wanted) })
        }
        None => 0,
    }
}

unsafe extern "C" fn delete<K: WordKind<Standard = usize>>(
    object: usize,
    keyval: c_int,
    value: *mut c_void,
    state: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    let attribute = unsafe { &*state.cast::<Attribute<K::Own>>() };
    let extra = std::ptr::with_exposed_provenance_mut(attribute.extra);
    match attribute.delete {
        // SAFETY: as above.
        Some(function) => ErrorCode::to_standard(unsafe {
            function(K::to_mpich(object), Keyval::to_mpich(keyval), value, extra)
        }),
        None => 0,
    }
}

/// Creates the key of an attribute; no function is `MPI_COMM_NULL_COPY_FN` and its kin.
///
/// # Safety
/// `keyval` is null or writable.
pub unsafe fn create_keyval<K: CallbackOwner>(
    copies: Option<Copy<K::Own>>,
    deletes: Option<Delete<K::Own>>,
    keyval: *mut c_int,
    extra: *mut c_void,
) -> c_int {
    let callbacks =
        (copies.map(|_| copy::<K> as CopyCallback), deletes.map(|_| delete::<K> as DeleteCallback));
    let attribute = Attribute { copy: copies, delete: deletes, extra: extra.expose_provenance() };
    // SAFETY: the table's function; the state goes with the callbacks. The keys that the library
    // makes are the same in both ABIs.
    let code = unsafe {
        (table().create_keyval)(K::NUMBER, callbacks.0, callbacks.1, state(attribute), keyval)
    };
    ErrorCode::to_mpich(code)
}

/// `MPI_Grequest_query_function`, with MPICH's status.
pub type Query = unsafe extern "C" fn(*mut c_void, *mut MpichStatus) -> c_int;
/// `MPI_Grequest_free_function`.
pub type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
/// `MPI_Grequest_cancel_function`.
pub type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

struct Generalized {
    query: Query,
    free: Free,
    cancel: Cancel,
    extra: *mut c_void,
}

unsafe extern "C" fn query(state: *mut c_void, status: *mut MPI_Status) -> c_int {
    // SAFETY: the library passes the state of this request, and a status.
    let (own, status) = unsafe { (&*state.cast::<Generalized>(), &mut *status) };
    let mut converted = from_standard(status);
    // SAFETY: the program's function, called as MPI says.
    let code = unsafe { (own.query)(own.extra, &raw mut converted) };
    *status = to_standard(converted);
    ErrorCode::to_standard(code)
}

unsafe extern "C" fn free(state: *mut c_void) -> c_int {
    // SAFETY: the library calls it once, at the end of the request.
    let own = unsafe { Box::from_raw(state.cast::<Generalized>()) };
    // SAFETY: the program's function, called as MPI says.
    ErrorCode::to_standard(unsafe { (own.free)(own.extra) })
}

unsafe extern "C" fn cancel(state: *mut c_void, complete: c_int) -> c_int {
    // SAFETY: the library passes the state of this request.
    let own = unsafe { &*state.cast::<Generalized>() };
    // SAFETY: the program's function, called as MPI says.
    ErrorCode::to_standard(unsafe { (own.cancel)(own.extra, complete) })
}

/// `MPI_Grequest_start`.
///
/// # Safety
/// `request` is null or writable.
pub unsafe fn start_generalized(
    functions: (Option<Query>, Option<Free>, Option<Cancel>),
    extra: *mut c_void,
    request: *mut c_int,
) -> c_int {
    type Call = unsafe extern "C" fn(
        Option<unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int>,
        Option<Free>,
        Option<Cancel>,
        *mut c_void,
        *mut usize,
    ) -> c_int;
    let state = match functions {
        (Some(query), Some(free), Some(cancel)) => {
            Box::into_raw(Box::new(Generalized { query, free, cancel, extra })).cast()
        }
        _ => std::ptr::null_mut(),
    };
    // SAFETY: the function has these parameters. It refuses a missing function and a missing place.
    let code = unsafe {
        let call = standard!(MPI_Grequest_start as Call);
        let (queries, frees, cancels) = (
            functions.0.map(|_| query as _),
            functions.1.map(|_| free as _),
            functions.2.map(|_| cancel as _),
        );
        made::<Request>(request, |request| call(queries, frees, cancels, state, request))
    };
    if code != 0 && !state.is_null() {
        // SAFETY: no request has it.
        drop(unsafe { Box::from_raw(state.cast::<Generalized>()) });
    }
    code
}
