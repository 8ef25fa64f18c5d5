//! Functions whose arguments in Fortran and in C differ in more than their form.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use mica_front_end::types::MPI_Aint;

use crate::abi::names::{function, older, profiling_function, profiling_older};
use crate::abi::{Status, Word, constants as c};
use crate::argument::{HandleWord, ParameterKind, to_c};
use crate::export::by_hand;
use crate::text::{CText, InInfoText, InText, UNTOUCHED, give};

// C's arguments of the program are no arguments in Fortran.
by_hand! { MPI_Init "init" "INIT", fn(*mut c_int, *mut c_void),
    |function| function(null_mut(), null_mut())
}
by_hand! {
    MPI_Init_thread "init_thread" "INIT_THREAD",
    fn(*mut c_int, *mut c_void, c_int, *mut c_int),
    |function, required: *const c_int, provided: *mut c_int|
        function(null_mut(), null_mut(), required.read(), provided)
}
by_hand! {
    MPI_Info_create_env "info_create_env" "INFO_CREATE_ENV",
    fn(c_int, *mut c_void, *mut Word),
    |function, info: *mut c_int| new_handle(info, |info| function(0, null_mut(), info))
}

/// Stores the handle that `make` makes, if it does.
///
/// # Safety
/// The place is null or writable; `make` gets null or a place of its own.
pub unsafe fn new_handle(place: *mut c_int, make: impl FnOnce(*mut Word) -> c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { new_handle_of(place, make) }
}

/// The same for a handle that C has as another word than most.
///
/// # Safety
/// As for [`new_handle`].
pub unsafe fn new_handle_of<W: HandleWord>(
    place: *mut c_int,
    make: impl FnOnce(*mut W) -> c_int,
) -> c_int {
    if place.is_null() {
        return make(null_mut());
    }
    let mut handle = W::NONE;
    let code = make(&raw mut handle);
    if code == c::SUCCESS {
        // SAFETY: as the caller promises.
        unsafe { place.write(handle.to_fortran()) };
    }
    code
}

// A status is the same in all interfaces.
macro_rules! copies {
    ($($define:ident $lower:literal $upper:literal;)*) => {$(
        $define! { $lower $upper
            fn(from: *const Status, to: *mut Status, ierror: *mut c_int) {
                // SAFETY: the caller passes the addresses of two statuses.
                unsafe {
                    to.write(from.read());
                    crate::choice::store(ierror, c::SUCCESS);
                }
            }
        }
    )*};
}

copies! {
    function "status_f2f08" "STATUS_F2F08"; profiling_function "status_f2f08" "STATUS_F2F08";
    function "status_f082f" "STATUS_F082F"; profiling_function "status_f082f" "STATUS_F082F";
}

// The length of a value counts no zero in Fortran.
by_hand! {
    MPI_Info_get "info_get" "INFO_GET",
    fn(Word, *const c_char, c_int, *mut c_char, *mut c_int),
    |function, info: *const c_int, key: *const c_char, valuelen: *const c_int, value: *mut c_char,
        flag: *mut c_int; key_len, value_len| {
        let Some(mut key) = InInfoText::enter(key, key_len) else {
            return crate::choice::no_memory("MPI_Info_get\0", key_len);
        };
        let room = usize::try_from(valuelen.read()).unwrap_or(0);
        let Some(mut text) = room_for(room) else {
            return crate::choice::no_memory("MPI_Info_get\0", room);
        };
        let mut found = 0;
        let code = function(to_c(info.read()), InInfoText::pass(&mut key), valuelen.read(),
            text.as_mut_ptr(), &raw mut found);
        if code == c::SUCCESS {
            flag.write(found);
            if found != 0 {
                give(text.as_ptr(), value, value_len);
            }
        }
        code
    }
}
by_hand! {
    MPI_Info_get_string "info_get_string" "INFO_GET_STRING",
    fn(Word, *const c_char, *mut c_int, *mut c_char, *mut c_int),
    |function, info: *const c_int, key: *const c_char, buflen: *mut c_int, value: *mut c_char,
        flag: *mut c_int; key_len, value_len| {
        let Some(mut key) = InInfoText::enter(key, key_len) else {
            return crate::choice::no_memory("MPI_Info_get_string\0", key_len);
        };
        let mut found = 0;
        let code = sized("MPI_Info_get_string\0", buflen, value, value_len, |len, text| {
            function(to_c(info.read()), InInfoText::pass(&mut key), len, text, &raw mut found)
        });
        if code == c::SUCCESS {
            flag.write(found);
        }
        code
    }
}
by_hand! {
    MPI_Session_get_nth_pset "session_get_nth_pset" "SESSION_GET_NTH_PSET",
    fn(Word, Word, c_int, *mut c_int, *mut c_char),
    |function, session: *const c_int, info: *const c_int, n: *const c_int, pset_len: *mut c_int,
        pset_name: *mut c_char; pset_name_len|
        sized("MPI_Session_get_nth_pset\0", pset_len, pset_name, pset_name_len, |len, text| {
            function(to_c(session.read()), to_c(info.read()), n.read(), len, text)
        })
}

/// A zeroed buffer for this number of characters and a terminating zero.
fn room_for(characters: usize) -> Option<Vec<c_char>> {
    let mut room = Vec::new();
    room.try_reserve_exact(characters.checked_add(1)?).ok()?;
    room.resize(characters + 1, 0);
    Some(room)
}

