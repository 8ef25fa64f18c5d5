//! Lengths of arrays that no parameter says, by the functions of C.

use std::ffi::c_int;

use mica_front_end::processes::ProcessQueries;

use crate::argument::to_c;

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

const QUERIES: ProcessQueries = ProcessQueries {
    test_inter: PMPI_Comm_test_inter,
    size: PMPI_Comm_size,
    remote_size: PMPI_Comm_remote_size,
    rank: PMPI_Comm_rank,
    topology: PMPI_Topo_test,
    dimensions: PMPI_Cartdim_get,
    graph_neighbors: PMPI_Graph_neighbors_count,
    dist_graph_neighbors: PMPI_Dist_graph_neighbors_count,
};

/// The processes that each process of `comm` exchanges data with.
///
/// # Safety
/// The address is null or readable.
pub unsafe fn partners(comm: *const c_int) -> usize {
    // SAFETY: as the caller promises.
    unsafe { comm.as_ref() }.map_or(0, |&comm| QUERIES.partners(to_c(comm)))
}

/// The dimensions of the grid that `comm` has, a handle of C.
pub fn dimensions(comm: usize) -> usize {
    QUERIES.dimensions(comm)
}

/// The neighbours of this process in `comm`, to send to and to receive from.
///
/// # Safety
/// The address is null or readable.
pub unsafe fn neighbors(comm: *const c_int) -> (usize, usize) {
    // SAFETY: as the caller promises.
    unsafe { comm.as_ref() }.map_or((0, 0), |&comm| QUERIES.neighbors(to_c(comm)))
}
