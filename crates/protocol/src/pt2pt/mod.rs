//! Point-to-point messages within what an engine does by packets: sends, receives, probes and
//! cancels, and the choice of a message's path.
//!
//! | file | what it has |
//! |---|---|
//! | `select` | the choice of the path; thresholds by peer |
//! | `operation`, `operation_table` | a send, a receive; their tables and keys |
//! | `sends`, `send` | what this rank's sends own; their protocol |
//! | `receives`, `queues`, `receive` | what this rank's receives own; their queues and protocol |
//! | `cancel`, `watched` | `MPI_Cancel` of sends; completions of one among many |
//! | `holds`, `skew`, `flow_control` | what a receiver asks of senders that are ahead of it |
//!
//! Long messages leave this room with their RTS for [`rendezvous`](crate::rendezvous).

pub(crate) mod cancel;
pub(crate) mod flow_control;
pub(crate) mod holds;
pub(crate) mod operation;
pub(crate) mod operation_table;
pub(crate) mod queues;
pub(crate) mod receive;
pub(crate) mod receives;
pub(crate) mod select;
pub(crate) mod send;
pub(crate) mod sends;
pub(crate) mod skew;
pub(crate) mod watched;

pub(crate) use holds::Holds;
pub(crate) use operation::{
    Copying, FastReceive, MessageId, Overlong, ProbedMessage, ReceiveCompletion, ReceiveStage,
    RecvId, RecvOp, RtsState, SendEnd, SendId, SendOp, SendPhase, StartedReceive,
};
pub(crate) use operation_table::{OperationKey, OperationTable};
pub(crate) use queues::{MatchQueues, UnexpectedMessage};
pub(crate) use receive::PacketOutcome;
pub(crate) use receives::{Inbound, InboundTarget, Receives};
pub(crate) use select::{BufferFacts, PeerKind, Selection, SendCompletion, SendPlan};
pub(crate) use sends::Sends;
pub(crate) use skew::SkewMonitors;
