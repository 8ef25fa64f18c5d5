//! Collective communication (MPI 5.0, chapter 6).
//!
//! [`calls`] checks arguments and makes the [`CollectivePlan`] of this rank's part. [`execute`]
//! carries it out: at once (blocking), by the engine (non-blocking), or repeatedly (persistent).
//! Ranks of one node work in memory that they share ([`intranode`]) or by messages; `mica_policy`
//! chooses the algorithm by cost (`docs/design/collectives.md`).
//!
//! A message-based algorithm is described in `mica_algorithms`, without memory. Here, a pure
//! function from a rank's [`RankPlace`], [`MessageThresholds`] and buffers chooses one and binds it
//! (`bind`): the result is the [`schedule::Schedule`] of that rank. It knows no communicator and
//! sends nothing, so tests run all ranks of it in one process, and one schedule serves the
//! blocking, non-blocking and persistent call.
//!
//! | collective | short | long | v- and w-forms |
//! |---|---|---|---|
//! | barrier | dissemination | | |
//! | bcast | binomial tree | scatter and ring allgather | |
//! | gather, scatter | binomial tree | linear (root with each rank) | linear |
//! | allgather | recursive doubling, Bruck | ring | ring |
//! | alltoall | Bruck (many ranks) | direct exchange with a window of peers | direct exchange |
//! | reduce | binomial tree | halving and gather (Rabenseifner) | |
//! | allreduce | recursive doubling | halving and allgather (Rabenseifner) | |
//! | reduce-scatter | recursive halving | pairwise exchange | the same |
//! | scan, exscan | recursive doubling | | |
//! | neighbourhood | all neighbours at once | the same | the same |
//!
//! Where a communicator spans nodes, [`two_level`] composes algorithms from these and from those of
//! [`intranode`]. [`inter`] has those for intercommunicators.
//!
//! The message-based algorithms are those that Thakur, Rabenseifner and Gropp compare
//! ("Optimization of Collective Communication Operations in MPICH", 2005).
//!
//! Three rules hold throughout. Two ranks list the messages between them in the same order, so one
//! tag serves a whole schedule. Empty messages are left out on both sides. Reductions keep rank
//! order unless the operator commutes, and allreduce gives all ranks the same bits in any case.
//!
//! Safe Rust only: memory is named by [`mica_memory`]'s regions and views.
#![forbid(unsafe_code)]

mod absent;
mod arguments;
mod bind;
pub mod calls;
pub mod exchange;
pub mod execute;
pub mod flat;
pub mod inter;
pub mod intranode;
mod label;
pub mod late;
mod layout;
pub mod members;
pub mod neighbor;
mod overlap;
mod place;
mod reduction;
mod refused;
pub mod schedule;
mod thresholds;
pub mod two_level;

pub use arguments::{BlockList, BufferArgument, ReductionArguments};
pub use calls::{
    allgather, allgatherv, allreduce, alltoall, alltoallv, barrier, bcast, exscan, gather, gatherv,
    reduce, reduce_scatter, reduce_scatter_block, scan, scatter, scatterv,
};
pub use intranode::CollectivePlan;
pub use intranode::protocol::account::control as control_account;
pub use label::{CallForm, CallLabel, Function};
pub use layout::RanksByNode;
pub use place::{Blocks, Elements, RankPlace};
pub use reduction::{Reduction, ScanKind};
pub use thresholds::{Force, MessageThresholds, NodeTreatment, TwoLevel};
