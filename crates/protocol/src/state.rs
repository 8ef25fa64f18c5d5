//! The whole state of a rank's engine, behind its lock.

use crate::adapter_operations::AdapterMatching;
use crate::added_segments::AddedSegments;
use crate::channels::Channels;
use crate::cooperative::CooperativeCopies;
use crate::end_duties::WatchedPlaces;
use crate::events::{self, EngineEventKind};
use crate::fault::Fault;
use crate::help_state::HelpState;
use crate::matching::{MatchEnvelope, PostedQueue, UnexpectedQueue};
use crate::operation::{RecvId, RecvOp, SendId, SendOp};
use crate::operation_table::OperationTable;
use crate::packet::{self, RtsPacket};
use crate::polling::Polling;
use crate::rma_transfers::RmaTransfers;
use crate::schedule::Schedules;
use crate::select::Selection;
use mica_channel::RemoteRegion;
use mica_channel::direct::Direct;
use mica_channel::offload::CopyEngine;
use mica_channel::shm::Packet;
use mica_memory::{Block, View};
use mica_node::counters::{Counter, CounterRef, Counters, TrafficClass};
use mica_node::peer_table::PeerTable;
use mica_policy::{HoldPolicy, SkewMonitor, SkewPolicy};
use slab::Slab;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

/// The state of a rank's sends and receives. The functions of the `mpi` layer access it inside
/// [`Engine::drive`].
///
/// [`Engine::drive`]: crate::Engine::drive
#[derive(Debug)]
pub struct EngineState {
    pub(crate) me: u32,
    pub(crate) channels: Channels,
    pub(crate) added: AddedSegments,
    pub(crate) direct: Direct,
    pub(crate) cooperative_copies: CooperativeCopies,
    pub(crate) help: HelpState,
    pub(crate) selection: Selection,
    /// Whether this rank lags behind its senders; `None`: not observed.
    pub(crate) skew: Option<SkewPolicy>,
    pub(crate) holds: Holds,
    pub(crate) matching: Matching,
    pub(crate) operations: Operations,
    /// The operations that the program looks for among many.
    pub(crate) watched: WatchedPlaces,
    pub(crate) peers: PeerTable<PeerState>,
    /// Peers whose outbox holds something.
    pub(crate) backlog: Vec<u32>,
    pub(crate) remote_reads: RemoteReads,
    pub(crate) rma: RmaTransfers,
    pub(crate) schedules: Schedules,
    /// Called after completions.
    pub(crate) reactions: Vec<Arc<dyn Reaction>>,
    /// How many reactions and schedules wait for what a peer writes to shared memory: while there
    /// are any, all are advanced in every progress iteration.
    pub(crate) polled_waits: usize,
    /// How many reactions wait for what other threads of this rank do outside the engine, which
    /// wakes no thread that sleeps here.
    pub(crate) silent_waits: usize,
    /// How often a packet was left in its ring, as there was no memory for it, since a call has
    /// failed for that.
    pub(crate) left_packets: u32,
    pub(crate) threads: ThreadActivity,
    pub(crate) offload: Option<Offload>,
    /// When to poll the FIFOs, where there are rings as well.
    pub(crate) polling: Option<Box<Polling>>,
    /// The words in the job segment that this rank counts in.
    pub(crate) counters: CounterRef,
    /// The first peer that was lost, and how.
    pub(crate) lost: Option<Fault>,
    /// What the adapter has, if there is one that matches the messages of the job.
    pub(crate) adapter: Option<Box<AdapterMatching>>,
}

/// The queues in which messages and receives find each other.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    pub posted: PostedQueue<RecvId>,
    pub unexpected: UnexpectedQueue<UnexpectedMessage>,
    /// Messages that a matched probe has taken out of the queue.
    pub probed: Slab<(MatchEnvelope, UnexpectedMessage)>,
}

/// The sends and receives that have begun and whose completion was not taken.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    pub sends: OperationTable<SendOp>,
    pub recvs: OperationTable<RecvOp>,
    /// Operations that go on but whose completion the program does not ask for.
    pub abandoned: Abandoned,
}

/// What is kept for one peer that this rank communicates with.
#[derive(Debug, Default)]
pub(crate) struct PeerState {
    pub outbox: Outbox,
    /// The eager message whose cells are still coming.
    pub inbound: Option<Inbound>,
    pub skew: SkewMonitor,
}

