//! Macros that define the exported functions of a front end.
//!
//! Each defines two functions of one body, `MPI_X` and `PMPI_X`, so that a tool can override the
//! first and call the second (MPI 5.0, 15.2). `call!` returns an error code and raises errors on
//! the object named after `on`; `tool!` (`MPI_T_*`) returns an error code and calls no handler;
//! `value!` returns what its shim returns. `both!` is `call!` for `MPI_X` and `MPI_X_c` at once.
//!
//! A call of few nanoseconds spends most of them on the registers that it saves and on arguments
//! that it puts in memory for the function that handles all cases. So a shim may have a *leaf*: it
//! carries out the usual case and calls nothing. What it declines goes to the shim in a function of
//! the same parameters, to which the processor jumps: nothing is saved for a call that does not
//! come. Its name is known nevertheless ([`declined`](crate::declined)).

/// Defines `MPI_X` and `PMPI_X`, which call a shim; of several names that differ in nothing else,
/// each.
#[macro_export]
macro_rules! call {
    ($mpi:ident; $($more:ident);+ ($($params:tt)*) $($body:tt)*) => {
        $crate::call! { $mpi ($($params)*) $($body)* }
        $crate::call! { $($more);+ ($($params)*) $($body)* }
    };
    (
        $mpi:ident($($p:ident: $t:ty),*)
        on $target:ident$(($handle:ident))? => leaf $leaf:expr, $shim:expr
    ) => {
        const _: () = {
            #[inline(never)]
            #[allow(clippy::too_many_arguments)]
            unsafe extern "C" fn declined($($p: $t),*) -> std::ffi::c_int {
                $crate::note_declined!($mpi declined);
                $crate::checked!($mpi on $target$(($handle))? => $shim)
            }

            $crate::pair! { $mpi($($p: $t),*) -> std::ffi::c_int {
                // SAFETY: the caller of the MPI function promises what the leaf asks for.
                #[allow(unused_unsafe)]
                let done: Option<()> = unsafe { $leaf };
                match done {
                    Some(()) => $crate::constants::SUCCESS,
                    // SAFETY: as above, for the shim; the leaf has done nothing.
                    None => unsafe { declined($($p),*) },
                }
            } }
        };
    };
    (
        $mpi:ident($($p:ident: $t:ty),*)
        on $target:ident$(($handle:ident))? => $shim:expr
    ) => {
        $crate::pair! { $mpi($($p: $t),*) -> std::ffi::c_int {
            $crate::checked!($mpi on $target$(($handle))? => $shim)
        } }
    };
}

/// Defines a function and the one for large counts, whose text is the same: `Int` is `int` in the
/// first and `MPI_Count` in the second, `Displ` is `int` and `MPI_Aint`, `Offset` is `MPI_Aint` and
/// `MPI_Count`, `FORM` says which it is. Of several names that differ in nothing else, each.
#[macro_export]
macro_rules! both {
    (
        $mpi:ident, $large:ident; $($more:ident, $more_large:ident);+ ($($params:tt)*)
        $($body:tt)*
    ) => {
        $crate::both! { $mpi, $large ($($params)*) $($body)* }
        $crate::both! { $($more, $more_large);+ ($($params)*) $($body)* }
    };
    ($mpi:ident, $large:ident($($p:ident: $t:ty),*) $($body:tt)*) => {
        const _: () = {
            #[allow(dead_code)]
            const FORM: $crate::poly::CountForm = $crate::poly::CountForm::Plain;
            #[allow(dead_code)]
            type Int = std::ffi::c_int;
            #[allow(dead_code)]
            type Displ = std::ffi::c_int;
            #[allow(dead_code)]
            type Offset = $crate::types::MPI_Aint;
            $crate::call! { $mpi($($p: $t),*) $($body)* }
        };
        const _: () = {
            #[allow(dead_code)]
            const FORM: $crate::poly::CountForm = $crate::poly::CountForm::Large;
            #[allow(dead_code)]
            type Int = $crate::types::MPI_Count;
            #[allow(dead_code)]
            type Displ = $crate::types::MPI_Aint;
            #[allow(dead_code)]
            type Offset = $crate::types::MPI_Count;
            $crate::call! { $large($($p: $t),*) $($body)* }
        };
    };
}

