//! Receives and probes: the receiver's half of every protocol, up to the RTS of a long message.
//!
//! A receive that finds its message next in its sender's ring, while no other is posted, never
//! becomes an operation ([`try_receive`](EngineState::try_receive)). Others go through these stages
//! ([`ReceiveStage`]):
//!
//! | from | to | by |
//! |---|---|---|
//! | `Posted` | `Incoming` | the first packet of a matching message (`CELLS`, `RTS`) |
//! | `Posted` | `Complete` | a whole message (`EAGER`); or the program cancels |
//! | `AtAdapter` | `Complete` | an adapter that matches |
//! | `Incoming` | `Cooperative` | this side has copied its part, the sender may still copy |
//! | `Cooperative` | `Incoming` | `PUSHED`: the sender has copied its part, or failed to |
//! | `Incoming` | `Complete` | all bytes are here: cells, chunks, a copy by this side, a read |
//!
//! A message without a receive is kept ([`UnexpectedMessage`]): its bytes are copied to the heap,
//! since cells belong to the sender; of a long one only the RTS. A matched probe takes it out of
//! the queue, and cells that still come go where the message is then ([`InboundTarget`]); there is
//! at most one such message for each sender, since packets of a pair keep their order.
//!
//! If there is no memory for a copy, the packet stays where it is ([`PacketOutcome::Left`]) and
//! progress tries again. All is under the engine's lock.
//!
//! Cost: matching is O(1) in both queues ([`matching`](crate::matching)); an unexpected message is
//! copied once more, n beta.
//!
//! Source: MPI 5.0, 3.5 (order), 3.8 (probe, matched probe, cancel).

use crate::channels::packet;
use crate::engine::{EngineEventKind, EngineState, Fault, report};
use crate::matching::{MatchEnvelope, MatchPattern};
use crate::pt2pt::{
    FastReceive, Inbound, InboundTarget, MessageId, Overlong, ProbedMessage, ReceiveCompletion,
    ReceiveStage, RecvId, RecvOp, SendEnd, UnexpectedMessage,
};
use crate::wait::pending::Pending;
use mica_channel::shm::Packet;
use mica_memory::{Block, OutOfMemory, Shape, View};
use mica_node::counters::TrafficClass;
use mica_node::segment::WaitKind;

/// What has become of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketOutcome {
    Handled,
    /// Nothing was done: there is no memory for a copy of its message.
    Left(OutOfMemory),
}

impl EngineState {
    /// Starts a receive.
    ///
    /// # Errors
    /// When progress fails for lack of memory.
    pub fn receive(&mut self, pattern: MatchPattern, view: &View) -> Result<RecvId, Fault> {
        if self.goes_to_adapter(pattern.source) {
            return self.receive_by_adapter(pattern, view, None);
        }
        let unexpected = self.queues.unexpected.find(&pattern);
        let op = RecvOp::new(pattern, view);
        let id = RecvId(self.receives.ops.insert(op));
        match unexpected {
            None => {
                let ticket = self.queues.posted.post(pattern, id);
                let long =
                    self.rendezvous.is_long(view.len()) && self.completions.begin_long_message();
                let op = &mut self.receives.ops[id.index()];
                op.stage = ReceiveStage::Posted { ticket };
                op.actions.set_long(long);
            }
            Some(ticket) => {
                let (envelope, message) = self.queues.remove(ticket, &self.counters);
                self.accept(id, envelope, message, InboundTarget::Unexpected(ticket))?;
                self.received_unexpected(envelope.source)?;
            }
        }
        Ok(id)
    }

    /// Starts the receive of a message that a matched probe has taken.
    ///
    /// # Errors
    /// When progress fails for lack of memory.
    pub fn receive_probed(&mut self, probed: MessageId, view: &View) -> Result<RecvId, Fault> {
        let (envelope, message) = self.queues.probed.remove(probed.0 as usize);
        let pattern = MatchPattern {
            context: envelope.context,
            source: Some(envelope.source),
            tag: Some(envelope.tag),
        };
        if let UnexpectedMessage::AtAdapter { extract, .. } = message {
            return self.receive_by_adapter(pattern, view, Some(extract));
        }
        let op = RecvOp::new(pattern, view);
        let id = RecvId(self.receives.ops.insert(op));
        self.accept(id, envelope, message, InboundTarget::Probed(probed.0 as usize))?;
        self.received_unexpected(envelope.source)?;
        Ok(id)
    }

    /// Whether the completion of a receive is still to be taken.
    #[inline]
    pub fn has_receive(&self, id: RecvId) -> bool {
        self.receives.ops.get(id.0).is_some()
    }

    /// The result of a receive, if it is complete; the receive is then removed.
    #[inline]
    pub fn take_received(&mut self, id: RecvId) -> Option<ReceiveCompletion> {
        self.receives.take(id)
    }

