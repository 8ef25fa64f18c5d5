//! Matching, protocols and progress: how a message is matched with its receive, and by which path
//! its bytes are transferred (docs/design/house.md, section 4).
//!
//! | room | what it has |
//! |---|---|
//! | [`engine`] | [`Engine`], the one object of a process; its state, start, progress, events |
//! | [`pt2pt`] | sends, receives, probes, cancels; the choice of a message's path |
//! | [`matching`] | posted receives and unexpected messages, O(1) in their number, in MPI's order |
//! | [`rendezvous`] | long messages: copied by a side, by both, by an engine, over a network |
//! | [`channels`] | the channels combined, and the packets of all protocols |
//! | [`wait`] | how threads poll, yield and park; hang reports |
//! | [`schedule`] | operations of several stages |
//! | [`rma`] | puts and gets over the network, and what windows need on a node |
//! | [`adapter`] | adapters that match by themselves: they get messages as they are |
//! | [`worlds`] | processes that come and go |
//!
//! Each room owns a part of [`EngineState`] and writes no other ([`engine::state`]).
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
#[cfg(test)]
mod tests;
mod wait;
mod worlds;

pub use adapter::operations::Injection;
#[doc(hidden)]
pub use channels::packet;
pub use channels::packet::TargetCopyRequest;
pub use engine::Engine;
pub use engine::events::{EngineEvent, EngineEventKind, EventSink, enable_events};
pub use engine::fault::Fault;
pub use engine::start::StartError;
pub use engine::state::{EngineState, Reaction};
pub use matching::{MatchEnvelope, MatchPattern, UnexpectedCounts};
pub use mica_bootstrap::spawned::{SpawnAnswer, SpawnedLauncher, launcher_beside};
pub use mica_node::counters::{CounterRef, WindowCounterRef};
pub use mica_node::lock::{OneThreadAtATime, ThreadLock, ThreadMode};
pub use mica_node::segment::{ServiceError, WaitKind};
pub use pt2pt::operation::{
    MessageId, ProbedMessage, ReceiveCompletion, RecvId, SendEnd, SendId, StartedReceive,
};
pub use pt2pt::select::SendCompletion;
pub use rma::target_copies::TargetCopier;
pub use rma::target_copy::SharedTransfer;
pub use rma::{RmaDirection, RmaId, RmaTransfer};
pub use schedule::{
    Prepare, ScheduleFailure, ScheduleId, ScheduleStage, ScheduleStep, StageTask, StageWork,
    TaskError,
};
pub use wait::MIN_POLLS_BEFORE_PARKING;
pub use wait::pending::{
    Describe, FindCall, IdleWait, Pending, QueuedMessage, QueuedMessages, WaitList,
};
pub use wait::poll::Poll;
