//! The tools interface where more than arguments is converted: objects that variables are bound to,
//! and what callbacks of events get.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use mica_front_end::types::MPI_Count;

use crate::export::{pair, standard};
use crate::generated::constants as c;
use crate::handle::{
    Comm, Errhandler, Group, Info, Message, MpichDatatype, Op, Request, Session, Win,
};
use crate::value::{Binding, CallbackSafety, ErrorCode};
use crate::word::WordKind;

/// The handle of the object that a variable is bound to, in the standard ABI. `binding` is what
/// kind it is, in MPICH's ABI.
///
/// # Safety
/// `object` is null or the address of a handle of this kind.
unsafe fn bound_object(binding: c_int, object: *const c_void) -> Option<usize> {
    if object.is_null() || binding == c::BIND_NO_OBJECT {
        return None;
    }
    if binding == c::BIND_MPI_FILE {
        // SAFETY: as the caller promises.
        return Some(crate::handle::MpichFile::to_standard(unsafe {
            object.cast::<usize>().read()
        }));
    }
    // SAFETY: as the caller promises; every other handle is an int.
    let handle = unsafe { object.cast::<c_int>().read() };
    Some(match binding {
        c::BIND_MPI_COMM => Comm::to_standard(handle),
        c::BIND_MPI_DATATYPE => MpichDatatype::to_standard(handle),
        c::BIND_MPI_ERRHANDLER => Errhandler::to_standard(handle),
        c::BIND_MPI_GROUP => Group::to_standard(handle),
        c::BIND_MPI_OP => Op::to_standard(handle),
        c::BIND_MPI_REQUEST => Request::to_standard(handle),
        c::BIND_MPI_WIN => Win::to_standard(handle),
        c::BIND_MPI_MESSAGE => Message::to_standard(handle),
        c::BIND_MPI_INFO => Info::to_standard(handle),
        c::BIND_MPI_SESSION => Session::to_standard(handle),
        _ => return None,
    })
}

/// The address of a converted handle, or null.
fn address(object: &Option<usize>) -> *mut c_void {
    object.as_ref().map_or(std::ptr::null_mut(), |object| (&raw const *object).cast_mut().cast())
}

/// What kind of object a variable or an event is bound to, in MPICH's ABI: of the results of its
/// `get_info`, the one between those that are named before and after the semicolon.
macro_rules! binding {
    ($mpi:ident($index:expr, $($before:ident)*; $($after:ident)*)) => {{
        type Call = unsafe extern "C" fn(
            c_int,
            $(binding!(@ignored $before),)*
            *mut c_int,
            $(binding!(@ignored $after),)*
        ) -> c_int;
        let mut bind = Binding::to_standard(c::BIND_NO_OBJECT);
        $(let $before = std::ptr::null_mut();)*
        $(let $after = std::ptr::null_mut();)*
        // The function has these parameters; results that are not wanted have no place.
        standard!($mpi as Call)($index, $($before,)* &raw mut bind, $($after,)*);
        Binding::to_mpich(bind)
    }};
    (@ignored $name:ident) => { *mut c_void };
}

pair! { MPI_T_pvar_handle_alloc(
    session: usize,
    pvar_index: c_int,
    obj_handle: *mut c_void,
    handle: *mut usize,
    count: *mut c_int
) -> c_int {
    type Call =
        unsafe extern "C" fn(usize, c_int, *mut c_void, *mut usize, *mut c_int) -> c_int;
    // SAFETY: the caller passes what MPI asks for.
    unsafe {
        let binding = binding!(MPI_T_pvar_get_info(
            pvar_index,
            name name_len verbosity var_class datatype enumtype desc desc_len;
            readonly continuous atomic
        ));
        let object = bound_object(binding, obj_handle);
        let call = standard!(MPI_T_pvar_handle_alloc as Call);
        ErrorCode::to_mpich(call(session, pvar_index, address(&object), handle, count))
    }
} }

pair! { MPI_T_event_handle_alloc(
    event_index: c_int, obj_handle: *mut c_void, info: c_int, registration: *mut usize
) -> c_int {
    type Call = unsafe extern "C" fn(c_int, *mut c_void, usize, *mut usize) -> c_int;
    // SAFETY: the caller passes what MPI asks for.
    unsafe {
        let binding = binding!(MPI_T_event_get_info(
            event_index,
            name name_len verbosity datatypes displacements num_elements enumtype hints desc
            desc_len;
        ));
        let object = bound_object(binding, obj_handle);
        let call = standard!(MPI_T_event_handle_alloc as Call);
        let info = Info::to_standard(info);
        ErrorCode::to_mpich(call(event_index, address(&object), info, registration))
    }
} }

