//! The names of the exported functions.
//!
//! `include 'mpif.h'` and `use mpi` pass the address of anything, choice buffers too, to `mpi_x_`
//! and so on. `use mpi_f08` calls `mpi_x_f08_`, with the same arguments, of which `ierror` may be
//! missing; where there is a choice buffer, it passes gfortran's descriptor to `mpi_x_f08ts_`.
//! Functions for large counts are `mpi_x_f08ts_large_` in MPICH 4.0, and `mpi_x_c_f08ts_` in later
//! versions and in Intel MPI. For tools there are `pmpi_x_`, and of `mpi_f08` `pmpir_x_f08_`.

/// Exports `call` for all interfaces.
macro_rules! plain {
    ($mpi:ident $lower:literal $upper:literal $params:tt) => {
        $crate::abi::names::by_address! { $mpi $lower $upper $params }
        $crate::abi::names::f08! { $mpi $lower $params }
    };
}

/// Exports `call` under names that begin with `mpix_`.
macro_rules! extension {
    ($mpi:ident $lower:literal $upper:literal $params:tt) => {
        $crate::export::exports! { call $mpi [
            concat!("mpix_", $lower, "_"), concat!("mpix_", $lower, "__"),
            concat!("mpix_", $lower), concat!("MPIX_", $upper), concat!("mpix_", $lower, "_f08_")
        ] $params }
        $crate::export::exports! { call profiling [
            concat!("pmpix_", $lower, "_"), concat!("pmpix_", $lower, "__"),
            concat!("pmpix_", $lower), concat!("PMPIX_", $upper),
            concat!("pmpixr_", $lower, "_f08_")
        ] $params }
    };
}

/// Exports `call` for `mpi_f08`.
macro_rules! f08 {
    ($mpi:ident $lower:literal $params:tt) => {
        $crate::export::exports! { call $mpi [concat!("mpi_", $lower, "_f08_")] $params }
        $crate::export::exports! { call profiling [concat!("pmpir_", $lower, "_f08_")] $params }
    };
}

/// Exports `call` as the function for large counts.
macro_rules! large {
    ($mpi:ident $lower:literal $params:tt) => {
        $crate::export::exports! { call $mpi [
            concat!("mpi_", $lower, "_f08_large_"), concat!("mpi_", $lower, "_c_f08_")
        ] $params }
        $crate::export::exports! { call profiling [
            concat!("pmpir_", $lower, "_f08_large_"), concat!("pmpir_", $lower, "_c_f08_")
        ] $params }
    };
}

/// Exports `described` for `mpi_f08`.
macro_rules! by_descriptor {
    ($mpi:ident $lower:literal $params:tt) => {
        $crate::export::exports! { described $mpi [concat!("mpi_", $lower, "_f08ts_")] $params }
        $crate::export::exports! { described profiling [
            concat!("pmpir_", $lower, "_f08ts_")
        ] $params }
    };
}

/// Exports `described` as the function for large counts.
macro_rules! large_by_descriptor {
    ($mpi:ident $lower:literal $params:tt) => {
        $crate::export::exports! { described $mpi [
            concat!("mpi_", $lower, "_f08ts_large_"), concat!("mpi_", $lower, "_c_f08ts_")
        ] $params }
        $crate::export::exports! { described profiling [
            concat!("pmpir_", $lower, "_f08ts_large_"), concat!("pmpir_", $lower, "_c_f08ts_")
        ] $params }
    };
}

/// Defines a function that is no more than its name says, for all interfaces.
macro_rules! function {
    ($lower:literal $upper:literal $($rest:tt)*) => {
        $crate::export::named! { [
            concat!("mpi_", $lower, "_"), concat!("mpi_", $lower, "__"), concat!("mpi_", $lower),
            concat!("MPI_", $upper), concat!("mpi_", $lower, "_f08_")
        ] $($rest)* }
    };
}

/// Defines such a function for tools.
macro_rules! profiling_function {
    ($lower:literal $upper:literal $($rest:tt)*) => {
        $crate::export::named! { [
            concat!("pmpi_", $lower, "_"), concat!("pmpi_", $lower, "__"),
            concat!("pmpi_", $lower), concat!("PMPI_", $upper), concat!("pmpir_", $lower, "_f08_")
        ] $($rest)* }
    };
}

/// Defines such a function for `mpif.h` and `mpi` alone.
macro_rules! older {
    ($mpi:ident $lower:literal $upper:literal $($rest:tt)*) => {
        $crate::export::named! { [
            concat!("mpi_", $lower, "_"), concat!("mpi_", $lower, "__"), concat!("mpi_", $lower),
            concat!("MPI_", $upper)
        ] $($rest)* }
    };
}

/// Defines such a function for tools of `mpif.h` and `mpi` alone.
macro_rules! profiling_older {
    ($mpi:ident $lower:literal $upper:literal $($rest:tt)*) => {
        $crate::export::named! { [
            concat!("pmpi_", $lower, "_"), concat!("pmpi_", $lower, "__"),
            concat!("pmpi_", $lower), concat!("PMPI_", $upper)
        ] $($rest)* }
    };
}

/// Defines a callback that a program passes: in `mpi_f08` it is a procedure of a module.
macro_rules! callback {
    ($lower:literal $upper:literal $($rest:tt)*) => {
        $crate::export::named! { [
            concat!("mpi_", $lower, "_"), concat!("mpi_", $lower, "__"), concat!("mpi_", $lower),
            concat!("MPI_", $upper), concat!("pmpi_", $lower, "_"), concat!("pmpi_", $lower, "__"),
            concat!("pmpi_", $lower), concat!("PMPI_", $upper),
            concat!("__mpi_f08_callbacks_MOD_mpi_", $lower)
        ] $($rest)* }
    };
}

pub(crate) use crate::export::by_address;
pub(crate) use {
    by_descriptor, callback, extension, f08, function, large, large_by_descriptor, older, plain,
    profiling_function, profiling_older,
};
