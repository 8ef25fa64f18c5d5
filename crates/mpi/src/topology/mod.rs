//! Virtual topologies (MPI 5.0, chapter 8): which processes are neighbours, as the program defines.
//!
//! A topology is attached to a communicator when it is made and never changes; duplicates share it.
//! Neighbourhood collectives ([`crate::collective::neighbor`]) use [`Topology::neighborhood`]. With
//! `reorder`, new ranks are given so that neighbours sit close on the machine ([`reorder`]).

mod cart;
pub mod dims;
mod dist_graph;
mod graph;
pub mod reorder;

pub use cart::Cart;
pub use dist_graph::{DistGraph, Edges, Weights};
pub use graph::Graph;

use std::sync::Arc;

use crate::comm::Comm;
use crate::constants as c;
use crate::error::{Error, Result};

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

/// The neighbours of one process, in the order of the blocks of neighbourhood collectives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighborhood {
    /// The ranks that blocks come from; `MPI_PROC_NULL` where a grid ends.
    pub sources: Vec<i32>,
    /// The ranks that blocks go to.
    pub destinations: Vec<i32>,
    /// Whether sources and destinations are pairs of opposite directions: the block that leaves
    /// through one side of a grid arrives through the other (MPI 5.0, 8.6). It matters where the
    /// same process is on both sides.
    pub opposite: bool,
}

impl Neighborhood {
    /// The indices of the sources, in the order in which their messages match the sends, which are
    /// made in the order of the destinations.
    pub fn matching_order(&self) -> impl Iterator<Item = usize> + '_ {
        let opposite = usize::from(self.opposite);
        (0..self.sources.len()).map(move |i| i ^ opposite)
    }
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
                Neighborhood {
                    sources: around.clone(),
                    destinations: around,
                    opposite: true,
                }
            }
            Topology::Graph(graph) => {
                let around = graph.neighbors(rank).to_vec();
                Neighborhood {
                    sources: around.clone(),
                    destinations: around,
                    opposite: false,
                }
            }
            Topology::DistGraph(graph) => Neighborhood {
                sources: graph.sources.ranks.clone(),
                destinations: graph.destinations.ranks.clone(),
                opposite: false,
            },
        }
    }
}

impl Comm {
    /// The grid attached to it.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY`.
    pub fn cart(&self) -> Result<&Cart> {
        match self.topology() {
            Some(Topology::Cart(cart)) => Ok(cart),
            other => Err(lacks(self, "Cartesian", other)),
        }
    }

    /// The graph attached to it.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY`.
    pub fn graph(&self) -> Result<&Graph> {
        match self.topology() {
            Some(Topology::Graph(graph)) => Ok(graph),
            other => Err(lacks(self, "graph", other)),
        }
    }

    /// The distributed graph attached to it: this process's part.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY`.
    pub fn dist_graph(&self) -> Result<&DistGraph> {
        match self.topology() {
            Some(Topology::DistGraph(graph)) => Ok(graph),
            other => Err(lacks(self, "distributed graph", other)),
        }
    }

    /// This process's neighbours.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY`.
    pub fn neighborhood(&self) -> Result<Neighborhood> {
        match self.topology() {
            Some(topology) => Ok(topology.neighborhood(self.rank())),
            None => Err(lacks(self, "virtual", None)),
        }
    }

    /// `rank`, checked to be a rank of this communicator.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`.
    pub fn checked_rank(&self, rank: i32) -> Result<usize> {
        let found = usize::try_from(rank).ok().filter(|&r| r < self.size());
        found.ok_or_else(|| {
            let reason = format!("the communicator has {} ranks", self.size());
            Error::argument(c::ERR_RANK, "rank", rank, reason)
        })
    }

    /// The processes with these ranks here, in this order, with a topology; `None` for the others.
    /// Every process passes the same ranks.
    fn with_topology(&self, ranks: &[usize], topology: Topology) -> Result<Option<Comm>> {
        let ranks: Vec<i32> = ranks.iter().map(|&rank| rank as i32).collect();
        let new = self.create(&self.group().incl(&ranks)?)?;
        if let Some(new) = &new {
            new.attach_topology(topology);
        }
        Ok(new)
    }
}

#[cold]
fn lacks(comm: &Comm, wanted: &str, has: Option<&Topology>) -> Error {
    let has = match has {
        None => "no topology",
        Some(Topology::Cart(_)) => "a Cartesian topology",
        Some(Topology::Graph(_)) => "a graph topology",
        Some(Topology::DistGraph(_)) => "a distributed graph topology",
    };
    let reason = format!("a {wanted} topology is needed; this communicator has {has}");
    Error::argument(c::ERR_TOPOLOGY, "comm", comm, reason)
}

/// Refuses inter-communicators, which have no topologies.
fn intra<'a>(comm: &'a Comm, argument: &'static str) -> Result<&'a Comm> {
    if comm.is_inter() {
        let reason = "this is an inter-communicator, which can have no topology";
        return Err(Error::argument(c::ERR_COMM, argument, comm, reason));
    }
    Ok(comm)
}
