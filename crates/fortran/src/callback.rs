//! Functions with callbacks of Fortran, which take addresses where those of C take values. The
//! library passes a state to a function here, which knows what to call.

use std::ffi::{c_char, c_int, c_void};

use mica_front_end::table::{CallbackState, object};
use mica_front_end::types::{MPI_Count, MPI_Datatype, MPI_Errhandler, MPI_Offset, MPI_Op};

use crate::abi::conversions::is_null_conversion;
use crate::abi::{Word, constants as c, table};
use crate::argument::{HandleWord, flag_to_c, flag_to_fortran, to_fortran};
use crate::by_hand::{new_handle, new_handle_of, text};
use crate::export::by_hand;

/// An address of a function of the program.
pub type Function = *const c_void;

/// A state that the library frees after the last call of its callbacks.
pub fn state<T>(value: T) -> CallbackState {
    unsafe extern "C" fn drop<T>(state: *mut c_void) {
        // SAFETY: the library passes what `state` has made, once.
        std::mem::drop(unsafe { Box::from_raw(state.cast::<T>()) });
    }
    CallbackState { state: Box::into_raw(Box::new(value)).cast(), drop: drop::<T> }
}

/// A function of the program as a pointer of a type: an expression within `unsafe`.
macro_rules! program {
    ($function:expr => fn($($t:ty),*)) => {
        std::mem::transmute::<*const std::ffi::c_void, unsafe extern "C" fn($($t),*)>($function)
    };
}
pub(crate) use program;

/// What the count of a user's operator is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OperatorCount {
    /// An `INTEGER`.
    Small,
    /// An `INTEGER(KIND=MPI_COUNT_KIND)`.
    Large,
}

/// A user's operator.
struct Operator {
    function: Function,
    count: OperatorCount,
}

unsafe extern "C" fn apply(
    input: *mut c_void,
    inout: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    state: *mut c_void,
) {
    let mut datatype = datatype.0.to_fortran();
    // SAFETY: the library passes the state of this operator and `count` elements; the program's
    // function has the parameters that MPI says. The count of a small one is an `INTEGER`.
    unsafe {
        let operator = &*state.cast::<Operator>();
        let datatype = &raw mut datatype;
        if operator.count == OperatorCount::Small {
            let mut count = count as c_int;
            program!(operator.function =>
                fn(*mut c_void, *mut c_void, *mut c_int, *mut c_int))(
                input,
                inout,
                &raw mut count,
                datatype,
            );
        } else {
            let mut count = count;
            program!(operator.function =>
                fn(*mut c_void, *mut c_void, *mut MPI_Count, *mut c_int))(
                input,
                inout,
                &raw mut count,
                datatype,
            );
        }
    }
}

/// Creates an operator.
///
/// # Safety
/// `op` is null or writable; `commute` is readable.
unsafe fn create_operator(
    function: Function,
    size: OperatorCount,
    commute: *const c_int,
    op: *mut c_int,
) -> c_int {
    let most = match size {
        OperatorCount::Small => c_int::MAX.into(),
        OperatorCount::Large => MPI_Count::MAX,
    };
    let state = state(Operator { function, count: size });
    // SAFETY: the table's function; the state goes with the callback.
    unsafe {
        let commute = flag_to_c(commute.read());
        new_handle_of(op, |op: *mut usize| {
            (table().op_create)(Some(apply), state, most, commute, op.cast::<MPI_Op>())
        })
    }
}

/// Who calls a function that the table serves, by the name of the program's function or of the one
/// for tools: the table has one for both.
#[derive(Clone, Copy)]
pub struct TableCaller;

/// Defines functions that the table of the library serves: a tool of C's has none of them to see.
macro_rules! by_table {
    () => {};
    (large $lower:literal $params:tt $code:expr; $($more:tt)*) => {
        $crate::callback::by_table! { @define large [$lower] $params $code }
        $crate::callback::by_table! { $($more)* }
    };
    (older $lower:literal $upper:literal $params:tt $code:expr; $($more:tt)*) => {
        $crate::callback::by_table! { @define by_address [$lower $upper] $params $code }
        $crate::callback::by_table! { $($more)* }
    };
    ($lower:literal $upper:literal $params:tt $code:expr; $($more:tt)*) => {
        $crate::callback::by_table! { @define plain [$lower $upper] $params $code }
        $crate::callback::by_table! { $($more)* }
    };
    (@define $form:ident [$($names:tt)+] ($($p:ident: $t:ty),*) $code:expr) => {
        const _: () = {
            use $crate::callback::TableCaller as program;
            use $crate::callback::TableCaller as profiling;

            unsafe fn call(_caller: program, $($p: $t),*) -> c_int {
                // SAFETY: the caller of the MPI function promises what it asks for.
                unsafe { $code }
            }

            $crate::abi::names::$form! { program $($names)+ ($($p: $t),*) }
        };
    };
}
pub(crate) use by_table;

