//! The functions of [`FrontEndTable`], which front ends of other ABIs call: callbacks with a state.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use mica_memory::OutOfMemory;
use mica_mpi::attribute::{self as keys, AttributeOwner};
use mica_mpi::constants as c;
use mica_mpi::errhandler::{Errhandler, HandlerFamily};
use mica_mpi::op::{Op, OperatorFunction};
use mica_mpi::request::{self, RequestFollower};
use mica_mpi::{Error, Result, buffered, datatype, init, raise};

use crate::convert::Out;
use crate::raise::{ErrorTarget, finish};
use crate::shims::attribute::{copy_by, delete_by};
use crate::shims::op::{order, pieces, pointer};
use crate::shims::processes::stored_codes;
use crate::table::{
    CallbackState, CopyCallback, DeleteCallback, EndCallback, ErrorCallback, FrontEndTable, LAYOUT,
    OperatorCallback, RequestCallback, event, object,
};
use crate::types::{MPI_Count, MPI_Datatype, MPI_Errhandler, MPI_Op, MPI_Request};

/// The table that the library exports.
pub const TABLE: FrontEndTable = FrontEndTable {
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

/// A state whose owners share it; the last one frees it.
struct SharedState(CallbackState);

// SAFETY: the front end promises that its callbacks may run in any thread, as MPI's may, and that
// the state is theirs alone.
unsafe impl Send for SharedState {}
// SAFETY: as above; nothing but the address is read here.
unsafe impl Sync for SharedState {}

impl SharedState {
    fn address(&self) -> *mut c_void {
        self.0.state
    }
}

impl Drop for SharedState {
    fn drop(&mut self) {
        // SAFETY: the last owner is gone, so no callback runs or will run.
        unsafe { (self.0.drop)(self.0.state) }
    }
}

#[cold]
fn no_function(argument: &'static str) -> Error {
    Error::argument(c::ERR_ARG, argument, "NULL", "a function is needed")
}

unsafe extern "C" fn op_create(
    function: Option<OperatorCallback>,
    state: CallbackState,
    most: MPI_Count,
    commute: c_int,
    op: *mut MPI_Op,
) -> c_int {
    let state = SharedState(state);
    let create = || -> Result<()> {
        let function = function.ok_or_else(|| no_function("user_fn"))?;
        // SAFETY: MPI's caller passes a place for the operator, or null.
        let op = unsafe { Out::new(op, "op")? };
        let apply = move |input: usize, inout: usize, count: i64, datatype: u32| {
            let handle = MPI_Datatype::from_raw(datatype);
            // SAFETY: the addresses are those of the operands, live, of `count` elements.
            unsafe { function(pointer(input), pointer(inout), count, handle, state.address()) }
        };
        let operator: Arc<OperatorFunction> = match most > c_int::MAX.into() {
            true => Arc::new(apply),
            false => Arc::new(move |input, inout, count, datatype| {
                pieces(input, inout, count, datatype, |input, inout, count| {
                    apply(input, inout, count.into(), datatype);
                });
            }),
        };
        op.set(MPI_Op::from_raw(Op::user(order(commute), operator).register()?));
        Ok(())
    };
    finish("MPI_Op_create", create(), || ErrorTarget::Default)
}

unsafe extern "C" fn create_errhandler(
    kind: c_int,
    function: Option<ErrorCallback>,
    state: CallbackState,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    let state = SharedState(state);
    let (family, call) = match kind {
        object::WIN => (HandlerFamily::Win, "MPI_Win_create_errhandler"),
        object::FILE => (HandlerFamily::File, "MPI_File_create_errhandler"),
        object::SESSION => (HandlerFamily::Session, "MPI_Session_create_errhandler"),
        _ => (HandlerFamily::Comm, "MPI_Comm_create_errhandler"),
    };
    let create = || -> Result<()> {
        let function = function.ok_or_else(|| no_function("errhandler_fn"))?;
        // SAFETY: MPI's caller passes a place for the handler, or null.
        let place = unsafe { Out::new(errhandler, "errhandler")? };
        let callback = move |handle: u32, code: i32| {
            // SAFETY: the front end's function, with its state.
            unsafe { function(handle as usize, code, state.address()) }
        };
        let handler = Errhandler::user(family, Arc::new(callback));
        place.set(MPI_Errhandler::from_raw(handler.give_handle()?));
        Ok(())
    };
    finish(call, create(), || ErrorTarget::Default)
}

unsafe extern "C" fn create_keyval(
    kind: c_int,
    copy: Option<CopyCallback>,
    delete: Option<DeleteCallback>,
    state: CallbackState,
    keyval: *mut c_int,
) -> c_int {
    let state = Arc::new(SharedState(state));
    let (owner, call) = match kind {
        object::WIN => (AttributeOwner::Win, "MPI_Win_create_keyval"),
        object::DATATYPE => (AttributeOwner::Type, "MPI_Type_create_keyval"),
        _ => (AttributeOwner::Comm, "MPI_Comm_create_keyval"),
    };
    let create = || -> Result<()> {
        // SAFETY: MPI's caller passes a place for the key, or null.
        let place = unsafe { Out::new(keyval, "keyval")? };
        let address = |state: Arc<SharedState>| move || state.address();
        let copies = copy.map_or(keys::CopyCallback::Null, |function| {
            // SAFETY: the front end's function, for its state.
            unsafe { copy_by(function, address(state.clone())) }
        });
        let deletes = delete.map_or(keys::DeleteCallback::Null, |function| {
            // SAFETY: as above.
            unsafe { delete_by(function, address(state)) }
        });
        place.set(keys::create_keyval(owner, copies, deletes)?);
        Ok(())
    };
    finish(call, create(), || ErrorTarget::Default)
}

/// The name of a call that a front end passes.
///
/// # Safety
/// It is a C string that stays.
unsafe fn named(call: *const c_char) -> &'static str {
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(call) }.to_str().unwrap_or("an MPI function")
}

