//! A network adapter that matches messages by itself: sends and receives are handed to it as they
//! are, and it says when each has completed (the operations of leon-2009, Table 3.2).
//!
//! A [`Transport`](super::Transport) hands this out ([`matching`](super::Transport::matching)). The
//! protocol then gives it all messages of the job, also those of a rank to itself, so that one
//! queue of posted receives serves wildcards; the transport's packets are matched apart from them.
//!
//! The contract:
//!
//! - **Matching** is MPI's (MPI 5.0, 3.5), in the order in which operations are posted; a context
//!   is compared for equality.
//! - **Tokens** name operations. The caller chooses them below [`TOKENS`]; no two operations that
//!   are pending, and no message that is extracted, have the same.
//! - Each operation that was accepted completes once, by
//!   [`next_match`](MatchingAdapter::next_match), after a poll of the transport. Operations
//!   complete in any order. `Probe`, `Extract` and `Cancel` complete without the help of peers.
//! - **Buffers** are contiguous, stay valid and, for sends, unchanged until their operation
//!   completes.
//! - **Nothing blocks**, except [`wait`](MatchingAdapter::wait). An operation for which there is no
//!   room returns `false` and has done nothing. Probes, extracts and cancels always find room.

use mica_memory::View;

/// Tokens are less than this.
pub const TOKENS: u64 = 1 << 62;

/// What a message is matched by. `None` is a wildcard, which a send has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchKey {
    /// Context of the communicator.
    pub context: u64,
    /// The other side: the receiver of a send, the sender of a message to receive.
    pub peer: Option<u32>,
    /// Tag.
    pub tag: Option<i32>,
}

/// What is asked of an adapter.
#[derive(Debug, Clone, Copy)]
pub enum MatchOperation<'a> {
    /// Sends the bytes of the view. Completes when they may be changed.
    Send(MatchKey, &'a View),
    /// Sends the bytes of the view. Completes when the message is matched as well.
    SendSynchronous(MatchKey, &'a View),
    /// Posts a receive to the view. Completes when the message is there.
    Receive(MatchKey, &'a View),
    /// Receives to the view the message that the `Extract` with this token has taken.
    ReceiveExtracted(u64, &'a View),
    /// Cancels the posted receive with this token, which then completes as
    /// [`Cancelled`](MatchOutcome::Cancelled); or it is [not found](MatchOutcome::NotFound).
    Cancel(u64),
    /// Looks for an unexpected message.
    Probe(MatchKey),
    /// Looks for an unexpected message and takes it out of matching, under this operation's token.
    Extract(MatchKey),
}

/// How an operation has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchOutcome {
    /// As asked. Of a message that is longer than the buffer, its first bytes were received.
    Done,
    /// The receive was cancelled.
    Cancelled,
    /// There is no such message or receive.
    NotFound,
    /// The adapter refuses the operation: one of the two sides breaks the contract.
    Refused,
}

/// The completion of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchCompletion {
    /// The operation's token.
    pub token: u64,
    /// How it has completed.
    pub outcome: MatchOutcome,
    /// The sender of the message that was received or found.
    pub source: u32,
    /// Its tag.
    pub tag: i32,
    /// Its length in bytes, also if the buffer is shorter.
    pub bytes: usize,
}

/// An adapter that matches. The module documentation has the contract.
pub trait MatchingAdapter {
    /// Starts an operation. False when there is no room.
    fn post(&mut self, operation: MatchOperation<'_>, token: u64) -> bool;

    /// The next operation that has completed. Does not poll.
    fn next_match(&mut self) -> Option<MatchCompletion>;

    /// Hints that the program will use what the posted receive `token` brings at once, so that the
    /// adapter should bring it near the processor (application-driven injection, leon-2009, 2.5).
    fn hint(&mut self, token: u64);

    /// Waits until an operation has completed, or an unexpected message has come since the last
    /// probe, extract or wait. May return early.
    fn wait(&mut self);

    /// Marks a region of interest: the level of `MPI_Pcontrol`.
    fn mark(&mut self, level: i32);
}
