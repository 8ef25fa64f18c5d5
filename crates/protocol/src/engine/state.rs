//! The whole state of a rank's engine, behind its lock: the parts that its rooms own, and what the
//! `mpi` layer calls on all of them.
//!
//! Each part is written by the methods of its room, which borrow that part and what they are given.
//! A method of [`EngineState`] itself is one that a message takes through several parts:
//!
//! | part | who writes it |
//! |---|---|
//! | `channels`, `selection` | sending and receiving of packets; what peers announce |
//! | `queues` | receives, probes, cancels; packets that bring messages (`pt2pt::receive`) |
//! | `sends` | sends and the replies to them (`pt2pt::send`, `rendezvous`) |
//! | `receives` | receives and the packets that fill them (`pt2pt::receive`, `rendezvous`) |
//! | `holds`, `skew` | messages without a receive (`pt2pt::flow_control`) |
//! | `rendezvous` | long messages |
//! | `rma`, `target_copies` | windows |
//! | `schedules`, `reactions` | operations of several stages |
//! | `completions` | whatever ends; read when the lock is given back |
//! | `adapter` | all messages of a job whose adapter matches |
//! | `met_generation`, `polling` | [`worlds`](crate::worlds); progress |
//!
//! The lock is the only synchronization: below `MPI_THREAD_MULTIPLE` it costs nothing, and no part
//! is shared with another rank. Callers are inside [`Engine::drive`](crate::Engine::drive),
//! [`Engine::enter`](crate::Engine::enter) or a progress iteration, and must not block. What is
//! called back here (reactions, the work of schedules, copiers of windows, events) runs under the
//! lock, too.

use crate::adapter::operations::AdapterMatching;
use crate::channels::Channels;
use crate::engine::polling::Polling;
use crate::engine::{CompletionNotes, Fault};
use crate::pt2pt::{Holds, MatchQueues, Receives, RecvId, Selection, SendId, Sends, SkewMonitors};
use crate::rendezvous::state::RendezvousState;
use crate::rma::RmaTransfers;
use crate::rma::target_copies::TargetCopies;
use crate::schedule::Schedules;
use mica_channel::shm::Packet;
use mica_node::counters::{CounterRef, TrafficClass};
use std::fmt::Debug;
use std::sync::Arc;

/// The state of a rank's sends and receives. The functions of the `mpi` layer access it inside
/// [`Engine::drive`].
///
/// [`Engine::drive`]: crate::Engine::drive
#[derive(Debug)]
pub struct EngineState {
    pub(crate) me: u32,
    /// The words in the job segment that this rank counts in.
    pub(crate) counters: CounterRef,
    pub(crate) channels: Channels,
    pub(crate) selection: Selection,
    pub(crate) queues: MatchQueues,
    pub(crate) sends: Sends,
    pub(crate) receives: Receives,
    pub(crate) holds: Holds,
    pub(crate) skew: SkewMonitors,
    pub(crate) rendezvous: RendezvousState,
    pub(crate) rma: RmaTransfers,
    pub(crate) target_copies: TargetCopies,
    pub(crate) schedules: Schedules,
    /// Called after completions.
    pub(crate) reactions: Vec<Arc<dyn Reaction>>,
    pub(crate) completions: CompletionNotes,
    /// When to poll the FIFOs and the network, where there are any besides the rings.
    pub(crate) polling: Option<Box<Polling>>,
    /// Generation of the worlds that this rank has met ([`crate::worlds`]).
    pub(crate) met_generation: u32,
    /// What the adapter has, if there is one that matches the messages of the job.
    pub(crate) adapter: Option<Box<AdapterMatching>>,
    /// The first peer that was lost, and how.
    pub(crate) lost: Option<Fault>,
}

/// An operation that must continue when something else completes, whichever call makes the
/// progress: a rank that waits for something else must not delay its peers (MPI 5.0, 2.9).
/// Schedules ensure that by themselves; a reaction is for an operation whose next step is known
/// only when a message has arrived.
pub trait Reaction: Send + Sync + Debug {
    /// Checks whether it is due, and acts. True when it need not be called again.
    fn react(&self, state: &mut EngineState) -> bool;
}

