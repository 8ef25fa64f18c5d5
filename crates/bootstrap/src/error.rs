//! What can go wrong before a process has joined its job.

use std::io;

use mica_node::adapter::AdapterError;
use mica_node::segment::SegmentError;
use mica_node::tunables::BadValue;

/// Why a process cannot join its job.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// It was started by a launcher that Mica does not speak.
    #[error(
        "this program runs on Mica but was started by {launcher} ({variable} is set), which \
        {why}; start it with Mica's mpiexec"
    )]
    ForeignLauncher {
        /// Whose launcher.
        launcher: &'static str,
        /// The environment variable that shows it.
        variable: &'static str,
        /// Why that does not do.
        why: &'static str,
    },
    /// The launcher's variables make no sense.
    #[error("{variable}={value}: {reason}")]
    BadEnvironment {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A tunable's value is wrong.
    #[error(transparent)]
    BadTunable(#[from] BadValue),
    /// The connection that the launcher promised is not there.
    #[error(
        "{variable}={value} names no connection to a launcher ({source}); was this program \
        started from inside an MPI program?"
    )]
    NoConnection {
        /// The variable that names it.
        variable: &'static str,
        /// Its value.
        value: String,
        /// The system's error.
        source: io::Error,
    },
    /// What the launcher gave this process did not reach it.
    #[error(
        "{lost}, as if this program was started through something that closes descriptors, and \
        mpiexec does not give it again: {answer}; let descriptors through (Python: subprocess \
        with close_fds=False), or start it as a job of its own: env -u MICA_SEGMENT_FD -u PMI_FD \
        -u PMI_RANK -u PMI_SIZE PROGRAM"
    )]
    NotInherited {
        /// What was lost.
        lost: String,
        /// What mpiexec, or the way to it, says.
        answer: String,
    },
    /// A system call failed.
    #[error("{call} failed: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// Its error.
        source: io::Error,
    },
    /// The process manager cannot be reached any more.
    #[error("the process manager ({manager}) went away at {call}: {source}")]
    Lost {
        /// Which interface: `PMI-1`, `PMI-2` or `PMIx`.
        manager: &'static str,
        /// The call, with its argument.
        call: String,
        /// The system's error.
        source: io::Error,
    },
    /// The process manager refused, or answered something that does not belong to the request.
    #[error("the process manager ({manager}) answered {call} with {answer}")]
    Refused {
        /// Which interface: `PMI-1`, `PMI-2` or `PMIx`.
        manager: &'static str,
        /// The call, with its argument.
        call: String,
        /// What it answered.
        answer: String,
    },
    /// A key or a value that cannot be given to a process manager.
    #[error("{key:?} = {value:?} cannot be published through a process manager")]
    NotStorable {
        /// The key.
        key: String,
        /// The value, or its beginning.
        value: String,
    },
    /// No PMIx library was found.
    #[error(
        "this process was started by a PMIx launcher, but no PMIx library can be loaded \
        ({tried}); install libpmix2 (Debian) or pmix, or name libpmix.so.2 in MICA_PMIX_LIBRARY"
    )]
    NoPmix {
        /// What was tried, with the loader's answers.
        tried: String,
    },
    /// What another rank of the job published cannot be used.
    #[error("rank {rank} of this job {what}")]
    BadRecord {
        /// The rank.
        rank: u32,
        /// What is wrong with it.
        what: String,
    },
    /// The ranks of a job that variables describe did not find each other.
    #[error("the ranks of this job (RANK, WORLD_SIZE) could not meet: {what}")]
    NotMet {
        /// What happened, and who did not come.
        what: String,
    },
    /// The job segment was not handed over to the processes of a node.
    #[error("the ranks of node {node} could not meet: {what}")]
    Handover {
        /// The node's name.
        node: String,
        /// What happened, and who did not come.
        what: String,
    },
    /// The variable of a simulated adapter names none.
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    /// The job segment cannot be had.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}
