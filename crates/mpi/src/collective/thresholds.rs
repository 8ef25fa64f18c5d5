//! Where one algorithm hands over to another.
//!
//! All values are compared with quantities that every rank of the communicator knows to be equal
//! (message sizes and the number of ranks), so that all ranks choose alike. They are first guesses
//! for ranks that share memory: a later issue replaces them by measured costs.

/// Sizes at which collectives change their algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Broadcast: from this many bytes on, scatter and allgather instead of a tree.
    pub bcast_scatter: usize,
    /// Gather and scatter: from this many bytes per rank on, the root exchanges with each rank
    /// directly.
    pub gather_linear: usize,
    /// Allgather: from this many bytes in all on, a ring.
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
    /// Reduce-scatter: from this many bytes in all on, pairwise exchange instead of recursive
    /// halving.
    pub reduce_scatter_pairwise: usize,
}

impl Thresholds {
    /// What collectives use.
    pub const DEFAULT: Thresholds = Thresholds {
        bcast_scatter: 64 << 10,
        gather_linear: 2 << 10,
        allgather_ring: 64 << 10,
        alltoall_bruck: 256,
        alltoall_bruck_ranks: 8,
        alltoall_window: 32,
        reduce_split: 16 << 10,
        reduce_scatter_pairwise: 256 << 10,
    };
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds::DEFAULT
    }
}
