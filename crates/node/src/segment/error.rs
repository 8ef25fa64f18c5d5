//! Errors of the job segment.

use std::io;

/// An operation on the job segment failed.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The requested sizes exceed the format or the address space.
    #[error(
        "a job segment for {ranks} ranks with {cells} cells of {cell_bytes} bytes cannot be laid \
        out"
    )]
    Geometry {
        /// Ranks on the node.
        ranks: u32,
        /// Cells of each rank.
        cells: u32,
        /// Bytes of a cell.
        cell_bytes: u32,
    },
    /// The requested FIFOs exceed the format or the address space.
    #[error(
        "FIFOs of {fifo_bytes} bytes for {ranks} ranks cannot be laid out: a FIFO has 4096 bytes \
        to 1 GiB, a multiple of 64, and all together less than 64 TiB"
    )]
    Fifos {
        /// Ranks on the node.
        ranks: u32,
        /// Bytes of a FIFO.
        fifo_bytes: u32,
    },
    /// A system call on the segment failed.
    #[error("{call} of {bytes} bytes for the job segment failed: {source}")]
    System {
        /// The system call.
        call: &'static str,
        /// The size in bytes that it was called for.
        bytes: usize,
        /// Its error.
        source: io::Error,
    },
    /// This process may not make a file of the segment's size.
    #[error(
        "the job segment is an anonymous file of {bytes} bytes, but the size of files is limited \
        to {limit} bytes (RLIMIT_FSIZE); raise the limit with ulimit -f"
    )]
    FileSizeLimit {
        /// Bytes of the file.
        bytes: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// There are not enough numbers for more processes.
    #[error(
        "the job has room for {spare} more processes than it started with, {taken} of them are \
        there, and {wanted} are wanted; start it with MICA_SPARE_RANKS=N"
    )]
    NoRoom {
        /// Processes wanted.
        wanted: u32,
        /// Room beside the processes of the start.
        spare: u32,
        /// Of which are taken.
        taken: u32,
    },
    /// There is no such part of the file for a window.
    #[error(
        "the job segment has no file space for {bytes} bytes of a window (the size of files was \
        limited when the job started, RLIMIT_FSIZE, or they are too many)"
    )]
    NoFileSpace {
        /// Bytes wanted.
        bytes: usize,
    },
    /// There is no memory for a part of the file.
    #[error("{bytes} bytes are wanted, and {available} bytes of memory are available")]
    NoMemory {
        /// Bytes wanted.
        bytes: usize,
        /// Bytes of memory that the system or a cgroup has left.
        available: u64,
    },
    /// The descriptor is not open.
    #[error("descriptor {fd}, in which the launcher gave this process the job segment, is closed")]
    ClosedDescriptor {
        /// Number of the descriptor.
        fd: i32,
    },
    /// The descriptor does not hold a job segment of this version.
    #[error(
        "descriptor {fd} does not hold a job segment of this version of Mica (was it closed and \
        opened for something else, or are mpiexec and this program's library of different \
        versions?)"
    )]
    NotASegment {
        /// Number of the descriptor.
        fd: i32,
    },
    /// The rank does not exist in the job, or not on this node.
    #[error("rank {rank} is none of the {ranks} ranks on this node, of {job_size} in the job")]
    NoSuchRank {
        /// The requested rank.
        rank: u32,
        /// Ranks on the node.
        ranks: u32,
        /// Size of the job.
        job_size: u32,
    },
    /// The list of the ranks on the node is invalid.
    #[error(
        "{members} ranks are named for {places} places on this node, in a job of {job_size} \
        ranks; they must be as many, in rising order, and ranks of the job"
    )]
    Members {
        /// Number of ranks listed.
        members: usize,
        /// Number of places given.
        places: usize,
        /// Size of the job.
        job_size: u32,
    },
    /// Another process has that rank already.
    #[error(
        "rank {rank} of this job is, or was, process {pid}: a program that a rank starts cannot \
        be the same rank again; start it as a job of its own, with mpiexec or without these \
        variables: env -u MICA_SEGMENT_FD -u PMI_FD -u PMI_RANK -u PMI_SIZE PROGRAM"
    )]
    RankTaken {
        /// The requested rank.
        rank: u32,
        /// The process that has it.
        pid: u32,
    },
}
