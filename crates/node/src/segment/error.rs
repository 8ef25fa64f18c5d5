//! What can go wrong with a job segment.

use std::io;

/// What could not be done with a job segment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The sizes asked for are beyond the format or the address space.
    #[error(
        "a job segment for {ranks} ranks with {cells} cells of {cell_bytes} bytes cannot be laid out"
    )]
    Geometry {
        /// Ranks on the node.
        ranks: u32,
        /// Cells a rank.
        cells: u32,
        /// Bytes a cell.
        cell_bytes: u32,
    },
    /// The FIFOs asked for are beyond the format or the address space.
    #[error(
        "FIFOs of {fifo_bytes} bytes for {ranks} ranks cannot be laid out: a FIFO has 4096 bytes to 1 GiB, a multiple of 64, and all together less than 64 TiB"
    )]
    Fifos {
        /// Ranks on the node.
        ranks: u32,
        /// Bytes a FIFO.
        fifo_bytes: u32,
    },
    /// A system call on the segment failed.
    #[error("{call} of {bytes} bytes for the job segment failed: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// The size it was for.
        bytes: usize,
        /// Its error.
        source: io::Error,
    },
    /// This process may not make a file of the segment's size.
    #[error(
        "the job segment is an anonymous file of {bytes} bytes, but the size of files is limited to {limit} bytes (RLIMIT_FSIZE); raise the limit with ulimit -f"
    )]
    FileSizeLimit {
        /// Bytes of the file.
        bytes: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The descriptor is not open.
    #[error("descriptor {fd}, in which the launcher gave this process the job segment, is closed")]
    ClosedDescriptor {
        /// Number of the descriptor.
        fd: i32,
    },
    /// The descriptor does not hold a job segment of this version.
    #[error(
        "descriptor {fd} does not hold a job segment of this version of Mica (was it closed and opened for something else, or are mpiexec and this program's library of different versions?)"
    )]
    NotASegment {
        /// Number of the descriptor.
        fd: i32,
    },
    /// The rank does not exist in the job, or not on this node.
    #[error("rank {rank} is none of the {ranks} ranks on this node, of {job_size} in the job")]
    NoSuchRank {
        /// The rank asked for.
        rank: u32,
        /// Ranks on the node.
        ranks: u32,
        /// Size of the job.
        job_size: u32,
    },
    /// The list of the ranks on the node makes no sense.
    #[error(
        "{members} ranks are named for {places} places on this node, in a job of {job_size} ranks; they must be as many, in rising order, and ranks of the job"
    )]
    Members {
        /// Ranks named.
        members: usize,
        /// Places given.
        places: usize,
        /// Size of the job.
        job_size: u32,
    },
    /// Another process is that rank already.
    #[error(
        "rank {rank} of this job is, or was, process {pid}: a program that a rank starts cannot be the same rank again; start it as a job of its own, with mpiexec or without these variables: env -u MICA_SEGMENT_FD -u PMI_FD -u PMI_RANK -u PMI_SIZE PROGRAM"
    )]
    RankTaken {
        /// The rank asked for.
        rank: u32,
        /// Who has it.
        pid: u32,
    },
}
