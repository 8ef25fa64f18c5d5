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

mod adapter_matching;
mod adapter_operations;
mod add_segment;
mod added_segments;
mod cancel;
mod channels;
mod cooperative;
mod end_duties;
mod engine;
mod events;
mod fault;
mod flow_control;
mod hang;
mod help;
mod help_state;
pub mod matching;
mod network_record;
mod offloading;
mod operation;
mod operation_table;
#[doc(hidden)]
pub mod packet;
mod pending;
mod poll;
mod polling;
mod progress;
mod progress_thread;
mod progress_wakeup;
mod receive;
mod remote;
mod rendezvous;
mod rma;
mod rma_transfers;
mod run_schedule;
mod schedule;
pub mod select;
mod send;
mod skew;
mod start;
mod state;
#[cfg(test)]
mod tests;
mod wait;
mod wait_account;
mod wait_policy;
mod watched;
mod windows;

pub use adapter_operations::Injection;
pub use add_segment::RemoveError;
pub use engine::Engine;
pub use events::{EngineEvent, EngineEventKind, EventSink, want_events};
pub use fault::Fault;
pub use help::SharedTransfer;
pub use help_state::TransferHelper;
pub use matching::{MatchEnvelope, MatchPattern, UnexpectedCounts};
pub use mica_node::counters::{CounterRef, WindowCounterRef};
pub use mica_node::lock::{OneThreadAtATime, ThreadLock, ThreadMode};
pub use mica_node::segment::WaitKind;
pub use operation::{
    MessageId, ProbedMessage, ReceiveCompletion, RecvId, SendEnd, SendId, StartedReceive,
};
pub use packet::HelpRequest;
pub use pending::{
    Describe, FindCall, IdleScene, Pending, QueuedMessage, QueuedMessages, WaitList,
};
pub use poll::Poll;
pub use rma_transfers::{RmaDirection, RmaId, RmaTransfer};
pub use schedule::{
    Prepare, ScheduleFailure, ScheduleId, ScheduleStage, ScheduleStep, StageTask, StageWork,
    TaskError,
};
pub use select::SendCompletion;
pub use start::StartError;
pub use state::{EngineState, Reaction};
pub use wait::MIN_POLLS_BEFORE_PARKING;