    /// The result of a receive, if it is complete; the receive is kept.
    #[inline]
    pub fn received(&self, id: RecvId) -> Option<ReceiveCompletion> {
        self.receives.completion(id)
    }

    /// Describes a pending receive, for hang reports.
    pub fn pending_receive(&self, id: RecvId) -> Pending {
        let kind = WaitKind::Receive;
        let op = self.receives.ops.get(id.0);
        let known = op.map(|op| Pending::matching(kind, &op.pattern, Some(op.view.len())));
        known.unwrap_or(Pending::of(kind))
    }

    /// Whether a receive is complete, or gone.
    #[inline]
    pub fn is_received(&self, id: RecvId) -> bool {
        self.receives.is_over(id)
    }

    /// Cancels a receive if it is not matched yet; it then completes as cancelled (MPI 5.0, 3.8.4).
    pub fn cancel_receive(&mut self, id: RecvId) {
        let Some(op) = self.receives.ops.get(id.0) else {
            return;
        };
        match op.stage {
            ReceiveStage::Posted { ticket } => {
                self.queues.posted.remove(ticket);
                self.finish_cancelled(id);
            }
            ReceiveStage::AtAdapter { operation } => self.cancel_by_adapter(id, operation),
            _ => {}
        }
    }

    /// Completes a receive as cancelled.
    pub(crate) fn finish_cancelled(&mut self, id: RecvId) {
        let op = &self.receives.ops[id.index()];
        let MatchPattern { context, source, tag } = op.pattern;
        let envelope =
            MatchEnvelope { context, source: source.unwrap_or(self.me), tag: tag.unwrap_or(-1) };
        let capacity = op.view.len();
        self.finish(id, ReceiveCompletion { envelope, sent: 0, capacity, cancelled: true });
    }

    /// The first message that matches `pattern`, if one has arrived; it remains in the queue.
    pub fn probe(&mut self, pattern: &MatchPattern) -> Option<ProbedMessage> {
        if self.goes_to_adapter(pattern.source) {
            return self.probe_by_adapter(pattern);
        }
        self.queues.probe(pattern)
    }

    /// The first message that matches `pattern`, if one has arrived. It is taken: only
    /// [`EngineState::receive_probed`] receives it.
    pub fn probe_matched(&mut self, pattern: &MatchPattern) -> Option<(MessageId, ProbedMessage)> {
        if self.goes_to_adapter(pattern.source) {
            return self.extract_by_adapter(pattern);
        }
        let ticket = self.queues.unexpected.find(pattern)?;
        let (envelope, message) = self.queues.remove(ticket, &self.counters);
        let arrival = ProbedMessage { envelope, bytes: message.bytes() };
        let index = self.queues.probed.insert((envelope, message));
        if let Some(inbound) = self.receives.inbound_of(envelope.source)
            && inbound.target == InboundTarget::Unexpected(ticket)
        {
            inbound.target = InboundTarget::Probed(index);
        }
        Some((MessageId(index as u32), arrival))
    }

    /// Matches receive `id` with a message that arrived before it and was known as `old`.
    fn accept(
        &mut self,
        id: RecvId,
        envelope: MatchEnvelope,
        message: UnexpectedMessage,
        old: InboundTarget,
    ) -> Result<(), Fault> {
        match message {
            UnexpectedMessage::Buffered { copy, arrived, acknowledge } => {
                let op = &mut self.receives.ops[id.index()];
                op.view.copy_from(&copy.start(arrived));
                let total = copy.len();
                op.stage = ReceiveStage::Incoming { envelope, total, position: arrived };
                if arrived == total {
                    self.finish_incoming(id);
                } else if let Some(inbound) = self.receives.inbound_of(envelope.source) {
                    debug_assert_eq!(inbound.target, old);
                    inbound.target = InboundTarget::Receive(id);
                }
                if let Some(send) = acknowledge {
                    self.send_control(envelope.source, packet::fin(send, TrafficClass::Direct))?;
                }
                Ok(())
            }
            UnexpectedMessage::Announced(rts) => self.fetch(id, envelope, rts),
            UnexpectedMessage::AtAdapter { .. } => {
                debug_assert!(false, "an adapter keeps its messages itself");
                Ok(())
            }
            UnexpectedMessage::FromSelf { send, .. } => {
                let view = self.sends.ops[send].view.clone();
                self.deliver_own(id, &envelope, &view);
                self.end_send(send, SendEnd::Sent);
                Ok(())
            }
        }
    }

    /// Copies a message of this rank to itself.
    pub(crate) fn deliver_own(&mut self, id: RecvId, envelope: &MatchEnvelope, view: &View) {
        let op = &self.receives.ops[id.index()];
        op.view.copy_from(view);
        let capacity = op.view.len();
        let sent = view.len();
        self.finish(
            id,
            ReceiveCompletion { envelope: *envelope, sent, capacity, cancelled: false },
        );
    }

