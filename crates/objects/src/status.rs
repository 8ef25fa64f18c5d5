//! The status of a message or an operation (MPI 5.0, 3.2.5).

use mica_protocol::SendEnd;

use crate::constants as c;
use crate::error::{Error, Result};

/// What is known of a message that was received, probed or cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Rank of the sender in the communicator.
    pub source: i32,
    /// Tag.
    pub tag: i32,
    /// Bytes that are in the buffer (or, after a probe, that the message has).
    pub bytes: u64,
    /// Whether the operation was cancelled.
    pub cancelled: Cancelled,
}

/// Whether an operation was cancelled, in 8 bytes, so that a status has no padding. The compiler
/// would copy padding in pieces that span separately written fields, and such a load waits until
/// the store buffer is empty (three of them cost 9 ns of a message's 75).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Cancelled {
    /// It completed.
    No,
    /// It was cancelled.
    Yes,
}

impl From<bool> for Cancelled {
    fn from(cancelled: bool) -> Cancelled {
        match cancelled {
            false => Cancelled::No,
            true => Cancelled::Yes,
        }
    }
}

impl Status {
    /// The empty status (MPI 5.0, 3.7.3).
    pub const EMPTY: Status =
        Status { source: c::ANY_SOURCE, tag: c::ANY_TAG, bytes: 0, cancelled: Cancelled::No };

    /// What a receive from `MPI_PROC_NULL` returns (MPI 5.0, 3.10).
    pub const PROC_NULL: Status = Status { source: c::PROC_NULL, ..Status::EMPTY };
}

/// The status of a send.
#[inline]
pub fn of_send(end: SendEnd) -> Status {
    match end {
        SendEnd::Sent => Status::EMPTY,
        SendEnd::Cancelled => Status { cancelled: Cancelled::Yes, ..Status::EMPTY },
    }
}

/// Refuses a message of no bytes from `rank` of the communicator where `due` bytes were due: the
/// rank has failed in the call. (Collectives leave out empty messages on both sides.)
pub fn check_sent(status: &Status, rank: usize, due: usize) -> Result<()> {
    if status.bytes == 0 && due > 0 { Err(sent_nothing(rank, due)) } else { Ok(()) }
}

/// The error of a call in which a rank of the communicator has sent none of `due` bytes.
#[cold]
pub fn sent_nothing(rank: usize, due: usize) -> Error {
    let detail = format!(
        "rank {rank} of the communicator could not take part in the call: it has sent none of \
         {due} bytes"
    );
    Error::other(c::ERR_OTHER, detail)
}
