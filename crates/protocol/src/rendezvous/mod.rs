//! Rendezvous: long messages, from the RTS to the last byte (docs/design/house.md, section 4;
//! chai-2009, chapters 4 to 6; MPI 5.0, 3.4 and 3.7).
//!
//! The sender announces where its bytes lie (`RTS`). The receiver chooses the path when the message
//! is matched:
//!
//! | path | who copies | packets after the RTS (r: receiver, s: sender) | cost |
//! |---|---|---|---|
//! | pull | the receiver | r: `FIN` | 2 alpha + n beta |
//! | cooperate | both, disjoint pieces | r: `JOIN`, `FIN`; s: `PUSHED` | 3 alpha + n beta / 2 |
//! | push | the sender | r: `JOIN`; s: `PUSHED` | 3 alpha + n beta |
//! | cells | both, each byte twice | r: `CTS`; s: `MORE_CELLS` ... | 2 alpha + (n + c) beta |
//!
//! (alpha: a packet; beta: a byte copied once; c: the bytes of a cell.)
//!
//! If both copy, the receiver sends `FIN` when it has copied its pieces, and the sender `PUSHED` if
//! it has taken any. A sender takes part whenever it makes progress: the receiver does not wait for
//! the sender, only for pieces that the sender has taken.
//!
//! **Orderings.** A packet publishes the copies that it reports: the ring's release store comes
//! after them. The word that divides a message orders nothing else (`node::cooperative`). A buffer
//! that is announced from cached state is confirmed while its packet travels: what the receiver has
//! copied before the answer counts only if that is yes, and a sender stores nothing before it
//! ([`cooperative`]).
//!
//! **Failures.** If a copy is refused, the message goes through cells from its start. A receiver
//! that fails takes the remaining pieces without copying them, so that the sender stops, and asks
//! for cells. A sender that fails reports it, remains pending, and ignores a `FIN`.

pub(crate) mod cooperative;
pub(crate) mod offloading;
pub(crate) mod remote;
pub(crate) mod state;

use crate::channels::packet::{self, JoinPacket, PushOutcome, RtsPacket};
use crate::engine::{EngineEventKind, EngineState, Fault, report};
use crate::matching::MatchEnvelope;
use crate::pt2pt::{BufferFacts, ReceiveStage, RecvId, SendEnd, SendPhase};
use crate::rendezvous::cooperative::{PeerRange, await_answer};
use mica_channel::direct::{CopyRefusal, Exposed, PeerCopy, RemoteRun, SenderBuffer};
use mica_channel::shm::Packet;
use mica_memory::View;
use mica_node::cooperative::CopyEnd;
use mica_node::counters::TrafficClass;
use mica_policy as policy;

/// Who copies a message whose receiver has sent a `JOIN`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copier {
    Sender,
    Both,
}

/// A receive buffer that is open to the sender.
struct OpenedBuffer {
    exposed: Exposed,
    /// It is cached, and is confirmed when the sender has been notified.
    unverified: bool,
}

