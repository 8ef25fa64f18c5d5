//! The functions that start, complete and free requests: their bodies are in
//! [`crate::completion`].

use std::ffi::c_int;

use mica_front_end::types::MPI_Status;

use crate::argument::to_c;
use crate::completion::{
    request_free, request_get_status, request_get_status_all, request_get_status_any,
    request_get_status_some, start, startall, test, testall, testany, testsome, wait, waitall,
    waitany, waitsome,
};
use crate::export::by_hand;
use crate::generated::constants as c;
use crate::section::deferred;
use crate::sentinel::place;

/// A place for numbers.
type Numbers = *mut c_int;
/// Requests, as handles of Fortran.
type Requests = *mut c_int;
type Statuses = *mut MPI_Status;
type Handles = *mut usize;

by_hand! { MPI_Start "mpi_start" "MPI_START", fn(Handles),
    |function, request: Requests| start(function, request)
}
by_hand! { MPI_Startall "mpi_startall" "MPI_STARTALL", fn(c_int, Handles),
    |function, count: *const c_int, requests: Requests| startall(function, count, requests)
}
by_hand! { MPI_Request_free "mpi_request_free" "MPI_REQUEST_FREE", fn(Handles),
    |function, request: Requests| request_free(function, request)
}

by_hand! { MPI_Wait "mpi_wait" "MPI_WAIT", fn(Handles, Statuses),
    |function, request: Requests, status: Statuses| wait(function, request, place(status))
}
by_hand! { MPI_Test "mpi_test" "MPI_TEST", fn(Handles, Numbers, Statuses),
    |function, request: Requests, flag: Numbers, status: Statuses|
        test(function, request, flag, place(status))
}
by_hand! { MPI_Waitall "mpi_waitall" "MPI_WAITALL", fn(c_int, Handles, Statuses),
    |function, count: *const c_int, requests: Requests, statuses: Statuses|
        waitall(function, count, requests, place(statuses))
}
by_hand! { MPI_Testall "mpi_testall" "MPI_TESTALL", fn(c_int, Handles, Numbers, Statuses),
    |function, count: *const c_int, requests: Requests, flag: Numbers, statuses: Statuses|
        testall(function, count, requests, flag, place(statuses))
}
by_hand! { MPI_Waitany "mpi_waitany" "MPI_WAITANY", fn(c_int, Handles, Numbers, Statuses),
    |function, count: *const c_int, requests: Requests, index: Numbers, status: Statuses|
        waitany(function, count, requests, index, place(status))
}
by_hand! {
    MPI_Testany "mpi_testany" "MPI_TESTANY", fn(c_int, Handles, Numbers, Numbers, Statuses),
    |function, count: *const c_int, requests: Requests, index: Numbers, flag: Numbers,
        status: Statuses|
        testany(function, count, requests, index, flag, place(status))
}
by_hand! {
    MPI_Waitsome "mpi_waitsome" "MPI_WAITSOME", fn(c_int, Handles, Numbers, Numbers, Statuses),
    |function, incount: *const c_int, requests: Requests, outcount: Numbers, indices: Numbers,
        statuses: Statuses|
        waitsome(function, incount, requests, outcount, indices, place(statuses))
}
by_hand! {
    MPI_Testsome "mpi_testsome" "MPI_TESTSOME", fn(c_int, Handles, Numbers, Numbers, Statuses),
    |function, incount: *const c_int, requests: Requests, outcount: Numbers, indices: Numbers,
        statuses: Statuses|
        testsome(function, incount, requests, outcount, indices, place(statuses))
}

by_hand! {
    MPI_Request_get_status "mpi_request_get_status" "MPI_REQUEST_GET_STATUS",
    fn(usize, Numbers, Statuses),
    |function, request: *const c_int, flag: Numbers, status: Statuses|
        request_get_status(function, request, flag, place(status))
}
by_hand! {
    MPI_Request_get_status_all "mpi_request_get_status_all" "MPI_REQUEST_GET_STATUS_ALL",
    fn(c_int, *const usize, Numbers, Statuses),
    |function, count: *const c_int, requests: *const c_int, flag: Numbers, statuses: Statuses|
        request_get_status_all(function, count, requests, flag, place(statuses))
}
by_hand! {
    MPI_Request_get_status_any "mpi_request_get_status_any" "MPI_REQUEST_GET_STATUS_ANY",
    fn(c_int, *const usize, Numbers, Numbers, Statuses),
    |function, count: *const c_int, requests: *const c_int, index: Numbers, flag: Numbers,
        status: Statuses|
        request_get_status_any(function, count, requests, index, flag, place(status))
}
by_hand! {
    MPI_Request_get_status_some "mpi_request_get_status_some" "MPI_REQUEST_GET_STATUS_SOME",
    fn(c_int, *const usize, Numbers, Numbers, Statuses),
    |function, incount: *const c_int, requests: *const c_int, outcount: Numbers, indices: Numbers,
        statuses: Statuses|
        request_get_status_some(function, incount, requests, outcount, indices, place(statuses))
}

// Partitions of a section that is copied: the copy must have what is ready, and the section what
// has arrived.
by_hand! { MPI_Pready "mpi_pready" "MPI_PREADY", fn(c_int, usize),
    |function, partition: *const c_int, request: *const c_int| {
        if deferred::any() {
            deferred::ready(request.read(), [partition.read()]);
        }
        function(partition.read(), to_c(request.read()))
    }
}
by_hand! { MPI_Pready_range "mpi_pready_range" "MPI_PREADY_RANGE", fn(c_int, c_int, usize),
    |function, low: *const c_int, high: *const c_int, request: *const c_int| {
        if deferred::any() {
            deferred::ready(request.read(), low.read()..=high.read());
        }
        function(low.read(), high.read(), to_c(request.read()))
    }
}
by_hand! { MPI_Pready_list "mpi_pready_list" "MPI_PREADY_LIST", fn(c_int, *const c_int, usize),
    |function, length: *const c_int, partitions: *const c_int, request: *const c_int| {
        if deferred::any() {
            let number = usize::try_from(length.read()).unwrap_or(0);
            deferred::ready(request.read(), (0..number).map(|i| partitions.add(i).read()));
        }
        function(length.read(), partitions, to_c(request.read()))
    }
}
by_hand! { MPI_Parrived "mpi_parrived" "MPI_PARRIVED", fn(usize, c_int, Numbers),
    |function, request: *const c_int, partition: *const c_int, flag: Numbers| {
        let code = function(to_c(request.read()), partition.read(), flag);
        if deferred::any() && code == c::SUCCESS && flag.read() != 0 {
            deferred::arrived(request.read(), partition.read());
        }
        code
    }
}
