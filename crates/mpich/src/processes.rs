//! Lengths of arrays that no parameter says, by the functions of the library of the standard ABI.

use std::ffi::c_int;

use mica_front_end::processes::{CommunicatorQuery, ProcessQueries, STANDARD};

use crate::export::standard;
use crate::handle::Comm;
use crate::word::WordKind;

fn queries() -> ProcessQueries<usize> {
    type OfRank = unsafe extern "C" fn(usize, c_int, *mut c_int) -> c_int;
    type OfAll = unsafe extern "C" fn(usize, *mut c_int, *mut c_int, *mut c_int) -> c_int;
    // SAFETY: the functions have these parameters.
    unsafe {
        ProcessQueries {
            constants: STANDARD,
            test_inter: standard!(MPI_Comm_test_inter as CommunicatorQuery<usize>),
            size: standard!(MPI_Comm_size as CommunicatorQuery<usize>),
            remote_size: standard!(MPI_Comm_remote_size as CommunicatorQuery<usize>),
            rank: standard!(MPI_Comm_rank as CommunicatorQuery<usize>),
            topology: standard!(MPI_Topo_test as CommunicatorQuery<usize>),
            dimensions: standard!(MPI_Cartdim_get as CommunicatorQuery<usize>),
            graph_neighbors: standard!(MPI_Graph_neighbors_count as OfRank),
            dist_graph_neighbors: standard!(MPI_Dist_graph_neighbors_count as OfAll),
        }
    }
}

/// The processes that each process of `comm` exchanges data with.
pub fn partners(comm: c_int) -> usize {
    queries().partners(Comm::to_standard(comm))
}

/// The neighbours of this process in `comm`, to send to and to receive from.
pub fn neighbors(comm: c_int) -> (usize, usize) {
    queries().neighbors(Comm::to_standard(comm))
}