/// `MPI_T_event_cb_function`: event, registration, safety, the program's data.
type EventCallback = unsafe extern "C" fn(usize, usize, c_int, *mut c_void);
/// `MPI_T_event_dropped_cb_function`: count, registration, source, safety, the program's data.
type DroppedCallback = unsafe extern "C" fn(MPI_Count, usize, c_int, c_int, *mut c_void);
/// `MPI_T_event_free_cb_function`: registration, safety, the program's data.
type FreeCallback = unsafe extern "C" fn(usize, c_int, *mut c_void);

/// What the library has as the program's data of a registered callback.
struct Registered {
    registration: usize,
    function: EventCallback,
    data: usize,
}

/// The callbacks that live: until their registration is freed, since one that was replaced may
/// still run.
#[allow(clippy::vec_box, reason = "their addresses stay")]
static REGISTERED: Mutex<Vec<Box<Registered>>> = Mutex::new(Vec::new());
/// For each registration, what is called when events were dropped.
static DROPPED: Mutex<Vec<(usize, DroppedCallback)>> = Mutex::new(Vec::new());

fn lock<T>(all: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn event(instance: usize, registration: usize, safety: c_int, own: *mut c_void) {
    // SAFETY: the library passes what was registered, which lives as long as its registration.
    let own = unsafe { &*own.cast::<Registered>() };
    let data = std::ptr::with_exposed_provenance_mut(own.data);
    // SAFETY: the program's function, called as MPI says.
    unsafe { (own.function)(instance, registration, CallbackSafety::to_mpich(safety), data) }
}

unsafe extern "C" fn dropped(
    count: MPI_Count,
    registration: usize,
    source: c_int,
    safety: c_int,
    own: *mut c_void,
) {
    let found = lock(&DROPPED).iter().find(|(of, _)| *of == registration).map(|found| found.1);
    let Some(function) = found else { return };
    // SAFETY: as in `event`; null if no callback is registered.
    let data = unsafe { own.cast::<Registered>().as_ref() }.map_or(0, |own| own.data);
    let data = std::ptr::with_exposed_provenance_mut(data);
    // SAFETY: the program's function, called as MPI says.
    unsafe { function(count, registration, source, CallbackSafety::to_mpich(safety), data) }
}

pair! { MPI_T_event_register_callback(
    registration: usize,
    cb_safety: c_int,
    info: c_int,
    user_data: *mut c_void,
    function: Option<EventCallback>
) -> c_int {
    type Call =
        unsafe extern "C" fn(usize, c_int, usize, *mut c_void, Option<EventCallback>) -> c_int;
    let mut own = function.map(|function| {
        Box::new(Registered { registration, function, data: user_data.expose_provenance() })
    });
    let place = own.as_mut().map_or(std::ptr::null_mut(), |own| (&raw mut **own).cast());
    if let Some(own) = own {
        lock(&REGISTERED).push(own);
    }
    let (safety, info) = (CallbackSafety::to_standard(cb_safety), Info::to_standard(info));
    // SAFETY: the function has these parameters; what is registered lives.
    ErrorCode::to_mpich(unsafe {
        let call = standard!(MPI_T_event_register_callback as Call);
        call(registration, safety, info, place, function.map(|_| event as EventCallback))
    })
} }

pair! { MPI_T_event_set_dropped_handler(
    registration: usize, function: Option<DroppedCallback>
) -> c_int {
    type Call = unsafe extern "C" fn(usize, Option<DroppedCallback>) -> c_int;
    {
        let mut all = lock(&DROPPED);
        all.retain(|(of, _)| *of != registration);
        all.extend(function.map(|function| (registration, function)));
    }
    // SAFETY: the function has these parameters.
    ErrorCode::to_mpich(unsafe {
        let call = standard!(MPI_T_event_set_dropped_handler as Call);
        call(registration, function.map(|_| dropped as DroppedCallback))
    })
} }

pair! { MPI_T_event_handle_free(
    registration: usize, user_data: *mut c_void, function: Option<FreeCallback>
) -> c_int {
    type Call = unsafe extern "C" fn(usize, *mut c_void, Option<FreeCallback>) -> c_int;
    // SAFETY: the function has these parameters.
    let code = unsafe {
        let call = standard!(MPI_T_event_handle_free as Call);
        call(registration, user_data, None)
    };
    if code == 0 {
        // No callback of it runs any more.
        lock(&REGISTERED).retain(|own| own.registration != registration);
        lock(&DROPPED).retain(|(of, _)| *of != registration);
        if let Some(function) = function {
            // SAFETY: the program's function, called as MPI says.
            unsafe { function(registration, c::CALLBACK_SAFETY[0].0, user_data) };
        }
    }
    ErrorCode::to_mpich(code)
} }