/// What the threads of this rank do, and what they are to be notified of.
#[derive(Debug, Default)]
pub(crate) struct ThreadActivity {
    /// Notifications due when the lock is given back: [`NOTIFY_WAITERS`], [`WAKE_PROGRESS_THREAD`].
    pub notifications: u8,
    /// An operation has completed since schedules and reactions were last advanced.
    pub completed: bool,
    /// Long messages in progress, if a progress thread handles them while the program computes.
    pub long_messages: Option<usize>,
    /// The progress thread has the lock.
    pub in_progress_thread: bool,
    /// Threads of the program that wait in MPI. Counted only where there is a copy engine.
    pub waiting_threads: u32,
}

/// What waits to go to one peer because its ring is full, cells are short, or something waits
/// before it.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Control messages; at the receiver, only the operation that they belong to waits for them.
    pub control: VecDeque<Packet>,
    /// Sends, in order.
    pub ordered: VecDeque<u32>,
}

impl Outbox {
    /// Whether there is anything but packets about cancelled sends.
    fn is_awaited(&self) -> bool {
        let is_about_cancel = |p: &Packet| matches!(p.kind, packet::CANCEL | packet::CANCELLED);
        !self.ordered.is_empty() || !self.control.iter().all(is_about_cancel)
    }

    pub fn is_empty(&self) -> bool {
        self.control.is_empty() && self.ordered.is_empty()
    }
}

/// Something completed: other threads of this rank may wait for it.
pub(crate) const NOTIFY_WAITERS: u8 = 1;
/// A long message needs the progress thread.
pub(crate) const WAKE_PROGRESS_THREAD: u8 = 2;

#[derive(Debug, Default)]
pub(crate) struct Abandoned {
    pub sends: Vec<SendId>,
    pub receives: Vec<RecvId>,
}

/// A message that arrived before its receive.
#[derive(Debug)]
pub(crate) enum UnexpectedMessage {
    /// Its bytes are here, or still arriving: `arrived` of them so far.
    Buffered {
        /// Our copy.
        copy: View,
        /// Bytes of the message that are here.
        arrived: usize,
        /// The sender's op, if it waits for the match.
        acknowledge: Option<u32>,
    },
    /// Its bytes are still at the sender.
    Announced(RtsPacket),
    /// An adapter that matches has it, and an `Extract` has taken it.
    AtAdapter {
        /// The token of the `Extract`.
        extract: u64,
        /// Length of the message.
        bytes: usize,
    },
    /// A message of this rank to itself, in the buffer of this send.
    FromSelf {
        /// The send.
        send: u32,
    },
}

/// An eager message that arrives through cells: what has arrived, and its destination.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inbound {
    pub total: usize,
    pub position: usize,
    pub target: InboundTarget,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum InboundTarget {
    Receive(RecvId),
    Unexpected(u32),
    /// Taken by a matched probe; index into `probed`.
    Probed(usize),
}

/// An operation that must continue when something else completes, whichever call makes the
/// progress: a rank that waits for something else must not delay its peers (MPI 5.0, 2.9).
/// Schedules ensure that by themselves; a reaction is for an operation whose next step is known
/// only when a message has arrived.
pub trait Reaction: Send + Sync + Debug {
    /// Checks whether it is due, and acts. True when it need not be called again.
    fn react(&self, state: &mut EngineState) -> bool;
}

/// The senders that this rank holds back, and the policy.
#[derive(Debug)]
pub(crate) struct Holds {
    pub policy: HoldPolicy,
    /// Senders whose messages are held back.
    pub held: Vec<u32>,
    /// Maximum of bytes kept since memory was last returned.
    pub peak: u64,
}

impl Holds {
    pub fn new(policy: HoldPolicy) -> Holds {
        Holds { policy, held: Vec::new(), peak: 0 }
    }

    /// Whether no sender is held back.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

/// The messages that this rank reads from their senders.
#[derive(Debug, Default)]
pub(crate) struct RemoteReads {
    pub all: Slab<RemoteRead>,
    /// Those for which there was no room yet.
    pub waiting: VecDeque<usize>,
}

#[cfg(test)]
impl RemoteReads {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.waiting.is_empty()
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RemoteRead {
    pub recv: RecvId,
    pub peer: u32,
    pub sender_op: u32,
    pub region: RemoteRegion,
    pub len: usize,
}

/// This rank's copy engine and the jobs that it works on.
#[derive(Debug)]
pub(crate) struct Offload {
    pub engine: Box<dyn CopyEngine>,
    /// Minimum length in bytes of a message that is worth offloading.
    pub min: usize,
    pub active: Vec<RecvId>,
}

impl Offload {
    pub fn new(engine: Box<dyn CopyEngine>, min: usize) -> Offload {
        Offload { engine, min, active: Vec::new() }
    }

