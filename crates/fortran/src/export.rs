//! Macros that define the exported functions from the kinds of their parameters; the length of an
//! array or a text follows its kind in brackets. The names of the functions are the ABI's:
//! [`crate::abi::names`].
//!
//! A function without choice buffers is one for all interfaces of Fortran, whose arguments are
//! addresses; in `mpi_f08`, `ierror` may be missing. A choice buffer is an address in one function,
//! a descriptor in another.
//!
//! They call `MPI_X`, so that tools for C see them; `pmpi_x_` and its kin call `PMPI_X`.

/// Defines functions without choice buffers.
macro_rules! forward {
    ($($mpi:ident $lower:literal $upper:literal);+ ($($params:tt)*)) => {
        $crate::export::forward! { @each ($($params)*) $($mpi $lower $upper;)+ }
    };
    (@each $params:tt $mpi:ident $lower:literal $upper:literal; $($more:tt)*) => {
        $crate::export::forward! { @one $mpi $lower $upper $params }
        $crate::export::forward! { @each $params $($more)* }
    };
    (@each $params:tt) => {};
    (@one $mpi:ident $lower:literal $upper:literal
        ($($p:ident: $kind:ty $([$len:expr])?),* $(; $($text:ident),+)?)) => {
        const _: () = {
            $crate::export::body! { $mpi($($p: $kind $([$len])?),* $(; $($text),+)?) }
            $crate::abi::names::plain! { $mpi $lower $upper
                ($($p: <$kind as ParameterKind>::Given),* $(; $($text),+)?) }
        };
    };
}

/// Defines functions for large counts without choice buffers, which `mpi_f08` alone has. Their
/// names are made of the one without `_c`.
macro_rules! forward_large {
    ($($mpi:ident $lower:literal);+ ($($params:tt)*)) => {
        $crate::export::forward_large! { @each ($($params)*) $($mpi $lower;)+ }
    };
    (@each $params:tt $mpi:ident $lower:literal; $($more:tt)*) => {
        $crate::export::forward_large! { @one $mpi $lower $params }
        $crate::export::forward_large! { @each $params $($more)* }
    };
    (@each $params:tt) => {};
    (@one $mpi:ident $lower:literal
        ($($p:ident: $kind:ty $([$len:expr])?),* $(; $($text:ident),+)?)) => {
        const _: () = {
            $crate::export::body! { $mpi($($p: $kind $([$len])?),* $(; $($text),+)?) }
            $crate::abi::names::large! { $mpi $lower
                ($($p: <$kind as ParameterKind>::Given),* $(; $($text),+)?) }
        };
    };
}

/// Defines functions with choice buffers. What becomes of a section that is not contiguous follows
/// for each buffer: see [`crate::choice`].
macro_rules! choice {
    ($($mpi:ident $lower:literal $upper:literal);+ ($($params:tt)*) {$($sections:tt)*}) => {
        $crate::export::choice! { @each ($($params)*) {$($sections)*} $($mpi $lower $upper;)+ }
    };
    (@each $params:tt $sections:tt $mpi:ident $lower:literal $upper:literal; $($more:tt)*) => {
        $crate::export::choice! { @one $mpi $lower $upper $params $sections }
        $crate::export::choice! { @each $params $sections $($more)* }
    };
    (@each $params:tt $sections:tt) => {};
    (@one $mpi:ident $lower:literal $upper:literal
        ($($p:ident: $kind:ty $([$len:expr])?),* $(; $($text:ident),+)?) $sections:tt) => {
        const _: () = {
            $crate::export::body! { $mpi($($p: $kind $([$len])?),* $(; $($text),+)?) }
            $crate::abi::names::by_address! { $mpi $lower $upper
                ($($p: <$kind as ParameterKind>::Given),* $(; $($text),+)?) }
            $crate::export::described! { ($($p: $kind),* $(; $($text),+)?) $sections }
            $crate::abi::names::by_descriptor! { $mpi $lower
                ($($p: <$kind as $crate::argument::Describable>::Described),* $(; $($text),+)?) }
        };
    };
}

/// Defines functions for large counts with choice buffers.
macro_rules! choice_large {
    ($($mpi:ident $lower:literal);+ ($($params:tt)*) {$($sections:tt)*}) => {
        $crate::export::choice_large! { @each ($($params)*) {$($sections)*} $($mpi $lower;)+ }
    };
    (@each $params:tt $sections:tt $mpi:ident $lower:literal; $($more:tt)*) => {
        $crate::export::choice_large! { @one $mpi $lower $params $sections }
        $crate::export::choice_large! { @each $params $sections $($more)* }
    };
    (@each $params:tt $sections:tt) => {};
    (@one $mpi:ident $lower:literal
        ($($p:ident: $kind:ty $([$len:expr])?),* $(; $($text:ident),+)?) $sections:tt) => {
        const _: () = {
            $crate::export::body! { $mpi($($p: $kind $([$len])?),* $(; $($text),+)?) }
            $crate::export::described! { ($($p: $kind),* $(; $($text),+)?) $sections }
            $crate::abi::names::large_by_descriptor! { $mpi $lower
                ($($p: <$kind as $crate::argument::Describable>::Described),* $(; $($text),+)?) }
        };
    };
}