unsafe extern "C" fn unsupported(call: *const c_char) -> c_int {
    // SAFETY: the front end passes a constant.
    let call = unsafe { named(call) };
    raise::raise(call, ErrorTarget::Default, Error::unsupported(call))
}

unsafe extern "C" fn out_of_memory(call: *const c_char, bytes: usize) -> c_int {
    // SAFETY: the front end passes a constant.
    let call = unsafe { named(call) };
    raise::raise(call, ErrorTarget::Default, OutOfMemory { bytes }.into())
}

unsafe extern "C" fn limit_bsend_overhead(bytes: c_int) {
    buffered::limit_overhead(bytes);
}

/// Follows a request for a front end.
struct FrontEndFollower {
    callback: RequestCallback,
    state: SharedState,
}

impl FrontEndFollower {
    fn call(&self, event: c_int, partition: c_int) {
        // SAFETY: the front end's function, with its state.
        unsafe { (self.callback)(event, partition, self.state.address()) }
    }
}

impl RequestFollower for FrontEndFollower {
    fn starting(&self) {
        self.call(event::STARTING, 0);
    }

    fn completed(&self) {
        self.call(event::COMPLETED, 0);
    }

    fn ready(&self, partition: i32) {
        self.call(event::READY, partition);
    }

    fn arrived(&self, partition: i32) {
        self.call(event::ARRIVED, partition);
    }
}

unsafe extern "C" fn follow_request(
    request: MPI_Request,
    callback: RequestCallback,
    state: CallbackState,
) -> c_int {
    let follower = FrontEndFollower { callback, state: SharedState(state) };
    let followed = request::follow(request.raw(), Arc::new(follower));
    finish("a call that starts an operation", followed, || ErrorTarget::Default)
}

unsafe extern "C" fn datatype_serial(datatype: MPI_Datatype) -> u64 {
    datatype::serial_of(datatype.raw()).unwrap_or(0)
}

unsafe extern "C" fn at_end(callback: EndCallback) {
    // SAFETY: the front end's function, which may be called when MPI ends.
    init::at_end(Arc::new(move || unsafe { callback() }));
}

extern "C" fn spawned_codes() -> usize {
    stored_codes()
}