    pub fn close(&mut self) {
        self.engine.close();
    }
}

impl EngineState {
    // arguments: its parts, each made elsewhere; a struct of them would be this one again.
    pub(crate) fn new(
        me: u32,
        channels: Channels,
        direct: Direct,
        cooperative_copies: CooperativeCopies,
        selection: Selection,
        holds: Holds,
        counters: CounterRef,
    ) -> EngineState {
        EngineState {
            me,
            channels,
            added: AddedSegments::default(),
            direct,
            cooperative_copies,
            help: HelpState::default(),
            selection,
            skew: None,
            holds,
            matching: Matching::default(),
            operations: Operations::default(),
            watched: WatchedPlaces::default(),
            peers: PeerTable::default(),
            backlog: Vec::new(),
            remote_reads: RemoteReads::default(),
            rma: RmaTransfers::default(),
            schedules: Schedules::default(),
            reactions: Vec::new(),
            polled_waits: 0,
            silent_waits: 0,
            left_packets: 0,
            threads: ThreadActivity::default(),
            offload: None,
            polling: None,
            counters,
            lost: None,
            adapter: None,
        }
    }

    /// True when sends to `peer` wait for room: a new one must wait behind them.
    #[inline(always)]
    pub(crate) fn has_queued_sends(&self, peer: u32) -> bool {
        !self.backlog.is_empty() && self.outbox(peer).is_some_and(|o| !o.ordered.is_empty())
    }

    /// The eager message of `source` whose cells are still coming.
    pub(crate) fn inbound_of(&mut self, source: u32) -> Option<&mut Inbound> {
        self.peers.get_mut(source)?.inbound.as_mut()
    }

    /// What waits to go to `peer`, if anything ever did.
    pub(crate) fn outbox(&self, peer: u32) -> Option<&Outbox> {
        self.peers.get(peer).map(|state| &state.outbox)
    }

    /// Counts a message of `bytes` bytes to `peer`.
    pub(crate) fn count_message(&self, class: TrafficClass, peer: u32, bytes: usize) {
        let level = self.selection.level(peer);
        self.counters.count_message(class, level, bytes);
    }

    /// Keeps a message that has just arrived without a receive.
    pub(crate) fn insert_unexpected(
        &mut self,
        envelope: MatchEnvelope,
        message: UnexpectedMessage,
    ) -> u32 {
        let before = self.matching.unexpected.len() as u64;
        let len = self.length(&message);
        let heap = match &message {
            UnexpectedMessage::Buffered { copy, .. } => {
                self.left_packets = 0; // there is memory again
                Block::heap_bytes(copy.len())
            }
            _ => 0,
        };
        let ticket = self.matching.unexpected.insert(envelope, heap, message);
        self.counters.count(Counter::UnexpectedMessages);
        self.counters.add(Counter::UnexpectedDepth, before);
        self.counters.set(Counter::UnexpectedQueue, before + 1);
        self.counters.raise(Counter::UnexpectedQueueLongest, before + 1);
        self.report(EngineEventKind::Arrived, &envelope, len, 0);
        self.report(EngineEventKind::Unexpected, &envelope, len, before + 1);
        ticket
    }

    /// Reports an event, if a tool wants it.
    #[inline(always)]
    pub(crate) fn report(
        &self,
        kind: EngineEventKind,
        envelope: &MatchEnvelope,
        bytes: usize,
        detail: u64,
    ) {
        events::report(kind, envelope, bytes, detail);
    }

    /// Takes a message out of the queue.
    pub(crate) fn remove_unexpected(&mut self, ticket: u32) -> (MatchEnvelope, UnexpectedMessage) {
        let message = self.matching.unexpected.remove(ticket);
        let left = self.matching.unexpected.len() as u64;
        self.counters.set(Counter::UnexpectedQueue, left);
        message
    }

    /// Publishes what transports have counted, if there are any.
    pub(crate) fn publish_transports_if_any(&self) {
        if !self.channels.transports.is_empty() {
            self.publish_transports();
        }
    }

