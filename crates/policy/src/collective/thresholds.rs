//! The sizes at which one algorithm of messages hands over to another, where no costs choose:
//! between nodes, and in parts of two-level algorithms.
//!
//! All values are compared with quantities that every rank of the communicator knows to be equal
//! (message sizes and the number of ranks), so that all ranks choose alike. Among ranks of one
//! node costs choose ([`pick`](super::pick)), and [`MessageThresholds::of`] expresses that choice
//! here.

use super::{Algorithm, Collective};

/// Sizes at which collectives change their algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageThresholds {
    /// Broadcast: from this many bytes on, scatter and allgather instead of a tree.
    pub bcast_scatter: usize,
    /// Gather and scatter: from this many bytes per rank on, the root exchanges with each rank
    /// directly.
    pub gather_linear: usize,
    /// Allgather: from this many bytes in total on, a ring.
    pub allgather_ring: usize,
    /// All-to-all: below this many bytes per pair, Bruck's algorithm ...
    pub alltoall_bruck: usize,
    /// ... if there are at least this many ranks.
    pub alltoall_bruck_ranks: usize,
    /// All-to-all: number of peers that a rank exchanges with at the same time.
    pub alltoall_window: usize,
    /// Reduce and allreduce: from this many bytes on, the vector is split among the ranks
    /// (Rabenseifner).
    pub reduce_split: usize,
    /// Reduce-scatter: from this many bytes in total on, pairwise exchange instead of recursive
    /// halving.
    pub reduce_scatter_pairwise: usize,
}

impl MessageThresholds {
    /// The default.
    pub const DEFAULT: MessageThresholds = MessageThresholds {
        bcast_scatter: 64 << 10,
        gather_linear: 2 << 10,
        allgather_ring: 64 << 10,
        alltoall_bruck: 256,
        alltoall_bruck_ranks: 8,
        alltoall_window: mica_algorithms::alltoall::WINDOW,
        reduce_split: 16 << 10,
        reduce_scatter_pairwise: 256 << 10,
    };

    /// Between nodes, where a message costs 10 to 20 us and a byte 0.5 to 1 ns: algorithms with
    /// more rounds pay only for longer messages.
    pub const NETWORK: MessageThresholds = MessageThresholds {
        bcast_scatter: 128 << 10,
        gather_linear: 8 << 10,
        allgather_ring: 128 << 10,
        alltoall_bruck: 256,
        alltoall_bruck_ranks: 8,
        alltoall_window: mica_algorithms::alltoall::WINDOW,
        reduce_split: 32 << 10,
        reduce_scatter_pairwise: 256 << 10,
    };

    /// The thresholds that select this message-based algorithm wherever it is possible.
    pub fn of(algorithm: Algorithm) -> MessageThresholds {
        let from = |longer: Algorithm| match algorithm == longer {
            true => 0,
            false => usize::MAX,
        };
        let bruck = match algorithm {
            Algorithm::Bruck => usize::MAX,
            _ => 0,
        };
        MessageThresholds {
            bcast_scatter: from(Algorithm::ScatterRing),
            gather_linear: from(Algorithm::Linear),
            allgather_ring: from(Algorithm::Ring),
            alltoall_bruck: bruck,
            alltoall_bruck_ranks: 0,
            reduce_split: from(Algorithm::Halving),
            reduce_scatter_pairwise: from(Algorithm::Pairwise),
            ..MessageThresholds::DEFAULT
        }
    }

    /// Whether an all-to-all of blocks of `block` bytes among `ranks` ranks uses Bruck's algorithm.
    pub const fn bruck(&self, ranks: usize, block: usize) -> bool {
        block < self.alltoall_bruck && ranks >= self.alltoall_bruck_ranks
    }
}

impl MessageThresholds {
    /// The algorithm of messages of a call among `ranks` ranks with an operator that commutes.
    /// `bytes` are those of [`CollectiveCall::bytes`](super::CollectiveCall::bytes).
    pub const fn algorithm(&self, collective: Collective, ranks: usize, bytes: usize) -> Algorithm {
        let all = bytes.saturating_mul(ranks);
        match collective {
            Collective::Barrier => Algorithm::Dissemination,
            Collective::Bcast if bytes >= self.bcast_scatter && ranks > 2 => Algorithm::ScatterRing,
            Collective::Bcast => Algorithm::Binomial,
            Collective::Gather | Collective::Scatter => {
                if bytes >= self.gather_linear || ranks <= 2 {
                    Algorithm::Linear
                } else {
                    Algorithm::Binomial
                }
            }
            Collective::Allgather if all >= self.allgather_ring => Algorithm::Ring,
            Collective::Allgather => Algorithm::Bruck,
            Collective::Alltoall if self.bruck(ranks, bytes) => Algorithm::Bruck,
            Collective::Alltoall => Algorithm::Exchange,
            Collective::Reduce | Collective::Allreduce => {
                if bytes >= self.reduce_split && bytes >= ranks && ranks > 2 {
                    Algorithm::Halving
                } else if matches!(collective, Collective::Reduce) {
                    Algorithm::Binomial
                } else {
                    Algorithm::Doubling
                }
            }
            Collective::ReduceScatter if all >= self.reduce_scatter_pairwise => Algorithm::Pairwise,
            Collective::ReduceScatter => Algorithm::Halving,
            Collective::Scan => Algorithm::Doubling,
        }
    }
}

impl Default for MessageThresholds {
    fn default() -> MessageThresholds {
        MessageThresholds::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_an_algorithm_that_the_collective_has() {
        for collective in Collective::ALL {
            for ranks in [1, 2, 3, 8, 100_000] {
                for bytes in [0, 8, 1 << 10, 1 << 20, 1 << 30] {
                    let thresholds = MessageThresholds::NETWORK;
                    let algorithm = thresholds.algorithm(collective, ranks, bytes);
                    assert!(collective.algorithms().contains(&algorithm));
                }
            }
        }
    }

    #[test]
    fn selects_what_is_forced_wherever_it_differs() {
        for collective in Collective::ALL {
            for algorithm in collective.algorithms() {
                let by_messages = !matches!(algorithm, Algorithm::Shared | Algorithm::Direct);
                if by_messages {
                    let forced = MessageThresholds::of(*algorithm);
                    assert_eq!(forced.algorithm(collective, 8, 64), *algorithm);
                }
            }
        }
    }
}
