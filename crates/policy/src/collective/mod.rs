//! Algorithm selection for a collective among the ranks of one node: a pure function, as for
//! messages.
//!
//! - this module: the types, from [`Collective`] and [`Algorithm`] to the [`CollectiveCall`] for
//!   which an algorithm is selected;
//! - [`costs`]: the costs of synchronising, copying and reducing, in addition to those of messages;
//! - [`formulas`]: the estimate of each algorithm from these costs;
//! - [`choose`](mod@choose): the algorithm with the least estimate, or the one that a tunable
//!   forces, with the reasons; and [`Choices`], the same for the hot path;
//! - [`thresholds`]: sizes that choose between nodes.
//!
//! All ranks of a communicator must get the same answer, each by itself. So a [`CollectiveCall`]
//! contains only values that all of them know to be equal. `docs/design/collectives.md` has the
//! algorithms and their formulas.

pub mod choices;
pub mod choose;
pub mod costs;
pub mod formulas;
pub mod thresholds;

pub use choices::Choices;
pub use choose::{
    AlgorithmDecision, AlgorithmEstimate, AlgorithmExclusion, ForcedAlgorithms, ForcedRefusal,
    ForcedValue, choose, pick, pick_once_reachable,
};
pub use costs::{CollectiveCosts, LevelCosts};
pub use thresholds::MessageThresholds;

use mica_node::topology::Level;

/// A collective operation; its v-, w- and non-blocking forms have the same name, and exclusive
/// scans are scans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Collective {
    /// `MPI_Barrier`.
    Barrier = 0,
    /// `MPI_Bcast`.
    Bcast,
    /// `MPI_Gather`.
    Gather,
    /// `MPI_Scatter`.
    Scatter,
    /// `MPI_Allgather`.
    Allgather,
    /// `MPI_Alltoall`.
    Alltoall,
    /// `MPI_Reduce`.
    Reduce,
    /// `MPI_Allreduce`.
    Allreduce,
    /// `MPI_Reduce_scatter`.
    ReduceScatter,
    /// `MPI_Scan`, `MPI_Exscan`.
    Scan,
}

/// Number of [`Collective`]s.
pub const COLLECTIVES: usize = 10;

impl Collective {
    /// Every collective.
    pub const ALL: [Collective; COLLECTIVES] = [
        Collective::Barrier,
        Collective::Bcast,
        Collective::Gather,
        Collective::Scatter,
        Collective::Allgather,
        Collective::Alltoall,
        Collective::Reduce,
        Collective::Allreduce,
        Collective::ReduceScatter,
        Collective::Scan,
    ];

    /// Its name in `MICA_COLL`, on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Collective::Barrier => "barrier",
            Collective::Bcast => "bcast",
            Collective::Gather => "gather",
            Collective::Scatter => "scatter",
            Collective::Allgather => "allgather",
            Collective::Alltoall => "alltoall",
            Collective::Reduce => "reduce",
            Collective::Allreduce => "allreduce",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::Scan => "scan",
        }
    }

    /// The collective of this name.
    pub fn parse(name: &str) -> Option<Collective> {
        Collective::ALL.into_iter().find(|c| c.name() == name)
    }

    /// Its algorithms, in the order in which ties are decided: algorithms of messages, which need
    /// nothing else, first.
    pub const fn algorithms(self) -> &'static [Algorithm] {
        use Algorithm::{
            Binomial, Bruck, Direct, Dissemination, Doubling, Exchange, Halving, Linear, Pairwise,
            Ring, ScatterRing, Shared,
        };
        match self {
            Collective::Barrier => &[Dissemination, Shared],
            Collective::Bcast => &[Binomial, ScatterRing, Shared, Direct],
            Collective::Gather | Collective::Scatter => &[Binomial, Linear, Shared, Direct],
            Collective::Allgather => &[Bruck, Ring, Shared, Direct],
            Collective::Alltoall => &[Bruck, Exchange, Shared, Direct],
            Collective::Reduce => &[Binomial, Halving, Shared, Direct],
            Collective::Allreduce => &[Doubling, Halving, Shared, Direct],
            Collective::ReduceScatter => &[Halving, Pairwise, Shared, Direct],
            Collective::Scan => &[Doubling, Shared, Direct],
        }
    }

    /// True if it combines operands.
    pub const fn reduces(self) -> bool {
        matches!(
            self,
            Collective::Reduce
                | Collective::Allreduce
                | Collective::ReduceScatter
                | Collective::Scan
        )
    }

    /// What [`CollectiveCall::bytes`] counts.
    pub const fn unit(self) -> &'static str {
        match self {
            Collective::Barrier => "no data",
            Collective::Bcast | Collective::Reduce | Collective::Allreduce | Collective::Scan => {
                "the vector"
            }
            Collective::Alltoall => "the block of each pair",
            Collective::Gather
            | Collective::Scatter
            | Collective::Allgather
            | Collective::ReduceScatter => "the block of each rank",
        }
    }
}

