//! The whole state of a rank's engine, behind its lock.

use crate::Fault;
use crate::channels::Channels;
use crate::hold::Holds;
use crate::matching::{MatchEnvelope, PostedQueue, UnexpectedQueue};
use crate::offloading::Offload;
use crate::packet::RtsPacket;
use crate::progress::Polling;
use crate::receive::{RecvId, RecvOp};
use crate::remote::RemoteReads;
use crate::rendezvous::CooperativeCopies;
use crate::schedule::Schedules;
use crate::select::Selection;
use crate::send::{SendId, SendOp};
use mica_channel::direct::Direct;
use mica_channel::memory::View;
use mica_channel::shm::Packet;
use mica_node::counters::Counters;
use mica_node::peer_table::PeerTable;
use mica_policy::{SkewMonitor, SkewPolicy};
use slab::Slab;
use std::collections::VecDeque;

/// The state of a rank's sends and receives. The functions of the `mpi` layer access it inside
/// [`Engine::drive`].
///
/// [`Engine::drive`]: crate::Engine::drive
#[derive(Debug)]
pub struct EngineState {
    pub(crate) me: u32,
    pub(crate) channels: Channels,
    pub(crate) direct: Direct,
    pub(crate) cooperative_copies: CooperativeCopies,
    pub(crate) selection: Selection,
    /// Whether this rank lags behind its senders; `None`: not observed.
    pub(crate) skew: Option<SkewPolicy>,
    pub(crate) holds: Holds,
    pub(crate) matching: Matching,
    pub(crate) operations: Operations,
    pub(crate) peers: PeerTable<PeerState>,
    /// Peers whose outbox holds something.
    pub(crate) backlog: Vec<u32>,
    pub(crate) remote_reads: RemoteReads,
    pub(crate) schedules: Schedules,
    pub(crate) threads: ThreadActivity,
    pub(crate) offload: Option<Offload>,
    /// When to poll the FIFOs, where there are rings as well.
    pub(crate) polling: Option<Box<Polling>>,
    pub(crate) counters: Counters,
    /// The first peer that was lost, and how.
    pub(crate) lost: Option<Fault>,
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
    pub sends: Slab<SendOp>,
    pub recvs: Slab<RecvOp>,
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

impl EngineState {
    pub(crate) fn new(
        me: u32,
        channels: Channels,
        direct: Direct,
        cooperative_copies: CooperativeCopies,
        selection: Selection,
        holds: Holds,
    ) -> EngineState {
        EngineState {
            me,
            channels,
            direct,
            cooperative_copies,
            selection,
            skew: None,
            holds,
            matching: Matching::default(),
            operations: Operations::default(),
            peers: PeerTable::default(),
            backlog: Vec::new(),
            remote_reads: RemoteReads::default(),
            schedules: Schedules::default(),
            threads: ThreadActivity::default(),
            offload: None,
            polling: None,
            counters: Counters::default(),
            lost: None,
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
        let Abandoned {
            mut sends,
            mut receives,
        } = std::mem::take(&mut self.operations.abandoned);
        sends.retain(|&id| !self.take_send(id));
        receives.retain(|&id| self.take_received(id).is_none());
        self.operations.abandoned = Abandoned { sends, receives };
    }

    /// True when nothing is pending for peers: nothing waits to be sent, and no abandoned send or
    /// schedule is in progress. (An abandoned receive may wait for ever.)
    pub(crate) fn is_flushed(&mut self) -> bool {
        self.reap();
        self.backlog.is_empty()
            && self.operations.abandoned.sends.is_empty()
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
