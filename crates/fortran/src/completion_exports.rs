//! The functions that complete or ask about several requests: their bodies are in
//! [`crate::completion`].

use std::ffi::c_int;

use mica_front_end::types::MPI_Status;

use crate::completion::{
    request_get_status_all, request_get_status_any, request_get_status_some, testall, testany,
    testsome, waitall, waitany, waitsome,
};
use crate::export::by_hand;
use crate::sentinel::unless_ignored;

/// A place for numbers.
type Numbers = *mut c_int;
/// Requests, as handles of Fortran.
type Requests = *mut c_int;
type Statuses = *mut MPI_Status;
type Handles = *mut usize;

by_hand! { MPI_Waitall "mpi_waitall" "MPI_WAITALL", fn(c_int, Handles, Statuses),
    |function, count: *const c_int, requests: Requests, statuses: Statuses|
        waitall(function, count, requests, unless_ignored(statuses))
}
by_hand! { MPI_Testall "mpi_testall" "MPI_TESTALL", fn(c_int, Handles, Numbers, Statuses),
    |function, count: *const c_int, requests: Requests, flag: Numbers, statuses: Statuses|
        testall(function, count, requests, flag, unless_ignored(statuses))
}
by_hand! { MPI_Waitany "mpi_waitany" "MPI_WAITANY", fn(c_int, Handles, Numbers, Statuses),
    |function, count: *const c_int, requests: Requests, index: Numbers, status: Statuses|
        waitany(function, count, requests, index, unless_ignored(status))
}
by_hand! {
    MPI_Testany "mpi_testany" "MPI_TESTANY", fn(c_int, Handles, Numbers, Numbers, Statuses),
    |function, count: *const c_int, requests: Requests, index: Numbers, flag: Numbers,
        status: Statuses|
        testany(function, count, requests, index, flag, unless_ignored(status))
}
by_hand! {
    MPI_Waitsome "mpi_waitsome" "MPI_WAITSOME", fn(c_int, Handles, Numbers, Numbers, Statuses),
    |function, incount: *const c_int, requests: Requests, outcount: Numbers, indices: Numbers,
        statuses: Statuses|
        waitsome(function, incount, requests, outcount, indices, unless_ignored(statuses))
}
by_hand! {
    MPI_Testsome "mpi_testsome" "MPI_TESTSOME", fn(c_int, Handles, Numbers, Numbers, Statuses),
    |function, incount: *const c_int, requests: Requests, outcount: Numbers, indices: Numbers,
        statuses: Statuses|
        testsome(function, incount, requests, outcount, indices, unless_ignored(statuses))
}

by_hand! {
    MPI_Request_get_status_all "mpi_request_get_status_all" "MPI_REQUEST_GET_STATUS_ALL",
    fn(c_int, *const usize, Numbers, Statuses),
    |function, count: *const c_int, requests: *const c_int, flag: Numbers, statuses: Statuses|
        request_get_status_all(function, count, requests, flag, unless_ignored(statuses))
}
by_hand! {
    MPI_Request_get_status_any "mpi_request_get_status_any" "MPI_REQUEST_GET_STATUS_ANY",
    fn(c_int, *const usize, Numbers, Numbers, Statuses),
    |function, count: *const c_int, requests: *const c_int, index: Numbers, flag: Numbers,
        status: Statuses|
        request_get_status_any(function, count, requests, index, flag, unless_ignored(status))
}
by_hand! {
    MPI_Request_get_status_some "mpi_request_get_status_some" "MPI_REQUEST_GET_STATUS_SOME",
    fn(c_int, *const usize, Numbers, Numbers, Statuses),
    |function, incount: *const c_int, requests: *const c_int, outcount: Numbers, indices: Numbers,
        statuses: Statuses|
        request_get_status_some(
            function, incount, requests, outcount, indices, unless_ignored(statuses),
        )
}
