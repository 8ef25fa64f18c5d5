//! Functions of MPICH beside those of MPI: what MPI has removed, for `mpif.h` and `mpi`, and some
//! that begin with `MPIX_`. All call the function of C with the same name, which knows what Mica
//! has of it.

use std::ffi::{c_int, c_void};

use mica_front_end::table::object;
use mica_front_end::types::MPI_Aint;

use super::{Word, sentinel};
use crate::argument::{flag_to_c, flag_to_fortran, to_c};
use crate::by_hand::new_handle;
use crate::callback::{Function, by_table, create_errhandler};
use crate::choice::no_memory;
use crate::export::{by_hand, named};

// Of an address the low half remains: an INTEGER has no more.
by_hand! {
    older MPI_Address "address" "ADDRESS", fn(*mut c_void, *mut MPI_Aint),
    |function, location: *mut c_void, address: *mut c_int|
        narrow(address, |address| function(sentinel::buffer(location), address))
}

/// Calls `call` with the place of an address, whose low half goes to the program's place.
///
/// # Safety
/// The place is writable.
unsafe fn narrow(place: *mut c_int, call: impl FnOnce(*mut MPI_Aint) -> c_int) -> c_int {
    let mut value = 0;
    let code = call(&raw mut value);
    if code == 0 {
        // SAFETY: as the caller promises.
        unsafe { place.write(value as c_int) };
    }
    code
}

/// Defines functions that say one number of a datatype.
macro_rules! of_datatype {
    ($($mpi:ident $lower:literal $upper:literal;)*) => {$(
        by_hand! {
            older $mpi $lower $upper, fn(Word, *mut MPI_Aint),
            |function, datatype: *const c_int, value: *mut c_int|
                narrow(value, |value| function(to_c(datatype.read()), value))
        }
    )*};
}

of_datatype! {
    MPI_Type_extent "type_extent" "TYPE_EXTENT";
    MPI_Type_lb "type_lb" "TYPE_LB";
    MPI_Type_ub "type_ub" "TYPE_UB";
}

by_hand! {
    older MPI_Type_hvector "type_hvector" "TYPE_HVECTOR",
    fn(c_int, c_int, MPI_Aint, Word, *mut Word),
    |function, count: *const c_int, block: *const c_int, stride: *const c_int, old: *const c_int,
        new: *mut c_int|
        new_handle(new, |new| function(
            count.read(), block.read(), stride.read() as MPI_Aint, to_c(old.read()), new,
        ))
}

/// Displacements of C for those of Fortran. `None`: there is no memory for them.
///
/// # Safety
/// As many are readable.
unsafe fn displacements(count: c_int, given: *const c_int) -> Option<Vec<MPI_Aint>> {
    let count = usize::try_from(count).unwrap_or(0);
    let mut all = Vec::new();
    all.try_reserve_exact(count).ok()?;
    // SAFETY: as the caller promises.
    all.extend((0..count).map(|i| unsafe { given.add(i).read() } as MPI_Aint));
    Some(all)
}

by_hand! {
    older MPI_Type_hindexed "type_hindexed" "TYPE_HINDEXED",
    fn(c_int, *const c_int, *const MPI_Aint, Word, *mut Word),
    |function, count: *const c_int, lengths: *const c_int, places: *const c_int,
        old: *const c_int, new: *mut c_int| {
        let count = count.read();
        let Some(places) = displacements(count, places) else {
            return no_memory("MPI_Type_hindexed\0", count as usize);
        };
        new_handle(new, |new| {
            function(count, lengths, places.as_ptr(), to_c(old.read()), new)
        })
    }
}
by_hand! {
    older MPI_Type_struct "type_struct" "TYPE_STRUCT",
    fn(c_int, *const c_int, *const MPI_Aint, *const Word, *mut Word),
    |function, count: *const c_int, lengths: *const c_int, places: *const c_int,
        datatypes: *const c_int, new: *mut c_int| {
        let count = count.read();
        let Some(places) = displacements(count, places) else {
            return no_memory("MPI_Type_struct\0", count as usize);
        };
        new_handle(new, |new| function(count, lengths, places.as_ptr(), datatypes, new))
    }
}

