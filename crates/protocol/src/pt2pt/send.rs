//! Sends: the sender's half of every protocol, up to the RTS of a long message.
//!
//! A send is complete at once, and has no [`SendOp`] then, if its message leaves in one packet or
//! all of its cells are free. Otherwise it goes through these phases ([`SendPhase`]):
//!
//! | from | to | by |
//! |---|---|---|
//! | `Queued` | `Ended` | the message left whole: in a slot, in the arena |
//! | `Queued` | `Streaming` | the first cell left (`CELLS`); further ones as they come free |
//! | `Queued` | `AwaitingReply` | the RTS left, or a synchronous message in one packet |
//! | `AwaitingReply` | `Streaming` | `CTS`: the receiver wants cells or chunks |
//! | `AwaitingReply` | `Ended` | `FIN`; or this side has pushed all (`JOIN`) |
//! | `AwaitingReply` | `Cancelling` | the program, see [`cancel`](crate::pt2pt::cancel) |
//! | `Streaming` | `Ended` | the last byte left |
//! | `Streaming` | `AwaitingReply` | the FIFO is used up (`RTS_REST`); a `CTS` continues |
//!
//! `Queued` and `Streaming` sends are in their peer's outbox and move when they are its first;
//! replies name a send by its index. All is under the engine's lock. What a receiver sees of a
//! message is ordered by the ring: the slot's release store publishes payload and cells.
//!
//! Cost, with alpha for a packet, beta for a byte copied once, c for the bytes of a cell: in a slot
//! or the arena alpha + 2 n beta; through cells alpha + (n + c) beta, since sender and receiver
//! copy at the same time; rendezvous: see there.
//!
//! Source: chai-2009, 3.2 (rings, cells, several cells to a control message), 6.3 (thresholds by
//! topology and skew); MPI 5.0, 3.4 (modes), 3.5 (order).

use crate::channels::packet::{self, CELLS_MAX};
use crate::engine::{EngineEventKind, EngineState, Fault, report};
use crate::matching::MatchEnvelope;
use crate::pt2pt::{
    RtsState, SendCompletion, SendEnd, SendId, SendOp, SendPhase, SendPlan, UnexpectedMessage,
};
use crate::wait::pending::Pending;
use mica_channel::direct::Backend;
use mica_channel::shm::Packet;
use mica_memory::{Block, Shape, View};
use mica_node::counters::TrafficClass;
use mica_node::segment::WaitKind;

impl EngineState {
    /// Starts a send. `None`: it is already complete, and the buffer may be reused.
    ///
    /// # Errors
    /// When memory for it cannot be allocated.
    #[inline(always)]
    pub fn send(
        &mut self,
        peer: u32,
        context: u64,
        tag: i32,
        view: &View,
        completion: SendCompletion,
    ) -> Result<Option<SendId>, Fault> {
        let plan = self.selection.plan(peer, view.len(), completion);
        if plan == SendPlan::Inline
            && peer != self.me
            && !self.sends.has_queued(peer)
            && let Some(class) =
                self.channels.send_inline(peer, packet::EAGER, context, tag, view)?
        {
            self.count_inline(class, peer, view.len());
            return Ok(None);
        }
        self.send_more(peer, context, tag, view, completion, plan)
    }