    /// Publishes what transports have counted.
    #[cold]
    pub(crate) fn publish_transports(&self) {
        let mut sums = Counters::default();
        for transport in &self.channels.transports {
            sums.merge(&transport.counters());
        }
        for counter in
            [Counter::ForeignArrivals, Counter::MalformedArrivals, Counter::FailedArrivals]
        {
            self.counters.set(counter, sums.get(counter));
        }
    }

    /// Notes that an operation has completed: threads that wait poll again.
    #[inline]
    pub fn note_completion(&mut self) {
        self.threads.notifications |= NOTIFY_WAITERS;
        self.threads.completed = true;
    }

    /// Counts a long message that begins, and notifies the progress thread; false if there is none.
    pub(crate) fn begin_long_message(&mut self) -> bool {
        let Some(count) = &mut self.threads.long_messages else {
            return false;
        };
        *count += 1;
        self.threads.notifications |= WAKE_PROGRESS_THREAD;
        true
    }

    /// A long message that was counted has completed.
    pub(crate) fn end_long_message(&mut self) {
        if let Some(count) = &mut self.threads.long_messages {
            *count -= 1;
        }
    }

    /// True while long messages are in progress.
    pub(crate) fn has_long_messages(&self) -> bool {
        self.threads.long_messages.is_some_and(|count| count > 0)
    }

    /// Calls `reaction` after completions until it is done.
    pub fn add_reaction(&mut self, reaction: Arc<dyn Reaction>) {
        self.reactions.push(reaction);
    }

    /// To be called when a reaction begins to wait for what a peer writes to shared memory (and
    /// wakes this rank).
    pub fn begin_polling(&mut self) {
        self.polled_waits += 1;
    }

    /// To be called when such a wait has ended.
    pub fn end_polling(&mut self) {
        self.polled_waits -= 1;
    }

    /// As [`begin_polling`](Self::begin_polling), for what other threads of this rank do without a
    /// word to the engine: a thread that sleeps meanwhile looks again every millisecond.
    pub fn begin_silent_polling(&mut self) {
        self.begin_polling();
        self.silent_waits += 1;
    }

    /// To be called when such a wait has ended.
    pub fn end_silent_polling(&mut self) {
        self.end_polling();
        self.silent_waits -= 1;
    }

    /// To be called when a reaction begins to serve peers: the progress thread, if there is one,
    /// makes progress from now on.
    pub fn begin_service(&mut self) {
        self.begin_long_message();
    }

    /// To be called when it has ended.
    pub fn end_service(&mut self) {
        self.end_long_message();
    }

    /// Lets a send continue; its completion is never asked for.
    pub fn abandon_send(&mut self, id: SendId) {
        self.operations.abandoned.sends.push(id);
        self.reap();
    }

    /// Lets a receive continue; its completion is never asked for.
    pub fn abandon_receive(&mut self, id: RecvId) {
        self.operations.abandoned.receives.push(id);
        self.reap();
    }

    /// Removes the abandoned operations that have completed.
    fn reap(&mut self) {
        let Abandoned { mut sends, mut receives } = std::mem::take(&mut self.operations.abandoned);
        sends.retain(|&id| self.take_send(id).is_none());
        receives.retain(|&id| {
            let is_received = self.is_received(id);
            self.take_received(id);
            !is_received
        });
        self.operations.abandoned = Abandoned { sends, receives };
    }

    /// True when nothing is pending for peers: nothing waits to be sent, and no abandoned send or
    /// schedule is in progress. (An abandoned receive may wait for ever.) What is left of cancelled
    /// sends does not count: the peer may have ended without looking for it.
    pub(crate) fn is_flushed(&mut self) -> bool {
        self.reap();
        let has_packets = |&peer: &u32| self.outbox(peer).is_some_and(Outbox::is_awaited);
        !self.backlog.iter().any(has_packets)
            && self.operations.abandoned.sends.iter().all(|id| self.is_cancelling(*id))
            && self.no_abandoned_schedule()
            && self.channels.is_drained()
    }

    /// True when this rank has something to do other than wait. For the last check before parking.
    pub(crate) fn has_work(&mut self) -> bool {
        self.advance_tasks()
            || self.has_arrivals()
            || self.can_send_backlog()
            || self.offload_has_work()
            || self.lost.is_some()
    }
}
