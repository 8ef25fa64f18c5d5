//! The sends of this rank, and what waits to go to each peer.
//!
//! Packets of a pair of ranks keep their order, so a send for which there is no room waits in the
//! peer's [`Outbox`], and later sends to that peer wait behind it. Control packets have a queue of
//! their own, which goes first: a full pool of cells or a full arena can never hold up the `FIN`
//! that would free it. The backlog lists the peers whose outbox holds something, so that progress
//! asks no others.

use crate::channels::Channels;
use crate::channels::packet;
use crate::engine::Fault;
use crate::pt2pt::{OperationTable, SendEnd, SendId, SendOp, SendPhase, SendPlan};
use mica_channel::shm::Packet;
use mica_node::peer_table::PeerTable;
use std::collections::VecDeque;

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

/// The sends that have begun and whose completion was not taken, and the outboxes.
#[derive(Debug, Default)]
pub(crate) struct Sends {
    pub ops: OperationTable<SendOp>,
    pub outboxes: PeerTable<Outbox>,
    /// Peers whose outbox holds something.
    pub backlog: Vec<u32>,
    /// Sends that go on but whose completion the program does not ask for.
    pub abandoned: Vec<SendId>,
}

impl Sends {
    /// How a send has completed; it is then removed. One that is gone counts as sent.
    pub fn take(&mut self, id: SendId) -> Option<SendEnd> {
        let Some(op) = self.ops.get(id.0) else {
            return Some(SendEnd::Sent);
        };
        let end = op.phase.end()?;
        self.ops.remove(id.0.index());
        Some(end)
    }

    /// Removes the abandoned sends that have completed.
    pub fn reap(&mut self) {
        let mut abandoned = std::mem::take(&mut self.abandoned);
        abandoned.retain(|&id| self.take(id).is_none());
        self.abandoned = abandoned;
    }

    /// True when sends to `peer` wait for room: a new one must wait behind them.
    #[inline(always)]
    pub fn has_queued(&self, peer: u32) -> bool {
        !self.backlog.is_empty() && self.outbox(peer).is_some_and(|o| !o.ordered.is_empty())
    }

    /// What waits to go to `peer`, if anything ever did.
    pub fn outbox(&self, peer: u32) -> Option<&Outbox> {
        self.outboxes.get(peer)
    }

    /// Whether anything waits to go to `peer`.
    pub fn is_queued(&self, peer: u32) -> bool {
        self.outbox(peer).is_some_and(|outbox| !outbox.is_empty())
    }

    pub fn enqueue(&mut self, peer: u32, send: u32) {
        self.outbox_to_fill(peer).ordered.push_back(send);
    }

    /// The outbox of `peer`, which something is about to be put into.
    fn outbox_to_fill(&mut self, peer: u32) -> &mut Outbox {
        let outbox = self.outboxes.entry(peer);
        if outbox.is_empty() {
            self.backlog.push(peer);
        }
        outbox
    }

    /// Sends a control message now, or as soon as the ring has room.
    pub fn send_control(
        &mut self,
        channels: &mut Channels,
        peer: u32,
        packet: Packet,
    ) -> Result<(), Fault> {
        let queued = self.outbox(peer).is_some_and(|o| !o.control.is_empty());
        if queued || !channels.send(peer, &packet, None)? {
            self.outbox_to_fill(peer).control.push_back(packet);
        }
        Ok(())
    }

    /// Whether anything in the backlog could be sent now.
    pub fn can_send_backlog(&self, channels: &mut Channels) -> bool {
        self.backlog.iter().any(|&peer| {
            let Some(outbox) = self.outbox(peer) else {
                return false;
            };
            let head = outbox.ordered.front().map(|&id| &self.ops[id]);
            // What the head of the queue needs in the arena: asking for less would find room that
            // does not suffice.
            let head = head.filter(|_| outbox.control.is_empty());
            // A message that its receiver holds back is only announced.
            let is_held = head.is_some() && channels.is_held(peer);
            let (payload, needs_cell) = match head.map(|op| (op.phase, op.view.len())) {
                Some((SendPhase::Queued { plan: SendPlan::Inline | SendPlan::Ring, .. }, _))
                    if !is_held && channels.lacks_credit(peer) =>
                {
                    return false;
                }
                Some((SendPhase::Queued { plan: SendPlan::Ring, .. }, len)) if !is_held => {
                    (len, false)
                }
                Some((SendPhase::Queued { plan: SendPlan::Cells, .. }, _)) => (0, !is_held),
                Some((SendPhase::Streaming { .. }, _)) => (0, true),
                _ => (0, false),
            };
            channels.has_room(peer, payload) && (!needs_cell || channels.has_cell(peer))
        })
    }

    /// True when nothing that a peer waits for is queued, and no abandoned send is in progress.
    /// What is left of cancelled sends does not count: the peer may have ended without looking for
    /// it.
    pub fn is_flushed(&self) -> bool {
        let has_packets = |&peer: &u32| self.outbox(peer).is_some_and(Outbox::is_awaited);
        let is_cancelling =
            |id: &SendId| self.ops.get(id.0).is_some_and(|op| op.phase == SendPhase::Cancelling);
        !self.backlog.iter().any(has_packets) && self.abandoned.iter().all(is_cancelling)
    }
}
