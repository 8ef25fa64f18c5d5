//! How many elements the arrays of datatypes of `MPI_Alltoallw` and its kin have: no parameter says
//! it. A communicator that is wrong counts as one without processes: the library reports it.

use std::ffi::c_int;

/// `MPI_COMM_NULL`.
const COMM_NULL: usize = 0x100;
// What `MPI_Topo_test` says.
const CART: c_int = 211;
const GRAPH: c_int = 212;
const DIST_GRAPH: c_int = 213;

/// A function of a communicator with one result.
pub type CommunicatorQuery = unsafe extern "C" fn(usize, *mut c_int) -> c_int;

/// The functions of the standard ABI that say it: whoever makes this passes functions of MPI, which
/// store their results and return a code.
#[derive(Clone, Copy, Debug)]
pub struct ProcessQueries {
    /// `MPI_Comm_test_inter`.
    pub test_inter: CommunicatorQuery,
    /// `MPI_Comm_size`.
    pub size: CommunicatorQuery,
    /// `MPI_Comm_remote_size`.
    pub remote_size: CommunicatorQuery,
    /// `MPI_Comm_rank`.
    pub rank: CommunicatorQuery,
    /// `MPI_Topo_test`.
    pub topology: CommunicatorQuery,
    /// `MPI_Cartdim_get`.
    pub dimensions: CommunicatorQuery,
    /// `MPI_Graph_neighbors_count`.
    pub graph_neighbors: unsafe extern "C" fn(usize, c_int, *mut c_int) -> c_int,
    /// `MPI_Dist_graph_neighbors_count`: to receive from, to send to, whether they have weights.
    pub dist_graph_neighbors:
        unsafe extern "C" fn(usize, *mut c_int, *mut c_int, *mut c_int) -> c_int,
}

/// What a function says of a communicator, 0 if it fails.
fn ask(query: CommunicatorQuery, comm: usize) -> c_int {
    let mut answer = 0;
    // SAFETY: one of `ProcessQueries`, and a place for its result.
    let code = unsafe { query(comm, &raw mut answer) };
    if code == 0 { answer } else { 0 }
}

fn number(answer: c_int) -> usize {
    usize::try_from(answer).unwrap_or(0)
}

impl ProcessQueries {
    /// The processes that each process of `comm` exchanges data with: those of the other group,
    /// where there is one.
    pub fn partners(&self, comm: usize) -> usize {
        if comm == COMM_NULL {
            return 0;
        }
        number(match ask(self.test_inter, comm) {
            0 => ask(self.size, comm),
            _ => ask(self.remote_size, comm),
        })
    }

    /// The dimensions of the grid that `comm` has.
    pub fn dimensions(&self, comm: usize) -> usize {
        if comm == COMM_NULL || ask(self.topology, comm) != CART {
            return 0;
        }
        number(ask(self.dimensions, comm))
    }

    /// The neighbours of this process in `comm`, to send to and to receive from.
    pub fn neighbors(&self, comm: usize) -> (usize, usize) {
        if comm == COMM_NULL {
            return (0, 0);
        }
        let (mut to, mut from, mut weighted) = (0, 0, 0);
        match ask(self.topology, comm) {
            CART => {
                to = 2 * ask(self.dimensions, comm);
                from = to;
            }
            GRAPH => {
                let rank = ask(self.rank, comm);
                // SAFETY: as `ProcessQueries` says, and a place for its result.
                unsafe { (self.graph_neighbors)(comm, rank, &raw mut to) };
                from = to;
            }
            DIST_GRAPH => {
                let counts = self.dist_graph_neighbors;
                // SAFETY: as `ProcessQueries` says, and places for its results.
                unsafe { counts(comm, &raw mut from, &raw mut to, &raw mut weighted) };
            }
            _ => {}
        }
        (number(to), number(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A communicator's handle here is what `MPI_Topo_test` says of it.
    unsafe extern "C" fn itself(comm: usize, answer: *mut c_int) -> c_int {
        // SAFETY: the caller passes a place.
        unsafe { answer.write(comm as c_int) };
        0
    }

    unsafe extern "C" fn three(_: usize, answer: *mut c_int) -> c_int {
        // SAFETY: the caller passes a place.
        unsafe { answer.write(3) };
        0
    }

    unsafe extern "C" fn fails(_: usize, answer: *mut c_int) -> c_int {
        // SAFETY: the caller passes a place.
        unsafe { answer.write(7) };
        5
    }

    unsafe extern "C" fn of_graph(_: usize, rank: c_int, answer: *mut c_int) -> c_int {
        // SAFETY: the caller passes a place.
        unsafe { answer.write(10 + rank) };
        0
    }

    unsafe extern "C" fn of_dist_graph(
        _: usize,
        from: *mut c_int,
        to: *mut c_int,
        _: *mut c_int,
    ) -> c_int {
        // SAFETY: the caller passes places.
        unsafe { (from.write(4), to.write(6)) };
        0
    }

    const QUERIES: ProcessQueries = ProcessQueries {
        test_inter: fails,
        size: three,
        remote_size: itself,
        rank: three,
        topology: itself,
        dimensions: three,
        graph_neighbors: of_graph,
        dist_graph_neighbors: of_dist_graph,
    };

    #[test]
    fn neighbors_are_those_of_the_topology() {
        let [cart, graph, dist_graph] = [CART, GRAPH, DIST_GRAPH].map(|topology| topology as usize);
        assert_eq!(QUERIES.neighbors(cart), (6, 6));
        assert_eq!(QUERIES.neighbors(graph), (13, 13));
        assert_eq!(QUERIES.neighbors(dist_graph), (6, 4));
        assert_eq!((QUERIES.neighbors(1), QUERIES.neighbors(COMM_NULL)), ((0, 0), (0, 0)));
        assert_eq!((QUERIES.dimensions(cart), QUERIES.dimensions(graph)), (3, 0));
    }

    #[test]
    fn partners_are_the_other_group_where_there_is_one() {
        assert_eq!((QUERIES.partners(9), QUERIES.partners(COMM_NULL)), (3, 0));
        assert_eq!(ProcessQueries { test_inter: three, ..QUERIES }.partners(9), 9);
        assert_eq!(ProcessQueries { size: fails, ..QUERIES }.partners(9), 0);
    }
}
