//! Representations of data in files that the program registers (`MPI_Register_datarep`): their
//! functions get MPICH's handles.

use std::ffi::{c_char, c_int, c_void};

use mica_front_end::types::{MPI_Aint, MPI_Count, MPI_Datatype, MPI_Offset};

use crate::export::{pair, standard};
use crate::handle::MpichDatatype;
use crate::value::ErrorCode;
use crate::word::WordKind;

/// `MPI_Datarep_conversion_function` and its large form.
type Convert<Count> =
    unsafe extern "C" fn(*mut c_void, c_int, Count, *mut c_void, MPI_Offset, *mut c_void) -> c_int;
/// `MPI_Datarep_extent_function`.
type Extent = unsafe extern "C" fn(c_int, *mut MPI_Aint, *mut c_void) -> c_int;

/// A conversion function of the program.
#[derive(Clone, Copy)]
enum Conversion {
    Plain(Convert<c_int>),
    Large(Convert<MPI_Count>),
}

/// What the program has registered; for as long as the process lives, as the representation.
struct Registered {
    read: Option<Conversion>,
    write: Option<Conversion>,
    extent: Extent,
    extra: *mut c_void,
}

/// What the library calls.
type StandardConvert = unsafe extern "C" fn(
    *mut c_void,
    MPI_Datatype,
    MPI_Count,
    *mut c_void,
    MPI_Offset,
    *mut c_void,
) -> c_int;

impl Conversion {
    /// # Safety
    /// The arguments are those that MPI says.
    unsafe fn call(
        self,
        user: *mut c_void,
        (datatype, count): (MPI_Datatype, MPI_Count),
        file: *mut c_void,
        position: MPI_Offset,
        extra: *mut c_void,
    ) -> c_int {
        let datatype = MpichDatatype::to_mpich(datatype.0);
        // SAFETY: the program's function, called as MPI says; the library passes at most 2^30
        // items at a time.
        let code = unsafe {
            match self {
                Conversion::Plain(function) => {
                    function(user, datatype, count as c_int, file, position, extra)
                }
                Conversion::Large(function) => {
                    function(user, datatype, count, file, position, extra)
                }
            }
        };
        ErrorCode::to_standard(code)
    }
}

/// Defines what the library calls for one direction.
macro_rules! conversions {
    ($($direction:ident)*) => {$(
        unsafe extern "C" fn $direction(
            user: *mut c_void,
            datatype: MPI_Datatype,
            count: MPI_Count,
            file: *mut c_void,
            position: MPI_Offset,
            state: *mut c_void,
        ) -> c_int {
            // SAFETY: the library passes the state that it was given, which is only read.
            let registered = unsafe { &*state.cast::<Registered>() };
            match registered.$direction {
                // SAFETY: passed on from the library, which calls it as MPI says.
                Some(function) => unsafe {
                    function.call(user, (datatype, count), file, position, registered.extra)
                },
                None => 0,
            }
        }
    )*};
}

conversions! { read write }

unsafe extern "C" fn extent(
    datatype: MPI_Datatype,
    bytes: *mut MPI_Aint,
    state: *mut c_void,
) -> c_int {
    // SAFETY: the library passes the state that it was given, which is only read.
    let registered = unsafe { &*state.cast::<Registered>() };
    let datatype = MpichDatatype::to_mpich(datatype.0);
    // SAFETY: the program's function, called as MPI says.
    let code = unsafe { (registered.extent)(datatype, bytes, registered.extra) };
    ErrorCode::to_standard(code)
}

unsafe fn register(
    datarep: *const c_char,
    (read_fn, write_fn): (Option<Conversion>, Option<Conversion>),
    extent_fn: Option<Extent>,
    extra: *mut c_void,
) -> c_int {
    type Call = unsafe extern "C" fn(
        *const c_char,
        Option<StandardConvert>,
        Option<StandardConvert>,
        Option<unsafe extern "C" fn(MPI_Datatype, *mut MPI_Aint, *mut c_void) -> c_int>,
        *mut c_void,
    ) -> c_int;
    let state = extent_fn.map_or(std::ptr::null_mut(), |extent| {
        let registered = Registered { read: read_fn, write: write_fn, extent, extra };
        Box::into_raw(Box::new(registered))
    });
    // SAFETY: the function has these parameters. It refuses a missing function.
    let code = unsafe {
        let call = standard!(MPI_Register_datarep_c as Call);
        call(
            datarep,
            read_fn.map(|_| read as StandardConvert),
            write_fn.map(|_| write as StandardConvert),
            extent_fn.map(|_| extent as _),
            state.cast(),
        )
    };
    if code != 0 && !state.is_null() {
        // SAFETY: no representation has it.
        drop(unsafe { Box::from_raw(state) });
    }
    ErrorCode::to_mpich(code)
}

pair! { MPI_Register_datarep(
    datarep: *const c_char,
    read_conversion_fn: Option<Convert<c_int>>,
    write_conversion_fn: Option<Convert<c_int>>,
    dtype_file_extent_fn: Option<Extent>,
    extra_state: *mut c_void
) -> c_int {
    let (read, write) = (read_conversion_fn, write_conversion_fn);
    let functions = (read.map(Conversion::Plain), write.map(Conversion::Plain));
    // SAFETY: the caller passes what MPI asks for.
    unsafe { register(datarep, functions, dtype_file_extent_fn, extra_state) }
} }

pair! { MPI_Register_datarep_c(
    datarep: *const c_char,
    read_conversion_fn: Option<Convert<MPI_Count>>,
    write_conversion_fn: Option<Convert<MPI_Count>>,
    dtype_file_extent_fn: Option<Extent>,
    extra_state: *mut c_void
) -> c_int {
    let (read, write) = (read_conversion_fn, write_conversion_fn);
    let functions = (read.map(Conversion::Large), write.map(Conversion::Large));
    // SAFETY: the caller passes what MPI asks for.
    unsafe { register(datarep, functions, dtype_file_extent_fn, extra_state) }
} }
