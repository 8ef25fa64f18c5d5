//! How many elements the arrays of datatypes of `MPI_Alltoallw` and its kin have: no parameter says
//! it. A communicator that is wrong counts as one without processes: the library reports it.

use std::ffi::c_int;

use crate::argument::to_c;
use crate::generated::constants as c;

unsafe extern "C" {
    fn PMPI_Comm_test_inter(comm: usize, flag: *mut c_int) -> c_int;
    fn PMPI_Comm_size(comm: usize, size: *mut c_int) -> c_int;
    fn PMPI_Comm_remote_size(comm: usize, size: *mut c_int) -> c_int;
    fn PMPI_Comm_rank(comm: usize, rank: *mut c_int) -> c_int;
    fn PMPI_Topo_test(comm: usize, status: *mut c_int) -> c_int;
    fn PMPI_Cartdim_get(comm: usize, ndims: *mut c_int) -> c_int;
    fn PMPI_Graph_neighbors_count(comm: usize, rank: c_int, nneighbors: *mut c_int) -> c_int;
    fn PMPI_Dist_graph_neighbors_count(
        comm: usize,
        indegree: *mut c_int,
        outdegree: *mut c_int,
        weighted: *mut c_int,
    ) -> c_int;
}

/// A function of a communicator with one result.
type Query = unsafe extern "C" fn(usize, *mut c_int) -> c_int;

/// What a function says of a communicator, 0 if it fails.
fn asked(query: Query, comm: usize) -> c_int {
    let mut answer = 0;
    // SAFETY: a function of MPI, and a place for its result.
    let code = unsafe { query(comm, &raw mut answer) };
    if code == c::SUCCESS { answer } else { 0 }
}

/// The handle in C of a communicator that there is.
///
/// # Safety
/// The address is null or readable.
unsafe fn given(comm: *const c_int) -> Option<usize> {
    // SAFETY: as the caller promises.
    let comm = to_c(*unsafe { comm.as_ref() }?);
    (comm != c::COMM_NULL).then_some(comm)
}

/// The processes that each process of `comm` exchanges data with: those of the other group, where
/// there is one.
///
/// # Safety
/// The address is null or readable.
pub unsafe fn partners(comm: *const c_int) -> usize {
    // SAFETY: as the caller promises.
    let Some(comm) = (unsafe { given(comm) }) else {
        return 0;
    };
    let number = match asked(PMPI_Comm_test_inter, comm) {
        0 => asked(PMPI_Comm_size, comm),
        _ => asked(PMPI_Comm_remote_size, comm),
    };
    usize::try_from(number).unwrap_or(0)
}

/// The dimensions of the grid that `comm` has, a handle of C.
pub fn dimensions(comm: usize) -> usize {
    if comm == c::COMM_NULL || asked(PMPI_Topo_test, comm) != c::CART {
        return 0;
    }
    usize::try_from(asked(PMPI_Cartdim_get, comm)).unwrap_or(0)
}

/// The neighbours of this process in `comm`, to send to and to receive from.
///
/// # Safety
/// The address is null or readable.
pub unsafe fn neighbors(comm: *const c_int) -> (usize, usize) {
    // SAFETY: as the caller promises.
    let Some(comm) = (unsafe { given(comm) }) else {
        return (0, 0);
    };
    let (mut from, mut to, mut weighted) = (0, 0, 0);
    match asked(PMPI_Topo_test, comm) {
        c::CART => {
            to = 2 * asked(PMPI_Cartdim_get, comm);
            from = to;
        }
        c::GRAPH => {
            let rank = asked(PMPI_Comm_rank, comm);
            // SAFETY: a function of MPI, and a place for its result.
            unsafe { PMPI_Graph_neighbors_count(comm, rank, &raw mut to) };
            from = to;
        }
        c::DIST_GRAPH => {
            // SAFETY: as above.
            unsafe {
                PMPI_Dist_graph_neighbors_count(
                    comm,
                    &raw mut from,
                    &raw mut to,
                    &raw mut weighted,
                );
            }
        }
        _ => {}
    }
    (usize::try_from(to).unwrap_or(0), usize::try_from(from).unwrap_or(0))
}
