//! The whole state of a rank's engine, behind its lock.

use crate::Fault;
use crate::channels::Channels;
use crate::hold::Holds;
use crate::matching::{MatchEnvelope, PostedQueue, UnexpectedQueue};
use crate::offloading::Offload;
use crate::packet::RtsPacket;
use crate::progress::Polling;
use crate::reaction::Reaction;
use crate::receive::{RecvId, RecvOp};
use crate::remote::RemoteReads;
use crate::rendezvous::CooperativeCopies;
use crate::schedule::RunningSchedule;
use crate::select::Selection;
use crate::send::{SendId, SendOp};
use crate::skew::SkewState;
use crate::traffic::Traffic;
use mica_channel::direct::Direct;
use mica_channel::memory::View;
use mica_channel::shm::Packet;
use slab::Slab;
use std::collections::VecDeque;
use std::sync::Arc;

/// The state of a rank's sends and receives. The functions of the `mpi` layer access it inside
/// [`Engine::drive`].
///
/// [`Engine::drive`]: crate::Engine::drive
#[derive(Debug)]
pub struct EngineState {
    pub(crate) me: u32,
    pub(crate) channels: Channels,
    pub(crate) direct: Direct,
    pub(crate) splits: CooperativeCopies,
    pub(crate) selection: Selection,
    pub(crate) skew: SkewState,
    pub(crate) holds: Holds,
    pub(crate) posted: PostedQueue<RecvId>,
    pub(crate) unexpected: UnexpectedQueue<UnexpectedMessage>,
    /// Messages that a matched probe has removed from the queue.
    pub(crate) probed: Slab<(MatchEnvelope, UnexpectedMessage)>,
    pub(crate) sends: Slab<SendOp>,
    pub(crate) recvs: Slab<RecvOp>,
    pub(crate) outboxes: Vec<Outbox>,
    /// Peers whose outbox is not empty.
    pub(crate) backlog: Vec<u32>,
    /// By source: the eager message whose cells are still arriving.
    pub(crate) inbound: Vec<Option<Inbound>>,
    /// Operations in progress whose completion is never asked for.
    pub(crate) abandoned: Abandoned,
    pub(crate) traffic: Traffic,
    /// Notifications that are due when the lock is released: [`STIRRED`], [`SUMMON`].
    pub(crate) calls: u8,
    /// When to poll the channels besides the rings; `None` if there are none.
    pub(crate) polling: Option<Box<Polling>>,
    pub(crate) offload: Option<Offload>,
    /// Threads of the program that wait in MPI. Counted only if there is a copy engine.
    pub(crate) waiting_threads: u32,
    /// Number of long messages in progress; `None` without a progress thread.
    pub(crate) attention: Option<usize>,
    /// The progress thread has the lock.
    pub(crate) attending: bool,
    /// Something has completed since schedules and reactions were last advanced.
    pub(crate) completed: bool,
    pub(crate) schedules: Slab<RunningSchedule>,
    /// Those of `schedules` that are not complete.
    pub(crate) under_way: Vec<u32>,
    /// Number of these that poll shared memory: they are advanced in every progress iteration.
    pub(crate) with_tasks: usize,
    pub(crate) reactions: Vec<Arc<dyn Reaction>>,
    pub(crate) far_reads: RemoteReads,
    /// The loss of the first peer that was lost.
    pub(crate) lost: Option<Fault>,
}

/// What is queued for one peer because its ring is full, cells are short, or other items are queued
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
pub(crate) const STIRRED: u8 = 1;
/// A long message needs the progress thread.
pub(crate) const SUMMON: u8 = 2;

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
    Requested(RtsPacket),
    /// A message of this rank to itself, in the buffer of this send.
    Own {
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
        ranks: usize,
        channels: Channels,
        direct: Direct,
        splits: CooperativeCopies,
        selection: Selection,
        (skew, holds): (SkewState, Holds),
    ) -> EngineState {
        EngineState {
            me,
            channels,
            direct,
            splits,
            selection,
            skew,
            holds,
            posted: PostedQueue::default(),
            unexpected: UnexpectedQueue::default(),
            probed: Slab::new(),
            sends: Slab::new(),
            recvs: Slab::new(),
            outboxes: (0..ranks).map(|_| Outbox::default()).collect(),
            backlog: Vec::new(),
            inbound: vec![None; ranks],
            abandoned: Abandoned::default(),
            traffic: Traffic::default(),
            calls: 0,
            polling: None,
            offload: None,
            waiting_threads: 0,
            attention: None,
            attending: false,
            completed: false,
            schedules: Slab::new(),
            under_way: Vec::new(),
            with_tasks: 0,
            reactions: Vec::new(),
            far_reads: RemoteReads::default(),
            lost: None,
        }
    }

    /// Notes that an operation has completed: waiting threads are woken and check again.
    #[inline]
    pub fn wake_progress_thread(&mut self) {
        self.calls |= STIRRED;
        self.completed = true;
    }

    /// Counts a long message that begins, and notifies the progress thread; false if there is none.
    pub(crate) fn begin_long(&mut self) -> bool {
        let Some(count) = &mut self.attention else {
            return false;
        };
        *count += 1;
        self.calls |= SUMMON;
        true
    }

    /// A long message that was counted has completed.
    pub(crate) fn end_long(&mut self) {
        if let Some(count) = &mut self.attention {
            *count -= 1;
        }
    }

    /// True while long messages are in progress.
    pub(crate) fn needs_attention(&self) -> bool {
        self.attention.is_some_and(|count| count > 0)
    }

    /// Lets a send continue; its completion is never asked for.
    pub fn abandon_send(&mut self, id: SendId) {
        self.abandoned.sends.push(id);
        self.reap();
    }

    /// Lets a receive continue; its completion is never asked for.
    pub fn abandon_receive(&mut self, id: RecvId) {
        self.abandoned.receives.push(id);
        self.reap();
    }

    /// Removes the abandoned operations that have completed.
    fn reap(&mut self) {
        let Abandoned {
            mut sends,
            mut receives,
        } = std::mem::take(&mut self.abandoned);
        sends.retain(|&id| !self.take_send(id));
        receives.retain(|&id| self.take_received(id).is_none());
        self.abandoned = Abandoned { sends, receives };
    }

    /// True when nothing is pending for peers: nothing waits to be sent, and no abandoned send or
    /// schedule is in progress. (An abandoned receive may wait for ever.)
    pub(crate) fn is_settled(&mut self) -> bool {
        self.reap();
        self.backlog.is_empty()
            && self.abandoned.sends.is_empty()
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