/// An algorithm of one or more collectives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Algorithm {
    /// Messages, barrier: in round k to the rank at distance 2^k.
    Dissemination = 0,
    /// Messages, rooted: a binomial tree.
    Binomial,
    /// Messages, bcast: scatter by a tree, then allgather around a ring.
    ScatterRing,
    /// Messages, gather and scatter: the root exchanges a message with each rank.
    Linear,
    /// Messages, allgather and alltoall: Bruck's algorithm, doubling the distance (allgather with a
    /// power of two of ranks: recursive doubling).
    Bruck,
    /// Messages, allgather: around a ring.
    Ring,
    /// Messages, alltoall: each rank with each other.
    Exchange,
    /// Messages, allreduce and scan: recursive doubling.
    Doubling,
    /// Messages, reduce, allreduce and reduce_scatter: recursive halving, and its reverse.
    Halving,
    /// Messages, reduce_scatter: each rank with each other.
    Pairwise,
    /// Through the communicator's shared area.
    Shared,
    /// Each rank accesses the others' memory.
    Direct,
}

/// Number of [`Algorithm`]s.
pub const ALGORITHMS: usize = 12;

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Algorithm; ALGORITHMS] = [
        Algorithm::Dissemination,
        Algorithm::Binomial,
        Algorithm::ScatterRing,
        Algorithm::Linear,
        Algorithm::Bruck,
        Algorithm::Ring,
        Algorithm::Exchange,
        Algorithm::Doubling,
        Algorithm::Halving,
        Algorithm::Pairwise,
        Algorithm::Shared,
        Algorithm::Direct,
    ];

    /// Its name in tunables and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Dissemination => "dissemination",
            Algorithm::Binomial => "binomial",
            Algorithm::ScatterRing => "scatter-ring",
            Algorithm::Linear => "linear",
            Algorithm::Bruck => "bruck",
            Algorithm::Ring => "ring",
            Algorithm::Exchange => "exchange",
            Algorithm::Doubling => "doubling",
            Algorithm::Halving => "halving",
            Algorithm::Pairwise => "pairwise",
            Algorithm::Shared => "shared",
            Algorithm::Direct => "direct",
        }
    }

    /// The algorithm of this name.
    pub fn parse(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|a| a.name() == name)
    }

    /// How it moves bytes.
    pub const fn family(self) -> AlgorithmFamily {
        match self {
            Algorithm::Shared => AlgorithmFamily::Shared,
            Algorithm::Direct => AlgorithmFamily::Direct,
            _ => AlgorithmFamily::Messages,
        }
    }
}

/// How an algorithm moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlgorithmFamily {
    /// Messages from rank to rank.
    Messages,
    /// The communicator's shared area: copied in, copied out.
    Shared,
    /// The ranks' own buffers, which they announce to one another.
    Direct,
}

impl AlgorithmFamily {
    /// Every family.
    pub const ALL: [AlgorithmFamily; 3] =
        [AlgorithmFamily::Messages, AlgorithmFamily::Shared, AlgorithmFamily::Direct];

    /// Its name in `MICA_COLL` and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            AlgorithmFamily::Messages => "messages",
            AlgorithmFamily::Shared => "shared",
            AlgorithmFamily::Direct => "direct",
        }
    }

    /// The family of this name.
    pub fn parse(name: &str) -> Option<AlgorithmFamily> {
        AlgorithmFamily::ALL.into_iter().find(|f| f.name() == name)
    }
}

/// How the ranks can access one another's buffers of this call: that of the least accessible
/// buffer. It is known once all ranks have announced their buffers, and then all ranks know the
/// same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Reachability {
    /// Not known yet: treated as [`Reachability::Windows`], because buffers become windows only if
    /// they are announced repeatedly.
    Unknown = 0,
    /// All by load and store.
    Windows,
    /// Some only by the kernel (CMA).
    Cma,
    /// Some only by the kernel, and after a rank has packed what does not lie in one piece.
    Packed,
    /// Some not at all.
    None,
}

impl Reachability {
    /// Every reachability.
    pub const ALL: [Reachability; 5] = [
        Reachability::Unknown,
        Reachability::Windows,
        Reachability::Cma,
        Reachability::Packed,
        Reachability::None,
    ];

    /// Its name on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Reachability::Unknown => "unknown",
            Reachability::Windows => "windows",
            Reachability::Cma => "cma",
            Reachability::Packed => "packed",
            Reachability::None => "none",
        }
    }

    /// The reachability of this name.
    pub fn parse(name: &str) -> Option<Reachability> {
        Reachability::ALL.into_iter().find(|r| r.name() == name)
    }
}

/// Properties of a communicator's ranks on one node that are constant for its lifetime, and known
/// to all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupSetting {
    /// Ranks of this communicator on the node.
    pub ranks: usize,
    /// The distance of the two ranks that are furthest apart.
    pub level: Level,
    /// Ranks that can run concurrently: at most the cores available to the job, and at most
    /// `ranks`.
    pub cores: usize,
    /// Bytes of a member's cell in the shared area; `None`: there is no area.
    pub area_cell: Option<usize>,
}

/// In which order the operator of a reduction takes its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperandOrder {
    /// That of the ranks: it does not commute.
    ByRank,
    /// Any: it commutes, or the collective does not reduce.
    Any,
}

/// A collective call, with values that all of its ranks know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CollectiveCall {
    /// The operation.
    pub collective: Collective,
    /// Bytes: of the vector (bcast, reduce, allreduce, scan), of each pair's block (alltoall), of
    /// each rank's block (gather, scatter, allgather, reduce_scatter).
    pub bytes: usize,
    /// In which order the operator takes its operands.
    pub order: OperandOrder,
    /// How the buffers can be accessed.
    pub reach: Reachability,
    /// The ranks that take part, and their placement.
    pub setting: GroupSetting,
}

#[cfg(test)]
mod tests;