impl EngineState {
    /// Sends the RTS of send `id` to its receiver. False when the ring is full.
    pub(crate) fn send_rts(&mut self, id: u32) -> Result<bool, Fault> {
        let op = &mut self.sends.ops[id];
        let (peer, len) = (op.peer, op.view.len());
        if !self.channels.has_room(peer, 0) {
            return Ok(false);
        }
        if self.channels.is_remote(peer) {
            return self.send_rts_remote(id);
        }
        let op = &mut self.sends.ops[id];
        let remote =
            if let Some((address, _)) = op.view.as_contiguous() {
                Some(SenderBuffer::Contiguous { address: address as u64 })
            } else if self.selection.is_worth_listing(peer, &op.view) {
                if op.rts_state.pieces.is_empty() {
                    op.rts_state.pieces.extend(op.view.runs(0).map(|run| RemoteRun {
                        address: run.address as u64,
                        bytes: run.len as u64,
                    }));
                }
                Some(SenderBuffer::Runs {
                    table: op.rts_state.pieces.as_ptr().addr() as u64,
                    count: op.rts_state.pieces.len() as u64,
                })
            } else {
                None
            };
        let contiguous = matches!(remote, Some(SenderBuffer::Contiguous { .. }));
        if contiguous && self.selection.gets_cooperative_copy(len) {
            op.rts_state.copy_index = self.rendezvous.cooperative.take()?;
        }
        if op.rts_state.unverified && op.rts_state.copy_index.is_none() {
            // Without a cooperative copy there is no place for the answer.
            op.rts_state.unverified = false;
            let (address, _) = op.view.as_contiguous().expect("unverified");
            op.rts_state.exposed = self.rendezvous.direct.expose(address, len);
        }
        let rts = RtsPacket {
            len: len as u64,
            op: id,
            copy_index: op.rts_state.copy_index,
            remote,
            exposure: op.rts_state.exposed.as_ref().map(Exposed::exposure),
            unverified: op.rts_state.unverified,
            registered: None,
        };
        let head = packet::rts(op.context, op.tag, &rts);
        let sent = self.channels.send(peer, &head, None)?;
        debug_assert!(sent, "there was room, and no other thread uses the ring");
        if let (true, Some(index), Some(exposed), Some((address, _))) = (
            op.rts_state.unverified,
            op.rts_state.copy_index,
            &op.rts_state.exposed,
            op.view.as_contiguous(),
        ) {
            // While the RTS is in flight.
            let is_right = self.rendezvous.direct.confirm(address, len, exposed);
            self.rendezvous.cooperative.own(index).confirm(CopyEnd::Back, is_right);
        }
        let long = self.rendezvous.is_long(len) && self.completions.begin_long_message();
        let op = &mut self.sends.ops[id];
        op.phase = SendPhase::AwaitingReply;
        op.rts_state.long = long;
        Ok(true)
    }

    /// Transfers a message that its sender has only announced.
    pub(crate) fn fetch(
        &mut self,
        id: RecvId,
        envelope: MatchEnvelope,
        rts: RtsPacket,
    ) -> Result<(), Fault> {
        let (peer, total) = (envelope.source, rts.len as usize);
        let op = &mut self.receives.ops[id.index()];
        op.stage = ReceiveStage::Incoming { envelope, total, position: 0 };
        let view = op.view.clone();
        let len = total.min(view.len());
        if len == 0 {
            self.finish_incoming(id);
            return self.send_control(peer, packet::fin(rts.op, TrafficClass::Direct));
        }
        if self.channels.is_remote(peer) {
            return self.fetch_remote(id, peer, &rts, &view, len);
        }
        let peer_range = self.open_sender_buffer(peer, &rts);
        let sender_mapped = peer_range.as_ref().is_some_and(|r| r.is_mapped(total));
        // Opening this side's buffer has no use if the other side's is enough.
        let opened = if sender_mapped && !self.selection.may_cooperate() {
            None
        } else {
            self.open_receive(&view, len, rts.copy_index)
        };
        let buffers = BufferFacts {
            len,
            pieces: sender_pieces(&rts).max(view.run_count_hint()),
            sender_mapped,
            receiver_mapped: opened
                .as_ref()
                .is_some_and(|m| m.exposed.exposure().reachable(len) == (0..len)),
            readable: rts.remote.is_some() && self.rendezvous.direct.is_usable(peer),
            can_cooperate: rts.copy_index.is_some() && opened.is_some(),
            offload: self.may_offload(len),
        };
        let path = self.selection.choose(peer, &buffers);
        report(EngineEventKind::PathChosen, &envelope, total, path as u64);
        match (path, peer_range, rts.remote) {
            (policy::MessagePath::Mapped, Some(peer_range), _) if buffers.sender_mapped => {
                self.pull(id, &rts, &peer_range, &view, len)
            }
            (policy::MessagePath::Mapped, ..) => self.request_push(id, &rts, &view, len, opened),
            (
                policy::MessagePath::MappedCooperate | policy::MessagePath::Cooperate,
                Some(peer_range),
                _,
            ) => self.cooperate(id, &rts, &peer_range, &view, len, opened),
            (policy::MessagePath::Pull, Some(peer_range), _) => {
                self.pull(id, &rts, &peer_range, &view, len)
            }
            (policy::MessagePath::Pull, None, Some(remote)) => {
                let pulled =
                    self.timed_copy(len, |s| s.rendezvous.direct.pull(peer, remote, &view, len));
                self.finish_pull(id, peer, &rts, pulled, TrafficClass::Direct)
            }
            (policy::MessagePath::Offload, peer_range, _) => {
                if !peer_range.as_ref().is_none_or(|r| r.is_confirmed(CopyEnd::Back)) {
                    return self.ask_for_cells(id, peer, rts.op);
                }
                let window = peer_range.and_then(|r| r.window).filter(|_| buffers.sender_mapped);
                if self.offload(id, peer, &rts, window, &view, len) {
                    Ok(())
                } else {
                    self.ask_for_cells(id, peer, rts.op)
                }
            }
            _ => self.ask_for_cells(id, peer, rts.op),
        }
    }

