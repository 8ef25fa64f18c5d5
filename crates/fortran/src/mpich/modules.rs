//! What MPICH's modules have as procedures and data of their own: comparisons and conversions of
//! handles and statuses, `MPI_Sizeof`, and what gfortran makes of derived types. Their names are
//! those that gfortran gives to parts of a module, and for `mpi` those of Intel's compiler too.

use std::ffi::{c_int, c_void};

use super::Status;
use crate::choice::store;
use crate::export::named;

/// What gfortran knows of a derived type where its objects are polymorphic.
#[derive(Debug)]
#[repr(C)]
struct TypeTable {
    /// Gfortran's number for the type, which programs compare.
    hash: c_int,
    size: usize,
    extends: *const c_void,
    initial: *const c_void,
    copy: unsafe extern "C" fn(*const c_void, *mut c_void),
    finalize: *const c_void,
    deallocate: *const c_void,
}

const _: () = assert!(size_of::<TypeTable>() == 56);

// SAFETY: nothing writes it, and it points to what nothing writes.
unsafe impl Sync for TypeTable {}

/// Defines what gfortran makes of a derived type that is one or more integers.
macro_rules! derived_type {
    ($type:ty, $hash:literal, $table:expr, $initial:expr, $copy:expr) => {
        const _: () = {
            #[unsafe(export_name = $initial)]
            static INITIAL: $type = unsafe {
                // SAFETY: integers, which may be zero.
                std::mem::zeroed()
            };

            #[unsafe(export_name = $copy)]
            unsafe extern "C" fn copy(from: *const c_void, to: *mut c_void) {
                // SAFETY: the program passes two objects of the type.
                unsafe { to.cast::<$type>().write(from.cast::<$type>().read()) };
            }

            #[unsafe(export_name = $table)]
            static TABLE: TypeTable = TypeTable {
                hash: $hash,
                size: size_of::<$type>(),
                extends: std::ptr::null(),
                initial: (&raw const INITIAL).cast(),
                copy,
                finalize: std::ptr::null(),
                deallocate: std::ptr::null(),
            };
        };
    };
}

/// The derived types of a module, by their names, with gfortran's numbers.
macro_rules! derived_types {
    ($module:literal: $($name:literal $type:ty, $hash:literal;)*) => {$(
        derived_type! { $type, $hash,
            concat!("__", $module, "_MOD___vtab_", $module, "_Mpi_", $name),
            concat!("__", $module, "_MOD___def_init_", $module, "_Mpi_", $name),
            concat!("__", $module, "_MOD___copy_", $module, "_Mpi_", $name)
        }
    )*};
}

derived_types! { "mpi_f08_types":
    "comm" c_int, 73_600_949; "datatype" c_int, 86_896_269; "errhandler" c_int, 15_118_478;
    "file" c_int, 70_760_613; "group" c_int, 20_619_574; "info" c_int, 53_436_151;
    "message" c_int, 90_857_150; "op" c_int, 68_037_098; "request" c_int, 92_555_974;
    "session" c_int, 41_464_269; "win" c_int, 58_701_395; "status" Status, 3_872_507;
}
derived_types! { "mpi_constants":
    "comm" c_int, 41_315_982; "datatype" c_int, 48_485_222; "errhandler" c_int, 39_840_743;
    "file" c_int, 33_442_942; "group" c_int, 74_059_165; "info" c_int, 21_151_184;
    "message" c_int, 13_592_485; "op" c_int, 49_666_883; "request" c_int, 15_291_309;
    "win" c_int, 37_378_874; "status" Status, 5_819_988;
}