    pub(crate) fn finish_incoming(&mut self, id: RecvId) {
        let op = &self.receives.ops[id.index()];
        if let ReceiveStage::Incoming { envelope, total, .. } = op.stage {
            let capacity = op.view.len();
            self.finish(
                id,
                ReceiveCompletion { envelope, sent: total, capacity, cancelled: false },
            );
        }
    }

    pub(crate) fn finish(&mut self, id: RecvId, completion: ReceiveCompletion) {
        let actions = self.receives.complete(id, completion);
        self.completions.finish(actions);
    }

    /// A whole message has arrived from `source`; it is still in the ring.
    pub(crate) fn on_eager(
        &mut self,
        source: u32,
        packet: &Packet,
    ) -> Result<PacketOutcome, Fault> {
        let envelope = MatchEnvelope { context: packet.context, source, tag: packet.tag };
        let acknowledge = (packet.kind == packet::EAGER_SYNC).then(|| packet.word(0) as u32);
        let in_slot = packet.payload == 0 && acknowledge.is_none();
        let sent = if in_slot { usize::from(packet.inline_len) } else { packet.payload as usize };
        if let Some(id) = self.queues.posted.take(&envelope) {
            report(EngineEventKind::Arrived, &envelope, sent, 1);
            let op = &mut self.receives.ops[id.index()];
            if in_slot {
                op.view.unpack(0, &packet.inline[..sent]);
            } else {
                self.channels.read_payload(source, packet, &op.view, 0);
            }
            let capacity = op.view.len();
            self.finish(id, ReceiveCompletion { envelope, sent, capacity, cancelled: false });
            if let Some(send) = acknowledge {
                self.send_control(source, packet::fin(send, TrafficClass::Direct))?;
            }
            return Ok(PacketOutcome::Handled);
        }
        let copy = match Block::allocate(sent) {
            Ok(copy) => copy.view(Shape::Contiguous { bytes: sent }),
            Err(no_memory) => return Ok(PacketOutcome::Left(no_memory)),
        };
        if in_slot {
            copy.unpack(0, &packet.inline[..sent]);
        } else {
            self.channels.read_payload(source, packet, &copy, 0);
        }
        let message = UnexpectedMessage::Buffered { copy, arrived: sent, acknowledge };
        self.keep_unexpected(envelope, message)?;
        Ok(PacketOutcome::Handled)
    }

    /// The first cells of a message have arrived from `source`.
    pub(crate) fn on_cells(
        &mut self,
        source: u32,
        packet: &Packet,
    ) -> Result<PacketOutcome, Fault> {
        let envelope = MatchEnvelope { context: packet.context, source, tag: packet.tag };
        let total = packet.word(0) as usize;
        let target = match self.queues.posted.take(&envelope) {
            Some(id) => {
                report(EngineEventKind::Arrived, &envelope, total, 1);
                self.receives.ops[id.index()].stage =
                    ReceiveStage::Incoming { envelope, total, position: 0 };
                InboundTarget::Receive(id)
            }
            None => {
                let copy = match Block::allocate(total) {
                    Ok(copy) => copy.view(Shape::Contiguous { bytes: total }),
                    Err(no_memory) => return Ok(PacketOutcome::Left(no_memory)),
                };
                let message = UnexpectedMessage::Buffered { copy, arrived: 0, acknowledge: None };
                InboundTarget::Unexpected(self.keep_unexpected(envelope, message)?)
            }
        };
        *self.receives.inbound.entry(source) = Some(Inbound { total, position: 0, target });
        self.unload_inbound(source, packet);
        self.watch_skew(source)?;
        Ok(PacketOutcome::Handled)
    }

    /// More cells, or a chunk, of a message have arrived from `source`.
    pub(crate) fn on_more_cells(&mut self, source: u32, packet: &Packet) {
        match packet.word(0) {
            0 => self.unload_inbound(source, packet),
            op => self.unload_streamed(
                source,
                packet,
                RecvId(self.receives.ops.key_at((op - 1) as u32)),
            ),
        }
    }

    /// Unloads the cells of an eager message.
    fn unload_inbound(&mut self, source: u32, packet: &Packet) {
        let Some(mut inbound) = self.receives.inbound.get_mut(source).and_then(Option::take) else {
            debug_assert!(false, "cells of no message");
            return;
        };
        let view = match inbound.target {
            InboundTarget::Receive(id) => self.receives.ops[id.index()].view.clone(),
            InboundTarget::Unexpected(ticket) => self.queues.unexpected.get(ticket).1.copy(),
            InboundTarget::Probed(index) => self.queues.probed[index].1.copy(),
        };
        inbound.position = self.unload(source, packet, &view, inbound.position, inbound.total);
        match inbound.target {
            InboundTarget::Receive(id) if inbound.position == inbound.total => {
                self.finish_incoming(id)
            }
            InboundTarget::Receive(_) => {}
            InboundTarget::Unexpected(ticket) => {
                self.queues.unexpected.get_mut(ticket).set_arrived(inbound.position);
            }
            InboundTarget::Probed(index) => {
                self.queues.probed[index].1.set_arrived(inbound.position);
            }
        }
        if inbound.position < inbound.total {
            *self.receives.inbound.entry(source) = Some(inbound);
        }
    }

