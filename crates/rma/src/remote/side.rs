//! What one rank of a window has for operations by messages.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use mica_memory::{Region, Shape};
use mica_node::window::LockDesign;
use mica_node::window::WindowLocks;
use mica_protocol::{EngineState, RecvId, SendCompletion, WindowCounterRef};

use super::keys::RegisteredMemory;
use super::lock_queue::RemoteLocks;
use super::message::answer;
use super::operation::RemoteOperation;
use crate::memory::node_peers::NodePeers;
use crate::memory::target::WindowTarget;
use mica_collective::members::Members;
use mica_objects::constants as c;
use mica_objects::error::Result;
use mica_objects::process;
use mica_objects::sync::lock;

/// What a window has for operations by messages. Both sides of this rank use it.
#[derive(Debug)]
pub(crate) struct RemoteSide {
    pub(super) members: Arc<Members>,
    /// This rank's part of the window.
    pub(super) own: WindowTarget,
    pub(super) locks: Arc<WindowLocks>,
    pub(super) node_peers: Arc<NodePeers>,
    pub(super) design: LockDesign,
    pub(super) registered: RegisteredMemory,
    pub(super) counters: WindowCounterRef,
    /// Numbers of answers.
    pub(super) next_answer: AtomicU32,
    pub(super) origin: Mutex<OriginState>,
    pub(super) counts: Mutex<RemoteCounts>,
    pub(super) server: Mutex<ServerState>,
    pub(super) answers: PreparedAnswers,
    /// The window is being freed: the server ends.
    pub(super) is_closed: AtomicBool,
}

/// Answers without data, which need no memory when they are sent. They are never written.
#[derive(Debug)]
pub(super) struct PreparedAnswers {
    pub success: Region,
    pub no_memory: Region,
}

/// What a side is made of.
#[derive(Debug)]
pub(crate) struct RemoteParts {
    /// Where the window counts.
    pub counters: WindowCounterRef,
    /// This rank's part of the window.
    pub own: WindowTarget,
    pub locks: Arc<WindowLocks>,
    pub node_peers: Arc<NodePeers>,
    pub design: LockDesign,
    pub registered: RegisteredMemory,
}

/// What this rank has under way at its targets, by rank in the window.
#[derive(Debug, Default)]
pub(super) struct OriginState {
    /// How many requests without an answer have been sent, and how many of them are known to be
    /// done. A request is counted after it was sent: so a flush that is sent later covers it.
    pub(super) sent: Vec<u64>,
    pub(super) done: Vec<u64>,
    /// Operations that are under way, and some that are complete.
    pub(super) pending: Vec<Arc<RemoteOperation>>,
    /// How many there are when the complete ones are removed.
    pub(super) pruned_at: usize,
}

/// Post and complete with ranks that share no counts, by rank in the window.
#[derive(Debug)]
pub(super) struct RemoteCounts {
    /// Access epochs that this rank has started, and posts that have come.
    started: Vec<u32>,
    posts: Vec<u32>,
    /// Exposure epochs that this rank has posted, and completions that have come.
    pub(super) posted: Vec<u32>,
    completions: Vec<u32>,
}

/// What the server of this rank has under way.
#[derive(Debug)]
pub(super) struct ServerState {
    /// The receive of the next request, and its buffer.
    pub(super) receive: Option<(RecvId, Region)>,
    pub(super) locks: RemoteLocks,
    /// By origin: the class of an error that it has not been sent yet.
    pub(super) errors: Vec<i32>,
}

impl RemoteSide {
    /// The side of this rank of a window on `comm`. The server runs until it is
    /// [closed](Self::close).
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn open(members: &Arc<Members>, parts: RemoteParts) -> Result<Arc<RemoteSide>> {
        let RemoteParts { counters, own, locks, node_peers, design, registered } = parts;
        let ranks = members.size();
        let side = Arc::new(RemoteSide {
            members: Arc::clone(members),
            own,
            locks,
            node_peers,
            design,
            registered,
            counters,
            next_answer: AtomicU32::new(0),
            origin: Mutex::new(OriginState {
                sent: vec![0; ranks],
                done: vec![0; ranks],
                pending: Vec::new(),
                pruned_at: 0,
            }),
            counts: Mutex::new(RemoteCounts {
                started: vec![0; ranks],
                posts: vec![0; ranks],
                posted: vec![0; ranks],
                completions: vec![0; ranks],
            }),
            server: Mutex::new(ServerState {
                receive: None,
                locks: RemoteLocks::default(),
                errors: vec![c::SUCCESS; ranks],
            }),
            answers: PreparedAnswers {
                success: answer(c::SUCCESS, 0)?.0,
                no_memory: answer(c::ERR_NO_MEM, 0)?.0,
            },
            is_closed: AtomicBool::new(false),
        });
        let server = Arc::clone(&side);
        process::engine()?.enter(|state| server.serve_from_now_on(state))?;
        Ok(side)
    }

    /// Ends the server, and revokes the registrations. No rank has a request for this one any more,
    /// or a transfer under way with it.
    ///
    /// # Errors
    /// When MPI is not in use.
    pub fn close(&self) -> Result<()> {
        // Relaxed: read inside the engine, whose lock orders.
        self.is_closed.store(true, Ordering::Relaxed);
        process::engine()?.enter(|state| {
            if let Some((receive, _)) = lock(&self.server).receive.take() {
                state.cancel_receive(receive);
                state.abandon_receive(receive);
            }
            lock(&self.server).locks.end(state);
            self.unregister_all(state);
            state.end_service();
        });
        Ok(())
    }
}

/// Epochs with ranks that share no counts.
impl RemoteSide {
    /// `MPI_Win_start` of an epoch at `target`.
    pub fn start(&self, target: usize) {
        let mut counts = lock(&self.counts);
        counts.started[target] = counts.started[target].wrapping_add(1);
    }

    /// Whether `target` has posted the epoch that was last started with it.
    pub fn is_posted(&self, target: usize) -> bool {
        let counts = lock(&self.counts);
        counts.posts[target] == counts.started[target]
    }

    /// Whether `origin` has completed the epoch that was last posted to it.
    pub fn is_complete(&self, origin: usize) -> bool {
        let counts = lock(&self.counts);
        counts.completions[origin] == counts.posted[origin]
    }

    pub(super) fn note_post(&self, target: usize) {
        let mut counts = lock(&self.counts);
        counts.posts[target] = counts.posts[target].wrapping_add(1);
    }

    pub(super) fn note_completion(&self, origin: usize) {
        let mut counts = lock(&self.counts);
        counts.completions[origin] = counts.completions[origin].wrapping_add(1);
    }

    /// Sends a message whose completion is never asked for.
    pub(super) fn send(
        &self,
        state: &mut EngineState,
        rank: usize,
        tag: i32,
        message: Region,
        bytes: usize,
    ) -> Result<()> {
        let view = message.view(Shape::Contiguous { bytes });
        let (peer, context) = (self.members.peer(rank), self.members.context());
        if let Some(id) = state.send(peer, context, tag, &view, SendCompletion::Local)? {
            state.abandon_send(id);
        }
        Ok(())
    }
}