    /// The sender's buffer, if it is contiguous and this rank may read it.
    fn open_sender_buffer(&mut self, peer: u32, rts: &RtsPacket) -> Option<PeerRange> {
        let Some(SenderBuffer::Contiguous { address }) = rts.remote else {
            return None;
        };
        let total = rts.len as usize;
        let mut range =
            PeerRange::open(&mut self.rendezvous.direct, peer, address, rts.exposure, total);
        if let Some(index) = rts.copy_index.filter(|_| rts.unverified) {
            range.answer = Some(self.rendezvous.cooperative.of(peer, index));
        }
        Some(range)
    }

    /// Copies the whole message on this side.
    fn pull(
        &mut self,
        id: RecvId,
        rts: &RtsPacket,
        peer_range: &PeerRange,
        view: &View,
        len: usize,
    ) -> Result<(), Fault> {
        let pulled = self.timed_copy(len, |s| {
            peer_range.copy(PeerCopy::Load, &mut s.rendezvous.direct, view, 0..len)
        });
        if !peer_range.is_confirmed(CopyEnd::Back) {
            return self.ask_for_cells(id, peer_range.peer, rts.op);
        }
        self.finish_pull(id, peer_range.peer, rts, pulled, peer_range.traffic_class())
    }

    /// Ends a receive whose message this side has tried to pull.
    fn finish_pull(
        &mut self,
        id: RecvId,
        peer: u32,
        rts: &RtsPacket,
        pulled: Result<(), CopyRefusal>,
        class: TrafficClass,
    ) -> Result<(), Fault> {
        if pulled.is_err() {
            return self.ask_for_cells(id, peer, rts.op);
        }
        self.finish_fetch(id, peer, rts.op, class)
    }

    /// The whole message is here.
    pub(crate) fn finish_fetch(
        &mut self,
        id: RecvId,
        peer: u32,
        sender_op: u32,
        class: TrafficClass,
    ) -> Result<(), Fault> {
        self.finish_incoming(id);
        self.send_control(peer, packet::fin(sender_op, class))
    }

    /// Opens the buffer to the sender, which copies the whole message.
    fn request_push(
        &mut self,
        id: RecvId,
        rts: &RtsPacket,
        view: &View,
        len: usize,
        opened: Option<OpenedBuffer>,
    ) -> Result<(), Fault> {
        self.send_join(id, rts, view, len, opened, Copier::Sender)?;
        self.await_push(id, rts.op, PushOutcome::Copied);
        Ok(())
    }

    /// Opens the buffer to the sender and copies the pieces that the sender does not take.
    #[expect(clippy::too_many_arguments, reason = "six beside the receiver")]
    fn cooperate(
        &mut self,
        id: RecvId,
        rts: &RtsPacket,
        peer_range: &PeerRange,
        view: &View,
        len: usize,
        opened: Option<OpenedBuffer>,
    ) -> Result<(), Fault> {
        let Some(index) = rts.copy_index else {
            return self.pull(id, rts, peer_range, view, len);
        };
        self.send_join(id, rts, view, len, opened, Copier::Both)?;
        let copy = self.rendezvous.cooperative.of(peer_range.peer, index);
        let mut failed = self.timed_copy(len, |state| {
            let mut failed = false;
            while let Some(piece) = copy.take(CopyEnd::Front, len) {
                failed = failed
                    || peer_range
                        .copy(PeerCopy::Load, &mut state.rendezvous.direct, view, piece)
                        .is_err();
            }
            failed
        });
        failed |= !peer_range.is_confirmed(CopyEnd::Back);
        if copy.is_shared_with(CopyEnd::Back) {
            let own_part = match failed {
                true => PushOutcome::Failed,
                false => PushOutcome::Copied,
            };
            self.await_push(id, rts.op, own_part);
        } else if failed {
            return self.ask_for_cells(id, peer_range.peer, rts.op);
        } else {
            self.finish_incoming(id);
        }
        if failed {
            // The sender remains pending until its part is here, and is then asked for cells.
            return Ok(());
        }
        self.send_control(peer_range.peer, packet::fin(rts.op, peer_range.traffic_class()))
    }

