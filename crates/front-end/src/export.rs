//! What defines an exported function under both of its names.

/// Defines two exported functions of one body.
#[macro_export]
macro_rules! pair {
    ($mpi:ident($($p:ident: $t:ty),*) -> $r:ty $body:block) => {
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        unsafe extern "C" fn $mpi($($p: $t),*) -> $r $body

        const _: () = {
            #[unsafe(export_name = concat!("P", stringify!($mpi)))]
            #[allow(clippy::too_many_arguments)]
            unsafe extern "C" fn profiling($($p: $t),*) -> $r $body
        };
    };
}
