//! How many elements the arrays of datatypes of `MPI_Alltoallw` and its kin have: no parameter says
//! it. A communicator that is wrong counts as one without processes: the library reports it.

use std::ffi::c_int;

/// Constants of an ABI whose handles of communicators are of a type.
#[derive(Clone, Copy, Debug)]
pub struct ProcessConstants<H> {
    /// `MPI_COMM_NULL`.
    pub null: H,
    /// Of what `MPI_Topo_test` says, `MPI_CART`.
    pub cart: c_int,
    /// `MPI_GRAPH`.
    pub graph: c_int,
    /// `MPI_DIST_GRAPH`.
    pub dist_graph: c_int,
}

/// Those of the standard ABI.
pub const STANDARD: ProcessConstants<usize> =
    ProcessConstants { null: 0x100, cart: 211, graph: 212, dist_graph: 213 };

/// A function of a communicator with one result.
pub type CommunicatorQuery<H> = unsafe extern "C" fn(H, *mut c_int) -> c_int;

/// The functions of an ABI that say it. They must be MPI's: they are called with places for the
/// results that MPI's have.
#[derive(Clone, Copy, Debug)]
pub struct ProcessQueries<H> {
    /// What they say, and which communicator is none.
    pub constants: ProcessConstants<H>,
    /// `MPI_Comm_test_inter`.
    pub test_inter: CommunicatorQuery<H>,
    /// `MPI_Comm_size`.
    pub size: CommunicatorQuery<H>,
    /// `MPI_Comm_remote_size`.
    pub remote_size: CommunicatorQuery<H>,
    /// `MPI_Comm_rank`.
    pub rank: CommunicatorQuery<H>,
    /// `MPI_Topo_test`.
    pub topology: CommunicatorQuery<H>,
    /// `MPI_Cartdim_get`.
    pub dimensions: CommunicatorQuery<H>,
    /// `MPI_Graph_neighbors_count`.
    pub graph_neighbors: unsafe extern "C" fn(H, c_int, *mut c_int) -> c_int,
    /// `MPI_Dist_graph_neighbors_count`: to receive from, to send to, whether they have weights.
    pub dist_graph_neighbors: unsafe extern "C" fn(H, *mut c_int, *mut c_int, *mut c_int) -> c_int,
}

/// What a function says of a communicator, 0 if it fails.
fn ask<H>(query: CommunicatorQuery<H>, comm: H) -> c_int {
    let mut answer = 0;
    // SAFETY: one of `ProcessQueries`, and a place for its result.
    let code = unsafe { query(comm, &raw mut answer) };
    if code == 0 { answer } else { 0 }
}

fn number(answer: c_int) -> usize {
    usize::try_from(answer).unwrap_or(0)
}

impl<H: Copy + PartialEq> ProcessQueries<H> {
    /// The processes that each process of `comm` exchanges data with: those of the other group,
    /// where there is one.
    pub fn partners(&self, comm: H) -> usize {
        if comm == self.constants.null {
            return 0;
        }
        number(match ask(self.test_inter, comm) {
            0 => ask(self.size, comm),
            _ => ask(self.remote_size, comm),
        })
    }

    /// The dimensions of the grid that `comm` has.
    pub fn dimensions(&self, comm: H) -> usize {
        if comm == self.constants.null || ask(self.topology, comm) != self.constants.cart {
            return 0;
        }
        number(ask(self.dimensions, comm))
    }

    /// The neighbours of this process in `comm`, to send to and to receive from.
    pub fn neighbors(&self, comm: H) -> (usize, usize) {
        if comm == self.constants.null {
            return (0, 0);
        }
        let (mut to, mut from, mut weighted) = (0, 0, 0);
        match ask(self.topology, comm) {
            found if found == self.constants.cart => {
                to = 2 * ask(self.dimensions, comm);
                from = to;
            }
            found if found == self.constants.graph => {
                let rank = ask(self.rank, comm);
                // SAFETY: as `ProcessQueries` says, and a place for its result.
                unsafe { (self.graph_neighbors)(comm, rank, &raw mut to) };
                from = to;
            }
            found if found == self.constants.dist_graph => {
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

    const QUERIES: ProcessQueries<usize> = ProcessQueries {
        constants: STANDARD,
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
        let [cart, graph, dist_graph] =
            [STANDARD.cart, STANDARD.graph, STANDARD.dist_graph].map(|kind| kind as usize);
        assert_eq!(QUERIES.neighbors(cart), (6, 6));
        assert_eq!(QUERIES.neighbors(graph), (13, 13));
        assert_eq!(QUERIES.neighbors(dist_graph), (6, 4));
        assert_eq!((QUERIES.neighbors(1), QUERIES.neighbors(STANDARD.null)), ((0, 0), (0, 0)));
        assert_eq!((QUERIES.dimensions(cart), QUERIES.dimensions(graph)), (3, 0));
    }

    #[test]
    fn partners_are_the_other_group_where_there_is_one() {
        assert_eq!((QUERIES.partners(9), QUERIES.partners(STANDARD.null)), (3, 0));
        assert_eq!(ProcessQueries { test_inter: three, ..QUERIES }.partners(9), 9);
        assert_eq!(ProcessQueries { size: fails, ..QUERIES }.partners(9), 0);
    }
}