    /// Sends `JOIN`: where the buffer of receive `id` lies, and who copies.
    #[expect(clippy::too_many_arguments, reason = "six beside the receiver")]
    fn send_join(
        &mut self,
        id: RecvId,
        rts: &RtsPacket,
        view: &View,
        len: usize,
        opened: Option<OpenedBuffer>,
        copier: Copier,
    ) -> Result<(), Fault> {
        let join = JoinPacket {
            sender_op: rts.op,
            receiver_op: id.index(),
            len: len as u64,
            address: view.as_contiguous().map_or(0, |(a, _)| a as u64),
            exposure: opened.as_ref().map(|m| m.exposed.exposure()),
            sender_copies_all: copier == Copier::Sender,
            unverified: opened.as_ref().is_some_and(|m| m.unverified),
        };
        let op = &mut self.receives.ops[id.index()];
        op.exposed = opened.map(|m| m.exposed);
        let ReceiveStage::Incoming { envelope, .. } = op.stage else {
            unreachable!("a message that is fetched is incoming")
        };
        let peer = envelope.source;
        self.send_control(peer, packet::join(&join))?;
        if let (true, Some(index), Some(exposed)) =
            (join.unverified, rts.copy_index, &self.receives.ops[id.index()].exposed)
        {
            // While the `JOIN` is in flight.
            let is_right = self.rendezvous.direct.confirm(join.address as usize, len, exposed);
            self.rendezvous.cooperative.of(peer, index).confirm(CopyEnd::Front, is_right);
        }
        Ok(())
    }

    /// Opens the buffer of a receive to the sender; from cached state, if there is a cooperative
    /// copy for the answer.
    fn open_receive(
        &mut self,
        view: &View,
        len: usize,
        copy_index: Option<u8>,
    ) -> Option<OpenedBuffer> {
        let (address, _) = view.as_contiguous()?;
        if copy_index.is_some()
            && let Some(exposed) = self.rendezvous.direct.recall(address, len)
        {
            return Some(OpenedBuffer { exposed, unverified: true });
        }
        let exposed = self.rendezvous.expose(view, len)?;
        Some(OpenedBuffer { exposed, unverified: false })
    }

    /// This side has done its part of receive `id`, and waits for the sender's.
    fn await_push(&mut self, id: RecvId, sender_op: u32, own_part: PushOutcome) {
        let op = &mut self.receives.ops[id.index()];
        if let ReceiveStage::Incoming { envelope, total, .. } = op.stage {
            op.stage = ReceiveStage::Cooperative {
                envelope,
                total,
                sender_op,
                failed: own_part == PushOutcome::Failed,
            };
        }
    }

    pub(crate) fn ask_for_cells(
        &mut self,
        id: RecvId,
        peer: u32,
        sender_op: u32,
    ) -> Result<(), Fault> {
        self.send_control(peer, packet::cts(sender_op, id.index(), 0))
    }