/// The functions of C, and one that converts the arguments and calls one of them.
macro_rules! body {
    ($mpi:ident($($p:ident: $kind:ty $([$len:expr])?),* $(; $($text:ident),+)?)) => {
        #[allow(unused_imports, reason = "there may be no parameters")]
        use $crate::argument::ParameterKind;

        type Call = unsafe extern "C" fn($(<$kind as ParameterKind>::Passed),*) -> c_int;

        #[allow(clippy::too_many_arguments, reason = "MPI's")]
        unsafe extern "C" {
            fn $mpi($($p: <$kind as ParameterKind>::Passed),*) -> c_int;
            #[link_name = concat!("P", stringify!($mpi))]
            fn profiling($($p: <$kind as ParameterKind>::Passed),*) -> c_int;
        }

        #[inline(always)]
        #[allow(clippy::too_many_arguments, reason = "MPI's")]
        unsafe fn call(
            function: Call, $($p: <$kind as ParameterKind>::Given,)* $($($text: usize),+)?
        ) -> c_int {
            // SAFETY: the caller of the MPI function promises what the conversions ask for.
            unsafe {
                $(
                    #[allow(unused_mut, unused_assignments, reason = "without a length")]
                    let mut length = 0;
                    $(length = $crate::argument::Length::elements($len);)?
                    let Some(mut $p) = <$kind as ParameterKind>::enter($p, length) else {
                        return $crate::choice::no_memory(
                            concat!(stringify!($mpi), "\0"), length);
                    };
                )*
                let code = function($(<$kind as ParameterKind>::pass(&mut $p)),*);
                $(<$kind as ParameterKind>::leave($p);)*
                code
            }
        }
    };
}

/// A function like `call` whose choice buffers are descriptors.
macro_rules! described {
    (
        ($($p:ident: $kind:ty),* $(; $($text:ident),+)?)
        {
            $(typed $typed:ident($count:ident, $datatype:ident);)*
            $(copied $copied:ident($access:ident);)*
            $(contiguous $contiguous:ident;)*
            $(location $location:ident;)*
            $(text $characters:ident $length:ident;)*
            $(request $request:ident $usage:ident;)?
            $(partitioned $parted:ident($each:ident, $of:ident);)?
        }
    ) => {
        #[inline(always)]
        #[allow(clippy::too_many_arguments, reason = "MPI's")]
        unsafe fn described(
            function: Call, $($p: <$kind as $crate::argument::Describable>::Described,)*
            $($($text: usize),+)?
        ) -> c_int {
            // SAFETY: as above.
            unsafe {
                let are_contiguous = true
                    $(&& $crate::choice::is_packed($typed))*
                    $(&& $crate::choice::is_packed($copied))*
                    $(&& $crate::choice::is_packed($contiguous))*
                    $(&& $crate::abi::descriptor::is_known_text($characters))*;
                if !are_contiguous {
                    return scattered($($p,)* $($($text,)+)? function);
                }
                $(let $typed = $crate::choice::location($typed);)*
                $(let $copied = $crate::choice::location($copied);)*
                $(let $contiguous = $crate::choice::location($contiguous);)*
                $(let $location = $crate::choice::location($location);)*
                $(
                    let ($characters, $length) =
                        $crate::abi::descriptor::text($characters, $length);
                )*
                call(function, $($p,)* $($($text),+)?)
            }
        }

        // The arguments come first, as the exported function gets them: so they are in their
        // registers already, and a call that needs none of this moves none of them.
        #[inline(never)]
        #[allow(clippy::too_many_arguments, reason = "MPI's")]
        unsafe fn scattered(
            $($p: <$kind as $crate::argument::Describable>::Described,)* $($($text: usize,)+)?
            function: Call,
        ) -> c_int {
            // SAFETY: as above; what stands for a section lives as long as the call, or is kept for
            // the request.
            unsafe {
                $(
                    let mut section = $crate::choice::SectionElements::default();
                    let ($typed, $count, $datatype) =
                        match section.describe($typed, $count, $datatype) {
                            Ok(elements) => elements,
                            Err(error) => return $crate::choice::raise(error),
                        };
                )*
                #[allow(unused_mut, reason = "of few functions")]
                let mut copies = $crate::choice::Copies::default();
                $(
                    let access = $crate::section::SectionAccess::$access;
                    let $copied = match copies.address($copied, access) {
                        Ok(address) => address,
                        Err(error) => return $crate::choice::raise(error),
                    };
                )*
                $(
                    let $contiguous = match $crate::choice::contiguous($contiguous) {
                        Ok(address) => address,
                        Err(error) => return $crate::choice::raise(error),
                    };
                )*
                $(let $location = $crate::choice::location($location);)*
                $(
                    let ($characters, $length) =
                        $crate::abi::descriptor::text($characters, $length);
                )*
                #[allow(unused_mut, unused_assignments, reason = "of few functions")]
                let mut kept: Option<(*const c_int, $crate::section::deferred::RequestUse)> = None;
                $(
                    let usage = $crate::section::deferred::RequestUse::$usage;
                    kept = Some(($request.cast_const(), usage));
                )?
                $(
                    kept = match $crate::choice::partitioned($each, $of) {
                        Ok(usage) => Some(($parted.cast_const(), usage)),
                        Err(error) => return $crate::choice::raise(error),
                    };
                )?
                let code = call(function, $($p,)* $($($text),+)?);
                copies.finish(code, kept)
            }
        }
    };
}

