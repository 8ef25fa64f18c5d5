//! Algorithm selection for a collective among the ranks of one node: a pure function, as for
//! messages.
//!
//! - this module: the [`CollectiveCall`] for which an algorithm is selected; `mica_algorithms` has
//!   the algorithms;
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

pub use mica_algorithms::{ALGORITHMS, Algorithm, AlgorithmFamily, COLLECTIVES, Collective};

use mica_node::topology::Level;

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
