//! Matching, protocols and progress: how a message is matched with its receive, and by which path
//! its bytes are transferred (docs/design/house.md, section 4).
//!
//! - [`matching`]: posted receives and unexpected messages, O(1) in their number, in MPI's order;
//! - [`select`]: the choice of the path, by `mica_policy`'s functions and the state of each peer;
//! - adapters that match by themselves get messages as they are, instead of all that follows here;
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

mod adapter;
mod channels;
mod engine;
mod matching;
mod pt2pt;
mod rendezvous;
mod rma;
mod schedule;
mod segments;
#[cfg(test)]
mod tests;
mod wait;

pub use adapter::operations::Injection;
#[doc(hidden)]
pub use channels::packet;
pub use channels::packet::HelpRequest;
pub use engine::Engine;
pub use engine::events::{EngineEvent, EngineEventKind, EventSink, want_events};
pub use engine::fault::Fault;
pub use engine::start::StartError;
pub use engine::state::{EngineState, Reaction};
pub use matching::{MatchEnvelope, MatchPattern, UnexpectedCounts};
pub use mica_node::counters::{CounterRef, WindowCounterRef};
pub use mica_node::lock::{OneThreadAtATime, ThreadLock, ThreadMode};
pub use mica_node::segment::WaitKind;
pub use pt2pt::operation::{
    MessageId, ProbedMessage, ReceiveCompletion, RecvId, SendEnd, SendId, StartedReceive,
};
pub use pt2pt::select::SendCompletion;
pub use rma::help::SharedTransfer;
pub use rma::help_state::TransferHelper;
pub use rma::{RmaDirection, RmaId, RmaTransfer};
pub use schedule::{
    Prepare, ScheduleFailure, ScheduleId, ScheduleStage, ScheduleStep, StageTask, StageWork,
    TaskError,
};
pub use segments::RemoveError;
pub use wait::MIN_POLLS_BEFORE_PARKING;
pub use wait::pending::{
    Describe, FindCall, IdleScene, Pending, QueuedMessage, QueuedMessages, WaitList,
};
pub use wait::poll::Poll;