/// Exports a function under several names.
macro_rules! exports {
    ($body:ident $target:ident [$($name:expr),+] $params:tt) => {$(
        $crate::export::exports! { @one $name, $body $target $params }
    )+};
    (@one $name:expr, $body:ident $target:ident
        ($($p:ident: $type:ty),* $(; $($text:ident),+)?)) => {
        const _: () = {
            #[unsafe(export_name = $name)]
            #[allow(clippy::too_many_arguments, reason = "MPI's")]
            unsafe extern "C" fn exported(
                $($p: $type,)* ierror: *mut c_int, $($($text: usize),+)?
            ) {
                // SAFETY: the caller of the MPI function promises what it asks for; `ierror` is
                // null or writable.
                unsafe {
                    let code = $body($target, $($p,)* $($($text),+)?);
                    $crate::choice::store(ierror, code);
                }
            }
        };
    };
}

/// Defines a function without choice buffers by an expression within `unsafe`, whose value is the
/// code: of the function of C, whose type is given, and of what Fortran passes. It is for all
/// interfaces, for those that are older than `mpi_f08` (`older`), for `mpi_f08` alone (`f08`, and
/// those for large counts, which have one name), or begins with `MPIX_` (`extension`).
macro_rules! by_hand {
    ($mpi:ident $lower:literal $upper:literal, $($rest:tt)*) => {
        $crate::export::by_hand! { @define plain [$mpi $lower $upper] $mpi $($rest)* }
    };
    (older $mpi:ident $lower:literal $upper:literal, $($rest:tt)*) => {
        $crate::export::by_hand! { @define by_address [$mpi $lower $upper] $mpi $($rest)* }
    };
    (f08 $mpi:ident $lower:literal, $($rest:tt)*) => {
        $crate::export::by_hand! { @define f08 [$mpi $lower] $mpi $($rest)* }
    };
    (extension $mpi:ident $lower:literal $upper:literal, $($rest:tt)*) => {
        $crate::export::by_hand! { @define extension [$mpi $lower $upper] $mpi $($rest)* }
    };
    ($mpi:ident $lower:literal, $($rest:tt)*) => {
        $crate::export::by_hand! { @define large [$mpi $lower] $mpi $($rest)* }
    };
    (@define $form:ident [$($names:tt)+] $mpi:ident fn($($c:ty),*),
        |$function:ident $(, $p:ident: $type:ty)* $(; $($text:ident),+)?| $code:expr) => {
        const _: () = {
            type Call = unsafe extern "C" fn($($c),*) -> c_int;

            unsafe extern "C" {
                fn $mpi($(_: $c),*) -> c_int;
                #[link_name = concat!("P", stringify!($mpi))]
                fn profiling($(_: $c),*) -> c_int;
            }

            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "MPI's")]
            unsafe fn call($function: Call $(, $p: $type)* $($(, $text: usize)+)?) -> c_int {
                // SAFETY: the caller of the MPI function promises what it asks for.
                unsafe { $code }
            }

            $crate::abi::names::$form! { $($names)+ ($($p: $type),* $(; $($text),+)?) }
        };
    };
}

/// Exports `call` for interfaces that pass the address of a choice buffer: the same names in both
/// ABIs.
macro_rules! by_address {
    ($mpi:ident $lower:literal $upper:literal $params:tt) => {
        $crate::export::exports! { call $mpi [
            concat!("mpi_", $lower, "_"), concat!("mpi_", $lower, "__"), concat!("mpi_", $lower),
            concat!("MPI_", $upper)
        ] $params }
        $crate::export::exports! { call profiling [
            concat!("pmpi_", $lower, "_"), concat!("pmpi_", $lower, "__"), concat!("pmpi_", $lower),
            concat!("PMPI_", $upper)
        ] $params }
    };
}

/// Defines a function of one body under the names that compilers give it.
macro_rules! named {
    ([$name:expr $(, $more:expr)*] fn $params:tt $($rest:tt)*) => {
        $crate::export::named! { @one $name, fn $params $($rest)* }
        $crate::export::named! { [$($more),*] fn $params $($rest)* }
    };
    ([] $($rest:tt)*) => {};
    (@one $name:expr, fn($($p:ident: $type:ty),* $(,)?) $(-> $r:ty)? $body:block) => {
        const _: () = {
            #[unsafe(export_name = $name)]
            unsafe extern "C" fn exported($($p: $type),*) $(-> $r)? $body
        };
    };
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
        pub fn is_null_conversion(function: *const std::ffi::c_void) -> bool {
            let own = [$($name as *const std::ffi::c_void),*];
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

pub(crate) use {
    body, by_address, by_hand, choice, choice_large, described, exports, forward, forward_large,
    named, null_conversions,
};
