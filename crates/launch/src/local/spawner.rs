//! The rank that has spawned the job, as seen by the job's launcher
//! ([`mica_bootstrap::spawned`] has the protocol and the other side).
//!
//! ```text
//! Starting --started--> Coming --(the rank closes the connection)--> Come
//!     \--------fail--------/
//!               \-> Failed, by `conclude`, when no process is left
//! ```
//!
//! What goes wrong before all processes have come is the rank's to raise as an error of
//! `MPI_Comm_spawn`, and so the launcher prints nothing of it.

use mica_bootstrap::spawned::{SpawnAnswer, SpawningRank};

/// How far the start of a spawned job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpawnStage {
    /// Processes are being started.
    Starting,
    /// All are started; the rank waits for them in MPI.
    Coming,
    /// The rank has closed the connection: the processes have come, or it was lost.
    Come,
}

/// Why a job could not be spawned.
#[derive(Debug)]
pub struct SpawnFailure {
    /// Number of the program on the command line that is to blame, if one is.
    pub section: Option<u32>,
    /// Why, in words.
    pub why: String,
}

/// The connection to the rank, and what is to be said over it.
#[derive(Debug)]
pub struct Spawner {
    rank: SpawningRank,
    stage: SpawnStage,
    failure: Option<SpawnFailure>,
}

impl Spawner {
    /// A rank that has connected.
    pub fn new(rank: SpawningRank) -> Spawner {
        Spawner { rank, stage: SpawnStage::Starting, failure: None }
    }

    /// All processes are started. Reported once.
    pub fn started(&mut self, first: u32, count: u32) {
        if self.stage == SpawnStage::Starting {
            self.rank.answer(&SpawnAnswer::Started { first, count });
            self.stage = SpawnStage::Coming;
        }
    }

    /// Whether the rank waits for the processes to come.
    pub fn waits(&mut self) -> bool {
        if self.stage != SpawnStage::Come && !self.rank.is_waiting() {
            self.stage = SpawnStage::Come;
        }
        self.stage != SpawnStage::Come
    }

    /// The start has failed. The first reason counts.
    pub fn fail(&mut self, failure: SpawnFailure) {
        self.failure.get_or_insert(failure);
    }

    /// No process of the job is left. If the rank still waits for some, it hears why they do not
    /// come.
    pub fn conclude(mut self) {
        if self.waits() {
            let failure = self.failure.take().unwrap_or_else(|| SpawnFailure {
                section: None,
                why: "the processes have ended before all of them had called MPI_Init".to_owned(),
            });
            let SpawnFailure { section, why } = failure;
            self.rank.answer(&SpawnAnswer::Failed { section, why });
        }
    }
}