impl EngineState {
    pub(crate) fn new(
        me: u32,
        channels: Channels,
        rendezvous: RendezvousState,
        selection: Selection,
        holds: Holds,
        counters: CounterRef,
    ) -> EngineState {
        EngineState {
            me,
            counters,
            channels,
            selection,
            queues: MatchQueues::default(),
            sends: Sends::default(),
            receives: Receives::default(),
            holds,
            skew: SkewMonitors::default(),
            rendezvous,
            rma: RmaTransfers::default(),
            target_copies: TargetCopies::default(),
            schedules: Schedules::default(),
            reactions: Vec::new(),
            completions: CompletionNotes::default(),
            polling: None,
            met_generation: 0,
            adapter: None,
            lost: None,
        }
    }

    /// Counts a message of `bytes` bytes to `peer`.
    pub(crate) fn count_message(&self, class: TrafficClass, peer: u32, bytes: usize) {
        let level = self.selection.level(peer);
        self.counters.count_message(class, level, bytes);
    }

    /// Sends a control message now, or as soon as the ring has room.
    pub(crate) fn send_control(&mut self, peer: u32, packet: Packet) -> Result<(), Fault> {
        self.sends.send_control(&mut self.channels, peer, packet)
    }

    /// Notes that an operation has completed: threads that wait poll again.
    #[inline]
    pub fn note_completion(&mut self) {
        self.completions.note();
    }

    /// Calls `reaction` after completions until it is done.
    pub fn add_reaction(&mut self, reaction: Arc<dyn Reaction>) {
        self.reactions.push(reaction);
    }

    /// To be called when a reaction begins to wait for what a peer writes to shared memory (and
    /// wakes this rank).
    pub fn begin_polling(&mut self) {
        self.schedules.polled_waits += 1;
    }

    /// To be called when such a wait has ended.
    pub fn end_polling(&mut self) {
        self.schedules.polled_waits -= 1;
    }

    /// As [`begin_polling`](Self::begin_polling), for what happens without a word to the engine, by
    /// other threads of this rank or by another process: a thread that sleeps meanwhile polls again
    /// every millisecond.
    pub fn begin_silent_polling(&mut self) {
        self.begin_polling();
        self.schedules.silent_waits += 1;
    }

    /// To be called when such a wait has ended.
    pub fn end_silent_polling(&mut self) {
        self.end_polling();
        self.schedules.silent_waits -= 1;
    }

    /// To be called when a reaction begins to serve peers: the progress thread, if there is one,
    /// makes progress from now on.
    pub fn begin_service(&mut self) {
        self.completions.begin_long_message();
    }

    /// To be called when it has ended.
    pub fn end_service(&mut self) {
        self.completions.end_long_message();
    }

    /// Lets a send continue; its completion is never asked for.
    pub fn abandon_send(&mut self, id: SendId) {
        self.sends.abandoned.push(id);
        self.sends.reap();
    }

    /// Lets a receive continue; its completion is never asked for.
    pub fn abandon_receive(&mut self, id: RecvId) {
        self.receives.abandoned.push(id);
        self.receives.reap();
    }

    /// True when nothing is pending for peers: nothing waits to be sent, and no abandoned send or
    /// schedule is in progress. (An abandoned receive may wait for ever.)
    pub(crate) fn is_flushed(&mut self) -> bool {
        self.sends.reap();
        self.receives.reap();
        self.sends.is_flushed() && self.schedules.none_is_abandoned() && self.channels.is_drained()
    }

    /// True when this rank has something to do other than wait. For the last check before parking.
    pub(crate) fn has_work(&mut self) -> bool {
        self.advance_tasks()
            || self.has_arrivals()
            || self.sends.can_send_backlog(&mut self.channels)
            || self.offload_has_work()
            || self.lost.is_some()
    }
}