/// Defines the blocking, the non-blocking and the persistent form of a collective call, each as
/// [`both!`]: twelve functions. What stands after `=>` are the arguments of the function of
/// [`collective`](mod@crate::collective) that prepares the call; `fast`: its blocking form tries
/// the function of this name in [`fast_path`](mod@crate::collective::fast_path) first.
#[macro_export]
macro_rules! collective {
    (fast $call:ident $params:tt on $comm:ident: $($names:ident)* => $($argument:expr),*) => {
        $crate::collective! {
            @forms $call $params on $comm: $($names)* => $($argument),* ;
            $crate::collective::fast_path::$call($($argument),*).unwrap_or_else(|| {
                $crate::collective::$call($($argument),*)
                    .and_then($crate::collective::CheckedCall::run)
            })
        }
    };
    ($call:ident $params:tt on $comm:ident: $($names:ident)* => $($argument:expr),*) => {
        $crate::collective! {
            @forms $call $params on $comm: $($names)* => $($argument),* ;
            $crate::collective::$call($($argument),*).and_then($crate::collective::CheckedCall::run)
        }
    };
    (
        @forms $call:ident($($p:ident: $t:ty),*) on $comm:ident:
            $mpi:ident $large:ident $i:ident $ilarge:ident $init:ident $initlarge:ident
        => $($argument:expr),* ; $blocking:expr
    ) => {
        $crate::both! { $mpi, $large($($p: $t),*) on Comm($comm) => $blocking }
        $crate::both! {
            $i, $ilarge($($p: $t,)* request: *mut $crate::types::MPI_Request)
            on Comm($comm)
            => $crate::collective::start(request, || $crate::collective::$call($($argument),*))
        }
        $crate::both! {
            $init, $initlarge(
                $($p: $t,)* info: $crate::types::MPI_Info, request: *mut $crate::types::MPI_Request
            ) on Comm($comm)
            => $crate::collective::make_persistent(request, info, || {
                $crate::collective::$call($($argument),*)
            })
        }
    };
}

/// The error code of a shim's result; an error is raised.
#[macro_export]
macro_rules! checked {
    ($mpi:ident on $target:ident$(($handle:ident))? => $shim:expr) => {{
        // SAFETY: the caller of the MPI function promises what the shim asks for.
        #[allow(unused_unsafe)]
        let result = unsafe { $shim };
        $crate::raise::finish(stringify!($mpi), result, || {
            $crate::raise::ErrorTarget::$target$(($handle.raw()))?
        })
    }};
}

/// Defines a function of the tools interface.
#[macro_export]
macro_rules! tool {
    ($mpi:ident($($p:ident: $t:ty),*) => $shim:expr) => {
        $crate::pair! { $mpi($($p: $t),*) -> std::ffi::c_int {
            // SAFETY: the caller of the MPI function promises what the shim asks for.
            #[allow(unused_unsafe)]
            let result: Result<(), std::ffi::c_int> = unsafe { $shim };
            result.err().unwrap_or($crate::constants::SUCCESS)
        } }
    };
}

/// Defines a function that returns a value.
#[macro_export]
macro_rules! value {
    ($mpi:ident($($p:ident: $t:ty),*) -> $r:ty => $shim:expr) => {
        $crate::pair! { $mpi($($p: $t),*) -> $r {
            // SAFETY: the caller of the MPI function promises what the shim asks for.
            #[allow(unused_unsafe)]
            unsafe { $shim }
        } }
    };
}

pub use mica_front_end::pair;
pub use {both, call, checked, collective, tool, value};
