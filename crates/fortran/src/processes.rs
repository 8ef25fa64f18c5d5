//! Lengths of arrays that no parameter says, by the functions of C.

use std::ffi::c_int;

use mica_front_end::processes::ProcessQueries;

use crate::abi::{PROCESSES, Word};
use crate::argument::to_c;

unsafe extern "C" {
    fn PMPI_Comm_test_inter(comm: Word, flag: *mut c_int) -> c_int;
    fn PMPI_Comm_size(comm: Word, size: *mut c_int) -> c_int;
    fn PMPI_Comm_remote_size(comm: Word, size: *mut c_int) -> c_int;
    fn PMPI_Comm_rank(comm: Word, rank: *mut c_int) -> c_int;
    fn PMPI_Topo_test(comm: Word, status: *mut c_int) -> c_int;
    fn PMPI_Cartdim_get(comm: Word, ndims: *mut c_int) -> c_int;
    fn PMPI_Graph_neighbors_count(comm: Word, rank: c_int, nneighbors: *mut c_int) -> c_int;
    fn PMPI_Dist_graph_neighbors_count(
        comm: Word,
        indegree: *mut c_int,
        outdegree: *mut c_int,
        weighted: *mut c_int,
    ) -> c_int;
}

const QUERIES: ProcessQueries<Word> = ProcessQueries {
    constants: PROCESSES,
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
pub fn dimensions(comm: Word) -> usize {
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
