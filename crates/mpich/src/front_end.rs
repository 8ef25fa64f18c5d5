//! The table of functions that Fortran's front end of this ABI calls (`crates/fortran`), like that
//! of the standard ABI's library: functions with callbacks that get a state. Handles are those of
//! MPICH's ABI, in the low halves of words, and codes are MPICH's.

use std::ffi::{c_char, c_int, c_void};

use mica_front_end::table::{
    CallbackState, CopyCallback, DeleteCallback, EndCallback, ErrorCallback, FrontEndTable, LAYOUT,
    OperatorCallback, RequestCallback, object,
};
use mica_front_end::types::{MPI_Count, MPI_Datatype, MPI_Errhandler, MPI_Op, MPI_Request};

use crate::callback::{CallbackOwner, state};
use crate::handle::{Comm, Errhandler, MpichDatatype, MpichFile, Op, Request, Session, Win};
use crate::library::table;
use crate::value::{ErrorCode, Keyval};
use crate::word::WordKind;

#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is that of a symbol")]
static mica_front_end_mpich: FrontEndTable = FrontEndTable {
    layout: LAYOUT,
    op_create,
    create_errhandler,
    create_keyval,
    unsupported,
    out_of_memory,
    limit_bsend_overhead,
    follow_request,
    datatype_serial,
    at_end,
    spawned_codes,
};

extern "C" fn spawned_codes() -> usize {
    (table().spawned_codes)()
}

/// A handle of this ABI that is an integer or an address, as a word.
trait HandleWord {
    fn word(self) -> usize;
}

impl HandleWord for c_int {
    fn word(self) -> usize {
        self as u32 as usize
    }
}

impl HandleWord for usize {
    fn word(self) -> usize {
        self
    }
}

/// A callback of the front end, and its state, which is freed with it.
struct FrontEndCallback<F> {
    function: F,
    state: CallbackState,
}

impl<F> Drop for FrontEndCallback<F> {
    fn drop(&mut self) {
        // SAFETY: the front end's function, for its state, once.
        unsafe { (self.state.drop)(self.state.state) }
    }
}

/// Stores the handle that `make` makes in a word.
fn made<K: WordKind<Own = c_int, Standard = usize>>(
    place: *mut usize,
    make: impl FnOnce(*mut usize) -> c_int,
) -> c_int {
    let mut handle = K::NONE;
    let into = if place.is_null() { place } else { &raw mut handle };
    let code = make(into);
    if handle != K::NONE {
        // SAFETY: the library has stored a handle, so the place is one.
        unsafe { place.write(K::to_mpich(handle).word()) };
    }
    ErrorCode::to_mpich(code)
}

unsafe extern "C" fn apply(
    input: *mut c_void,
    inout: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    state: *mut c_void,
) {
    let datatype = MPI_Datatype(MpichDatatype::to_mpich(datatype.0).word());
    // SAFETY: the library passes the state that `op_create` gave it, which is only read; the
    // operands are the library's.
    unsafe {
        let own = &*state.cast::<FrontEndCallback<OperatorCallback>>();
        (own.function)(input, inout, count, datatype, own.state.state);
    }
}

unsafe extern "C" fn op_create(
    function: Option<OperatorCallback>,
    own: CallbackState,
    most: MPI_Count,
    commute: c_int,
    op: *mut MPI_Op,
) -> c_int {
    let called = function.map(|_| apply as OperatorCallback);
    let own = function.map(|function| FrontEndCallback { function, state: own });
    // SAFETY: the table's function; the state goes with the callback.
    made::<Op>(op.cast(), |op| unsafe {
        (table().op_create)(called, state(own), most, commute, op.cast())
    })
}

unsafe extern "C" fn handle<K: CallbackOwner<Own: HandleWord>>(
    object: usize,
    code: c_int,
    state: *mut c_void,
) {
    let (object, code) = (K::to_mpich(object).word(), ErrorCode::to_mpich(code));
    // SAFETY: as in `apply`.
    unsafe {
        let own = &*state.cast::<FrontEndCallback<ErrorCallback>>();
        (own.function)(object, code, own.state.state);
    }
}

