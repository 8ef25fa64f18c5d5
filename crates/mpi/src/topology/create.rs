//! Communicators with a virtual topology: made from another one, with ranks reordered if the
//! program allows it (MPI 5.0, 8.5).

use std::sync::Arc;

use mica_node::topology::CorePlace;
use mica_policy::mapping::{Place, differ};

use super::dist_graph::{Edge, EdgeWeights, Edges, Weights, check_ranks, check_weights};
use super::query::intra;
use super::{Cart, DistGraph, Graph, Reordering, Topology, reorder};
use crate::comm::Comm;
use crate::error::Result;
use crate::process;
use mica_collective::exchange::ExchangeMembers;

/// Grids.
impl Comm {
    /// `MPI_Cart_create`; `None` for processes that the grid has no room for, and for all if a
    /// dimension has the length 0.
    ///
    /// # Errors
    /// `MPI_ERR_DIMS`, `MPI_ERR_COMM`.
    pub fn create_cart(
        &self,
        dims: &[i32],
        periods: &[bool],
        reorder: Reordering,
    ) -> Result<Option<Comm>> {
        let Some(cart) = Cart::unless_empty(dims, periods, intra(self, "comm_old")?.size())? else {
            return Ok(None);
        };
        let ranks = match reorder {
            Reordering::Allowed => self.cart_order(&cart)?,
            Reordering::Refused => (0..cart.size()).collect(),
        };
        self.with_topology(&ranks, Topology::Cart(Arc::new(cart)))
    }

    /// The old rank of each new rank, with neighbours close to each other. The same on every
    /// process.
    fn cart_order(&self, cart: &Cart) -> Result<Vec<usize>> {
        Ok(reorder::grid(cart, &self.places(cart.size())?))
    }

    /// `MPI_Cart_map`: the rank that this process gets with `reorder`; `None` if it gets none.
    ///
    /// # Errors
    /// As [`create_cart`](Self::create_cart).
    pub fn cart_map(&self, dims: &[i32], periods: &[bool]) -> Result<Option<usize>> {
        let Some(cart) = Cart::unless_empty(dims, periods, intra(self, "comm")?.size())? else {
            return Ok(None);
        };
        let order = self.cart_order(&cart)?;
        Ok(order.iter().position(|&old| old == self.rank()))
    }

    /// `MPI_Cart_sub`: the slice of the grid that this process lies in, along the dimensions that
    /// `remain`.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY`.
    pub fn cart_sub(&self, remain: &[bool]) -> Result<Comm> {
        let (cart, color, key) = self.cart()?.slice(remain, self.rank());
        let new = self.split(color, key)?;
        let new = new.expect("a process with a color becomes a member");
        new.attach_topology(Topology::Cart(Arc::new(cart)));
        Ok(new)
    }
}

/// Graphs that every process knows.
impl Comm {
    /// `MPI_Graph_create`; `None` for processes that the graph has no node for.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`, `MPI_ERR_COMM`.
    pub fn create_graph(
        &self,
        index: &[i32],
        edges: &[i32],
        reorder: Reordering,
    ) -> Result<Option<Comm>> {
        let graph = Graph::new(index, edges, intra(self, "comm_old")?.size())?;
        let ranks = match reorder {
            Reordering::Allowed => self.graph_order(&graph)?,
            Reordering::Refused => (0..graph.size()).collect(),
        };
        self.with_topology(&ranks, Topology::Graph(Arc::new(graph)))
    }

    fn graph_order(&self, graph: &Graph) -> Result<Vec<usize>> {
        let edges = (0..graph.size()).flat_map(|from| {
            let to = graph.neighbors(from).iter();
            to.map(move |&to| (from, to as usize, 1))
        });
        self.order_for(graph.size(), edges)
    }

    /// The old rank of each node of a weighted graph, with neighbours close to each other. The same
    /// on every process.
    fn order_for(
        &self,
        nodes: usize,
        edges: impl Iterator<Item = (usize, usize, u64)>,
    ) -> Result<Vec<usize>> {
        let places = self.places(nodes)?;
        Ok(reorder::graph(&reorder::links(nodes, edges), &places))
    }

    /// `MPI_Graph_map`: the rank that this process gets with `reorder`; `None` if it gets none.
    ///
    /// # Errors
    /// As [`create_graph`](Self::create_graph).
    pub fn graph_map(&self, index: &[i32], edges: &[i32]) -> Result<Option<usize>> {
        let graph = Graph::new(index, edges, intra(self, "comm")?.size())?;
        let order = self.graph_order(&graph)?;
        Ok(order.iter().position(|&old| old == self.rank()))
    }
}

