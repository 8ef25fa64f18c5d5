//! How many elements the arrays of datatypes of `MPI_Alltoallw` and its kin have: no parameter says
//! it. A communicator that is wrong counts as one without processes: the library reports it.

use std::ffi::c_int;

use crate::export::standard;
use crate::generated::constants as c;
use crate::handle::Comm;
use crate::value::Topology;
use crate::word::WordKind;

/// A result of a function of a communicator, 0 if it fails.
macro_rules! asked {
    ($mpi:ident($comm:expr)) => {{
        type Call = unsafe extern "C" fn(usize, *mut c_int) -> c_int;
        let mut answer = 0;
        // SAFETY: the function has these parameters; the place is writable.
        let code = unsafe { standard!($mpi as Call)($comm, &raw mut answer) };
        if code == 0 { answer } else { 0 }
    }};
}

fn is_none(comm: c_int) -> bool {
    comm as u32 == c::COMM[0].0
}

/// The processes that each process of `comm` exchanges data with: those of the other group, where
/// there is one.
pub fn partners(comm: c_int) -> usize {
    if is_none(comm) {
        return 0;
    }
    let comm = Comm::to_standard(comm);
    let number = match asked!(MPI_Comm_test_inter(comm)) {
        0 => asked!(MPI_Comm_size(comm)),
        _ => asked!(MPI_Comm_remote_size(comm)),
    };
    usize::try_from(number).unwrap_or(0)
}

/// The neighbours of this process in `comm`, to send to and to receive from.
pub fn neighbors(comm: c_int) -> (usize, usize) {
    if is_none(comm) {
        return (0, 0);
    }
    let comm = Comm::to_standard(comm);
    let (to, from) = match Topology::to_mpich(asked!(MPI_Topo_test(comm))) {
        c::CART => {
            let dimensions = asked!(MPI_Cartdim_get(comm));
            (2 * dimensions, 2 * dimensions)
        }
        c::GRAPH => {
            let number = of_graph(comm);
            (number, number)
        }
        c::DIST_GRAPH => of_distributed_graph(comm),
        _ => (0, 0),
    };
    (usize::try_from(to).unwrap_or(0), usize::try_from(from).unwrap_or(0))
}

fn of_graph(comm: usize) -> c_int {
    type Call = unsafe extern "C" fn(usize, c_int, *mut c_int) -> c_int;
    let (rank, mut number) = (asked!(MPI_Comm_rank(comm)), 0);
    // SAFETY: the function has these parameters; the place is writable.
    unsafe { standard!(MPI_Graph_neighbors_count as Call)(comm, rank, &raw mut number) };
    number
}

fn of_distributed_graph(comm: usize) -> (c_int, c_int) {
    type Call = unsafe extern "C" fn(usize, *mut c_int, *mut c_int, *mut c_int) -> c_int;
    let (mut from, mut to, mut weighted) = (0, 0, 0);
    // SAFETY: as above.
    unsafe {
        let call = standard!(MPI_Dist_graph_neighbors_count as Call);
        call(comm, &raw mut from, &raw mut to, &raw mut weighted);
    }
    (to, from)
}
