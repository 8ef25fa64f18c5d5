//! What a communicator says of its virtual topology (MPI 5.0, 8.5.5).

use super::{Cart, DistGraph, Graph, Neighborhood, Topology};
use crate::comm::Comm;
use crate::constants as c;
use crate::error::{Error, Result};

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

    /// `MPI_Cart_get`: dimensions, which of them are periodic, and this process's coordinates.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY`.
    pub fn cart_at_this_rank(&self) -> Result<(Vec<i32>, Vec<bool>, Vec<i32>)> {
        let cart = self.cart()?;
        Ok((cart.dims().to_vec(), cart.periods().to_vec(), cart.coords(self.rank())))
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
    pub(super) fn with_topology(
        &self,
        ranks: &[usize],
        topology: Topology,
    ) -> Result<Option<Comm>> {
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
pub(super) fn intra<'a>(comm: &'a Comm, argument: &'static str) -> Result<&'a Comm> {
    if comm.is_inter() {
        let reason = "this is an inter-communicator, which can have no topology";
        return Err(Error::argument(c::ERR_COMM, argument, comm, reason));
    }
    Ok(comm)
}