by_table! {
    older "errhandler_create" "ERRHANDLER_CREATE" (function: Function, errhandler: *mut c_int)
        create_errhandler(object::COMM, function, errhandler);
}
by_hand! {
    older MPI_Errhandler_set "errhandler_set" "ERRHANDLER_SET", fn(Word, Word),
    |function, comm: *const c_int, errhandler: *const c_int|
        function(to_c(comm.read()), to_c(errhandler.read()))
}
by_hand! {
    older MPI_Errhandler_get "errhandler_get" "ERRHANDLER_GET", fn(Word, *mut Word),
    |function, comm: *const c_int, errhandler: *mut c_int|
        new_handle(errhandler, |errhandler| function(to_c(comm.read()), errhandler))
}

// Where `mpi_f08` passes no descriptor: later than MPICH 4.0.
by_hand! { f08 MPI_Free_mem "free_mem", fn(*mut c_void),
    |function, base: *mut c_void| function(base)
}

// Since the compiler does not know what it does, the buffer is in memory when it returns. MPICH 4.0
// has an `ierror` here, MPI and later versions have none.
named! { ["mpi_f_sync_reg_f08ts_", "pmpir_f_sync_reg_f08ts_"] fn(_buf: *const c_void) {} }

// MPI has them by another name.
by_hand! {
    f08 MPI_Remove_error_class "delete_error_class", fn(c_int),
    |function, class: *const c_int| function(class.read())
}
by_hand! {
    f08 MPI_Remove_error_code "delete_error_code", fn(c_int),
    |function, code: *const c_int| function(code.read())
}
by_hand! {
    f08 MPI_Remove_error_string "delete_error_string", fn(c_int),
    |function, code: *const c_int| function(code.read())
}

// For recovery from failures, which Mica does not have: the functions of C raise an error.
by_hand! {
    extension MPIX_Comm_revoke "comm_revoke" "COMM_REVOKE", fn(Word),
    |function, comm: *const c_int| function(to_c(comm.read()))
}
by_hand! {
    extension MPIX_Comm_failure_ack "comm_failure_ack" "COMM_FAILURE_ACK", fn(Word),
    |function, comm: *const c_int| function(to_c(comm.read()))
}
by_hand! {
    extension MPIX_Comm_failure_get_acked "comm_failure_get_acked" "COMM_FAILURE_GET_ACKED",
    fn(Word, *mut Word),
    |function, comm: *const c_int, group: *mut c_int|
        new_handle(group, |group| function(to_c(comm.read()), group))
}
by_hand! {
    extension MPIX_Comm_get_failed "comm_get_failed" "COMM_GET_FAILED", fn(Word, *mut Word),
    |function, comm: *const c_int, group: *mut c_int|
        new_handle(group, |group| function(to_c(comm.read()), group))
}
by_hand! {
    extension MPIX_Comm_shrink "comm_shrink" "COMM_SHRINK", fn(Word, *mut Word),
    |function, comm: *const c_int, new: *mut c_int|
        new_handle(new, |new| function(to_c(comm.read()), new))
}
by_hand! {
    extension MPIX_Comm_agree "comm_agree" "COMM_AGREE", fn(Word, *mut c_int),
    |function, comm: *const c_int, flag: *mut c_int| {
        let mut agreed = flag_to_c(flag.read());
        let code = function(to_c(comm.read()), &raw mut agreed);
        if code == 0 {
            flag.write(flag_to_fortran(agreed));
        }
        code
    }
}

// What MPI can send from. The functions of the kind of accelerator return the answer, and MPICH's
// interface returns that as if it were a code.
by_hand! {
    extension MPIX_GPU_query_support "gpu_query_support" "GPU_QUERY_SUPPORT",
    fn(c_int, *mut c_int),
    |function, kind: *const c_int, is_supported: *mut c_int| {
        let mut answer = 0;
        let code = function(kind.read(), &raw mut answer);
        if code == 0 {
            is_supported.write(flag_to_fortran(answer));
        }
        code
    }
}
by_hand! {
    extension MPIX_Query_cuda_support "query_cuda_support" "QUERY_CUDA_SUPPORT", fn(),
    |function| function()
}
by_hand! {
    extension MPIX_Query_hip_support "query_hip_support" "QUERY_HIP_SUPPORT", fn(),
    |function| function()
}
by_hand! {
    extension MPIX_Query_ze_support "query_ze_support" "QUERY_ZE_SUPPORT", fn(),
    |function| function()
}
