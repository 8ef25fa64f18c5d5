//! Why progress fails.

use mica_channel::ChannelError;
use mica_channel::transport::NetError;
use mica_memory::OutOfMemory;
use mica_node::segment::SegmentError;

/// Progress failed: memory cannot be allocated, a channel failed, or a peer or the launcher is
/// lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A channel failed, but not for lack of memory.
    #[error("{detail}")]
    Channel {
        /// What happened.
        detail: String,
    },
    /// The job segment, or a network's buffers, cannot grow.
    #[error("{detail}")]
    ChannelMemory {
        /// What happened, with the number of bytes requested.
        detail: String,
    },
    /// A peer cannot be reached any more.
    #[error("lost rank {rank}: {detail}")]
    Lost {
        /// The peer.
        rank: u32,
        /// Details of the loss.
        detail: String,
    },
    /// The job's launcher does not answer.
    #[error("{detail}")]
    Launcher {
        /// What happened.
        detail: String,
    },
    /// No memory for an unexpected message.
    #[error("cannot allocate {bytes} bytes to keep an unexpected message")]
    OutOfMemory {
        /// Length of the message.
        bytes: usize,
    },
}

impl From<ChannelError> for Fault {
    fn from(e: ChannelError) -> Fault {
        match e {
            ChannelError::Net(NetError::Lost(lost)) => {
                Fault::Lost { rank: lost.peer, detail: lost.detail }
            }
            ChannelError::Segment(error) => error.into(),
            ChannelError::Net(NetError::Memory(error)) => {
                Fault::ChannelMemory { detail: error.to_string() }
            }
            ChannelError::Net(error) => Fault::Channel { detail: error.to_string() },
            ChannelError::Direct(error) => Fault::Channel { detail: error.to_string() },
        }
    }
}

impl From<SegmentError> for Fault {
    fn from(e: SegmentError) -> Fault {
        Fault::ChannelMemory { detail: e.to_string() }
    }
}

impl From<OutOfMemory> for Fault {
    fn from(e: OutOfMemory) -> Fault {
        Fault::OutOfMemory { bytes: e.bytes }
    }
}
