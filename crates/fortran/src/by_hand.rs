//! Functions whose arguments in Fortran and in C differ in more than their form.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use mica_front_end::types::{MPI_Aint, MPI_Status};

use crate::argument::{ParameterKind, to_c, to_fortran};
use crate::descriptor::Descriptor;
use crate::export::{by_hand, named};
use crate::generated::constants as c;
use crate::text::{CText, InInfoText, InText, UNTOUCHED, give};

// C's arguments of the program are no arguments in Fortran.
by_hand! { MPI_Init "mpi_init" "MPI_INIT", fn(*mut c_int, *mut c_void),
    |function| function(null_mut(), null_mut())
}
by_hand! {
    MPI_Init_thread "mpi_init_thread" "MPI_INIT_THREAD",
    fn(*mut c_int, *mut c_void, c_int, *mut c_int),
    |function, required: *const c_int, provided: *mut c_int|
        function(null_mut(), null_mut(), required.read(), provided)
}
by_hand! {
    MPI_Info_create_env "mpi_info_create_env" "MPI_INFO_CREATE_ENV",
    fn(c_int, *mut c_void, *mut usize),
    |function, info: *mut c_int| new_handle(info, |info| function(0, null_mut(), info))
}

/// Stores the handle that `make` makes, if it does.
///
/// # Safety
/// The place is null or writable; `make` gets null or a place of its own.
pub unsafe fn new_handle(place: *mut c_int, make: impl FnOnce(*mut usize) -> c_int) -> c_int {
    if place.is_null() {
        return make(null_mut());
    }
    let mut handle = 0;
    let code = make(&raw mut handle);
    if code == c::SUCCESS {
        // SAFETY: as the caller promises.
        unsafe { place.write(to_fortran(handle)) };
    }
    code
}

// A status is the same in all interfaces.
named! { ["mpi_status_f2f08_", "mpi_status_f2f08__", "mpi_status_f2f08", "MPI_STATUS_F2F08",
    "mpi_status_f2f08_f08_", "mpi_status_f2f08_f08", "pmpi_status_f2f08_", "pmpi_status_f2f08__",
    "pmpi_status_f2f08", "PMPI_STATUS_F2F08", "pmpi_status_f2f08_f08_", "pmpi_status_f2f08_f08",
    "mpi_status_f082f_", "mpi_status_f082f__", "mpi_status_f082f", "MPI_STATUS_F082F",
    "mpi_status_f082f_f08_", "mpi_status_f082f_f08", "pmpi_status_f082f_", "pmpi_status_f082f__",
    "pmpi_status_f082f", "PMPI_STATUS_F082F", "pmpi_status_f082f_f08_", "pmpi_status_f082f_f08"]
    fn(from: *const MPI_Status, to: *mut MPI_Status, ierror: *mut c_int) {
        // SAFETY: the caller passes the addresses of two statuses.
        unsafe {
            to.write(from.read());
            crate::choice::store(ierror, c::SUCCESS);
        }
    }
}

