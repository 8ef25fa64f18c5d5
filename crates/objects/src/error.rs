//! What can go wrong in an MPI call, and the error class it maps to (MPI 5.0, 9.4).

use mica_channel::direct::PeerAccessError;
use mica_memory::OutOfMemory;
use mica_node::segment::SegmentError;
use mica_node::tunables::BadValue;
use mica_protocol::Fault;

use crate::constants as c;

/// Result of an MPI operation.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of an MPI call. `Display` names the argument, its value and why it is refused; the
/// call's name and the communicator are added where the error is raised
/// (`mica_mpi::raise`).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// An argument has a value that the standard does not allow here.
    #[error("{argument} = {value}: {reason}")]
    Argument {
        /// Error class, one of `MPI_ERR_*`.
        class: i32,
        /// The argument's name in the standard's binding.
        argument: &'static str,
        /// Its value, printed.
        value: String,
        /// Why it is refused.
        reason: String,
    },
    /// A message was longer than the buffer that received it.
    #[error(
        "message of {sent} bytes from rank {source_rank} with tag {tag} does not fit the \
        {capacity} bytes of the receive buffer"
    )]
    Truncated {
        /// Bytes the sender sent.
        sent: u64,
        /// Bytes the receive buffer holds.
        capacity: u64,
        /// Rank of the sender in the communicator.
        source_rank: i32,
        /// Tag of the message.
        tag: i32,
    },
    /// Memory could not be allocated.
    #[error("cannot allocate {bytes} bytes for {what}")]
    OutOfMemory {
        /// What was asked for.
        bytes: u64,
        /// What it was for.
        what: &'static str,
    },
    /// The call exists in the interface only; this version does not implement it.
    #[error("{what} is not implemented in this version of Mica")]
    Unsupported {
        /// Name of the call or feature.
        what: &'static str,
    },
    /// A user callback returned this code; it is passed on as it is.
    #[error("a callback returned error code {code}")]
    Callback {
        /// The callback's return value.
        code: i32,
    },
    /// One or more of several requests failed; their statuses hold the codes.
    #[error("at least one request failed; see the status array")]
    InStatus,
    /// A peer's memory could not be read or written after all; collectives fall back to another
    /// path.
    #[error("{detail}")]
    Unreachable {
        /// What happened.
        detail: String,
    },
    /// A failure of the machine or the job that no argument explains.
    #[error("{detail}")]
    Other {
        /// Error class, one of `MPI_ERR_*`.
        class: i32,
        /// What happened.
        detail: String,
    },
}

impl Error {
    /// An argument's value is not allowed. `class` is one of the `ERR_*` constants.
    #[cold]
    pub fn argument(
        class: i32,
        argument: &'static str,
        value: impl std::fmt::Display,
        reason: impl Into<String>,
    ) -> Error {
        Error::Argument { class, argument, value: value.to_string(), reason: reason.into() }
    }

    /// This error, for a call that has other names for its arguments: (usual name, name in the
    /// call).
    #[cold]
    pub fn renamed(mut self, names: &[(&str, &'static str)]) -> Error {
        if let Error::Argument { argument, .. } = &mut self
            && let Some(&(_, name)) = names.iter().find(|(usual, _)| usual == argument)
        {
            *argument = name;
        }
        self
    }

    /// A call or feature that this version lacks.
    #[cold]
    pub fn unsupported(what: &'static str) -> Error {
        Error::Unsupported { what }
    }

    /// There is no memory for the description of a datatype.
    #[cold]
    pub fn no_type_memory(failed: OutOfMemory) -> Error {
        Error::OutOfMemory { bytes: failed.bytes as u64, what: "the description of a datatype" }
    }

    /// An error of class `class` with a free description.
    #[cold]
    pub fn other(class: i32, detail: impl Into<String>) -> Error {
        Error::Other { class, detail: detail.into() }
    }

    /// The error class (or, for callbacks, the code to pass on) that this error maps to.
    pub fn code(&self) -> i32 {
        match self {
            Error::Argument { class, .. } | Error::Other { class, .. } => *class,
            Error::Truncated { .. } => c::ERR_TRUNCATE,
            Error::Unreachable { .. } => c::ERR_OTHER,
            Error::OutOfMemory { .. } => c::ERR_NO_MEM,
            Error::Unsupported { .. } => c::ERR_UNSUPPORTED_OPERATION,
            Error::Callback { code } => *code,
            Error::InStatus => c::ERR_IN_STATUS,
        }
    }
}

impl From<OutOfMemory> for Error {
    fn from(e: OutOfMemory) -> Error {
        Error::OutOfMemory { bytes: e.bytes as u64, what: "a temporary buffer" }
    }
}

/// Tunables are checked when the engine starts: it is one that the program has changed since.
impl From<BadValue> for Error {
    fn from(bad: BadValue) -> Error {
        Error::other(c::ERR_OTHER, bad.to_string())
    }
}

impl From<Fault> for Error {
    #[cold]
    fn from(fault: Fault) -> Error {
        match fault {
            Fault::OutOfMemory { bytes } => {
                Error::OutOfMemory { bytes: bytes as u64, what: "an unexpected message" }
            }
            Fault::ChannelMemory { .. } => Error::other(c::ERR_NO_MEM, fault.to_string()),
            Fault::Lost { .. } => Error::other(c::ERR_PROC_ABORTED, fault.to_string()),
            Fault::Channel { .. } | Fault::Launcher { .. } => {
                Error::other(c::ERR_OTHER, fault.to_string())
            }
        }
    }
}

impl From<SegmentError> for Error {
    #[cold]
    fn from(error: SegmentError) -> Error {
        Error::other(c::ERR_NO_MEM, error.to_string())
    }
}

impl From<PeerAccessError> for Error {
    fn from(error: PeerAccessError) -> Error {
        let detail = error.to_string();
        match error.errno() {
            // No other way to reach its memory helps if the rank is gone.
            Some(NO_SUCH_PROCESS) => Error::other(c::ERR_OTHER, detail),
            _ => Error::Unreachable { detail },
        }
    }
}

/// ESRCH.
const NO_SUCH_PROCESS: i32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lacks_memory_is_called_so() {
        let code = |fault: Fault| Error::from(fault).code();
        let detail = || "fi_cq_read failed on tcp".to_owned();
        assert_eq!(code(Fault::Channel { detail: detail() }), c::ERR_OTHER);
        assert_eq!(code(Fault::Launcher { detail: detail() }), c::ERR_OTHER);
        assert_eq!(code(Fault::Lost { rank: 1, detail: detail() }), c::ERR_PROC_ABORTED);
        assert_eq!(code(Fault::ChannelMemory { detail: detail() }), c::ERR_NO_MEM);
        assert_eq!(code(Fault::OutOfMemory { bytes: 8 }), c::ERR_NO_MEM);
    }
}