by_table! {
    "op_create" "OP_CREATE" (user_fn: Function, commute: *const c_int, op: *mut c_int)
        create_operator(user_fn, OperatorCount::Small, commute, op);
    large "op_create" (user_fn: Function, commute: *const c_int, op: *mut c_int)
        create_operator(user_fn, OperatorCount::Large, commute, op);
}

unsafe extern "C" fn handle(object: usize, code: c_int, state: *mut c_void) {
    let (mut object, mut code) = (object.to_fortran(), code);
    // SAFETY: the state is the address of the program's function, which has these parameters.
    unsafe {
        program!(state.cast_const() => fn(*mut c_int, *mut c_int))(&raw mut object, &raw mut code)
    }
}

unsafe extern "C" fn nothing_to_free(_state: *mut c_void) {}

/// Creates an error handler for a kind of object.
///
/// # Safety
/// `errhandler` is null or writable.
pub unsafe fn create_errhandler(kind: c_int, function: Function, errhandler: *mut c_int) -> c_int {
    let state = CallbackState { state: function.cast_mut(), drop: nothing_to_free };
    // SAFETY: the table's function.
    unsafe {
        new_handle_of(errhandler, |errhandler: *mut usize| {
            (table().create_errhandler)(
                kind,
                Some(handle),
                state,
                errhandler.cast::<MPI_Errhandler>(),
            )
        })
    }
}

by_table! {
    "comm_create_errhandler" "COMM_CREATE_ERRHANDLER"
        (function: Function, errhandler: *mut c_int)
        create_errhandler(object::COMM, function, errhandler);
    "win_create_errhandler" "WIN_CREATE_ERRHANDLER"
        (function: Function, errhandler: *mut c_int)
        create_errhandler(object::WIN, function, errhandler);
    "file_create_errhandler" "FILE_CREATE_ERRHANDLER"
        (function: Function, errhandler: *mut c_int)
        create_errhandler(object::FILE, function, errhandler);
    "session_create_errhandler" "SESSION_CREATE_ERRHANDLER"
        (function: Function, errhandler: *mut c_int)
        create_errhandler(object::SESSION, function, errhandler);
}

/// A generalized request.
struct Generalized {
    query: Function,
    free: Function,
    cancel: Function,
    extra: i64,
}

unsafe extern "C" fn query(state: *mut c_void, status: *mut c_void) -> c_int {
    let mut code = c::SUCCESS;
    // SAFETY: the library passes the state of this request, and a status; the program's function
    // has these parameters.
    unsafe {
        let own = &mut *state.cast::<Generalized>();
        program!(own.query => fn(*mut i64, *mut c_void, *mut c_int))(
            &raw mut own.extra,
            status,
            &raw mut code,
        );
    }
    code
}

unsafe extern "C" fn free(state: *mut c_void) -> c_int {
    let mut code = c::SUCCESS;
    // SAFETY: as above, and the library calls it once, at the end of the request.
    unsafe {
        let mut own = Box::from_raw(state.cast::<Generalized>());
        program!(own.free => fn(*mut i64, *mut c_int))(&raw mut own.extra, &raw mut code);
    }
    code
}

unsafe extern "C" fn cancel(state: *mut c_void, complete: c_int) -> c_int {
    let (mut code, mut complete) = (c::SUCCESS, flag_to_fortran(complete));
    // SAFETY: as above.
    unsafe {
        let own = &mut *state.cast::<Generalized>();
        program!(own.cancel => fn(*mut i64, *mut c_int, *mut c_int))(
            &raw mut own.extra,
            &raw mut complete,
            &raw mut code,
        );
    }
    code
}

type Query = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

