//! Attributes: in Fortran a value is an integer of the size of an address, in C an address.
//!
//! What Fortran has set, C gets as the address of that integer; what C has set, Fortran gets as the
//! address (MPI 5.0, 19.3.7). So the integers that Fortran sets are kept here, each in a place of
//! its own, and a place tells who has set a value.

use std::collections::HashSet;
use std::ffi::{c_int, c_void};
use std::sync::Mutex;

use mica_front_end::table::object;

use crate::abi::names::callback;
use crate::abi::{Word, constants as c, keyval_to_c, table};
use crate::argument::{HandleWord, flag_to_c, flag_to_fortran, to_c};
use crate::callback::{Function, by_table, program, state};
use crate::export::by_hand;

/// The addresses of the integers that Fortran has set.
static PLACES: Mutex<Option<HashSet<usize>>> = Mutex::new(None);

/// Runs `with` with the addresses. A panic elsewhere leaves them as they are.
fn places<T>(with: impl FnOnce(&mut HashSet<usize>) -> T) -> T {
    let mut places = PLACES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    with(places.get_or_insert_default())
}

/// The value in C for one of Fortran.
fn value_to_c(value: i64) -> *mut c_void {
    let place = Box::into_raw(Box::new(value));
    places(|all| all.insert(place.expose_provenance()));
    place.cast()
}

/// The value in Fortran for one of C.
fn value_to_fortran(value: *mut c_void) -> i64 {
    if places(|all| all.contains(&value.addr())) {
        // SAFETY: `value_to_c` has made it, and the attribute still has it.
        return unsafe { value.cast::<i64>().read() };
    }
    value.expose_provenance() as i64
}

/// Frees the value in C of one that Fortran has set; others stay.
fn forget(value: *mut c_void) {
    if places(|all| all.remove(&value.addr())) {
        // SAFETY: `value_to_c` has made it, and no attribute has it any longer.
        drop(unsafe { Box::from_raw(value.cast::<i64>()) });
    }
}

/// The attributes of MPI itself whose value in C is the address of an `int`.
const NUMBERS: [c_int; 10] = [
    c::TAG_UB,
    c::IO,
    c::HOST,
    c::WTIME_IS_GLOBAL,
    c::APPNUM,
    c::LASTUSEDCODE,
    c::UNIVERSE_SIZE,
    c::WIN_DISP_UNIT,
    c::WIN_CREATE_FLAVOR,
    c::WIN_MODEL,
];

/// The value in Fortran of an attribute of any key.
///
/// # Safety
/// The value is what MPI has returned for the key.
unsafe fn value_of(keyval: c_int, value: *mut c_void) -> i64 {
    // SAFETY: of these keys of MPI the value is the address of a number.
    unsafe {
        match keyval {
            c::WIN_SIZE => value.cast::<i64>().read(),
            _ if NUMBERS.contains(&keyval) => value.cast::<c_int>().read().into(),
            _ => value_to_fortran(value),
        }
    }
}

/// The callbacks of a key, whose attributes are integers of an address's size, or, of MPI-1's
/// functions, of `INTEGER`.
struct Key {
    copies: Function,
    deletes: Function,
    extra: i64,
    is_narrow: bool,
}

unsafe extern "C" fn copy(
    object: usize,
    keyval: c_int,
    state: *mut c_void,
    value: *mut c_void,
    place: *mut c_void,
    wanted: *mut c_int,
) -> c_int {
    let (mut object, mut keyval) = (object.to_fortran(), keyval);
    let (mut flag, mut code) = (0, c::SUCCESS);
    let (mut given, mut copied) = (value_to_fortran(value), 0_i64);
    // SAFETY: the library passes the state of this key, and places for the results; the program's
    // function has these parameters. The low half of a number lies where it begins.
    unsafe {
        let key = &mut *state.cast::<Key>();
        program!(key.copies => fn(*mut c_int, *mut c_int, *mut i64, *mut i64, *mut i64, *mut c_int,
            *mut c_int))(
            &raw mut object,
            &raw mut keyval,
            &raw mut key.extra,
            &raw mut given,
            &raw mut copied,
            &raw mut flag,
            &raw mut code,
        );
        if key.is_narrow {
            copied = (copied as c_int).into();
        }
        wanted.write(flag_to_c(flag));
        if flag != 0 && code == c::SUCCESS {
            place.cast::<*mut c_void>().write(value_to_c(copied));
        }
    }
    code
}

unsafe extern "C" fn delete(
    object: usize,
    keyval: c_int,
    value: *mut c_void,
    state: *mut c_void,
) -> c_int {
    let (mut object, mut keyval, mut code) = (object.to_fortran(), keyval, c::SUCCESS);
    let mut given = value_to_fortran(value);
    // SAFETY: as above.
    unsafe {
        let key = &mut *state.cast::<Key>();
        program!(key.deletes => fn(*mut c_int, *mut c_int, *mut i64, *mut i64, *mut c_int))(
            &raw mut object,
            &raw mut keyval,
            &raw mut given,
            &raw mut key.extra,
            &raw mut code,
        );
    }
    if code == c::SUCCESS {
        forget(value);
    }
    code
}

/// Creates a key for a kind of object.
///
/// # Safety
/// `keyval` is null or writable.
unsafe fn create_keyval(kind: c_int, key: Key, keyval: *mut c_int) -> c_int {
    // SAFETY: the table's function; the state goes with the callbacks.
    unsafe { (table().create_keyval)(kind, Some(copy), Some(delete), state(key), keyval) }
}