/// Defines comparisons of handles, which are one integer each, be it a derived type or not.
macro_rules! comparisons {
    ($($handle:literal)*) => {$(
        comparisons! { @both "__mpi_f08_types_MOD_mpi_" $handle
            ["_eq" "_f08_eq_f" "_f_eq_f08"] ["_neq" "_f08_neq_f" "_f_neq_f08"] }
        comparisons! { @both "__mpi_constants_MOD_" $handle ["eq"] ["neq"] }
        comparisons! { @both "mpi_constants_mp_" $handle ["eq_"] ["neq_"] }
    )*};
    (@both $start:literal $handle:literal [$($equal:literal)+] [$($differ:literal)+]) => {
        $(comparisons! { @one concat!($start, $handle, $equal), a, b, a == b })+
        $(comparisons! { @one concat!($start, $handle, $differ), a, b, a != b })+
    };
    (@one $name:expr, $a:ident, $b:ident, $value:expr) => {
        named! { [$name] fn(a: *const c_int, b: *const c_int) -> c_int {
            // SAFETY: the program passes two handles.
            let ($a, $b) = unsafe { (a.read(), b.read()) };
            ($value).into()
        } }
    };
}

comparisons! {
    "comm" "datatype" "errhandler" "file" "group" "info" "message" "op" "request" "session" "win"
}

/// Defines conversions between handles of C and of Fortran, which are the same.
macro_rules! identities {
    ($($handle:literal)*) => {$(
        named! { [
            concat!("__mpi_f08_types_MOD_mpi_", $handle, "_c2f"),
            concat!("__mpi_f08_types_MOD_mpi_", $handle, "_f2c")
        ] fn(handle: c_int) -> c_int { handle } }
    )*};
}

identities! {
    "comm" "datatype" "errhandler" "group" "info" "message" "op" "request" "session" "win"
}

named! { ["__mpi_f08_types_MOD_mpi_status_f2f08", "__mpi_f08_types_MOD_mpi_status_f082f"]
    fn(from: *const Status, to: *mut Status, ierror: *mut c_int) {
        // SAFETY: the program passes two statuses.
        unsafe {
            to.write(from.read());
            store(ierror, 0);
        }
    }
}

// A status of C and one of Fortran, one assigned to the other.
named! { ["__mpi_f08_types_MOD_mpi_status_c_assign_f08",
    "__mpi_f08_types_MOD_mpi_status_f08_assign_c"]
    fn(to: *mut Status, from: *const Status) {
        // SAFETY: as above.
        unsafe { to.write(from.read()) };
    }
}

/// Defines `MPI_Sizeof` for a number of bytes: for objects of a kind, and arrays of them.
macro_rules! sizes {
    ($($bytes:literal: [$($kind:literal)*] [$($f08:literal)*];)*) => {$(
        $(sizes! { @one $bytes, [
            concat!("__mpi_sizeofs_MOD_mpi_sizeof_", $kind),
            concat!("mpi_sizeofs_mp_mpi_sizeof_", $kind, "_"),
            concat!("__mpi_sizeofs_MOD_mpi_sizeof_", $kind, "v"),
            concat!("mpi_sizeofs_mp_mpi_sizeof_", $kind, "v_")
        ] })*
        $(sizes! { @one $bytes, [concat!("__mpi_f08_types_MOD_mpi_sizeof_", $f08)] })*
    )*};
    (@one $bytes:literal, $names:tt) => {
        named! { $names fn(_x: *const c_void, size: *mut c_int, ierror: *mut c_int) {
            // SAFETY: the program passes places for numbers.
            unsafe {
                size.write($bytes);
                store(ierror, 0);
            }
        } }
    };
}

sizes! {
    1: ["i1" "ch"] ["xint8" "character"];
    2: ["i2"] ["xint16"];
    4: ["i" "r" "l"] ["xint32" "xreal32" "logical"];
    8: ["i8" "d" "cx"]
        ["xint64" "xreal64" "xcomplex32"];
    16: [] ["xreal128" "xcomplex64"];
    32: [] ["xcomplex128"];
}

/// Defines constants of derived types, which are variables where a program takes their address.
macro_rules! link_constants {
    ($($name:literal = $value:expr;)*) => {$(
        const _: () = {
            #[unsafe(export_name = concat!("__mpi_f08_compile_constants_MOD_", $name))]
            static CONSTANT: std::ffi::c_int = $value;
        };
    )*};
}
pub(crate) use link_constants;
