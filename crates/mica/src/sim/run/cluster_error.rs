//! Why a simulation ends before all of its programs have.

use std::error::Error;
use std::{fmt, io};

use mica_sim::port::DetailedRegion;
use mica_sim::time::SimTime;

use super::summary::status;

/// Why a simulation ended early.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A node's process cannot be started.
    #[error("node {node}: cannot start its process: {error}")]
    Start {
        /// The node.
        node: u32,
        /// Why.
        error: io::Error,
    },
    /// A node's process has ended without a report.
    #[error("node {node}: its process ended at {:.3} us of simulated time: {how}", .at.ns() / 1e3)]
    Lost {
        /// The node.
        node: u32,
        /// When, at the latest.
        at: SimTime,
        /// How.
        how: String,
        /// Its exit code, or 128 + the signal; none if that is not known.
        code: Option<i32>,
    },
    /// A node's program has ended, and others wait for ever.
    #[error("the program of node {node} ended with status {code} at {:.3} us of simulated time \
        (MPI_Abort, or an exit before MPI_Finalize); nodes {waiting} wait, and no message is under \
        way", .at.ns() / 1e3)]
    Ended {
        /// The first node that ended with the highest status.
        node: u32,
        /// Its exit code, or 128 + the signal.
        code: i32,
        /// When it ended.
        at: SimTime,
        /// The nodes that wait.
        waiting: String,
    },
    /// All nodes wait.
    #[error("deadlock at {:.3} us of simulated time: nodes {nodes} wait, and no message is under \
        way", .at.ns() / 1e3)]
    Deadlock {
        /// When.
        at: SimTime,
        /// The nodes that wait.
        nodes: String,
    },
}

impl ClusterError {
    /// The status of the command that failed with `error`: that of the program whose end ended the
    /// simulation, if one did.
    pub fn exit_code_of(error: &(dyn Error + 'static)) -> u8 {
        match error.downcast_ref() {
            Some(ClusterError::Lost { code: Some(code), .. }) => status(*code).max(1),
            Some(ClusterError::Ended { code, .. }) => status(*code).max(1),
            _ => error.downcast_ref().map_or(1, |never: &RegionNeverEntered| never.code.max(1)),
        }
    }
}

/// The region of interest was not entered by any node, so that nothing was simulated in detail.
#[derive(Debug)]
pub struct RegionNeverEntered {
    /// The region.
    pub region: DetailedRegion,
    /// The highest status of the nodes' programs.
    pub code: u8,
}

impl fmt::Display for RegionNeverEntered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the region was never entered: ")?;
        match &self.region {
            // A region of all is entered at the start.
            DetailedRegion::Everything => return f.write_str("the program did not start"),
            DetailedRegion::Pcontrol => f.write_str("the program did not call MPI_Pcontrol(1)")?,
            DetailedRegion::Functions { begin, .. } => write!(f, "no call of {begin} was seen")?,
            DetailedRegion::Calls { function, first, .. } => {
                write!(f, "fewer than {first} calls of {function} were seen")?;
            }
        }
        match (&self.region, self.code) {
            (_, 1..) => write!(f, "; it ended with status {}", self.code),
            (DetailedRegion::Pcontrol, _) => Ok(()),
            _ => f.write_str(" (functions that are inlined, or without a symbol, are not found)"),
        }
    }
}

impl Error for RegionNeverEntered {}