    /// Counts a message that left in one packet with its header.
    #[inline(always)]
    fn count_inline(&self, class: TrafficClass, peer: u32, bytes: usize) {
        match class {
            TrafficClass::Inline => {
                let level = self.selection.level(peer);
                self.counters.count_inline(level, bytes);
            }
            class => self.count_message(class, peer, bytes),
        }
    }

    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "six beside the receiver")]
    fn send_more(
        &mut self,
        peer: u32,
        context: u64,
        tag: i32,
        view: &View,
        completion: SendCompletion,
        plan: SendPlan,
    ) -> Result<Option<SendId>, Fault> {
        if self.goes_to_adapter(Some(peer)) {
            return self.send_by_adapter(peer, (context, tag), view, completion);
        }
        if peer == self.me {
            return self.send_to_self(context, tag, view, completion);
        }
        let in_turn = !self.sends.has_queued(peer);
        if in_turn
            && completion == SendCompletion::Local
            && plan == SendPlan::Ring
            && self.send_eager(peer, context, tag, view)?
        {
            return Ok(None);
        }
        let (plan, rts_state) = self.prepare(peer, view, plan);
        let phase = SendPhase::Queued { plan, completion };
        let op = SendOp { rts_state, ..SendOp::new(peer, (context, tag), view, phase) };
        let key = self.sends.ops.insert(op);
        let id = key.index();
        self.sends.enqueue(peer, id);
        if in_turn {
            self.advance_outbox(peer)?;
        }
        if self.sends.ops[id].phase.end().is_some() {
            self.sends.ops.remove(id);
            return Ok(None);
        }
        Ok(Some(SendId(key)))
    }

    /// Opens the buffer of a long message to its receiver. If the buffer is mapped, an RTS is worth
    /// it for shorter messages as well.
    fn prepare(&mut self, peer: u32, view: &View, plan: SendPlan) -> (SendPlan, RtsState) {
        let len = view.len();
        if self.channels.is_remote(peer) {
            // The buffer is registered with the network when the RTS leaves.
            return (plan, RtsState::default());
        }
        if matches!(plan, SendPlan::Cells | SendPlan::Rendezvous)
            && self.selection.is_worth_mapping(peer, len)
            && self.selection.gets_cooperative_copy(len)
            && let Some((address, _)) = view.as_contiguous()
            && let Some(exposed) = self.rendezvous.direct.recall(address, len)
        {
            return (SendPlan::Rendezvous, RtsState::of_recalled(exposed));
        }
        let exposed = match plan {
            SendPlan::Rendezvous => self.rendezvous.expose(view, len),
            SendPlan::Cells if self.selection.is_worth_mapping(peer, len) => {
                self.rendezvous.expose(view, len).filter(|e| e.exposure().backend() != Backend::Cma)
            }
            _ => None,
        };
        let plan = if exposed.is_some() { SendPlan::Rendezvous } else { plan };
        (plan, RtsState::of(exposed))
    }

    /// Whether the completion of a send is still to be taken.
    #[inline]
    pub fn has_send(&self, id: SendId) -> bool {
        self.sends.ops.get(id.0).is_some()
    }

    /// How the send has completed; it is then removed. One that is gone counts as sent.
    pub fn take_send(&mut self, id: SendId) -> Option<SendEnd> {
        self.sends.take(id)
    }

    /// As [`take_send`](Self::take_send), but the send is kept.
    #[inline]
    pub fn sent(&self, id: SendId) -> Option<SendEnd> {
        self.sends.ops.get(id.0).map_or(Some(SendEnd::Sent), |op| op.phase.end())
    }

    /// True when the send is complete, or gone.
    #[inline]
    pub fn is_sent(&self, id: SendId) -> bool {
        self.sent(id).is_some()
    }

    /// Describes a pending send, for hang reports.
    pub fn pending_send(&self, id: SendId) -> Pending {
        let Some(op) = self.sends.ops.get(id.0) else {
            return Pending::of(WaitKind::Send);
        };
        Pending {
            peer: Some(op.peer),
            tag: Some(op.tag),
            context: Some(op.context),
            bytes: Some(op.view.len()),
            ..Pending::of(WaitKind::Send)
        }
    }

    fn send_to_self(
        &mut self,
        context: u64,
        tag: i32,
        view: &View,
        completion: SendCompletion,
    ) -> Result<Option<SendId>, Fault> {
        self.counters.count_on_path(TrafficClass::Own, view.len());
        let envelope = MatchEnvelope { context, source: self.me, tag };
        if let Some(recv) = self.queues.posted.take(&envelope) {
            report(EngineEventKind::Arrived, &envelope, view.len(), 1);
            self.deliver_own(recv, &envelope, view);
            return Ok(None);
        }
        let is_short = view.len() <= self.selection.eager_to_self(self.me);
        if completion == SendCompletion::Local && is_short && self.may_keep_own(view.len()) {
            let copy = Block::allocate(view.len())?.view(Shape::Contiguous { bytes: view.len() });
            copy.copy_from(view);
            let message =
                UnexpectedMessage::Buffered { copy, arrived: view.len(), acknowledge: None };
            self.queues.insert(envelope, message, &self.counters);
            return Ok(None);
        }
        let op = SendOp::new(self.me, (context, tag), view, SendPhase::AwaitingReply);
        let key = self.sends.ops.insert(op);
        let message = UnexpectedMessage::FromSelf { send: key.index(), bytes: view.len() };
        self.queues.insert(envelope, message, &self.counters);
        Ok(Some(SendId(key)))
    }

    /// Sends as much of the backlog as possible.
    #[cold]
    pub(crate) fn advance_backlog(&mut self) -> Result<(), Fault> {
        let mut at = 0;
        while at < self.sends.backlog.len() {
            let peer = self.sends.backlog[at];
            self.advance_outbox(peer)?;
            if !self.sends.is_queued(peer) {
                self.sends.backlog.swap_remove(at);
            } else {
                at += 1;
            }
        }
        Ok(())
    }

    /// Sends as much of one outbox as possible. The peer stays in the backlog.
    fn advance_outbox(&mut self, peer: u32) -> Result<(), Fault> {
        while let Some(packet) = self.sends.outbox(peer).and_then(|o| o.control.front().copied()) {
            if !self.channels.send(peer, &packet, None)? {
                return Ok(());
            }
            self.sends.outboxes.entry(peer).control.pop_front();
        }
        while let Some(id) = self.sends.outbox(peer).and_then(|o| o.ordered.front().copied()) {
            if !self.advance_send(id)? {
                return Ok(());
            }
            self.sends.outboxes.entry(peer).ordered.pop_front();
        }
        Ok(())
    }

    /// Advances the send at the head of its outbox. True when it may leave the outbox.
    fn advance_send(&mut self, id: u32) -> Result<bool, Fault> {
        let op = &self.sends.ops[id];
        let (peer, context, tag) = (op.peer, op.context, op.tag);
        match op.phase {
            SendPhase::Queued { plan, .. }
                if plan != SendPlan::Rendezvous && self.channels.is_held(peer) =>
            {
                self.send_rts(id)
            }
            SendPhase::Queued { plan: SendPlan::Inline | SendPlan::Ring, completion } => {
                let view = op.view.clone();
                let sent = if completion == SendCompletion::Matched {
                    self.send_sync(peer, context, tag, &view, id)?
                } else {
                    self.send_eager(peer, context, tag, &view)?
                };
                if sent {
                    if completion == SendCompletion::Matched {
                        self.sends.ops[id].phase = SendPhase::AwaitingReply;
                    } else {
                        self.end_send(id, SendEnd::Sent);
                    }
                }
                Ok(sent)
            }
            SendPhase::Queued { plan: SendPlan::Rendezvous, .. } => self.send_rts(id),
            SendPhase::Queued { plan: SendPlan::Cells, .. } => self.stream(id, 0, None),
            SendPhase::Streaming { position, target } => match self.channels.chunk_bytes(peer) {
                Some(chunk) => self.stream_chunks(id, position, target, chunk),
                None => self.stream(id, position, Some(target)),
            },
            SendPhase::AwaitingReply | SendPhase::Cancelling | SendPhase::Ended(_) => Ok(true),
        }
    }

    fn send_eager(
        &mut self,
        peer: u32,
        context: u64,
        tag: i32,
        view: &View,
    ) -> Result<bool, Fault> {
        let len = view.len();
        if len <= mica_channel::shm::INLINE {
            let sent = self.channels.send_inline(peer, packet::EAGER, context, tag, view)?;
            if let Some(class) = sent {
                self.count_inline(class, peer, len);
            }
            return Ok(sent.is_some());
        }
        let head = Packet { context, tag, payload: len as u32, ..Packet::of_kind(packet::EAGER) };
        let sent = self.channels.send(peer, &head, Some(view))?;
        if sent {
            self.count_message(self.channels.eager_class(peer), peer, len);
        }
        Ok(sent)
    }

    fn send_sync(
        &mut self,
        peer: u32,
        context: u64,
        tag: i32,
        view: &View,
        id: u32,
    ) -> Result<bool, Fault> {
        let payload = view.len() as u32;
        let mut head = Packet { context, tag, payload, ..Packet::of_kind(packet::EAGER_SYNC) };
        head.set_word(0, u64::from(id));
        let sent = self.channels.send(peer, &head, Some(view))?;
        if sent {
            self.count_message(self.channels.eager_class(peer), peer, view.len());
        }
        Ok(sent)
    }

    /// Sends a message's bytes from `position` on through cells, as far as there are free cells.
    /// `target` is `None` before the first packet of an eager message.
    fn stream(
        &mut self,
        id: u32,
        mut position: usize,
        mut target: Option<u64>,
    ) -> Result<bool, Fault> {
        let op = &self.sends.ops[id];
        let (peer, context, tag, view) = (op.peer, op.context, op.tag, op.view.clone());
        let len = view.len();
        while position < len && self.channels.has_room(peer, 0) {
            // The first packet carries one cell, so that the receiver starts early; later ones
            // carry up to a batch.
            let batch = if position == 0 { 1 } else { BATCH };
            let mut cells = [0u16; CELLS_MAX];
            let mut n = 0;
            let mut end = position;
            while n < batch && end < len {
                let Some((cell, bytes)) = self.channels.shm.load_cell(peer, &view, end)? else {
                    break;
                };
                cells[n] = cell;
                n += 1;
                end += bytes;
            }
            if n == 0 {
                break;
            }
            let (kind, word) = match target {
                None => (packet::CELLS, len as u64),
                Some(target) => (packet::MORE_CELLS, target),
            };
            let head = packet::cells(kind, context, tag, word, &cells[..n]);
            let sent = self.channels.send(peer, &head, None)?;
            debug_assert!(sent, "there was room, and no other thread uses the ring");
            position = end;
            target = target.or(Some(0));
        }
        if position == len {
            self.end_send(id, SendEnd::Sent);
            self.count_message(TrafficClass::Cells, peer, len);
            return Ok(true);
        }
        if let Some(target) = target {
            self.sends.ops[id].phase = SendPhase::Streaming { position, target };
        }
        Ok(false)
    }

    /// Sends a message's bytes from `position` on in chunks of `chunk` bytes: through a FIFO of the
    /// basic design until it is used up, then it asks to send the rest (chai-2009, 3.1.1, step 3);
    /// over the network as far as there is room.
    fn stream_chunks(
        &mut self,
        id: u32,
        mut position: usize,
        target: u64,
        chunk: usize,
    ) -> Result<bool, Fault> {
        let op = &self.sends.ops[id];
        let (peer, view) = (op.peer, op.view.clone());
        let len = view.len();
        while position < len {
            let bytes = chunk.min(len - position);
            let head = packet::chunk(target, bytes);
            if !self.channels.send_chunk(peer, &head, &view, position)? {
                // Over the network, sent packets make room without an answer of the receiver.
                let sent_rts = !self.channels.is_remote(peer) && {
                    let again = packet::rts_rest(id, (target - 1) as u32);
                    self.channels.send(peer, &again, None)?
                };
                self.sends.ops[id].phase = if sent_rts {
                    SendPhase::AwaitingReply
                } else {
                    SendPhase::Streaming { position, target }
                };
                return Ok(sent_rts);
            }
            position += bytes;
        }
        self.end_send(id, SendEnd::Sent);
        self.count_message(self.channels.eager_class(peer), peer, len);
        Ok(true)
    }

    /// The receiver asks for a message through cells or in chunks, or for the rest of one.
    pub(crate) fn on_cts(&mut self, packet: &Packet) -> Result<(), Fault> {
        let (id, receiver_op) = (packet.word(0) as u32, packet.word(1));
        let op = &mut self.sends.ops[id];
        let peer = op.peer;
        op.phase =
            SendPhase::Streaming { position: packet.word(2) as usize, target: receiver_op + 1 };
        let in_turn = !self.sends.has_queued(peer);
        self.sends.enqueue(peer, id);
        if in_turn {
            self.advance_outbox(peer)?;
        }
        Ok(())
    }
}

/// Maximum number of cells that one control message announces (chai-2009, 3.2.4, "Reducing
/// Indirection Overhead").
const BATCH: usize = 2;
