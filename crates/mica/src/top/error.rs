//! Why `mica top` has nothing to show.

use std::io;

use mica_node::attach::AttachError;

/// Why `mica top` shows nothing.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// The list of sockets cannot be read.
    #[error("cannot read /proc/net/unix: {0}")]
    Sockets(io::Error),
    /// There is no job.
    #[error(
        "no job of this user with a rank in Mica runs on this node ({others} of other users under \
         Mica's mpiexec)"
    )]
    NoJob {
        /// Jobs of other users.
        others: usize,
    },
    /// There are several.
    #[error("several jobs run on this node; name one of them by its PID:\n{0}")]
    Several(String),
    /// The process named is no mpiexec of a job.
    #[error(
        "process {0} has no ranks in Mica on this node, or its job has ended; \
         `mica top --list` lists the jobs"
    )]
    NotAJob(u32),
    /// The job is another user's.
    #[error("job {pid} belongs to user {uid}: only that user and root can watch it")]
    NotYours {
        /// The process named.
        pid: u32,
        /// Its user.
        uid: u32,
    },
    /// mpiexec does not let this process attach.
    #[error("cannot attach to job {pid}: {source}")]
    Attach {
        /// The process.
        pid: u32,
        /// What it answered.
        source: AttachError,
    },
    /// The terminal cannot be used.
    #[error("the terminal: {0}")]
    Terminal(io::Error),
}