/// A call, of a name that ends with a zero, that gets the room that there is for a text, and stores
/// the text, if there is room, and how long it is. Both count the zero in C.
///
/// # Safety
/// `len` is readable and writable, `len_of_place` characters at `place` are writable.
unsafe fn sized(
    name: &'static str,
    len: *mut c_int,
    place: *mut c_char,
    len_of_place: usize,
    call: impl FnOnce(*mut c_int, *mut c_char) -> c_int,
) -> c_int {
    // SAFETY: as the caller promises; the buffer is as long as the call is told.
    unsafe {
        let wanted = usize::try_from(len.read()).unwrap_or(0);
        let Some(mut text) = room_for(wanted) else {
            return crate::choice::no_memory(name, wanted);
        };
        text[0] = UNTOUCHED as c_char;
        let before = if wanted == 0 { 0 } else { len.read().saturating_add(1) };
        let mut in_c = before;
        let code = call(&raw mut in_c, text.as_mut_ptr());
        if code == c::SUCCESS && in_c > 0 {
            len.write(in_c - 1);
            if wanted > 0 && text[0] != UNTOUCHED as c_char {
                give(text.as_ptr(), place, len_of_place);
            }
        }
        code
    }
}

/// Where an attached buffer was is no address that Fortran's `mpif.h` and `mpi` could use: they get
/// its size alone, `mpi_f08` gets both.
macro_rules! detach {
    ($mpi:ident $lower:literal $upper:literal, $large:ident, ($($p:ident),*)) => {
        by_hand! {
            f08 $mpi $lower, fn($(detach!(@word $p),)* *mut *mut c_void, *mut c_int),
            |function $(, $p: *const c_int)*, buffer_addr: *mut *mut c_void, size: *mut c_int|
                function($(to_c($p.read()),)* buffer_addr, size)
        }
        by_hand! {
            $large $lower, fn($(detach!(@word $p),)* *mut *mut c_void, *mut i64),
            |function $(, $p: *const c_int)*, buffer_addr: *mut *mut c_void, size: *mut i64|
                function($(to_c($p.read()),)* buffer_addr, size)
        }
        detach! { @older older [stringify!($mpi)] $mpi $lower $upper ($($p),*) }
        detach! { @older profiling_older [concat!("P", stringify!($mpi))]
            $mpi $lower $upper ($($p),*) }
    };
    (@older $define:ident [$called:expr] $mpi:ident $lower:literal $upper:literal
        ($($p:ident),*)) => {
        $define! { $mpi $lower $upper
            fn($($p: *const c_int,)* _buffer: *const c_void, size: *mut c_int, ierror: *mut c_int) {
                unsafe extern "C" {
                    #[link_name = $called]
                    fn detach($($p: Word,)* buffer: *mut *mut c_void, size: *mut c_int) -> c_int;
                }
                let mut buffer = null_mut();
                // SAFETY: the caller of the MPI function promises what it asks for.
                unsafe {
                    let code = detach($(to_c($p.read()),)* &raw mut buffer, size);
                    crate::choice::store(ierror, code);
                }
            }
        }
    };
    (@word $p:ident) => { Word };
}

detach! {
    MPI_Buffer_detach "buffer_detach" "BUFFER_DETACH",
    MPI_Buffer_detach_c, ()
}
detach! {
    MPI_Comm_detach_buffer "comm_detach_buffer" "COMM_DETACH_BUFFER",
    MPI_Comm_detach_buffer_c, (comm)
}
detach! {
    MPI_Session_detach_buffer "session_detach_buffer" "SESSION_DETACH_BUFFER",
    MPI_Session_detach_buffer_c, (session)
}

/// Functions that return a value, by their names in all interfaces.
macro_rules! functions {
    ($($mpi:ident $profiling:ident $lower:literal $upper:literal $params:tt -> $r:ty;)*) => {$(
        functions! { @one function $mpi $lower $upper $params -> $r }
        functions! { @one profiling_function $profiling $lower $upper $params -> $r }
    )*};
    (@one $define:ident $mpi:ident $lower:literal $upper:literal ($($p:ident),*) -> $r:ty) => {
        $define! { $lower $upper fn($($p: *const MPI_Aint),*) -> $r {
            unsafe extern "C" {
                fn $mpi($($p: MPI_Aint),*) -> $r;
            }
            // SAFETY: the caller passes addresses of numbers.
            unsafe { $mpi($($p.read()),*) }
        } }
    };
}

functions! {
    MPI_Wtime PMPI_Wtime "wtime" "WTIME" () -> f64;
    MPI_Wtick PMPI_Wtick "wtick" "WTICK" () -> f64;
    MPI_Aint_add PMPI_Aint_add "aint_add" "AINT_ADD" (base, disp) -> MPI_Aint;
    MPI_Aint_diff PMPI_Aint_diff "aint_diff" "AINT_DIFF" (addr1, addr2) -> MPI_Aint;
}

unsafe extern "C" {
    fn MPI_Pcontrol(level: c_int, ...) -> c_int;
    fn PMPI_Pcontrol(level: c_int, ...) -> c_int;
}

function! { "pcontrol" "PCONTROL"
    fn(level: *const c_int) {
        // SAFETY: the caller passes the address of a number.
        unsafe { MPI_Pcontrol(level.read()) };
    }
}
profiling_function! { "pcontrol" "PCONTROL"
    fn(level: *const c_int) {
        // SAFETY: as above.
        unsafe { PMPI_Pcontrol(level.read()) };
    }
}

// Since the compiler does not know what it does, the buffer is in memory when it returns.
function! { "f_sync_reg" "F_SYNC_REG" fn(_buf: *const c_void) {} }
profiling_function! { "f_sync_reg" "F_SYNC_REG" fn(_buf: *const c_void) {} }

/// A text for a function that reads it, or the code of an error.
///
/// # Safety
/// `len` characters are readable.
pub unsafe fn text(given: *const c_char, len: usize, call: &'static str) -> Result<CText, c_int> {
    // SAFETY: as the caller promises.
    unsafe { InText::enter(given, len) }.ok_or_else(|| crate::choice::no_memory(call, len))
}
