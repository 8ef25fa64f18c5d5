//! The calls that complete or ask about several requests, as Fortran makes them.
//!
//! Fortran passes the address of everything, requests are `INTEGER`, and indices begin with 1. Each
//! function here is generic over the function of C that it calls (`MPI_` or `PMPI_`), and returns
//! what that returned. A null address is passed on: the library reports it. A null count counts as
//! -1, which the library reports as well.

mod arrays;
mod request_array;

pub use self::arrays::{
    request_get_status_all, request_get_status_any, request_get_status_some, testall, testany,
    waitall, waitany, waitsome, waitsome as testsome,
};