// The length of a value counts no zero in Fortran.
by_hand! {
    MPI_Info_get "mpi_info_get" "MPI_INFO_GET",
    fn(usize, *const c_char, c_int, *mut c_char, *mut c_int),
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
    MPI_Info_get_string "mpi_info_get_string" "MPI_INFO_GET_STRING",
    fn(usize, *const c_char, *mut c_int, *mut c_char, *mut c_int),
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
    MPI_Session_get_nth_pset "mpi_session_get_nth_pset" "MPI_SESSION_GET_NTH_PSET",
    fn(usize, usize, c_int, *mut c_int, *mut c_char),
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
    ($mpi:ident $lower:literal $upper:literal, $large:ident $lower_large:literal,
        ($($p:ident),*)) => {
        detach! { @f08 $mpi $lower, c_int, ($($p),*) }
        detach! { @f08 $large $lower_large, i64, ($($p),*) }
        detach! { @names [stringify!($mpi)] [
            concat!($lower, "_"), concat!($lower, "__"), $lower, $upper,
            concat!(stringify!($mpi), "_fts")
        ] ($($p),*) }
        detach! { @names [concat!("P", stringify!($mpi))] [
            concat!("p", $lower, "_"), concat!("p", $lower, "__"), concat!("p", $lower),
            concat!("P", $upper), concat!("P", stringify!($mpi), "_fts")
        ] ($($p),*) }
    };
    (@f08 $mpi:ident $lower:literal, $int:ty, ($($p:ident),*)) => {
        by_hand! {
            $mpi $lower, fn($(detach!(@usize $p),)* *mut *mut c_void, *mut $int),
            |function $(, $p: *const c_int)*, buffer_addr: *mut *mut c_void, size: *mut $int|
                function($(to_c($p.read()),)* buffer_addr, size)
        }
    };
    (@names [$called:expr] $names:tt ($($p:ident),*)) => {
        named! { $names
            fn($($p: *const c_int,)* _buffer: *const c_void, size: *mut c_int, ierror: *mut c_int) {
                unsafe extern "C" {
                    #[link_name = $called]
                    fn detach($($p: usize,)* buffer: *mut *mut c_void, size: *mut c_int) -> c_int;
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
    (@usize $p:ident) => { usize };
}

detach! {
    MPI_Buffer_detach "mpi_buffer_detach" "MPI_BUFFER_DETACH",
    MPI_Buffer_detach_c "mpi_buffer_detach_c", ()
}
detach! {
    MPI_Comm_detach_buffer "mpi_comm_detach_buffer" "MPI_COMM_DETACH_BUFFER",
    MPI_Comm_detach_buffer_c "mpi_comm_detach_buffer_c", (comm)
}
detach! {
    MPI_Session_detach_buffer "mpi_session_detach_buffer" "MPI_SESSION_DETACH_BUFFER",
    MPI_Session_detach_buffer_c "mpi_session_detach_buffer_c", (session)
}

/// Functions that return a value, by their names in all interfaces.
macro_rules! functions {
    ($($mpi:ident $profiling:ident $lower:literal $upper:literal $params:tt -> $r:ty;)*) => {$(
        functions! { @one $mpi [
            concat!($lower, "_"), concat!($lower, "__"), $lower, $upper
        ] $params -> $r }
        functions! { @one $profiling [
            concat!("p", $lower, "_"), concat!("p", $lower, "__"), concat!("p", $lower),
            concat!("P", $upper)
        ] $params -> $r }
    )*};
    (@one $mpi:ident $names:tt ($($p:ident),*) -> $r:ty) => {
        named! { $names fn($($p: *const MPI_Aint),*) -> $r {
            unsafe extern "C" {
                fn $mpi($($p: MPI_Aint),*) -> $r;
            }
            // SAFETY: the caller passes addresses of numbers.
            unsafe { $mpi($($p.read()),*) }
        } }
    };
}

functions! {
    MPI_Wtime PMPI_Wtime "mpi_wtime" "MPI_WTIME" () -> f64;
    MPI_Wtick PMPI_Wtick "mpi_wtick" "MPI_WTICK" () -> f64;
    MPI_Aint_add PMPI_Aint_add "mpi_aint_add" "MPI_AINT_ADD" (base, disp) -> MPI_Aint;
    MPI_Aint_diff PMPI_Aint_diff "mpi_aint_diff" "MPI_AINT_DIFF" (addr1, addr2) -> MPI_Aint;
}

unsafe extern "C" {
    fn MPI_Pcontrol(level: c_int, ...) -> c_int;
    fn PMPI_Pcontrol(level: c_int, ...) -> c_int;
}

named! { ["mpi_pcontrol_", "mpi_pcontrol__", "mpi_pcontrol", "MPI_PCONTROL", "mpi_pcontrol_f08_",
    "mpi_pcontrol_f08"]
    fn(level: *const c_int) {
        // SAFETY: the caller passes the address of a number.
        unsafe { MPI_Pcontrol(level.read()) };
    }
}
named! { ["pmpi_pcontrol_", "pmpi_pcontrol__", "pmpi_pcontrol", "PMPI_PCONTROL",
    "pmpi_pcontrol_f08_", "pmpi_pcontrol_f08"]
    fn(level: *const c_int) {
        // SAFETY: as above.
        unsafe { PMPI_Pcontrol(level.read()) };
    }
}

// Since the compiler does not know what it does, the buffer is in memory when it returns.
named! { ["mpi_f_sync_reg_", "mpi_f_sync_reg__", "mpi_f_sync_reg", "MPI_F_SYNC_REG",
    "pmpi_f_sync_reg_", "pmpi_f_sync_reg__", "pmpi_f_sync_reg", "PMPI_F_SYNC_REG",
    "MPI_F_sync_reg_fts", "MPI_F_sync_reg_f08ts", "PMPI_F_sync_reg_fts", "PMPI_F_sync_reg_f08ts"]
    fn(_buf: *const c_void) {}
}

named! { ["MPI_Sizeof_fts", "MPI_Sizeof_f08ts", "PMPI_Sizeof_fts", "PMPI_Sizeof_f08ts"]
    fn(x: *const Descriptor, size: *mut c_int, ierror: *mut c_int) {
        // SAFETY: a descriptor of Fortran, and places for numbers.
        unsafe {
            let code = match Descriptor::section(x) {
                Ok(section) => {
                    size.write(section.element as c_int);
                    c::SUCCESS
                }
                Err(unknown) => crate::choice::raise(unknown.into()),
            };
            crate::choice::store(ierror, code);
        }
    }
}

/// A text for a function that reads it, or the code of an error.
///
/// # Safety
/// `len` characters are readable.
pub unsafe fn text(given: *const c_char, len: usize, call: &'static str) -> Result<CText, c_int> {
    // SAFETY: as the caller promises.
    unsafe { InText::enter(given, len) }.ok_or_else(|| crate::choice::no_memory(call, len))
}
