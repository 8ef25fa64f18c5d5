//! How ranks end, and what counts as a failure.

use std::fmt;

use mica_node::process::Exit;
use serde::{Deserialize, Serialize};

use crate::signals::describe_signal;

/// Why a rank counts as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// It called MPI_Abort.
    Aborted { code: i32 },
    /// A signal killed it.
    Killed {
        number: i32,
        /// Whether there is a core file.
        core_dumped: bool,
    },
    /// It exited with a status that is not zero.
    Exited { code: i32 },
    /// It exited with status zero between MPI_Init and MPI_Finalize, or with a session open. That
    /// is a failure only if others cannot go on without it ([`crate::local::departed`]).
    NotFinalized,
    /// It exited with status zero and without MPI_Init, and another rank waits for it there.
    NotInitialized {
        /// The rank that waits.
        waiting: u32,
    },
}

/// The stage of MPI that a rank has reached, as the job segment shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankStage {
    /// It never called MPI_Init or opened a session.
    NotInitialized,
    /// It is between MPI_Init and MPI_Finalize, or has a session open.
    Running,
    /// It called MPI_Finalize, and has no session open.
    Finalized,
    /// It called MPI_Abort.
    Aborted { code: i32 },
}

impl Cause {
    /// The cause of failure of a rank that ended this way; `None` if it did not fail.
    pub fn of(exit: Exit, stage: RankStage) -> Option<Cause> {
        match (stage, exit) {
            (RankStage::Aborted { code }, _) => Some(Cause::Aborted { code }),
            (_, Exit::Signal { number, core_dumped }) => {
                Some(Cause::Killed { number, core_dumped })
            }
            (RankStage::Running, Exit::Code(0)) => Some(Cause::NotFinalized),
            (_, Exit::Code(0)) => None,
            (_, Exit::Code(code)) => Some(Cause::Exited { code }),
        }
    }

    /// The exit status of the job.
    pub fn status(self) -> u8 {
        match self {
            Cause::Aborted { code } | Cause::Exited { code } => code.clamp(1, 255) as u8,
            Cause::Killed { number, .. } => signal_status(number),
            Cause::NotFinalized | Cause::NotInitialized { .. } => 1,
        }
    }

    /// Of several ranks found dead at once, the one with the lowest order is reported as the cause:
    /// a signal comes from outside; an abort is deliberate, or the error of a rank whose peer was
    /// killed; an exit may follow from another rank's death.
    pub fn order(self) -> u8 {
        match self {
            Cause::Killed { .. } => 0,
            Cause::Aborted { .. } => 1,
            Cause::Exited { .. } => 2,
            Cause::NotFinalized => 3,
            Cause::NotInitialized { .. } => 4,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Cause::Aborted { code } => write!(f, "called MPI_Abort with code {code}"),
            Cause::Killed { number, core_dumped } => {
                let core = if core_dumped { ", core dumped" } else { "" };
                write!(f, "was killed by signal {number} ({}{core})", describe_signal(number))
            }
            Cause::Exited { code } => {
                write!(f, "exited with code {code}")?;
                match code - 128 {
                    number @ 1..=64 => {
                        let name = describe_signal(number);
                        write!(f, " (a shell's way to say: signal {number}, {name})")
                    }
                    _ => Ok(()),
                }
            }
            Cause::NotInitialized { waiting } => write!(
                f,
                "exited with code 0 without calling MPI_Init, while rank {waiting} waits for it"
            ),
            Cause::NotFinalized => {
                write!(f, "exited with code 0 without calling MPI_Finalize, or with a session open")
            }
        }
    }
}

/// A rank that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RankEnd {
    pub rank: u32,
    pub pid: u32,
    /// Why it counts as failed, if it does.
    pub cause: Option<Cause>,
    /// It exited with 0 and never called MPI_Init: no failure, unless other ranks call it.
    pub without_init: bool,
}

/// A node's part of a hang report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// For each rank that runs: what it waits for, in lines that end with a newline.
    pub lines: Vec<(u32, String)>,
    /// For each rank that has ended: how.
    pub ended: Vec<(u32, String)>,
    /// For each rank that waits and says so: the ranks that must all act before it goes on.
    pub needs: Vec<(u32, Vec<u32>)>,
}

/// The exit status that represents a signal.
pub fn signal_status(number: i32) -> u8 {
    (128 + number).clamp(129, 255) as u8
}