by_hand! {
    MPI_Grequest_start "grequest_start" "GREQUEST_START",
    fn(Query, Free, Cancel, *mut c_void, *mut Word),
    |function, query_fn: Function, free_fn: Function, cancel_fn: Function, extra_state: *const i64,
        request: *mut c_int| {
        let (query_of, free_of, cancel_of) = (query_fn, free_fn, cancel_fn);
        let own = Generalized {
            query: query_of, free: free_of, cancel: cancel_of, extra: extra_state.read(),
        };
        let own = Box::into_raw(Box::new(own));
        let code = new_handle(request, |request| {
            function(query, free, cancel, own.cast(), request)
        });
        if code != c::SUCCESS {
            // No request has it.
            drop(Box::from_raw(own));
        }
        code
    }
}

/// A representation of data, which stays until the process ends.
struct Representation {
    read: Function,
    write: Function,
    extent: Function,
    extra: i64,
}

/// Defines functions that convert by a function of the program, of counts of a type.
macro_rules! conversions {
    ($($name:ident $field:ident $count:ty;)*) => {$(
        unsafe extern "C" fn $name(
            userbuf: *mut c_void,
            datatype: Word,
            count: $count,
            filebuf: *mut c_void,
            position: MPI_Offset,
            state: *mut c_void,
        ) -> c_int {
            let (mut datatype, mut code) = (to_fortran(datatype), c::SUCCESS);
            let (mut count, mut position) = (count, position);
            // SAFETY: the library passes the state of this representation, and what MPI says; the
            // program's function has these parameters.
            unsafe {
                let own = &mut *state.cast::<Representation>();
                program!(own.$field => fn(*mut c_void, *mut c_int, *mut $count, *mut c_void,
                    *mut MPI_Offset, *mut i64, *mut c_int))(
                    userbuf, &raw mut datatype, &raw mut count, filebuf, &raw mut position,
                    &raw mut own.extra, &raw mut code,
                );
            }
            code
        }
    )*};
}

conversions! {
    read_small read c_int;
    write_small write c_int;
    read_large read MPI_Count;
    write_large write MPI_Count;
}

unsafe extern "C" fn extent(datatype: Word, extent: *mut i64, state: *mut c_void) -> c_int {
    let (mut datatype, mut code) = (to_fortran(datatype), c::SUCCESS);
    // SAFETY: as above.
    unsafe {
        let own = &mut *state.cast::<Representation>();
        program!(own.extent => fn(*mut c_int, *mut i64, *mut i64, *mut c_int))(
            &raw mut datatype,
            extent,
            &raw mut own.extra,
            &raw mut code,
        );
    }
    code
}

/// A conversion function of C, or null for `MPI_CONVERSION_FN_NULL`.
type Conversion<C> = Option<
    unsafe extern "C" fn(*mut c_void, Word, C, *mut c_void, MPI_Offset, *mut c_void) -> c_int,
>;
type Extent = unsafe extern "C" fn(Word, *mut i64, *mut c_void) -> c_int;

/// Defines `MPI_Register_datarep`, of counts of a type.
macro_rules! register {
    ([$($names:tt)+] $mpi:literal, $count:ty, $read:ident $write:ident) => {
        by_hand! {
            $($names)+,
            fn(*const c_char, Conversion<$count>, Conversion<$count>, Extent, *mut c_void),
            |function, datarep: *const c_char, read_fn: Function, write_fn: Function,
                extent_fn: Function, extra_state: *const i64; datarep_len| {
                let name = match text(datarep, datarep_len, $mpi) {
                    Ok(name) => name,
                    Err(code) => return code,
                };
                let own = Box::into_raw(Box::new(Representation {
                    read: read_fn, write: write_fn, extent: extent_fn, extra: extra_state.read(),
                }));
                let reads: Conversion<$count> =
                    (!is_null_conversion(read_fn)).then_some($read as _);
                let writes: Conversion<$count> =
                    (!is_null_conversion(write_fn)).then_some($write as _);
                let code = function(name.as_ptr(), reads, writes, extent, own.cast());
                if code != c::SUCCESS {
                    // No representation has it.
                    drop(Box::from_raw(own));
                }
                code
            }
        }
    };
}

register! {
    [MPI_Register_datarep "register_datarep" "REGISTER_DATAREP"] "MPI_Register_datarep\0",
    c_int, read_small write_small
}
register! {
    [MPI_Register_datarep_c "register_datarep"] "MPI_Register_datarep_c\0",
    MPI_Count, read_large write_large
}