/// Defines the functions that create keys.
macro_rules! keys {
    ($($lower:literal $upper:literal $kind:expr;)*) => {$(
        by_table! {
            $lower $upper
                (copy_fn: Function, delete_fn: Function, keyval: *mut c_int, extra: *const i64)
                create_keyval($kind, Key {
                    copies: copy_fn, deletes: delete_fn, extra: extra.read(), is_narrow: false,
                }, keyval);
        }
    )*};
}

keys! {
    "comm_create_keyval" "COMM_CREATE_KEYVAL" object::COMM;
    "type_create_keyval" "TYPE_CREATE_KEYVAL" object::DATATYPE;
    "win_create_keyval" "WIN_CREATE_KEYVAL" object::WIN;
}

by_table! {
    "keyval_create" "KEYVAL_CREATE"
        (copy_fn: Function, delete_fn: Function, keyval: *mut c_int, extra: *const c_int)
        create_keyval(object::COMM, Key {
            copies: copy_fn, deletes: delete_fn, extra: extra.read().into(), is_narrow: true,
        }, keyval);
}

/// Defines the functions that set and get attributes, of values of a type.
macro_rules! attributes {
    ($($set:ident $set_lower:literal $set_upper:literal
        $get:ident $get_lower:literal $get_upper:literal $t:ty;)*) => {$(
        by_hand! {
            $set $set_lower $set_upper, fn(Word, c_int, *mut c_void),
            |function, object: *const c_int, keyval: *const c_int, value: *const $t| {
                let value = value_to_c(value.read().into());
                let code = function(to_c(object.read()), keyval_to_c(keyval.read()), value);
                if code != c::SUCCESS {
                    forget(value);
                }
                code
            }
        }
        by_hand! {
            $get $get_lower $get_upper, fn(Word, c_int, *mut *mut c_void, *mut c_int),
            |function, object: *const c_int, keyval: *const c_int, value: *mut $t,
                flag: *mut c_int| {
                let (mut found, mut is_set) = (std::ptr::null_mut(), 0);
                let keyval = keyval_to_c(keyval.read());
                let code = function(to_c(object.read()), keyval, &raw mut found, &raw mut is_set);
                if code == c::SUCCESS {
                    flag.write(flag_to_fortran(is_set));
                    if is_set != 0 {
                        value.write(value_of(keyval, found) as $t);
                    }
                }
                code
            }
        }
    )*};
}

attributes! {
    MPI_Comm_set_attr "comm_set_attr" "COMM_SET_ATTR"
        MPI_Comm_get_attr "comm_get_attr" "COMM_GET_ATTR" i64;
    MPI_Type_set_attr "type_set_attr" "TYPE_SET_ATTR"
        MPI_Type_get_attr "type_get_attr" "TYPE_GET_ATTR" i64;
    MPI_Win_set_attr "win_set_attr" "WIN_SET_ATTR"
        MPI_Win_get_attr "win_get_attr" "WIN_GET_ATTR" i64;
    MPI_Attr_put "attr_put" "ATTR_PUT" MPI_Attr_get "attr_get" "ATTR_GET" c_int;
}

/// Defines the callbacks of keys that MPI has: what they do is what a program's would.
macro_rules! predefined {
    (copy $t:ty, |$given:ident| $copied:expr, $($lower:literal $upper:literal)+) => {$(
        predefined! { @copy [$lower $upper] $t, |$given| $copied }
    )+};
    (@copy [$lower:literal $upper:literal] $t:ty, |$given:ident| $copied:expr) => {
        callback! { $lower $upper
            fn(_object: *const c_int, _keyval: *const c_int, _extra: *const c_void,
                $given: *const $t, copied: *mut $t, flag: *mut c_int, ierror: *mut c_int) {
                // SAFETY: the caller passes what MPI says to a function of this kind.
                unsafe {
                    let copy: Option<$t> = $copied;
                    if let Some(value) = copy {
                        copied.write(value);
                    }
                    flag.write(flag_to_fortran(copy.is_some().into()));
                    ierror.write(c::SUCCESS);
                }
            }
        }
    };
    (delete $($lower:literal $upper:literal)+) => {$(
        callback! { $lower $upper
            fn(_object: *const c_int, _keyval: *const c_int, _value: *const c_void,
                _extra: *const c_void, ierror: *mut c_int) {
                // SAFETY: as above.
                unsafe { ierror.write(c::SUCCESS) };
            }
        }
    )+};
}

predefined! { copy i64, |_given| None,
"comm_null_copy_fn" "COMM_NULL_COPY_FN"
"type_null_copy_fn" "TYPE_NULL_COPY_FN" "win_null_copy_fn" "WIN_NULL_COPY_FN" }
predefined! { copy c_int, |_given| None, "null_copy_fn" "NULL_COPY_FN" }
predefined! { copy i64, |given| Some(given.read()),
"comm_dup_fn" "COMM_DUP_FN" "type_dup_fn" "TYPE_DUP_FN"
"win_dup_fn" "WIN_DUP_FN" }
predefined! { copy c_int, |given| Some(given.read()), "dup_fn" "DUP_FN" }
predefined! { delete "comm_null_delete_fn" "COMM_NULL_DELETE_FN"
"type_null_delete_fn" "TYPE_NULL_DELETE_FN"
"win_null_delete_fn" "WIN_NULL_DELETE_FN" "null_delete_fn" "NULL_DELETE_FN" }
