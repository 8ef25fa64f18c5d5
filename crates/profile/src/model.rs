//! The types of a profile. All times are nanoseconds; all ranks are ranks in `MPI_COMM_WORLD`.
//!
//! Sites are named by their index in [`Profile::sites`]. Invariants, which the merger of the ranks'
//! records holds and readers may rely on: `ranks[i].rank == i`; every `site` is below
//! `sites.len()` and every rank below `ranks.len()`; lists are sorted by their key (rank, call,
//! site; rank, call, level, class; from, to; rank, start).
//!
//! The JSON form is the serde form of these types, but for the time line (`columns`). A reader
//! ignores fields that it does not know; [`Profile::format`] grows when a field changes its
//! meaning.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// The version of the form that this crate writes. Version 1 had the time line as rows.
pub const FORMAT: u32 = 2;

/// The versions that it reads.
pub const FORMATS: RangeInclusive<u32> = 1..=FORMAT;

/// Whether this version is read.
pub(crate) fn check_format(found: u32) -> Result<(), String> {
    let (first, last) = (FORMATS.start(), FORMATS.end());
    let error = || format!("its format is {found}; this reads {first} to {last}");
    FORMATS.contains(&found).then_some(()).ok_or_else(error)
}

/// The profile of one run of one program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Version of this form ([`FORMAT`]).
    pub format: u32,
    /// What ran.
    pub job: ProfiledJob,
    /// One for each rank, in order.
    pub ranks: Vec<RankProfile>,
    /// The call sites that [`CallRecord`], [`LateArrival`] and [`TimelineInterval`] name.
    pub sites: Vec<ProgramSite>,
    /// Calls by rank, name and site.
    pub calls: Vec<CallRecord>,
    /// The two-dimensional message distribution (chai-2009, 2.2.2): size class and level.
    pub sizes: Vec<SizeCount>,
    /// Communication matrix, pairs that talked only.
    pub matrix: Vec<RankPair>,
    /// Calls on files by rank, file, name and size class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRecord>,
    /// Collectives that waited for a rank.
    pub late: Vec<LateArrival>,
    /// Time that the library waited, by reason, where the library says (Mica does).
    pub waits: Option<Vec<Wait>>,
    /// What each rank did when.
    pub timeline: Timeline,
}

/// What ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfiledJob {
    /// The command line after `--`.
    pub command: Vec<String>,
    /// Where the command ran several jobs: which of them this is, and how many there were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<[u32; 2]>,
    /// The command line of the job's first rank.
    #[serde(default)]
    pub program: String,
    /// The host on which `mica profile` ran.
    pub host: String,
    /// What `MPI_Get_library_version` says, first line.
    pub library: String,
    /// Whether that library is Mica.
    pub is_mica: bool,
    /// Exit code of the command.
    pub exit_code: i32,
    /// Seconds since the epoch at the start.
    pub started_unix_s: u64,
    /// Time from the start of the command to its end.
    pub wall_ns: u64,
    /// Ranks that left no record: they never came back from `MPI_Init`.
    pub missing_ranks: Vec<u32>,
    /// What the reader should know of these figures (records dropped, clocks not comparable).
    pub notes: Vec<String>,
}

/// One rank.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RankProfile {
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Name of its host.
    pub host: String,
    /// Number of its node: ranks with equal numbers share memory.
    pub node: u32,
    /// Its process.
    pub pid: u32,
    /// Where it ran, if it was bound.
    pub place: Option<ProfiledPlace>,
    /// From the return of `MPI_Init` to the call of `MPI_Finalize` (or the end of the process).
    pub app_ns: u64,
    /// The part of it spent in MPI calls.
    pub mpi_ns: u64,
    /// Whether it called `MPI_Finalize`, or finalized its last session.
    pub finalized: bool,
    /// When it began, since [`Timeline::origin_ns`].
    #[serde(default)]
    pub start_ns: u64,
    /// How it ended, if not by `MPI_Finalize` and with status 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// Where a bound rank runs, as numbers of its node's topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProfiledPlace {
    /// Processing unit (the operating system's number), the first that it may use.
    pub cpu: u32,
    /// Core.
    pub core: u32,
    /// Group of cores that share the last-level cache.
    pub cache: u32,
    /// Package (socket).
    pub package: u32,
}