    /// The receiver has opened its buffer: copies the pieces that it leaves to this side, now.
    pub(crate) fn on_join(&mut self, packet: &Packet) -> Result<(), Fault> {
        let join = packet::read_join(packet);
        let (id, len) = (join.sender_op, join.len as usize);
        let op = &self.sends.ops[id];
        let (peer, view) = (op.peer, op.view.clone());
        let peer_range =
            PeerRange::open(&mut self.rendezvous.direct, peer, join.address, join.exposure, len);
        let right = match op.rts_state.copy_index.filter(|_| join.unverified) {
            Some(index) => await_answer(&self.rendezvous.cooperative.own(index), CopyEnd::Front),
            None => true,
        };
        let usable = right && (peer_range.is_mapped(len) || self.rendezvous.direct.is_usable(peer));
        let mut failed = false;
        if join.sender_copies_all {
            failed = !usable
                || self.timed_copy(len, |state| {
                    let stored = peer_range.copy(
                        PeerCopy::Store,
                        &mut state.rendezvous.direct,
                        &view,
                        0..len,
                    );
                    stored.is_err()
                });
        } else {
            let index = self.sends.ops[id].rts_state.copy_index;
            let index = index.expect("JOIN names a message with a cooperative copy");
            let copy = self.rendezvous.cooperative.own(index);
            let mut took = false;
            self.timed_copy(len, |state| {
                while usable
                    && !failed
                    && let Some(piece) = copy.take(CopyEnd::Back, len)
                {
                    took = true;
                    failed = peer_range
                        .copy(PeerCopy::Store, &mut state.rendezvous.direct, &view, piece)
                        .is_err();
                }
            });
            if !took {
                return Ok(());
            }
        }
        if failed {
            self.sends.ops[id].rts_state.push_failed = true;
        } else if join.sender_copies_all {
            self.complete_send(id, TrafficClass::Mapped);
        }
        let outcome = match failed {
            true => PushOutcome::Failed,
            false => PushOutcome::Copied,
        };
        self.send_control(peer, packet::pushed(join.receiver_op, outcome))
    }

    /// The sender has copied its part.
    pub(crate) fn on_pushed(&mut self, source: u32, packet: &Packet) -> Result<(), Fault> {
        let (id, outcome) = packet::read_pushed(packet);
        let push_failed = outcome == PushOutcome::Failed;
        let id = RecvId(self.receives.ops.key_at(id));
        let op = &mut self.receives.ops[id.index()];
        let ReceiveStage::Cooperative { envelope, total, sender_op, failed } = op.stage else {
            debug_assert!(false, "a push from rank {source} to a receive that did not join");
            return Ok(());
        };
        op.stage = ReceiveStage::Incoming { envelope, total, position: 0 };
        if failed || push_failed {
            return self.ask_for_cells(id, source, sender_op);
        }
        self.finish_incoming(id);
        Ok(())
    }

    /// The receiver has received (or has matched) the message, and no longer uses its memory.
    pub(crate) fn on_fin(&mut self, packet: &Packet) {
        let (id, class) = packet::read_fin(packet);
        if !self.sends.ops[id].rts_state.push_failed {
            self.complete_send(id, class);
        }
    }

    fn complete_send(&mut self, id: u32, class: TrafficClass) {
        let op = &self.sends.ops[id];
        // A short message that was only acknowledged was counted when it left.
        let (peer, len) = (op.peer, op.view.len());
        if len > self.selection.ring_max(peer) {
            self.count_message(class, peer, len);
        }
        self.end_send(id, SendEnd::Sent);
    }

    /// A send has ended: releases what it keeps for its receiver.
    pub(crate) fn end_send(&mut self, index: u32, end: SendEnd) {
        let op = &mut self.sends.ops[index];
        op.phase = SendPhase::Ended(end);
        let actions = std::mem::take(&mut op.actions);
        self.completions.finish(actions);
        self.release_rts(index);
    }

    /// Releases the memory that the message keeps for peers.
    fn release_rts(&mut self, id: u32) {
        let rts_state = std::mem::take(&mut self.sends.ops[id].rts_state);
        if let Some(index) = rts_state.copy_index {
            self.rendezvous.cooperative.give_back(index);
        }
        if rts_state.long {
            self.completions.end_long_message();
        }
        if let Some(exposed) = rts_state.registered {
            let peer = self.sends.ops[id].peer;
            let network = self.channels.network_to(peer);
            network.expect("it has registered the memory").conceal(exposed);
        }
    }
}

/// Number of contiguous pieces of the sender's buffer.
fn sender_pieces(rts: &RtsPacket) -> usize {
    match rts.remote {
        Some(SenderBuffer::Runs { count, .. }) => count as usize,
        _ => 1,
    }
}