    /// Unloads the cells, or the chunk, of a message that receive `id` requested by a CTS.
    fn unload_streamed(&mut self, source: u32, packet: &Packet, id: RecvId) {
        let op = &self.receives.ops[id.index()];
        let ReceiveStage::Incoming { envelope, total, position } = op.stage else {
            debug_assert!(false, "cells for a receive that sent no CTS");
            return;
        };
        let view = op.view.clone();
        let position = self.unload(source, packet, &view, position, total);
        self.receives.ops[id.index()].stage = ReceiveStage::Incoming { envelope, total, position };
        if position == total {
            self.finish_incoming(id);
        }
    }

    fn unload(
        &mut self,
        source: u32,
        packet: &Packet,
        view: &View,
        mut position: usize,
        total: usize,
    ) -> usize {
        if packet.kind == packet::CHUNK {
            self.channels.read_payload(source, packet, view, position);
            return position + packet.payload as usize;
        }
        for cell in packet::read_cells(packet) {
            let bytes = self.channels.shm.cell_bytes().min(total - position);
            self.channels.shm.unload_cell(source, cell, bytes, view, position);
            position += bytes;
        }
        position
    }

    /// A sender has used up the basic design's FIFO before its message was complete; now that the
    /// FIFO has been read, the sender may continue (chai-2009, 3.1.1, step 3).
    pub(crate) fn on_rts_rest(&mut self, source: u32, packet: &Packet) -> Result<(), Fault> {
        let (sender_op, receiver_op) = (packet.word(0) as u32, packet.word(1) as u32);
        let ReceiveStage::Incoming { position, .. } = self.receives.ops[receiver_op].stage else {
            debug_assert!(false, "more for a receive that is not in progress");
            return Ok(());
        };
        self.send_control(source, packet::cts(sender_op, receiver_op, position))
    }

    /// An RTS has arrived from `source`.
    pub(crate) fn on_rts(&mut self, source: u32, packet: &Packet) -> Result<(), Fault> {
        let envelope = MatchEnvelope { context: packet.context, source, tag: packet.tag };
        let rts = packet::read_rts(packet);
        match self.queues.posted.take(&envelope) {
            Some(id) => {
                report(EngineEventKind::Arrived, &envelope, rts.len as usize, 1);
                self.fetch(id, envelope, rts)?
            }
            None => {
                let message = UnexpectedMessage::Announced(rts);
                self.keep_unexpected(envelope, message)?;
            }
        }
        self.watch_skew(source)
    }
}

impl EngineState {
    /// The fast path of a receive: no other receive is in progress, and its message is the next
    /// from `source`. `overlong` says what to do with a message that is longer than the buffer.
    #[inline(always)]
    pub(crate) fn try_receive(
        &mut self,
        pattern: &MatchPattern,
        source: u32,
        view: &View,
        overlong: Overlong,
    ) -> FastReceive {
        // Unexpected messages for other receives do not matter.
        let waits =
            !self.queues.unexpected.is_empty() && self.queues.unexpected.find(pattern).is_some();
        if waits || !(self.queues.posted.is_empty() && self.sends.backlog.is_empty()) {
            return FastReceive::Busy;
        }
        let Some(packet) = self.channels.shm.peek_from(source) else {
            // The network has no queue per peer that could be polled here.
            return match self.channels.is_remote(source) {
                true => FastReceive::Busy,
                false => FastReceive::Nothing,
            };
        };
        let envelope = MatchEnvelope { context: packet.context, source, tag: packet.tag };
        if packet.kind != packet::EAGER || !pattern.matches(&envelope) {
            return FastReceive::Busy;
        }
        let inline = usize::from(packet.inline_len);
        let sent = inline.max(packet.payload as usize);
        if sent > view.len() && overlong == Overlong::Leave {
            return FastReceive::Busy;
        }
        if packet.payload == 0 {
            view.unpack(0, &packet.inline[..inline]);
        } else {
            self.channels.shm.read_payload(source, &packet, view, 0);
        }
        self.channels.shm.consume(source, &packet);
        FastReceive::Received(ReceiveCompletion {
            envelope,
            sent,
            capacity: view.len(),
            cancelled: false,
        })
    }
}
