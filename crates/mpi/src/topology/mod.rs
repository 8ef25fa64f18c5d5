//! Virtual topologies (MPI 5.0, chapter 8): which processes are neighbours, as the program defines.
//!
//! A topology is attached to a communicator when it is made and never changes; duplicates share it.
//! Neighbourhood collectives ([`crate::collective::neighbor`]) use [`Topology::neighborhood`]. With
//! `reorder`, new ranks are given so that neighbours sit close on the machine ([`reorder`]).

mod cart;
mod create;
pub mod dims;
mod dist_graph;
mod graph;
mod query;
pub mod reorder;

pub use cart::Cart;
pub use dist_graph::{DistGraph, EdgeWeights, Edges, Weights};
pub use graph::Graph;

use std::sync::Arc;

use mica_collective::neighbor::Neighborhood;

use crate::constants as c;

/// The topology of a communicator. Cloning shares it.
#[derive(Debug, Clone)]
pub enum Topology {
    /// A grid (`MPI_Cart_create`).
    Cart(Arc<Cart>),
    /// A graph that every process knows completely (`MPI_Graph_create`).
    Graph(Arc<Graph>),
    /// A graph of which each process knows its own edges (`MPI_Dist_graph_create`).
    DistGraph(Arc<DistGraph>),
}

/// The argument `reorder` of the calls that make a topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reordering {
    /// Ranks keep their numbers.
    Refused,
    /// Ranks may get other numbers.
    Allowed,
}

impl Topology {
    /// The constant that `MPI_Topo_test` returns.
    pub fn kind(&self) -> i32 {
        match self {
            Topology::Cart(_) => c::CART,
            Topology::Graph(_) => c::GRAPH,
            Topology::DistGraph(_) => c::DIST_GRAPH,
        }
    }

    /// The neighbours of the process with this rank, which is the caller's own.
    pub fn neighborhood(&self, rank: usize) -> Neighborhood {
        match self {
            Topology::Cart(cart) => {
                let around = cart.around(rank);
                Neighborhood { sources: around.clone(), destinations: around, opposite: true }
            }
            Topology::Graph(graph) => {
                let around = graph.neighbors(rank).to_vec();
                Neighborhood { sources: around.clone(), destinations: around, opposite: false }
            }
            Topology::DistGraph(graph) => Neighborhood {
                sources: graph.sources.ranks.clone(),
                destinations: graph.destinations.ranks.clone(),
                opposite: false,
            },
        }
    }
}
