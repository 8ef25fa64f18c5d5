//! What keeps the launcher from running a job.

use std::io;

use mica_node::segment::SegmentError;

/// The launcher could not start the job.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A system call that the launcher needs failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The shared memory of the job could not be created.
    #[error("cannot create the job's shared memory: {0}")]
    Segment(#[from] SegmentError),
    /// A file for the ranks' output cannot be opened.
    #[error("{0}")]
    OutputFile(io::Error),
    /// A debugger or another tool cannot be used.
    #[error(transparent)]
    Tool(#[from] crate::options::values::tool::ToolError),
    /// A program is linked to another MPI library, which this launcher does not support.
    #[error(
        "{program} is linked to Open MPI ({library}), whose ranks need a PMIx launcher: under \
        Mica's mpiexec each of the {ranks} would take itself for rank 0 of 1; start it with Open \
        MPI's mpirun, or build it with Mica's mpicc (MICA_FOREIGN_MPI=start starts {ranks} jobs \
        of one all the same)"
    )]
    ForeignProgram {
        /// The program.
        program: String,
        /// The library that it needs.
        library: String,
        /// Ranks of the job.
        ranks: u32,
    },
    /// A program could not be started.
    #[error("cannot start {program:?} for rank {rank}: {source}{hint}")]
    Exec {
        /// The program.
        program: String,
        /// The rank.
        rank: u32,
        /// The system's error.
        source: io::Error,
        /// What may help.
        hint: String,
    },
}

impl LaunchError {
    /// The exit status, as a shell would choose it.
    pub fn status(&self) -> u8 {
        match self {
            LaunchError::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            LaunchError::Exec { .. } => 126,
            _ => crate::report::INTERNAL,
        }
    }
}

/// Turns the error of a system call into a [`LaunchError`] that names what was tried.
pub fn doing(what: &'static str) -> impl FnOnce(io::Error) -> LaunchError {
    move |source| LaunchError::System { what, source }
}
