//! Distributed graph topologies (MPI 5.0, 8.5.4): each process knows the edges that end or start at
//! it.

use super::cart::list;
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
    pub weighted: EdgeWeights,
}

impl DistGraph {
    /// `MPI_Dist_graph_neighbors_count`: edges that end here, edges that start here, and whether
    /// they have weights.
    pub fn counts(&self) -> (usize, usize, bool) {
        let (sources, destinations) = (&self.sources.ranks, &self.destinations.ranks);
        (sources.len(), destinations.len(), self.weighted == EdgeWeights::Given)
    }
}

/// Whether the edges of a graph have weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeWeights {
    /// The calls that made it gave them.
    Given,
    /// `MPI_UNWEIGHTED`.
    Absent,
}

/// Weights of edges as a call gives them; `None` is `MPI_UNWEIGHTED`.
pub type Weights<'a> = Option<&'a [i32]>;

impl EdgeWeights {
    pub(super) fn of(weights: Weights) -> EdgeWeights {
        match weights {
            Some(_) => EdgeWeights::Given,
            None => EdgeWeights::Absent,
        }
    }
}

/// An edge of the whole graph: from, to, weight (1 without weights).
pub(super) type Edge = (i32, i32, i32);

impl Edges {
    /// Checked edges of a communicator of `size` ranks; `arguments` names ranks and weights.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`, `MPI_ERR_ARG`.
    pub(super) fn new(
        ranks: &[i32],
        weights: Weights,
        size: usize,
        arguments: [&'static str; 2],
    ) -> Result<Edges> {
        check_ranks(ranks, size, arguments[0])?;
        check_weights(weights, arguments[1])?;
        Ok(Edges { ranks: ranks.to_vec(), weights: weights.unwrap_or_default().to_vec() })
    }

    fn push(&mut self, rank: i32, weight: Option<i32>) {
        self.ranks.push(rank);
        self.weights.extend(weight);
    }

    pub(super) fn weight(&self, i: usize) -> i32 {
        self.weights.get(i).copied().unwrap_or(1)
    }
}

pub(super) fn check_ranks(ranks: &[i32], size: usize, argument: &'static str) -> Result<()> {
    let wrong = |rank: &i32| usize::try_from(*rank).is_ok_and(|r| r < size);
    match ranks.iter().position(|rank| !wrong(rank)) {
        None => Ok(()),
        Some(i) => {
            let reason = format!("element {i} is no rank of the communicator, which has {size}");
            Err(Error::argument(c::ERR_RANK, argument, ranks[i], reason))
        }
    }
}

pub(super) fn check_weights(weights: Weights, argument: &'static str) -> Result<()> {
    let Some(i) = weights.and_then(|w| w.iter().position(|&weight| weight < 0)) else {
        return Ok(());
    };
    let weights = weights.unwrap_or_default();
    let reason = format!("element {i} is negative");
    Err(Error::argument(c::ERR_ARG, argument, list(weights), reason))
}

impl DistGraph {
    /// The part of `rank` in the graph of all `edges`, in the order given.
    pub(super) fn part(rank: usize, edges: &[Edge], weighted: EdgeWeights) -> DistGraph {
        let mut part =
            DistGraph { sources: Edges::default(), destinations: Edges::default(), weighted };
        let me = rank as i32;
        for &(from, to, weight) in edges {
            let weight = (weighted == EdgeWeights::Given).then_some(weight);
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
    pub(super) fn to_numbers(&self) -> Vec<i32> {
        let (from, to) = (&self.sources, &self.destinations);
        let mut numbers = vec![from.ranks.len() as i32, to.ranks.len() as i32];
        for part in [&from.ranks, &to.ranks, &from.weights, &to.weights] {
            numbers.extend(part);
        }
        numbers
    }

    /// The inverse of [`to_numbers`](Self::to_numbers).
    pub(super) fn from_numbers(numbers: &[i32], weighted: EdgeWeights) -> DistGraph {
        let (sources, destinations) = (numbers[0] as usize, numbers[1] as usize);
        let mut rest = &numbers[2..];
        let mut take = |n: usize| {
            let (part, after) = rest.split_at(n);
            rest = after;
            part.to_vec()
        };
        let (from, to) = (take(sources), take(destinations));
        let (from_weights, to_weights) = match weighted {
            EdgeWeights::Given => (take(sources), take(destinations)),
            EdgeWeights::Absent => (Vec::new(), Vec::new()),
        };
        DistGraph {
            sources: Edges { ranks: from, weights: from_weights },
            destinations: Edges { ranks: to, weights: to_weights },
            weighted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_keeps_the_order_of_the_edges() {
        let edges = [(0, 1, 5), (1, 1, 6), (2, 0, 7), (0, 1, 8), (1, 0, 9)];
        let part = DistGraph::part(1, &edges, EdgeWeights::Given);
        assert_eq!(part.sources.ranks, [0, 1, 0]);
        assert_eq!(part.sources.weights, [5, 6, 8]);
        assert_eq!(part.destinations.ranks, [1, 0]);
        assert_eq!(part.destinations.weights, [6, 9]);
        let plain = DistGraph::part(1, &edges, EdgeWeights::Absent);
        assert!(plain.sources.weights.is_empty());
    }

    #[test]
    fn parts_travel_as_numbers() {
        for weighted in [EdgeWeights::Given, EdgeWeights::Absent] {
            for rank in 0..3 {
                let part = DistGraph::part(rank, &[(0, 1, 5), (1, 1, 6), (0, 1, 8)], weighted);
                let back = DistGraph::from_numbers(&part.to_numbers(), weighted);
                assert_eq!(back, part);
            }
        }
    }
}
