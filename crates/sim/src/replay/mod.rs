//! Prediction of 10^3 to 10^5 ranks from the recorded calls of a small run (docs/sim-replay.md has
//! the model and its assumptions).
//!
//! - [`recorded`]: the calls of a profile's time line as operations of each rank, with [`matching`]
//!   for which receive takes which message;
//! - [`pattern`](mod@pattern): what all ranks do alike: a sequence of steps, with neighbours as
//!   offsets on a grid of processes ([`grid`]);
//! - [`extrapolate`]: the same steps on more ranks;
//! - [`engine`]: carries out the operations of all ranks in the LogGP model, with
//!   [`algorithm`] for the messages of collectives and [`cluster`] for the parameters.

pub mod algorithm;
pub mod cluster;
pub mod engine;
pub mod extrapolate;
pub mod grid;
pub mod matching;
pub mod pattern;
pub mod recorded;
#[cfg(test)]
mod tests;

pub use cluster::{HopLatency, ReplayCluster};
pub use engine::{
    GroupCollective, MessageStream, Prediction, RankGroup, ReplayError, ReplayOperation, Workload,
    replay,
};
pub use extrapolate::{AsRecorded, ExtrapolateError, Extrapolated, Scaling};
pub use grid::{Grid, balanced};
pub use pattern::{ExchangePattern, PatternError, pattern};
pub use recorded::{Recorded, RecordedError};