/// How near two ranks are: chai-2009's intra-CMP, inter-CMP and inter-node, with the level of the
/// shared cache apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairLevel {
    /// A rank and itself.
    Own,
    /// Cores that share a cache.
    SharedCache,
    /// Cores of one package.
    Package,
    /// Cores of one node, or a node where the ranks are not bound.
    Node,
    /// Different nodes.
    Network,
}

impl PairLevel {
    /// From near to far.
    pub const ALL: [PairLevel; 5] = [
        PairLevel::Own,
        PairLevel::SharedCache,
        PairLevel::Package,
        PairLevel::Node,
        PairLevel::Network,
    ];

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            PairLevel::Own => "own rank",
            PairLevel::SharedCache => "shared cache",
            PairLevel::Package => "package",
            PairLevel::Node => "node",
            PairLevel::Network => "network",
        }
    }
}

/// The language of a call site.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// A compiled language: C, C++, Fortran, Rust.
    #[default]
    Compiled,
    /// A line of Python.
    Python,
}

/// A place in the program that calls MPI.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProgramSite {
    /// Path of the program or shared object whose code makes the call.
    pub object: String,
    /// Address of the call in the object's file; 0 for Python.
    pub offset: u64,
    /// Function, demangled, if known.
    pub function: Option<String>,
    /// Source file, as the debug information or Python names it.
    pub file: Option<String>,
    /// Line in it.
    pub line: Option<u32>,
    /// Language.
    pub language: Language,
    /// The calls that led to this one, the function's own caller first, as far as they were asked
    /// for (`mica profile --stack`); sites that differ in them alone are different sites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<ProgramSite>,
}

/// The calls of one function by one rank at one site.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// Caller.
    pub rank: u32,
    /// The function's name, as called (`MPI_Send_c` apart from `MPI_Send`).
    pub call: String,
    /// Index in [`Profile::sites`].
    pub site: u32,
    /// Number of calls.
    pub count: u64,
    /// Sum of their times.
    pub time_ns: u64,
    /// Shortest call.
    pub min_ns: u64,
    /// Longest call.
    pub max_ns: u64,
    /// Calls by duration: entry `i` counts those of 2^i to 2^(i+1) - 1 ns (entry 0: also 0 ns).
    /// Trailing zeros are left out.
    pub durations: Vec<u64>,
    /// Number of those that sent data.
    pub sends: u64,
    /// Bytes sent: count times size of the datatype, as mpiP counts.
    pub bytes: u64,
    /// Size of the communicator in the last of these calls; 0 if the call has none.
    pub comm_size: u32,
}

/// Messages of one size class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SizeCount {
    /// Sender.
    pub rank: u32,
    /// The function's name.
    pub call: String,
    /// How near the receiver is; `None` for collectives, whose messages the library chooses.
    pub level: Option<PairLevel>,
    /// Size class: 0 for empty messages, `c` for 2^(c-1) to 2^c - 1 bytes.
    pub class: u8,
    /// Number of messages (of calls, for collectives).
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The calls of one function by one rank on one file, of one size class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Caller.
    pub rank: u32,
    /// Its name, as the program opened it.
    pub file: String,
    /// The function's name.
    pub call: String,
    /// Size class of what it reads or writes ([`SizeCount::class`]); 0 of other calls.
    pub class: u8,
    /// Number of calls.
    pub calls: u64,
    /// Bytes that they read or write: count times size of the datatype, also where a read meets the
    /// end of the file.
    pub bytes: u64,
    /// Sum of their times. A nonblocking access goes on after its call.
    pub time_ns: u64,
    /// Accesses that begin where the last one of this rank, by this handle, ended: by offset, or by
    /// the individual pointer without a seek. None by the shared pointer.
    pub following: u64,
}

