//! Segments come and go while a job runs (MPI 5.0, 11): what a process that joins, or leaves,
//! changes in an engine.
//!
//! A segment that is added brings peers, which get the numbers after those in use; it is reached as
//! a network is, through a [`SegmentTransport`]. What the engine keeps for these peers is kept by
//! peer, not by segment, and entered when they first communicate, so nothing else has to grow.
//!
//! This rank has a parking spot in each segment, and peers wake it where they find it. With the
//! first segment that is added, it sleeps on its wake-up socket instead of a futex, as with a
//! network. A thread that sleeps at that time is woken, and listens at all spots from then on.
//!
//! A segment is removed when nothing is pending with its peers; their numbers become free. No part
//! of the engine refers to its memory afterwards, and the last owner unmaps it.
//!
//! Where no segment was ever added, no path asks for them but those that poll or wait for a
//! network. The caller, who creates processes and connects to others, comes with
//! `MPI_Comm_spawn`.

pub(crate) mod added;

use std::ops::Range;
use std::sync::Arc;

use crate::engine::start::{StartError, open_wake_socket, polling};
use crate::engine::{Engine, EngineState, NOTIFY_WAITERS};
use crate::pt2pt::ReceiveStage;
use crate::segments::added::AddedSegment;
use mica_channel::shm::SegmentTransport;
use mica_channel::transport::Transport;
use mica_node::segment::JobSegment;
use mica_node::topology::Level;

/// Why a segment cannot be removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoveError {
    /// No segment has these peers.
    #[error("no segment was added whose ranks have the numbers {} to {}", peers.start, peers.end)]
    NoSuchSegment {
        /// The numbers.
        peers: Range<u32>,
    },
    /// Communication with a peer is not complete.
    #[error("rank {peer} cannot be removed: {pending} with it is not complete")]
    Pending {
        /// The peer.
        peer: u32,
        /// What is pending.
        pending: &'static str,
    },
}

impl Engine {
    /// Adds a segment in which this process has [claimed](JobSegment::claim) rank `me`. Returns the
    /// numbers that this engine gives the ranks of the segment, in their order; the one of `me` is
    /// no peer. Messages to and from the others may begin at once.
    ///
    /// # Errors
    /// When memory for FIFOs or a wake-up socket cannot be had, or a tunable's value is invalid.
    pub fn add_segment(
        &self,
        segment: &Arc<JobSegment>,
        me: u32,
    ) -> Result<Range<u32>, StartError> {
        let fencing = segment.wake_fencing();
        self.enter(|state| {
            if self.wake_socket.get().is_none() {
                let _ = self.wake_socket.set(open_wake_socket(&self.segment, self.rank)?);
            }
            let socket = self.wake_socket.get().expect("set just now");
            segment.block(me).parking.0.set_wake_socket(socket);
            let first = state.added.next_peer(self.size());
            let transport = SegmentTransport::open(segment, me, first, fencing)?;
            let peers = transport.peers();
            for peer in peers.clone() {
                // As over a network: all in packets, and no buffer is mapped.
                let kind = (Level::Network, Some(transport.payload_max()));
                state.selection.set_kind(peer, kind)?;
            }
            state.channels.transports.push(Box::new(transport));
            state.added.add(AddedSegment {
                segment: Arc::clone(segment),
                me,
                peers: peers.clone(),
            });
            self.renew_polling(state);
            Ok(peers)
        })
    }

    /// Removes the segment that was added with these `peers`, which may use its number no longer:
    /// all of them have agreed to that, and no collective with them is in progress.
    ///
    /// # Errors
    /// When there is no such segment, or communication with a peer is not complete. Then nothing
    /// has changed.
    pub fn remove_segment(&self, peers: &Range<u32>) -> Result<(), RemoveError> {
        self.enter(|state| {
            let at = state.added.position(peers);
            let at = at.ok_or_else(|| RemoveError::NoSuchSegment { peers: peers.clone() })?;
            let networks = state.channels.transports.len() - state.added.len();
            if let Some((peer, pending)) = state.pending_with(peers, networks + at) {
                return Err(RemoveError::Pending { peer, pending });
            }
            let added = state.added.remove(at);
            state.channels.transports.remove(networks + at);
            for peer in peers.clone() {
                state.channels.forget(peer);
                state.sends.outboxes.remove(peer);
                state.receives.inbound.remove(peer);
                state.skew.forget(peer);
            }
            state.holds.held.retain(|source| !peers.contains(source));
            state.selection.forget_from(state.added.next_peer(self.size()));
            added.segment.block(added.me).finalize();
            self.renew_polling(state);
            Ok(())
        })
    }

    /// To be called when a segment has come or gone: polls what is there now. Threads that sleep
    /// listen where this rank is woken now.
    fn renew_polling(&self, state: &mut EngineState) {
        let (traffic, policy) = (self.node_traffic, self.wait.channels);
        state.polling = polling(&self.segment, &state.channels, traffic, policy);
        state.completions.notifications |= NOTIFY_WAITERS;
    }
}

impl EngineState {
    /// A peer with which something is pending, of `peers`, which the transport at `transport`
    /// reaches; and what that is.
    fn pending_with(
        &mut self,
        peers: &Range<u32>,
        transport: usize,
    ) -> Option<(u32, &'static str)> {
        if let Some((source, _)) = self.channels.transports[transport].peek() {
            return Some((source, "a message"));
        }
        let sends = self.sends.ops.iter();
        let mut pending = sends.filter(|op| op.phase.end().is_none());
        if let Some(op) = pending.find(|op| peers.contains(&op.peer)) {
            return Some((op.peer, "a send"));
        }
        let receives = self.receives.ops.iter();
        let sources = receives.filter_map(|op| match &op.stage {
            ReceiveStage::Posted { .. } | ReceiveStage::AtAdapter { .. } => op.pattern.source,
            ReceiveStage::Incoming { envelope, .. }
            | ReceiveStage::Cooperative { envelope, .. } => Some(envelope.source),
            ReceiveStage::Complete(_) => None,
        });
        if let Some(source) = sources.into_iter().find(|source| peers.contains(source)) {
            return Some((source, "a receive"));
        }
        let probed = self.queues.probed.iter();
        let mut probed = probed.map(|(_, (envelope, _))| envelope.source);
        if let Some(source) = probed.find(|source| peers.contains(source)) {
            return Some((source, "the receive of a probed message"));
        }
        peers.clone().find_map(|peer| {
            if self.queues.unexpected.len_from(peer) > 0 {
                Some((peer, "the receive of a message"))
            } else if self.sends.is_queued(peer) {
                Some((peer, "the sending of packets"))
            } else {
                None
            }
        })
    }
}
