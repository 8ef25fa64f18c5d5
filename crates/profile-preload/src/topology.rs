//! The neighbors of a process in a communicator's virtual topology (MPI 5.0, 8.7), in the order of
//! the blocks of neighborhood collectives.

use std::ffi::c_int;

use crate::resolve::pmpi;
use crate::types::{CART, DIST_GRAPH, GRAPH, MPI_Comm, SUCCESS};

/// The ranks that this process sends to, `MPI_PROC_NULL` among them; none without a topology.
///
/// # Safety
/// The communicator is valid.
pub unsafe fn destinations(comm: MPI_Comm) -> Vec<c_int> {
    let mut kind: c_int = 0;
    // SAFETY: as the caller promises.
    unsafe {
        let code = pmpi!(c"MPI_Topo_test"(comm => MPI_Comm, &mut kind => *mut c_int));
        match kind {
            _ if code != SUCCESS => Vec::new(),
            CART => of_grid(comm),
            GRAPH => of_graph(comm),
            DIST_GRAPH => of_distributed_graph(comm),
            _ => Vec::new(),
        }
    }
}

/// For each dimension the neighbor before and the one after.
///
/// # Safety
/// The communicator has a Cartesian topology.
unsafe fn of_grid(comm: MPI_Comm) -> Vec<c_int> {
    let mut dims: c_int = 0;
    let mut found = Vec::new();
    // SAFETY: as the caller promises.
    unsafe {
        pmpi!(c"MPI_Cartdim_get"(comm => MPI_Comm, &mut dims => *mut c_int));
        for dim in 0..dims {
            let (mut before, mut after): (c_int, c_int) = (-1, -1);
            pmpi!(c"MPI_Cart_shift"(
                comm => MPI_Comm, dim => c_int, 1 => c_int,
                &mut before => *mut c_int, &mut after => *mut c_int));
            found.extend([before, after]);
        }
    }
    found
}

/// # Safety
/// The communicator has a graph topology.
unsafe fn of_graph(comm: MPI_Comm) -> Vec<c_int> {
    let (mut rank, mut count): (c_int, c_int) = (0, 0);
    // SAFETY: as the caller promises; the array has `count` elements.
    unsafe {
        pmpi!(c"MPI_Comm_rank"(comm => MPI_Comm, &mut rank => *mut c_int));
        pmpi!(c"MPI_Graph_neighbors_count"(
            comm => MPI_Comm, rank => c_int, &mut count => *mut c_int));
        let mut found = vec![-1; count.max(0) as usize];
        pmpi!(c"MPI_Graph_neighbors"(
            comm => MPI_Comm, rank => c_int, count => c_int, found.as_mut_ptr() => *mut c_int));
        found
    }
}

/// # Safety
/// The communicator has a distributed graph topology.
unsafe fn of_distributed_graph(comm: MPI_Comm) -> Vec<c_int> {
    let (mut sources, mut count, mut weighted): (c_int, c_int, c_int) = (0, 0, 0);
    // SAFETY: as the caller promises; the arrays have as many elements as there are neighbors.
    unsafe {
        pmpi!(c"MPI_Dist_graph_neighbors_count"(
            comm => MPI_Comm, &mut sources => *mut c_int, &mut count => *mut c_int,
            &mut weighted => *mut c_int));
        let array = |count: c_int| vec![-1 as c_int; count.max(0) as usize];
        let (mut from, mut from_weights) = (array(sources), array(sources));
        let (mut found, mut weights) = (array(count), array(count));
        pmpi!(c"MPI_Dist_graph_neighbors"(
            comm => MPI_Comm,
            sources => c_int, from.as_mut_ptr() => *mut c_int,
            from_weights.as_mut_ptr() => *mut c_int,
            count => c_int, found.as_mut_ptr() => *mut c_int, weights.as_mut_ptr() => *mut c_int));
        found
    }
}
