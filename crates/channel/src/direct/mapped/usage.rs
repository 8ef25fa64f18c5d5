//! What this rank has migrated, or why it cannot.

use super::eligibility::SkipReason;
use mica_node::segment::Limit;

/// Why no buffer of this process can be migrated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The job segment has no room for buffers.
    #[error(
        "the job segment has no slots: a limit on file size (RLIMIT_FSIZE, ulimit -f) was in \
        force when the job started, or it has too many ranks"
    )]
    NoSlots,
    /// PROCMAP_QUERY is missing.
    #[error(
        "PROCMAP_QUERY on /proc/self/maps (Linux 6.11): {}",
        std::io::Error::from_raw_os_error(*.errno)
    )]
    NoQuery {
        /// The error number.
        errno: i32,
    },
    /// The allocator may not be glibc's.
    #[error("{}", SkipReason::Allocator)]
    Allocator,
    /// Fork handlers cannot be set up.
    #[error("pthread_atfork: {}", std::io::Error::from_raw_os_error(*.errno))]
    NoForkHandler {
        /// The error number.
        errno: i32,
    },
}

impl Unavailable {
    /// The reason in the form that is announced to the other ranks.
    pub(in crate::direct) fn limit(&self) -> Limit {
        match *self {
            Unavailable::NoSlots => Limit::NoSlots,
            Unavailable::NoQuery { errno } => Limit::NoQuery { errno: errno.unsigned_abs() },
            Unavailable::Allocator => Limit::Allocator,
            Unavailable::NoForkHandler { errno } => {
                Limit::NoForkHandler { errno: errno.unsigned_abs() }
            }
        }
    }
}

/// What has been migrated, and what has not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of memory that lie in slots.
    pub bytes: usize,
    /// Slots in use.
    pub slots: usize,
    /// Migrations so far.
    pub moves: u64,
    /// How often buffers in reuse were left where they are, by reason.
    pub kept: Vec<(SkipReason, u64)>,
}