unsafe extern "C" fn create_errhandler(
    kind: c_int,
    function: Option<ErrorCallback>,
    own: CallbackState,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    let called: Option<ErrorCallback> = function.map(|_| match kind {
        object::WIN => handle::<Win> as ErrorCallback,
        object::FILE => handle::<MpichFile>,
        object::SESSION => handle::<Session>,
        _ => handle::<Comm>,
    });
    let own = function.map(|function| FrontEndCallback { function, state: own });
    // SAFETY: as above.
    made::<Errhandler>(errhandler.cast(), |errhandler| unsafe {
        (table().create_errhandler)(kind, called, state(own), errhandler.cast())
    })
}

/// The callbacks of a key.
type Attribute = FrontEndCallback<(Option<CopyCallback>, Option<DeleteCallback>)>;

unsafe extern "C" fn copy<K: CallbackOwner<Own: HandleWord>>(
    object: usize,
    keyval: c_int,
    state: *mut c_void,
    value: *mut c_void,
    place: *mut c_void,
    wanted: *mut c_int,
) -> c_int {
    // SAFETY: as in `apply`.
    let own = unsafe { &*state.cast::<Attribute>() };
    let (object, keyval) = (K::to_mpich(object).word(), Keyval::to_mpich(keyval));
    own.function.0.map_or(0, |function| {
        // SAFETY: as above.
        let code = unsafe { function(object, keyval, own.state.state, value, place, wanted) };
        ErrorCode::to_standard(code)
    })
}

unsafe extern "C" fn delete<K: CallbackOwner<Own: HandleWord>>(
    object: usize,
    keyval: c_int,
    value: *mut c_void,
    state: *mut c_void,
) -> c_int {
    // SAFETY: as in `apply`.
    let own = unsafe { &*state.cast::<Attribute>() };
    let (object, keyval) = (K::to_mpich(object).word(), Keyval::to_mpich(keyval));
    own.function.1.map_or(0, |function| {
        // SAFETY: as above.
        ErrorCode::to_standard(unsafe { function(object, keyval, value, own.state.state) })
    })
}

/// The callbacks of keys for one kind of object.
fn callbacks<K: CallbackOwner<Own: HandleWord>>() -> (CopyCallback, DeleteCallback) {
    (copy::<K>, delete::<K>)
}

unsafe extern "C" fn create_keyval(
    kind: c_int,
    copies: Option<CopyCallback>,
    deletes: Option<DeleteCallback>,
    own: CallbackState,
    keyval: *mut c_int,
) -> c_int {
    let called = match kind {
        object::WIN => callbacks::<Win>(),
        object::DATATYPE => callbacks::<MpichDatatype>(),
        _ => callbacks::<Comm>(),
    };
    let own = FrontEndCallback { function: (copies, deletes), state: own };
    // SAFETY: as above. The keys that the library makes are the same in both ABIs.
    ErrorCode::to_mpich(unsafe {
        (table().create_keyval)(
            kind,
            copies.map(|_| called.0),
            deletes.map(|_| called.1),
            state(own),
            keyval,
        )
    })
}

unsafe extern "C" fn unsupported(call: *const c_char) -> c_int {
    // SAFETY: the table's function; the caller passes a C string that stays.
    ErrorCode::to_mpich(unsafe { (table().unsupported)(call) })
}

unsafe extern "C" fn out_of_memory(call: *const c_char, bytes: usize) -> c_int {
    // SAFETY: as above.
    ErrorCode::to_mpich(unsafe { (table().out_of_memory)(call, bytes) })
}

unsafe extern "C" fn limit_bsend_overhead(bytes: c_int) {
    // SAFETY: the table's function.
    unsafe { (table().limit_bsend_overhead)(bytes) }
}

unsafe extern "C" fn follow_request(
    request: MPI_Request,
    learn: RequestCallback,
    own: CallbackState,
) -> c_int {
    let request = MPI_Request(Request::to_standard(request.0 as c_int));
    // SAFETY: the table's function; what it calls gets no handle.
    ErrorCode::to_mpich(unsafe { (table().follow_request)(request, learn, own) })
}

unsafe extern "C" fn datatype_serial(datatype: MPI_Datatype) -> u64 {
    let datatype = MPI_Datatype(MpichDatatype::to_standard(datatype.0 as c_int));
    // SAFETY: the table's function.
    unsafe { (table().datatype_serial)(datatype) }
}

unsafe extern "C" fn at_end(end: EndCallback) {
    // SAFETY: the table's function.
    unsafe { (table().at_end)(end) }
}