/// What one rank sent to another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RankPair {
    /// Sender, or origin of a one-sided operation.
    pub from: u32,
    /// Receiver, or target.
    pub to: u32,
    /// Point-to-point messages and one-sided operations that move data.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Data of `from` that collectives brought to `to`, by themselves or combined with others'
    /// (reductions), whatever path the library chose: blocks.
    pub collective_messages: u64,
    /// Their bytes.
    pub collective_bytes: u64,
}

/// Collective calls that waited for one rank: the last to arrive, or the root.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LateArrival {
    /// The function's name.
    pub call: String,
    /// Where the late rank called it; index in [`Profile::sites`].
    pub site: u32,
    /// The rank that was late.
    pub rank: u32,
    /// How often it was waited for.
    pub times: u64,
    /// By how much in all: its arrival minus the arrival of the one before it.
    pub behind_ns: u64,
    /// What the others waited for it in all: the sum over those that were still
    /// in the call of the differences of arrival.
    pub wait_ns: u64,
}

/// Time that one rank's library waited, for one reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// Rank.
    pub rank: u32,
    /// Short name of the reason.
    pub reason: String,
    /// How long.
    pub ns: u64,
}

/// What each rank did when.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// Start of time: the earliest return of `MPI_Init`, by the clock of its node.
    pub origin_ns: u64,
    /// MPI calls.
    pub intervals: Vec<TimelineInterval>,
    /// Calls that have no interval of their own, since a rank keeps a bounded number: short ones,
    /// which are [joined](TimelineInterval::joined), or all if no time line is kept.
    pub dropped: u64,
}

/// One MPI call on the time line, or several that were not kept one by one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TimelineInterval {
    /// Caller.
    pub rank: u32,
    /// Thread of the rank, 0 for the first that called MPI.
    pub thread: u32,
    /// Since [`Timeline::origin_ns`].
    pub start_ns: u64,
    /// Since [`Timeline::origin_ns`].
    pub end_ns: u64,
    /// The function's name.
    pub call: String,
    /// Index in [`Profile::sites`].
    pub site: u32,
    /// Bytes sent.
    pub bytes: u64,
    /// Destination, source, root or target, if the call names one.
    pub peer: Option<u32>,
    /// What its messages match by, if it sends or receives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope: Option<MessageEnvelope>,
    /// If it stands for several calls or for a time that was not recorded. Then `call`, `site` and
    /// `peer` are those of the longest call, `bytes` is a sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<JoinedCalls>,
}

/// Calls that are one interval of the time line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedCalls {
    /// How many; 0 if nothing was recorded (`MPI_Pcontrol`).
    pub calls: u64,
    /// Time in them.
    pub busy_ns: u64,
}

/// What the messages of a call match by besides the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageEnvelope {
    /// The communicator: a number in this profile, the same for all its members.
    pub comm: u32,
    /// Tag of what it sends or receives, [`MessageEnvelope::ANY_TAG`] for any.
    pub tag: i32,
    /// Tag of what a call receives that sends as well (`MPI_Sendrecv`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_tag: Option<i32>,
}

impl MessageEnvelope {
    /// `MPI_ANY_TAG` of the standard ABI.
    pub const ANY_TAG: i32 = -2;
}

/// The size class of a message ([`SizeCount::class`]).
pub const fn size_class(bytes: u64) -> u8 {
    (u64::BITS - bytes.leading_zeros()) as u8
}

/// The smallest and the largest size of a class.
pub const fn class_bounds(class: u8) -> (u64, u64) {
    match class {
        0 => (0, 0),
        64.. => (1 << 63, u64::MAX),
        _ => (1 << (class - 1), (1 << class) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_cover_all_sizes_once() {
        for (bytes, class) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (24_576, 15), (u64::MAX, 64)]
        {
            assert_eq!(size_class(bytes), class, "{bytes}");
            let (low, high) = class_bounds(class);
            assert!((low..=high).contains(&bytes), "{bytes}");
        }
    }
}
