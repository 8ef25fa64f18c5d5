//! Functions with callbacks of Fortran, which take addresses where those of C take values. The
//! library passes a state to a function here, which knows what to call.

use std::ffi::{c_char, c_int, c_void};

use mica_front_end::table::{CallbackState, object};
use mica_front_end::types::{MPI_Count, MPI_Datatype, MPI_Errhandler, MPI_Offset, MPI_Op};

use crate::argument::{flag_to_c, flag_to_fortran, to_fortran};
use crate::by_hand::{new_handle, text};
use crate::export::{by_hand, named};
use crate::generated::constants as c;
use crate::table::table;

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
    let mut datatype = to_fortran(datatype.0);
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
        new_handle(op, |op| {
            (table().op_create)(Some(apply), state, most, commute, op.cast::<MPI_Op>())
        })
    }
}

/// Defines functions that the table of the library serves, by all their names: a tool of C's has
/// none of them to see.
macro_rules! by_table {
    () => {};
    ($lower:literal $upper:literal $params:tt $code:expr; $($more:tt)*) => {
        $crate::callback::by_table! { @names [
            concat!($lower, "_"), concat!($lower, "__"), $lower, $upper,
            concat!("p", $lower, "_"), concat!("p", $lower, "__"), concat!("p", $lower),
            concat!("P", $upper),
            concat!($lower, "_f08_"), concat!($lower, "_f08"),
            concat!("p", $lower, "_f08_"), concat!("p", $lower, "_f08")
        ] $params $code }
        $crate::callback::by_table! { $($more)* }
    };
    ($lower:literal $params:tt $code:expr; $($more:tt)*) => {
        $crate::callback::by_table! { @names [
            concat!($lower, "_f08_"), concat!($lower, "_f08"),
            concat!("p", $lower, "_f08_"), concat!("p", $lower, "_f08")
        ] $params $code }
        $crate::callback::by_table! { $($more)* }
    };
    (@names $names:tt ($($p:ident: $t:ty),*) $code:expr) => {
        named! { $names fn($($p: $t,)* ierror: *mut c_int) {
            // SAFETY: the caller of the MPI function promises what it asks for.
            unsafe {
                let code = $code;
                crate::choice::store(ierror, code);
            }
        } }
    };
}
pub(crate) use by_table;

by_table! {
    "mpi_op_create" "MPI_OP_CREATE" (user_fn: Function, commute: *const c_int, op: *mut c_int)
        create_operator(user_fn, OperatorCount::Small, commute, op);
    "mpi_op_create_c" (user_fn: Function, commute: *const c_int, op: *mut c_int)
        create_operator(user_fn, OperatorCount::Large, commute, op);
}

unsafe extern "C" fn handle(object: usize, code: c_int, state: *mut c_void) {
    let (mut object, mut code) = (to_fortran(object), code);
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
unsafe fn create_errhandler(kind: c_int, function: Function, errhandler: *mut c_int) -> c_int {
    let state = CallbackState { state: function.cast_mut(), drop: nothing_to_free };
    // SAFETY: the table's function.
    unsafe {
        new_handle(errhandler, |errhandler| {
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
    "mpi_comm_create_errhandler" "MPI_COMM_CREATE_ERRHANDLER"
        (function: Function, errhandler: *mut c_int)
        create_errhandler(object::COMM, function, errhandler);
    "mpi_win_create_errhandler" "MPI_WIN_CREATE_ERRHANDLER"
        (function: Function, errhandler: *mut c_int)
        create_errhandler(object::WIN, function, errhandler);
    "mpi_file_create_errhandler" "MPI_FILE_CREATE_ERRHANDLER"
        (function: Function, errhandler: *mut c_int)
        create_errhandler(object::FILE, function, errhandler);
    "mpi_session_create_errhandler" "MPI_SESSION_CREATE_ERRHANDLER"
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
    MPI_Grequest_start "mpi_grequest_start" "MPI_GREQUEST_START",
    fn(Query, Free, Cancel, *mut c_void, *mut usize),
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
            datatype: usize,
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

unsafe extern "C" fn extent(datatype: usize, extent: *mut i64, state: *mut c_void) -> c_int {
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
    unsafe extern "C" fn(*mut c_void, usize, C, *mut c_void, MPI_Offset, *mut c_void) -> c_int,
>;
type Extent = unsafe extern "C" fn(usize, *mut i64, *mut c_void) -> c_int;

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
    [MPI_Register_datarep "mpi_register_datarep" "MPI_REGISTER_DATAREP"] "MPI_Register_datarep\0",
    c_int, read_small write_small
}
register! {
    [MPI_Register_datarep_c "mpi_register_datarep_c"] "MPI_Register_datarep_c\0",
    MPI_Count, read_large write_large
}

/// Defines `MPI_CONVERSION_FN_NULL` and its kin, which are never called, and a comparison with
/// their addresses.
macro_rules! null_conversions {
    ($($name:ident = $symbol:literal;)*) => {
        $(
            #[unsafe(export_name = $symbol)]
            extern "C" fn $name() {}
        )*

        /// Whether a function of the program is `MPI_CONVERSION_FN_NULL` or its kin. A program that
        /// is no position-independent one has an address of its own for a function of a library.
        fn is_null_conversion(function: Function) -> bool {
            let own = [$($name as *const c_void),*];
            let names = [$(concat!($symbol, "\0")),*];
            let of_program = |name: &&str| {
                // SAFETY: a name, with its zero.
                let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr().cast()) };
                found.cast_const() == function
            };
            own.contains(&function) || names.iter().any(of_program)
        }
    };
}

null_conversions! {
    null = "mpi_conversion_fn_null_";
    null_two = "mpi_conversion_fn_null__";
    null_none = "mpi_conversion_fn_null";
    null_capitals = "MPI_CONVERSION_FN_NULL";
    null_large = "mpi_conversion_fn_null_c_";
    null_large_two = "mpi_conversion_fn_null_c__";
    null_large_none = "mpi_conversion_fn_null_c";
    null_large_capitals = "MPI_CONVERSION_FN_NULL_C";
}
