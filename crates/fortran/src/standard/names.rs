//! The names of the exported functions.
//!
//! A function of `include 'mpif.h'` and `use mpi` that has no choice buffer is `mpi_x_` and so on;
//! that of `use mpi_f08` is `mpi_x_f08_`, with the same arguments, of which `ierror` may be
//! missing. Where there is a choice buffer, `mpif.h` passes its address to `mpi_x_`, and both
//! modules pass a descriptor to a function of a name of C, `MPI_X_fts` and `MPI_X_f08ts` (MPI 5.0,
//! 19.1.5).

/// Exports `call` for all interfaces.
macro_rules! plain {
    ($mpi:ident $lower:literal $upper:literal $params:tt) => {
        $crate::export::exports! { call $mpi [
            concat!("mpi_", $lower, "_"), concat!("mpi_", $lower, "__"), concat!("mpi_", $lower),
            concat!("MPI_", $upper),
            concat!("mpi_", $lower, "_f08_"), concat!("mpi_", $lower, "_f08")
        ] $params }
        $crate::export::exports! { call profiling [
            concat!("pmpi_", $lower, "_"), concat!("pmpi_", $lower, "__"), concat!("pmpi_", $lower),
            concat!("PMPI_", $upper),
            concat!("pmpi_", $lower, "_f08_"), concat!("pmpi_", $lower, "_f08")
        ] $params }
    };
}

/// Exports `call` for `mpi_f08`.
macro_rules! f08 {
    ($mpi:ident $lower:literal $params:tt) => {
        $crate::export::exports! { call $mpi [
            concat!("mpi_", $lower, "_f08_"), concat!("mpi_", $lower, "_f08")
        ] $params }
        $crate::export::exports! { call profiling [
            concat!("pmpi_", $lower, "_f08_"), concat!("pmpi_", $lower, "_f08")
        ] $params }
    };
}

/// Exports `call` as the function for large counts.
macro_rules! large {
    ($mpi:ident $lower:literal $params:tt) => {
        $crate::export::exports! { call $mpi [
            concat!("mpi_", $lower, "_c_f08_"), concat!("mpi_", $lower, "_c_f08")
        ] $params }
        $crate::export::exports! { call profiling [
            concat!("pmpi_", $lower, "_c_f08_"), concat!("pmpi_", $lower, "_c_f08")
        ] $params }
    };
}

/// Exports `described` for interfaces that pass a descriptor, which has a text's length as well.
macro_rules! by_descriptor {
    ($mpi:ident $lower:literal $params:tt) => {
        $crate::abi::names::without_lengths! { $mpi [
            concat!(stringify!($mpi), "_fts"), concat!(stringify!($mpi), "_f08ts")
        ] $params }
        $crate::abi::names::without_lengths! { profiling [
            concat!("P", stringify!($mpi), "_fts"), concat!("P", stringify!($mpi), "_f08ts")
        ] $params }
    };
}

/// Exports `described` as the function for large counts.
macro_rules! large_by_descriptor {
    ($mpi:ident $lower:literal $params:tt) => {
        $crate::abi::names::without_lengths! { $mpi [
            concat!(stringify!($mpi), "_f08ts")
        ] $params }
        $crate::abi::names::without_lengths! { profiling [
            concat!("P", stringify!($mpi), "_f08ts")
        ] $params }
    };
}

/// Exports `described` under several names; no length follows the arguments.
macro_rules! without_lengths {
    ($target:ident [$($name:expr),+] $params:tt) => {$(
        $crate::abi::names::without_lengths! { @one $name, $target $params }
    )+};
    (@one $name:expr, $target:ident ($($p:ident: $type:ty),* $(; $($text:ident),+)?)) => {
        const _: () = {
            #[allow(clippy::too_many_arguments, reason = "MPI's")]
            unsafe fn lengthless(function: Call, $($p: $type),*) -> c_int {
                $($(let $text = 0;)+)?
                // SAFETY: as below.
                unsafe { described(function, $($p,)* $($($text),+)?) }
            }
            $crate::export::exports! { lengthless $target [$name] ($($p: $type),*) }
        };
    };
}

/// Defines a function that is no more than its name says, for all interfaces.
macro_rules! function {
    ($lower:literal $upper:literal $($rest:tt)*) => {
        $crate::export::named! { [
            concat!("mpi_", $lower, "_"), concat!("mpi_", $lower, "__"), concat!("mpi_", $lower),
            concat!("MPI_", $upper),
            concat!("mpi_", $lower, "_f08_"), concat!("mpi_", $lower, "_f08")
        ] $($rest)* }
    };
}

/// Defines such a function for tools.
macro_rules! profiling_function {
    ($lower:literal $upper:literal $($rest:tt)*) => {
        $crate::export::named! { [
            concat!("pmpi_", $lower, "_"), concat!("pmpi_", $lower, "__"), concat!("pmpi_", $lower),
            concat!("PMPI_", $upper),
            concat!("pmpi_", $lower, "_f08_"), concat!("pmpi_", $lower, "_f08")
        ] $($rest)* }
    };
}

/// Defines such a function for `mpif.h` and `mpi` alone.
macro_rules! older {
    ($mpi:ident $lower:literal $upper:literal $($rest:tt)*) => {
        $crate::export::named! { [
            concat!("mpi_", $lower, "_"), concat!("mpi_", $lower, "__"), concat!("mpi_", $lower),
            concat!("MPI_", $upper),
            concat!(stringify!($mpi), "_fts")
        ] $($rest)* }
    };
}

/// Defines such a function for tools of `mpif.h` and `mpi` alone.
macro_rules! profiling_older {
    ($mpi:ident $lower:literal $upper:literal $($rest:tt)*) => {
        $crate::export::named! { [
            concat!("pmpi_", $lower, "_"), concat!("pmpi_", $lower, "__"), concat!("pmpi_", $lower),
            concat!("PMPI_", $upper), concat!("P", stringify!($mpi), "_fts")
        ] $($rest)* }
    };
}

/// Defines a callback that a program passes.
macro_rules! callback {
    ($lower:literal $upper:literal $($rest:tt)*) => {
        $crate::export::named! { [
            concat!("mpi_", $lower, "_"), concat!("mpi_", $lower, "__"), concat!("mpi_", $lower),
            concat!("MPI_", $upper)
        ] $($rest)* }
    };
}

pub(crate) use crate::export::by_address;
pub(crate) use {
    by_descriptor, callback, f08, function, large, large_by_descriptor, older, plain,
    profiling_function, profiling_older, without_lengths,
};
