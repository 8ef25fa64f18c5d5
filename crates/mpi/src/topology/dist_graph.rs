//! Distributed graph topologies (MPI 5.0, 8.5.4): each process knows the edges that end or start at
//! it.

use std::sync::Arc;

use super::cart::list;
use super::{Topology, intra, reorder};
use crate::comm::Comm;
use crate::comm::exchange::Party;
use crate::constants as c;
use crate::error::{Error, Result};

/// Edges on one side of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edges {
    /// The processes at their other ends.
    pub ranks: Vec<i32>,
    /// Their weights; empty in a graph without weights.
    pub weights: Vec<i32>,
}

/// One process's part of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistGraph {
    /// Edges that end here.
    pub sources: Edges,
    /// Edges that start here.
    pub destinations: Edges,
    /// Whether edges have weights.
    pub weighted: bool,
}

/// Weights of edges as a call gives them; `None` is `MPI_UNWEIGHTED`.
pub type Weights<'a> = Option<&'a [i32]>;

/// An edge of the whole graph: from, to, weight (1 without weights).
type Edge = (i32, i32, i32);

impl Edges {
    /// Checked edges of a communicator of `size` ranks; `arguments` names ranks and weights.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`, `MPI_ERR_ARG`.
    fn new(
        ranks: &[i32],
        weights: Weights,
        size: usize,
        arguments: [&'static str; 2],
    ) -> Result<Edges> {
        check_ranks(ranks, size, arguments[0])?;
        check_weights(weights, arguments[1])?;
        Ok(Edges {
            ranks: ranks.to_vec(),
            weights: weights.unwrap_or_default().to_vec(),
        })
    }

    fn push(&mut self, rank: i32, weight: Option<i32>) {
        self.ranks.push(rank);
        self.weights.extend(weight);
    }

    fn weight(&self, i: usize) -> i32 {
        self.weights.get(i).copied().unwrap_or(1)
    }
}

fn check_ranks(ranks: &[i32], size: usize, argument: &'static str) -> Result<()> {
    let wrong = |rank: &i32| usize::try_from(*rank).is_ok_and(|r| r < size);
    match ranks.iter().position(|rank| !wrong(rank)) {
        None => Ok(()),
        Some(i) => {
            let reason = format!("element {i} is no rank of the communicator, which has {size}");
            Err(Error::argument(c::ERR_RANK, argument, ranks[i], reason))
        }
    }
}

fn check_weights(weights: Weights, argument: &'static str) -> Result<()> {
    let Some(i) = weights.and_then(|w| w.iter().position(|&weight| weight < 0)) else {
        return Ok(());
    };
    let weights = weights.unwrap_or_default();
    let reason = format!("element {i} is negative");
    Err(Error::argument(c::ERR_ARG, argument, list(weights), reason))
}

impl DistGraph {
    /// The part of `rank` in the graph of all `edges`, in the order given.
    fn part(rank: usize, edges: &[Edge], weighted: bool) -> DistGraph {
        let mut part = DistGraph {
            sources: Edges::default(),
            destinations: Edges::default(),
            weighted,
        };
        let me = rank as i32;
        for &(from, to, weight) in edges {
            let weight = weighted.then_some(weight);
            if to == me {
                part.sources.push(from, weight);
            }
            if from == me {
                part.destinations.push(to, weight);
            }
        }
        part
    }

    /// Its edges as numbers, to be sent to other processes.
    fn to_numbers(&self) -> Vec<i32> {
        let (from, to) = (&self.sources, &self.destinations);
        let mut numbers = vec![from.ranks.len() as i32, to.ranks.len() as i32];
        for part in [&from.ranks, &to.ranks, &from.weights, &to.weights] {
            numbers.extend(part);
        }
        numbers
    }

    /// The inverse of [`to_numbers`](Self::to_numbers).
    fn from_numbers(numbers: &[i32], weighted: bool) -> DistGraph {
        let (sources, destinations) = (numbers[0] as usize, numbers[1] as usize);
        let mut rest = &numbers[2..];
        let mut take = |n: usize| {
            let (part, after) = rest.split_at(n);
            rest = after;
            part.to_vec()
        };
        let (from, to) = (take(sources), take(destinations));
        let (from_weights, to_weights) = if weighted {
            (take(sources), take(destinations))
        } else {
            (Vec::new(), Vec::new())
        };
        DistGraph {
            sources: Edges {
                ranks: from,
                weights: from_weights,
            },
            destinations: Edges {
                ranks: to,
                weights: to_weights,
            },
            weighted,
        }
    }
}

impl Comm {
    /// `MPI_Dist_graph_create_adjacent`: each process gives its own edges.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`, `MPI_ERR_ARG`, `MPI_ERR_COMM`.
    pub fn create_dist_graph_adjacent(
        &self,
        sources: (&[i32], Weights),
        destinations: (&[i32], Weights),
        reorder: bool,
    ) -> Result<Comm> {
        let size = intra(self, "comm_old")?.size();
        let weighted = sources.1.is_some();
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
        if !reorder || !self.places_differ()? {
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
        reorder: bool,
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
        let edges: Vec<Edge> = triples
            .map(|&[from, to, weight]| (from, to, weight))
            .collect();
        let order = if reorder && self.places_differ()? {
            let known = edges.iter();
            let known =
                known.map(|&(from, to, weight)| (from as usize, to as usize, weight as u64));
            self.order_for(size, known)?
        } else {
            self.all_ranks()
        };
        let part = DistGraph::part(self.position_in(&order), &edges, weights.is_some());
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
        Ok(reorder::differ(self.places(self.size())?))
    }

    /// Gathers every process's numbers on every process.
    fn share(&self, mine: &[i32]) -> Result<Vec<Vec<i32>>> {
        let lengths = Party::all(self).allgather(&mine.len().to_ne_bytes())?;
        let lengths = lengths.as_chunks().0.iter();
        let lengths: Vec<usize> = lengths.map(|&bytes| usize::from_ne_bytes(bytes)).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        if longest == 0 {
            return Ok(vec![Vec::new(); lengths.len()]);
        }
        let mut bytes: Vec<u8> = mine.iter().flat_map(|n| n.to_ne_bytes()).collect();
        bytes.resize(longest * size_of::<i32>(), 0);
        let all = Party::all(self).allgather(&bytes)?;
        let each = all.chunks_exact(bytes.len()).zip(lengths);
        let numbers = each.map(|(bytes, n)| {
            let numbers = bytes.as_chunks().0.iter().take(n);
            numbers.map(|&number| i32::from_ne_bytes(number)).collect()
        });
        Ok(numbers.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_keeps_the_order_of_the_edges() {
        let edges = [(0, 1, 5), (1, 1, 6), (2, 0, 7), (0, 1, 8), (1, 0, 9)];
        let part = DistGraph::part(1, &edges, true);
        assert_eq!(part.sources.ranks, [0, 1, 0]);
        assert_eq!(part.sources.weights, [5, 6, 8]);
        assert_eq!(part.destinations.ranks, [1, 0]);
        assert_eq!(part.destinations.weights, [6, 9]);
        assert!(DistGraph::part(1, &edges, false).sources.weights.is_empty());
    }

    #[test]
    fn parts_travel_as_numbers() {
        for weighted in [true, false] {
            for rank in 0..3 {
                let part = DistGraph::part(rank, &[(0, 1, 5), (1, 1, 6), (0, 1, 8)], weighted);
                let back = DistGraph::from_numbers(&part.to_numbers(), weighted);
                assert_eq!(back, part);
            }
        }
    }
}