/// Distributed graphs.
impl Comm {
    /// `MPI_Dist_graph_create_adjacent`: each process gives its own edges.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`, `MPI_ERR_ARG`, `MPI_ERR_COMM`.
    pub fn create_dist_graph_adjacent(
        &self,
        sources: (&[i32], Weights),
        destinations: (&[i32], Weights),
        reorder: Reordering,
    ) -> Result<Comm> {
        let size = intra(self, "comm_old")?.size();
        let weighted = EdgeWeights::of(sources.1);
        let part = DistGraph {
            sources: Edges::new(sources.0, sources.1, size, ["sources", "sourceweights"])?,
            destinations: Edges::new(
                destinations.0,
                destinations.1,
                size,
                ["destinations", "destweights"],
            )?,
            weighted,
        };
        if reorder == Reordering::Refused || !self.places_differ()? {
            return self.with_dist_graph(&self.all_ranks(), part);
        }
        let parts: Vec<DistGraph> = self
            .share(&part.to_numbers())?
            .iter()
            .map(|numbers| DistGraph::from_numbers(numbers, weighted))
            .collect();
        let edges = parts.iter().enumerate().flat_map(|(from, part)| {
            let to = &part.destinations;
            let edge = move |i| (from, to.ranks[i] as usize, to.weight(i) as u64);
            (0..to.ranks.len()).map(edge)
        });
        let order = self.order_for(size, edges)?;
        let part = parts[self.position_in(&order)].clone();
        self.with_dist_graph(&order, part)
    }

    /// `MPI_Dist_graph_create`: each process gives any edges, `degrees[i]` of them from
    /// `sources[i]`.
    ///
    /// # Errors
    /// As [`create_dist_graph_adjacent`](Self::create_dist_graph_adjacent).
    pub fn create_dist_graph(
        &self,
        sources: &[i32],
        degrees: &[i32],
        destinations: &[i32],
        weights: Weights,
        reorder: Reordering,
    ) -> Result<Comm> {
        let size = intra(self, "comm_old")?.size();
        check_ranks(sources, size, "sources")?;
        check_ranks(destinations, size, "destinations")?;
        check_weights(weights, "weights")?;
        let starts = sources
            .iter()
            .zip(degrees)
            .flat_map(|(&source, &degree)| std::iter::repeat_n(source, degree as usize));
        let mine: Vec<i32> = starts
            .zip(destinations)
            .enumerate()
            .flat_map(|(i, (from, &to))| [from, to, weights.map_or(1, |w| w[i])])
            .collect();
        let all = self.share(&mine)?;
        let triples = all.iter().flat_map(|numbers| numbers.as_chunks().0);
        let edges: Vec<Edge> = triples.map(|&[from, to, weight]| (from, to, weight)).collect();
        let order = if reorder == Reordering::Allowed && self.places_differ()? {
            let known = edges.iter();
            let known =
                known.map(|&(from, to, weight)| (from as usize, to as usize, weight as u64));
            self.order_for(size, known)?
        } else {
            self.all_ranks()
        };
        let part = DistGraph::part(self.position_in(&order), &edges, EdgeWeights::of(weights));
        self.with_dist_graph(&order, part)
    }

    fn with_dist_graph(&self, order: &[usize], part: DistGraph) -> Result<Comm> {
        let new = self.with_topology(order, Topology::DistGraph(Arc::new(part)))?;
        Ok(new.expect("the new communicator has all processes of the old one"))
    }

    fn all_ranks(&self) -> Vec<usize> {
        (0..self.size()).collect()
    }

    /// This process's new rank.
    fn position_in(&self, order: &[usize]) -> usize {
        let mine = order.iter().position(|&old| old == self.rank());
        mine.expect("an order has every rank")
    }

    /// Whether reordering could change anything. The same on every process.
    fn places_differ(&self) -> Result<bool> {
        Ok(differ(&self.places(self.size())?))
    }

    /// Gathers every process's numbers on every process.
    fn share(&self, mine: &[i32]) -> Result<Vec<Vec<i32>>> {
        let lengths = ExchangeMembers::all(self).allgather(&mine.len().to_ne_bytes())?;
        let lengths = lengths.as_chunks().0.iter();
        let lengths: Vec<usize> = lengths.map(|&bytes| usize::from_ne_bytes(bytes)).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        if longest == 0 {
            return Ok(vec![Vec::new(); lengths.len()]);
        }
        let mut bytes: Vec<u8> = mine.iter().flat_map(|n| n.to_ne_bytes()).collect();
        bytes.resize(longest * size_of::<i32>(), 0);
        let all = ExchangeMembers::all(self).allgather(&bytes)?;
        let each = all.chunks_exact(bytes.len()).zip(lengths);
        let numbers = each.map(|(bytes, n)| {
            let numbers = bytes.as_chunks().0.iter().take(n);
            numbers.map(|&number| i32::from_ne_bytes(number)).collect()
        });
        Ok(numbers.collect())
    }
}

/// Places.
impl Comm {
    /// The places of the first `ranks` ranks, the same on every process.
    fn places(&self, ranks: usize) -> Result<Vec<Place>> {
        let engine = process::engine()?;
        let place = |rank| match self.layout() {
            None => Place { node: 0, core: engine.place(self.peer(rank)) },
            Some(layout) => Place { node: layout.node_of(rank) as u32, core: CorePlace::UNKNOWN },
        };
        Ok((0..ranks).map(place).collect())
    }
}
