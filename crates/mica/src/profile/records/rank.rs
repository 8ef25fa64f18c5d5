//! What is read of one rank.

use mica_profile::JoinedCalls;
use mica_profile::rank_tables::FileTotals;
pub use mica_profile::rank_tables::WaitingRule as CollectiveWaiting;

use super::facts::RankFacts;

/// The records of one rank.
#[derive(Debug, Default, PartialEq)]
pub struct RankRecords {
    pub facts: RankFacts,
    pub app_ns: u64,
    pub mpi_ns: u64,
    pub finalized: bool,
    /// How it ended, if not by `MPI_Finalize` and with status 0.
    pub ended: Option<String>,
    /// The calls that its threads were in.
    pub unfinished: Vec<UnfinishedCall>,
    pub calls: Vec<SiteCalls>,
    pub messages: Vec<RecordedMessage>,
    pub blocks: Vec<RecordedBlock>,
    pub files: Vec<RecordedFileCalls>,
    pub arrivals: Vec<RecordedArrival>,
    pub spans: Vec<RecordedSpan>,
    /// Calls that are not on the time line by themselves.
    pub dropped_spans: u64,
    pub dropped_arrivals: u64,
}

/// A call that a rank was in when it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct UnfinishedCall {
    pub name: String,
    pub site: u64,
    pub ns: u64,
}

/// Calls of one function at one site.
#[derive(Debug, Default, PartialEq)]
pub struct SiteCalls {
    pub name: String,
    pub site: u64,
    pub count: u64,
    pub time_ns: u64,
    pub min_ns: u64,
    pub max_ns: u64,
    pub sends: u64,
    pub bytes: u64,
    pub comm_size: u32,
    pub durations: Vec<u64>,
}

/// Messages to one rank, of one class.
#[derive(Debug, PartialEq)]
pub struct RecordedMessage {
    pub name: String,
    /// `None` for collectives.
    pub peer: Option<u32>,
    pub class: u8,
    pub messages: u64,
    pub bytes: u64,
}

/// Blocks of collectives for one rank.
#[derive(Debug, PartialEq)]
pub struct RecordedBlock {
    pub peer: u32,
    pub messages: u64,
    pub bytes: u64,
}

/// Calls on one file, of one class.
#[derive(Debug, PartialEq)]
pub struct RecordedFileCalls {
    /// As the program opened it.
    pub file: String,
    pub name: String,
    pub class: u8,
    pub totals: FileTotals,
}

/// The arrival at a collective.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedArrival {
    pub comm: u64,
    pub size: u32,
    pub sequence: u64,
    pub name: String,
    pub site: u64,
    /// When the rank came.
    pub ns: u64,
    /// When the call returned.
    pub left_ns: u64,
    pub root: Option<u32>,
    pub kind: CollectiveWaiting,
}

/// One call on the time line, or several.
#[derive(Debug, Default, PartialEq)]
pub struct RecordedSpan {
    pub thread: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    pub name: String,
    pub site: u64,
    pub bytes: u64,
    pub peer: Option<u32>,
    pub envelope: Option<RecordedEnvelope>,
    pub joined: Option<JoinedCalls>,
}

/// What the messages of a call match by; the communicator by its key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedEnvelope {
    pub comm: u64,
    pub tag: i32,
    pub receive_tag: Option<i32>,
}
