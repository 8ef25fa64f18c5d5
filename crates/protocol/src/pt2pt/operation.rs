//! The sends and receives of a rank while they are in progress: what is known of each, and how far
//! it is. [`send`](crate::pt2pt::send) and [`receive`](crate::pt2pt::receive) have the transitions.

use crate::engine::CompletionActions;
use crate::matching::{MatchEnvelope, MatchPattern};
use crate::pt2pt::{OperationKey, SendCompletion, SendPlan};
use mica_channel::direct::{Exposed, MappedWindow, RemoteRun};
use mica_channel::offload::Cookie;
use mica_channel::transport::ReadableRegion;
use mica_memory::View;
use mica_node::counters::TrafficClass;

/// A send that has begun. Once its completion was taken it names nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SendId(pub(crate) OperationKey);

#[derive(Debug)]
pub(crate) struct SendOp {
    pub peer: u32,
    pub context: u64,
    pub tag: i32,
    pub view: View,
    pub phase: SendPhase,
    /// What the receiver needs to get the message from this rank.
    pub rts_state: RtsState,
    pub actions: CompletionActions,
}

impl SendOp {
    /// A send of `view` that has announced nothing to its receiver yet.
    pub fn new(peer: u32, (context, tag): (u64, i32), view: &View, phase: SendPhase) -> SendOp {
        SendOp {
            peer,
            context,
            tag,
            view: view.clone(),
            phase,
            rts_state: RtsState::default(),
            actions: CompletionActions::default(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendPhase {
    /// In the outbox; is sent by this plan when it is first in order.
    Queued { plan: SendPlan, completion: SendCompletion },
    /// In the outbox; `position` bytes have left through cells or in chunks. `target`: see
    /// `MORE_CELLS`.
    Streaming { position: usize, target: u64 },
    /// Waits for FIN or CTS.
    AwaitingReply,
    /// As `AwaitingReply`, or for CANCELLED: the receiver was asked to drop the message.
    Cancelling,
    /// Complete.
    Ended(SendEnd),
}

impl SendPhase {
    pub fn end(self) -> Option<SendEnd> {
        match self {
            SendPhase::Ended(end) => Some(end),
            _ => None,
        }
    }
}

/// How a send has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendEnd {
    /// The message has left the buffer, and was matched if the send waits for that.
    Sent,
    /// It was cancelled; nothing was sent.
    Cancelled,
}

/// What a sender keeps for the receiver of a long message.
#[derive(Debug, Default)]
pub(crate) struct RtsState {
    /// The message's memory, if it is contiguous.
    pub exposed: Option<Exposed>,
    /// `exposed` is cached, and is confirmed when the RTS has left.
    pub unverified: bool,
    /// The message's pieces if it is not contiguous, for the receiver to read while it pulls.
    pub pieces: Vec<RemoteRun>,
    pub copy_index: Option<u8>,
    /// This side failed to copy pieces that it had taken: the receiver will ask for cells.
    pub push_failed: bool,
    /// It is counted as a long message in progress.
    pub long: bool,
    /// The message's memory, as registered with the network.
    pub registered: Option<ReadableRegion>,
}

impl RtsState {
    /// The state of a message whose memory is open to the receiver, if any is.
    pub fn of(exposed: Option<Exposed>) -> RtsState {
        RtsState { exposed, ..RtsState::default() }
    }

    /// The state of a message whose memory is open as it was last: to be confirmed when the RTS has
    /// left.
    pub fn of_recalled(exposed: Exposed) -> RtsState {
        RtsState { unverified: true, ..RtsState::of(Some(exposed)) }
    }
}

/// A receive that has begun. Once its completion was taken it names nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecvId(pub(crate) OperationKey);

impl RecvId {
    #[inline(always)]
    pub(crate) fn index(self) -> u32 {
        self.0.index()
    }
}

/// A message that a matched probe has taken (MPI 5.0, 3.8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageId(pub(crate) u32);

/// A message that a probe has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbedMessage {
    /// Who sent it, with what tag.
    pub envelope: MatchEnvelope,
    /// Its length in bytes.
    pub bytes: usize,
}

/// The outcome of the start of a receive.
#[derive(Debug, Clone, Copy)]
pub enum StartedReceive {
    /// Complete: its message had arrived, and fits the buffer.
    Received(ReceiveCompletion),
    /// It is in progress.
    Posted(RecvId),
}

/// The result of a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveCompletion {
    /// Who sent the message, with what tag.
    pub envelope: MatchEnvelope,
    /// Length of the message in bytes; a shorter buffer holds only its beginning.
    pub sent: usize,
    /// Length of the buffer in bytes.
    pub capacity: usize,
    /// It was cancelled; nothing was received.
    pub cancelled: bool,
}

#[derive(Debug)]
pub(crate) struct RecvOp {
    pub pattern: MatchPattern,
    pub view: View,
    pub stage: ReceiveStage,
    /// The exposed buffer, as long as the sender may copy to it.
    pub exposed: Option<Exposed>,
    /// The copy engine's job, as long as it is in progress.
    pub copying: Option<Box<Copying>>,
    pub actions: CompletionActions,
}

impl RecvOp {
    /// A receive that is neither matched nor posted yet.
    pub fn new(pattern: MatchPattern, view: &View) -> RecvOp {
        RecvOp {
            pattern,
            view: view.clone(),
            stage: ReceiveStage::Posted { ticket: 0 },
            exposed: None,
            copying: None,
            actions: CompletionActions::default(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ReceiveStage {
    Posted {
        ticket: u32,
    },
    /// An adapter that matches has it, as its operation of this index.
    AtAdapter {
        operation: u32,
    },
    /// Matched with this message, of which `position` bytes are here.
    Incoming {
        envelope: MatchEnvelope,
        total: usize,
        position: usize,
    },
    /// Matched with this message, which both sides copy; this side has done its part.
    Cooperative {
        envelope: MatchEnvelope,
        total: usize,
        sender_op: u32,
        /// This side failed to copy the pieces that it took.
        failed: bool,
    },
    Complete(ReceiveCompletion),
}

/// A message that a copy engine copies.
#[derive(Debug)]
pub(crate) struct Copying {
    pub cookie: Cookie,
    pub peer: u32,
    pub sender_op: u32,
    pub class: TrafficClass,
    /// Stays mapped until the cookie, which is dropped first, is gone.
    pub _window: Option<MappedWindow>,
    /// The receive buffer's pages stay where they are as long: the engine may be a device, which
    /// writes to them whatever the threads of the process do.
    pub _held: Option<Exposed>,
}

/// What to do with a message that is longer than the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overlong {
    /// Receive its beginning.
    Truncate,
    /// Leave it in the ring.
    Leave,
}

/// The outcome of one attempt to receive without posting a receive (`try_receive`).
pub(crate) enum FastReceive {
    Received(ReceiveCompletion),
    Nothing,
    /// Something that needs full progress.
    Busy,
}
