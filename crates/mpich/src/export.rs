//! Macros that define the exported functions.
//!
//! `forward!` defines `MPI_X` and `PMPI_X` from the kinds of their parameters; the length of an
//! array follows its kind in brackets. Both call `PMPI_X` of the standard ABI's library: a tool of
//! that ABI must not see calls that a tool of this one may see already.

/// Defines functions that convert their arguments and call the one of the same name: a function, or
/// one and that for large counts, in whose parameters `Int` is `int` in the first and `MPI_Count`
/// in the second, `Displ` `int` and `MPI_Aint`, `Offset` `MPI_Aint` and `MPI_Count`. Of several
/// names that differ in nothing else, each.
macro_rules! forward {
    ($($plain:ident $(, $large:ident)?);+ ($($params:tt)*)) => {
        $crate::export::forward! { @each ($($params)*) $($plain $(, $large)?;)+ }
    };
    (@each $params:tt $plain:ident $(, $large:ident)?; $($more:tt)*) => {
        $crate::export::forward! { @counts c_int, c_int, mica_front_end::types::MPI_Aint;
            $plain $params }
        $($crate::export::forward! { @counts mica_front_end::types::MPI_Count,
            mica_front_end::types::MPI_Aint, mica_front_end::types::MPI_Count;
            $large $params })?
        $crate::export::forward! { @each $params $($more)* }
    };
    (@each $params:tt) => {};
    (
        @counts $int:ty, $displ:ty, $offset:ty;
        $mpi:ident($($p:ident: $kind:ty $([$len:expr])?),*)
    ) => {
        const _: () = {
            #[allow(dead_code, reason = "few functions have all kinds of counts")]
            type Int = $int;
            #[allow(dead_code, reason = "as above")]
            type Displ = $displ;
            #[allow(dead_code, reason = "as above")]
            type Offset = $offset;
            $crate::export::pair! { $mpi(
                $($p: <$kind as $crate::argument::ParameterKind>::Given),*
            ) -> c_int {
                // SAFETY: the caller of the MPI function promises what the conversions ask for.
                unsafe { $crate::export::converted!($mpi($($p: $kind $([$len])?),*)) }
            } }
        };
    };
}

/// The code that the function of the same name returns, for converted arguments: an expression
/// within `unsafe`, in a function that returns such a code.
macro_rules! converted {
    ($mpi:ident($($p:ident: $kind:ty $([$len:expr])?),*)) => {{
        #[allow(unused_imports, reason = "there may be no parameters")]
        use $crate::argument::ParameterKind;
        type Call = unsafe extern "C" fn($(<$kind as ParameterKind>::Passed),*) -> std::ffi::c_int;
        let call = $crate::export::standard!($mpi as Call);
        $(
            #[allow(unused_mut, unused_assignments, reason = "what is no array has no length")]
            let mut length = 0;
            $(length = $crate::argument::Length::elements($len);)?
            let Some(mut $p) = <$kind as ParameterKind>::enter($p, length) else {
                return $crate::export::no_memory(concat!(stringify!($mpi), "\0"), length);
            };
        )*
        let code = call($(<$kind as ParameterKind>::pass(&mut $p)),*);
        $(<$kind as ParameterKind>::leave($p);)*
        <$crate::value::ErrorCode as $crate::word::WordKind>::to_mpich(code)
    }};
}

/// The function of the standard ABI of this name, as a pointer of a type: an expression within
/// `unsafe`.
macro_rules! standard {
    ($mpi:ident as $type:ty) => {{
        static FUNCTION: $crate::library::StandardFunction =
            $crate::library::StandardFunction::new(concat!("P", stringify!($mpi), "\0"));
        std::mem::transmute::<*const std::ffi::c_void, $type>(FUNCTION.address())
    }};
}

/// Defines functions of the tools interface and others whose arguments and results are the same in
/// both ABIs, with what they return.
macro_rules! same {
    ($($mpi:ident($($p:ident: $t:ty),*) -> $r:ty;)*) => {$(
        $crate::export::pair! { $mpi($($p: $t),*) -> $r {
            // SAFETY: the caller of the MPI function promises what that of this name asks for,
            // which has these parameters.
            unsafe {
                $crate::export::standard!($mpi as unsafe extern "C" fn($($t),*) -> $r)($($p),*)
            }
        } }
    )*};
}

/// Defines functions that the library does not have: they raise an error with their name.
macro_rules! missing {
    ($($mpi:ident)*) => {$(
        // Whatever the arguments are: the caller takes them back.
        $crate::export::pair! { $mpi() -> c_int {
            $crate::export::unsupported(concat!(stringify!($mpi), "\0"))
        } }
    )*};
}

use std::ffi::c_int;

use crate::library::table;
use crate::value::ErrorCode;
use crate::word::WordKind;

pub(crate) use mica_front_end::pair;
pub(crate) use {converted, forward, missing, same, standard};

/// Raises the error of a call for whose arrays of `len` elements there is no memory. The name ends
/// with a zero.
#[cold]
pub fn no_memory(call: &'static str, len: usize) -> c_int {
    let bytes = len.saturating_mul(size_of::<usize>());
    // SAFETY: the table's function gets a C string that stays.
    ErrorCode::to_mpich(unsafe { (table().out_of_memory)(call.as_ptr().cast(), bytes) })
}

/// Raises the error of a function that the library does not have. The name ends with a zero.
#[cold]
pub fn unsupported(call: &'static str) -> c_int {
    // SAFETY: as above.
    ErrorCode::to_mpich(unsafe { (table().unsupported)(call.as_ptr().cast()) })
}
