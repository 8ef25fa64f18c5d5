//! The record of late arrivals at collectives that a rank leaves when it ends (`MICA_LATE`): for
//! each call site, how often it waited there, for how long, and for which ranks. Processes that
//! have the job segment read it
//! ([`JobSegment::late_table`](crate::segment::JobSegment::late_table)): `mpiexec`, and profilers.
//!
//! [`layout`] is the format of a [`LateRecord`] in the segment.

mod layout;

pub use layout::{HEADER_BYTES, MAGIC, SITE_BYTES};

/// Maximum of ranks recorded as last arrivals of a site.
pub const LATEST: usize = 8;

/// Maximum of sites that a rank records.
pub const SITES: usize = 64;

/// The late arrivals that a rank has recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LateRecord {
    /// The sites with the longest total wait, longest first.
    pub sites: Vec<LateSite>,
    /// Calls at sites that are not in the record.
    pub calls_left_out: u64,
}

/// One collective at one call site, on communicators of one size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LateSite {
    /// Where the call was made.
    pub place: CallSite,
    /// Name of the collective.
    pub collective: String,
    /// Size of the communicators.
    pub ranks: u32,
    /// The counts.
    pub counts: SiteCounts,
}

/// Where a call was made. Identical in all processes that run the same program, except for the
/// address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallSite {
    /// The address that the call returns to, in that process.
    pub address: u64,
    /// File of the program or library that made the call; empty if it is not known.
    pub object: String,
    /// Offset of the call instruction in that file, as `addr2line -e OBJECT OFFSET` takes it.
    pub offset: u64,
    /// The function, if the file exports its name; otherwise empty.
    pub symbol: String,
    /// Offset of the call instruction in that function.
    pub symbol_offset: u64,
}

/// The counts of a rank at a site.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiteCounts {
    /// Number of calls.
    pub calls: u64,
    /// Calls in which another rank was seen to arrive after this one.
    pub waited: u64,
    /// Nanoseconds from this rank's arrival to that of the last rank, summed over those calls.
    pub wait_ns: u64,
    /// The longest of these times.
    pub longest_ns: u64,
    /// Nanoseconds from the beginning of the calls to their end.
    pub inside_ns: u64,
    /// The ranks that came last in those calls: the most frequent first, at most [`LATEST`]. If
    /// there were more, the calls that are not listed are theirs.
    pub last: Vec<LastArrival>,
}

/// A rank that came last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LastArrival {
    /// Rank in the job.
    pub rank: u32,
    /// How often it came last, at least.
    pub times: u64,
    /// Nanoseconds that this rank waited for it.
    pub wait_ns: u64,
}
