//! What keeps the launcher from running a job.

use std::io;

use mica_node::segment::SegmentError;

use crate::options::values::tool::ToolError;
use crate::report::{INTERNAL, USAGE};

/// The launcher could not start the job.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A system call that the launcher needs failed.
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
    /// The shared memory of the job could not be created.
    #[error("cannot create the job's shared memory: {0}")]
    Segment(#[from] SegmentError),
    /// There is no such interface.
    #[error("--interface {0}: no network interface of this name or address is up (there are: {1})")]
    Interface(String, String),
    /// A file for the ranks' output cannot be opened.
    #[error("{0}")]
    OutputFile(io::Error),
    /// A debugger or another tool cannot be used.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// A program is linked to another MPI library, which this launcher does not support.
    #[error(
        "{program} is linked to Open MPI ({library}), whose ranks need a PMIx launcher: under \
        Mica's mpiexec each of the {ranks} would take itself for rank 0 of 1; start it with Open \
        MPI's mpirun, or build it with Mica's mpicc (MICA_FOREIGN_MPI=start starts {ranks} jobs \
        of one all the same)"
    )]
    ForeignProgram { program: String, library: String, ranks: u32 },
    /// A program could not be started.
    #[error("cannot start {program:?} for rank {rank}: {source}{hint}")]
    Exec { program: String, rank: u32, source: io::Error, hint: String },
}

impl LaunchError {
    /// The exit status, as a shell would choose it.
    pub fn status(&self) -> u8 {
        match self {
            LaunchError::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            LaunchError::Exec { .. } => 126,
            LaunchError::Interface(..) => USAGE,
            _ => INTERNAL,
        }
    }
}

/// Turns the error of a system call into a [`LaunchError`] that names what was tried.
pub fn doing(what: &'static str) -> impl FnOnce(io::Error) -> LaunchError {
    move |source| LaunchError::System { what, source }
}
