//! What a rank tells of late arrivals at collectives when it ends (`MICA_LATE`): for each call
//! site, how often it waited there, for how long, and for whom. Whoever has the job segment reads
//! it ([`JobSegment::late_table`](crate::segment::JobSegment::late_table)): `mpiexec`, and
//! profilers.
//!
//! [`layout`] is the form of a [`LateRecord`] in the segment.

mod layout;

pub use layout::{HEADER_BYTES, MAGIC, SITE_BYTES};

/// Ranks whose lateness is told of a site, at most.
pub const LATEST: usize = 8;

/// Sites that a rank tells of, at most.
pub const SITES: usize = 64;

/// What a rank has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LateRecord {
    /// The sites where most was waited, that with the most waiting first.
    pub sites: Vec<Site>,
    /// Calls at sites that are not in the table.
    pub calls_left_out: u64,
}

/// One collective at one call site, on communicators of one size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Site {
    /// Where the call was made.
    pub place: CallSite,
    /// Name of the collective.
    pub collective: String,
    /// Size of the communicators.
    pub ranks: u32,
    /// What was counted.
    pub counts: SiteCounts,
}

/// Where a call was made: the same in all processes that run the same program, but for its address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallSite {
    /// The address that the call returns to, in that process.
    pub address: u64,
    /// File of the program or library that made the call; empty if it is not known.
    pub object: String,
    /// The call instruction in that file, as `addr2line -e OBJECT OFFSET` takes it.
    pub offset: u64,
    /// The function, if the file exports its name; else empty.
    pub symbol: String,
    /// The call instruction in that function.
    pub symbol_offset: u64,
}

/// What a rank counts at a site.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiteCounts {
    /// Calls.
    pub calls: u64,
    /// Calls in which a rank was seen to come after this one.
    pub waited: u64,
    /// From this rank's arrival to that of the last one, over those calls.
    pub wait_ns: u64,
    /// The longest of these times.
    pub longest_ns: u64,
    /// From the beginning of the calls to their end.
    pub inside_ns: u64,
    /// Who came last in those calls: the most frequent ones first, at most [`LATEST`]. Where there
    /// were more, the calls that nobody is listed for are those of the others.
    pub last: Vec<LastArrival>,
}

/// A rank that came last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LastArrival {
    /// Its number in the job.
    pub rank: u32,
    /// So often, at least.
    pub times: u64,
    /// So long it was waited for.
    pub wait_ns: u64,
}
