//! Graph topologies (MPI 5.0, 8.5.3): every process knows the whole graph.

use super::cart::list;
use crate::constants as c;
use crate::error::{Error, Result};

/// A graph of processes as MPI describes it: the neighbours of node `i` are
/// `edges[index[i - 1] .. index[i]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    index: Vec<i32>,
    edges: Vec<i32>,
}

impl Graph {
    /// The number of edges that `index` describes.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` unless `index` rises from a number that is not negative.
    pub fn edge_count(index: &[i32]) -> Result<usize> {
        if index.first().is_some_and(|&first| first < 0) || !index.is_sorted() {
            let reason =
                "each number is that of the edges so far: it cannot be negative or decrease";
            return Err(Error::argument(c::ERR_ARG, "index", list(index), reason));
        }
        Ok(index.last().map_or(0, |&last| last as usize))
    }

    /// The graph with this index and [`edge_count`](Self::edge_count) edges, for `room` processes.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`.
    pub fn new(index: &[i32], edges: &[i32], room: usize) -> Result<Graph> {
        if index.len() > room {
            let reason = format!("the communicator has {room} ranks");
            return Err(Error::argument(c::ERR_ARG, "nnodes", index.len(), reason));
        }
        let nodes = 0..index.len() as i32;
        if let Some((i, edge)) = edges.iter().enumerate().find(|(_, e)| !nodes.contains(e)) {
            let reason = format!(
                "edges[{i}] leads to a node that the graph, of {} nodes, has not",
                nodes.end
            );
            return Err(Error::argument(c::ERR_ARG, "edges", edge, reason));
        }
        Ok(Graph { index: index.to_vec(), edges: edges.to_vec() })
    }

    /// Number of nodes.
    pub fn size(&self) -> usize {
        self.index.len()
    }

    /// Where each node's edges end.
    pub fn index(&self) -> &[i32] {
        &self.index
    }

    /// All edges.
    pub fn edges(&self) -> &[i32] {
        &self.edges
    }

    /// The neighbours of node `rank`.
    pub fn neighbors(&self, rank: usize) -> &[i32] {
        let start = if rank == 0 { 0 } else { self.index[rank - 1] };
        &self.edges[start as usize..self.index[rank] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_as_in_the_standards_example() {
        // MPI 5.0, example 8.3: 0: 1, 3; 1: 0; 2: 3; 3: 0, 2.
        let graph = Graph::new(&[2, 3, 4, 6], &[1, 3, 0, 3, 0, 2], 4).unwrap();
        let all: Vec<&[i32]> = (0..4).map(|rank| graph.neighbors(rank)).collect();
        assert_eq!(all, [&[1, 3][..], &[0], &[3], &[0, 2]]);
    }

    #[test]
    fn graphs_that_are_none_are_refused() {
        assert_eq!(Graph::edge_count(&[]), Ok(0));
        assert_eq!(Graph::edge_count(&[2, 2, 5]), Ok(5));
        for index in [&[-1, 0][..], &[2, 1]] {
            assert_eq!(Graph::edge_count(index).unwrap_err().code(), c::ERR_ARG);
        }
        for (index, edges) in [(&[1, 1][..], &[2][..]), (&[1], &[-1]), (&[0; 5], &[])] {
            let error = Graph::new(index, edges, 4).unwrap_err();
            assert_eq!(error.code(), c::ERR_ARG);
        }
    }
}
