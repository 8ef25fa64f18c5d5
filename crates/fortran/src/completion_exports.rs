//! The functions that complete or ask about several requests: their bodies are in
//! [`crate::completion`].

use std::ffi::c_int;

use crate::abi::sentinel::unless_ignored;
use crate::abi::{Status, Word};
use crate::completion::{
    request_get_status_all, request_get_status_any, request_get_status_some, testall, testany,
    testsome, waitall, waitany, waitsome,
};
use crate::export::by_hand;

/// A place for numbers.
type Numbers = *mut c_int;
/// Requests, as handles of Fortran.
type Requests = *mut c_int;
type Statuses = *mut Status;
type Handles = *mut Word;

by_hand! { MPI_Waitall "waitall" "WAITALL", fn(c_int, Handles, Statuses),
    |function, count: *const c_int, requests: Requests, statuses: Statuses|
        waitall(function, count, requests, unless_ignored(statuses))
}
by_hand! { MPI_Testall "testall" "TESTALL", fn(c_int, Handles, Numbers, Statuses),
    |function, count: *const c_int, requests: Requests, flag: Numbers, statuses: Statuses|
        testall(function, count, requests, flag, unless_ignored(statuses))
}
by_hand! { MPI_Waitany "waitany" "WAITANY", fn(c_int, Handles, Numbers, Statuses),
    |function, count: *const c_int, requests: Requests, index: Numbers, status: Statuses|
        waitany(function, count, requests, index, unless_ignored(status))
}
by_hand! {
    MPI_Testany "testany" "TESTANY", fn(c_int, Handles, Numbers, Numbers, Statuses),
    |function, count: *const c_int, requests: Requests, index: Numbers, flag: Numbers,
        status: Statuses|
        testany(function, count, requests, index, flag, unless_ignored(status))
}
by_hand! {
    MPI_Waitsome "waitsome" "WAITSOME", fn(c_int, Handles, Numbers, Numbers, Statuses),
    |function, incount: *const c_int, requests: Requests, outcount: Numbers, indices: Numbers,
        statuses: Statuses|
        waitsome(function, incount, requests, outcount, indices, unless_ignored(statuses))
}
by_hand! {
    MPI_Testsome "testsome" "TESTSOME", fn(c_int, Handles, Numbers, Numbers, Statuses),
    |function, incount: *const c_int, requests: Requests, outcount: Numbers, indices: Numbers,
        statuses: Statuses|
        testsome(function, incount, requests, outcount, indices, unless_ignored(statuses))
}

by_hand! {
    MPI_Request_get_status_all "request_get_status_all" "REQUEST_GET_STATUS_ALL",
    fn(c_int, *const Word, Numbers, Statuses),
    |function, count: *const c_int, requests: *const c_int, flag: Numbers, statuses: Statuses|
        request_get_status_all(function, count, requests, flag, unless_ignored(statuses))
}
by_hand! {
    MPI_Request_get_status_any "request_get_status_any" "REQUEST_GET_STATUS_ANY",
    fn(c_int, *const Word, Numbers, Numbers, Statuses),
    |function, count: *const c_int, requests: *const c_int, index: Numbers, flag: Numbers,
        status: Statuses|
        request_get_status_any(function, count, requests, index, flag, unless_ignored(status))
}
by_hand! {
    MPI_Request_get_status_some "request_get_status_some" "REQUEST_GET_STATUS_SOME",
    fn(c_int, *const Word, Numbers, Numbers, Statuses),
    |function, incount: *const c_int, requests: *const c_int, outcount: Numbers, indices: Numbers,
        statuses: Statuses|
        request_get_status_some(
            function, incount, requests, outcount, indices, unless_ignored(statuses),
        )
}
