//! Matching, protocols and progress: how a message is matched with its receive, and by which path
//! its bytes are transferred (DESIGN.md, section 4).
//!
//! - [`matching`]: posted receives and unexpected messages, O(1) in their number, in MPI's order;
//! - [`select`]: the choice of the path, by `mica_policy`'s functions and the state of each peer;
//! - [`Engine`]: the one object of a process that owns the channels, sends, receives, makes
//!   progress and waits.
//!
//! | message | path |
//! |---|---|
//! | up to 40 B | `Inline`: header and bytes in one cache line of the receiver's ring |
//! | up to `MICA_RING_MAX` | `Ring`: bytes in the ring's arena |
//! | up to `MICA_EAGER_MAX` | `Cells`: packetized through the sender's cells |
//! | longer | `Rendezvous`: RTS; receiver, sender or both copy directly, or through cells |
#![forbid(unsafe_code)]

mod channels;
mod engine;
mod hang;
mod hold;
pub mod matching;
mod offloading;
#[doc(hidden)]
pub mod packet;
mod poll;
mod progress;
mod progress_thread;
mod reaction;
mod receive;
mod remote;
mod rendezvous;
mod schedule;
pub mod select;
mod send;
mod skew;
mod start;
mod state;
#[cfg(test)]
mod tests;
mod traffic;
mod wait;

use mica_channel::ChannelError;
use mica_channel::transport::NetError;

pub use engine::Engine;
pub use hang::{Describe, IdleScene, Pending, WaitList};
pub use matching::{MatchEnvelope, MatchPattern};
pub use mica_node::lock::{OneThreadAtATime, ThreadLock, ThreadMode};
pub use mica_node::segment::WaitKind;
pub use poll::Poll;
pub use reaction::Reaction;
pub use receive::{MessageId, ProbedMessage, ReceiveCompletion, RecvId, StartedReceive};
pub use schedule::{
    Prepare, ScheduleFailure, ScheduleId, ScheduleStage, ScheduleStep, StageTask, StageWork,
    TaskError,
};
pub use send::SendId;
pub use start::StartError;
pub use state::EngineState;
pub use traffic::CollectiveTraffic;
pub use wait::MIN_POLLS_BEFORE_PARKING;

/// Progress failed: memory cannot be allocated, or a peer or the launcher is lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A channel failed.
    #[error("{detail}")]
    Channel {
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
            ChannelError::Net(NetError::Lost(lost)) => Fault::Lost {
                rank: lost.peer,
                detail: lost.detail,
            },
            e => Fault::Channel {
                detail: e.to_string(),
            },
        }
    }
}

impl From<mica_channel::memory::OutOfMemory> for Fault {
    fn from(e: mica_channel::memory::OutOfMemory) -> Fault {
        Fault::OutOfMemory { bytes: e.bytes }
    }
}
