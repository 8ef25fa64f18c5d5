//! Receives and probes: the receiver's half of every protocol.

use crate::events::EngineEventKind;
use crate::fault::Fault;
use crate::matching::{MatchEnvelope, MatchPattern};
use crate::operation::{
    FastReceive, MessageId, Overlong, ProbedMessage, ReceiveCompletion, ReceiveStage, RecvId,
    RecvOp, SendEnd,
};
use crate::packet;
use crate::pending::{Pending, QueuedMessage};
use crate::state::{EngineState, Inbound, InboundTarget, UnexpectedMessage};
use mica_channel::shm::Packet;
use mica_memory::{Block, OutOfMemory, Shape, View};
use mica_node::counters::TrafficClass;
use mica_node::segment::WaitKind;

/// What has become of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketEnd {
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
            return self.post_to_adapter(pattern, view);
        }
        let unexpected = self.matching.unexpected.find(&pattern);
        let op = RecvOp::new(pattern, view);
        let id = RecvId(self.operations.recvs.insert(op));
        match unexpected {
            None => {
                let ticket = self.matching.posted.post(pattern, id);
                let long = self.is_long(view.len()) && self.begin_long_message();
                let op = &mut self.operations.recvs[id.index()];
                op.stage = ReceiveStage::Posted { ticket };
                op.duties.set_long(long);
            }
            Some(ticket) => {
                let (envelope, message) = self.remove_unexpected(ticket);
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
        let (envelope, message) = self.matching.probed.remove(probed.0 as usize);
        if let UnexpectedMessage::AtAdapter { extract, .. } = message {
            return self.receive_extracted(envelope, extract, view);
        }
        let pattern = MatchPattern {
            context: envelope.context,
            source: Some(envelope.source),
            tag: Some(envelope.tag),
        };
        let op = RecvOp::new(pattern, view);
        let id = RecvId(self.operations.recvs.insert(op));
        self.accept(id, envelope, message, InboundTarget::Probed(probed.0 as usize))?;
        self.received_unexpected(envelope.source)?;
        Ok(id)
    }

    /// Whether the completion of a receive is still to be taken.
    #[inline]
    pub fn has_receive(&self, id: RecvId) -> bool {
        self.operations.recvs.get(id.0).is_some()
    }

    /// The result of a receive, if it is complete; the receive is then removed.
    #[inline]
    pub fn take_received(&mut self, id: RecvId) -> Option<ReceiveCompletion> {
        let completion = self.received(id)?;
        self.operations.recvs.remove(id.index());
        Some(completion)
    }

    /// The result of a receive, if it is complete; the receive is kept.
    #[inline]
    pub fn received(&self, id: RecvId) -> Option<ReceiveCompletion> {
        match self.operations.recvs.get(id.0)?.stage {
            ReceiveStage::Complete(completion) => Some(completion),
            _ => None,
        }
    }

    /// Describes a pending receive, for hang reports.
    pub fn pending_receive(&self, id: RecvId) -> Pending {
        let Some(op) = self.operations.recvs.get(id.0) else {
            return Pending::of(WaitKind::Receive);
        };
        Pending {
            peer: op.pattern.source,
            tag: op.pattern.tag,
            context: Some(op.pattern.context),
            bytes: Some(op.view.len()),
            ..Pending::of(WaitKind::Receive)
        }
    }

    /// Whether a receive is complete, or gone.
    #[inline]
    pub fn is_received(&self, id: RecvId) -> bool {
        let op = self.operations.recvs.get(id.0);
        op.is_none_or(|op| matches!(op.stage, ReceiveStage::Complete(_)))
    }

    /// Cancels a receive if it is not matched yet; it then completes as cancelled (MPI 5.0, 3.8.4).
    pub fn cancel_receive(&mut self, id: RecvId) {
        let Some(op) = self.operations.recvs.get(id.0) else {
            return;
        };
        match op.stage {
            ReceiveStage::Posted { ticket } => {
                self.matching.posted.remove(ticket);
                self.finish_cancelled(id);
            }
            ReceiveStage::AtAdapter { operation } => self.cancel_by_adapter(id, operation),
            _ => {}
        }
    }

    /// Completes a receive as cancelled.
    pub(crate) fn finish_cancelled(&mut self, id: RecvId) {
        let op = &self.operations.recvs[id.index()];
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
        let ticket = self.matching.unexpected.find(pattern)?;
        let (envelope, message) = self.matching.unexpected.get(ticket);
        Some(ProbedMessage { envelope: *envelope, bytes: self.length(message) })
    }

    /// The first message that matches `pattern`, if one has arrived. It is taken: only
    /// [`EngineState::receive_probed`] receives it.
    pub fn probe_matched(&mut self, pattern: &MatchPattern) -> Option<(MessageId, ProbedMessage)> {
        if self.goes_to_adapter(pattern.source) {
            return self.extract_by_adapter(pattern);
        }
        let ticket = self.matching.unexpected.find(pattern)?;
        let (envelope, message) = self.remove_unexpected(ticket);
        let arrival = ProbedMessage { envelope, bytes: self.length(&message) };
        let index = self.matching.probed.insert((envelope, message));
        if let Some(inbound) = self.inbound_of(envelope.source)
            && matches!(inbound.target, InboundTarget::Unexpected(t) if t == ticket)
        {
            inbound.target = InboundTarget::Probed(index);
        }
        Some((MessageId(index as u32), arrival))
    }

    /// Number of messages that have arrived and are not matched yet.
    pub fn unexpected_messages(&self) -> usize {
        self.matching.unexpected.len()
    }

    /// The first `count` messages that have arrived and are not matched yet, in order of arrival;
    /// of one context alone, if it is given.
    pub(crate) fn first_unexpected(
        &self,
        context: Option<u64>,
        count: usize,
    ) -> Vec<QueuedMessage> {
        let queued = |(envelope, message): (&MatchEnvelope, &UnexpectedMessage)| QueuedMessage {
            source: envelope.source,
            tag: envelope.tag,
            context: envelope.context,
            bytes: self.length(message),
        };
        self.matching.unexpected.first(context, count).into_iter().map(queued).collect()
    }

    pub(crate) fn length(&self, message: &UnexpectedMessage) -> usize {
        match message {
            UnexpectedMessage::Buffered { copy, .. } => copy.len(),
            UnexpectedMessage::Announced(rts) => rts.len as usize,
            UnexpectedMessage::AtAdapter { bytes, .. } => *bytes,
            UnexpectedMessage::FromSelf { send } => self.operations.sends[*send].view.len(),
        }
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
                let op = &mut self.operations.recvs[id.index()];
                op.view.copy_from(&copy.start(arrived));
                let total = copy.len();
                op.stage = ReceiveStage::Incoming { envelope, total, position: arrived };
                if arrived == total {
                    self.finish_incoming(id);
                } else if let Some(inbound) = self.inbound_of(envelope.source) {
                    debug_assert!(match (inbound.target, old) {
                        (InboundTarget::Unexpected(a), InboundTarget::Unexpected(b)) => a == b,
                        (InboundTarget::Probed(a), InboundTarget::Probed(b)) => a == b,
                        _ => false,
                    });
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
            UnexpectedMessage::FromSelf { send } => {
                let view = self.operations.sends[send].view.clone();
                self.deliver_own(id, &envelope, &view);
                self.end_send(send, SendEnd::Sent);
                Ok(())
            }
        }
    }

    /// Copies a message of this rank to itself.
    pub(crate) fn deliver_own(&mut self, id: RecvId, envelope: &MatchEnvelope, view: &View) {
        let op = &self.operations.recvs[id.index()];
        op.view.copy_from(view);
        let capacity = op.view.len();
        let sent = view.len();
        self.finish(
            id,
            ReceiveCompletion { envelope: *envelope, sent, capacity, cancelled: false },
        );
    }

    pub(crate) fn finish_incoming(&mut self, id: RecvId) {
        let op = &self.operations.recvs[id.index()];
        if let ReceiveStage::Incoming { envelope, total, .. } = op.stage {
            let capacity = op.view.len();
            self.finish(
                id,
                ReceiveCompletion { envelope, sent: total, capacity, cancelled: false },
            );
        }
    }

    pub(crate) fn finish(&mut self, id: RecvId, completion: ReceiveCompletion) {
        let op = &mut self.operations.recvs[id.index()];
        op.stage = ReceiveStage::Complete(completion);
        op.exposed = None;
        let duties = std::mem::take(&mut op.duties);
        if !duties.is_empty() {
            self.discharge(duties);
        }
        self.note_completion();
    }

    /// A whole message has arrived from `source`; it is still in the ring.
    pub(crate) fn on_eager(&mut self, source: u32, packet: &Packet) -> Result<PacketEnd, Fault> {
        let envelope = MatchEnvelope { context: packet.context, source, tag: packet.tag };
        let acknowledge = (packet.kind == packet::EAGER_SYNC).then(|| packet.word(0) as u32);
        let in_slot = packet.payload == 0 && acknowledge.is_none();
        let sent = if in_slot { usize::from(packet.inline_len) } else { packet.payload as usize };
        if let Some(id) = self.matching.posted.take(&envelope) {
            self.report(EngineEventKind::Arrived, &envelope, sent, 1);
            let op = &mut self.operations.recvs[id.index()];
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
            return Ok(PacketEnd::Handled);
        }
        let copy = match Block::allocate(sent) {
            Ok(copy) => copy.view(Shape::Contiguous { bytes: sent }),
            Err(no_memory) => return Ok(PacketEnd::Left(no_memory)),
        };
        if in_slot {
            copy.unpack(0, &packet.inline[..sent]);
        } else {
            self.channels.read_payload(source, packet, &copy, 0);
        }
        let message = UnexpectedMessage::Buffered { copy, arrived: sent, acknowledge };
        self.insert_unexpected(envelope, message);
        self.check_backlog_of(source)?;
        Ok(PacketEnd::Handled)
    }

    /// The first cells of a message have arrived from `source`.
    pub(crate) fn on_cells(&mut self, source: u32, packet: &Packet) -> Result<PacketEnd, Fault> {
        let envelope = MatchEnvelope { context: packet.context, source, tag: packet.tag };
        let total = packet.word(0) as usize;
        let target = match self.matching.posted.take(&envelope) {
            Some(id) => {
                self.report(EngineEventKind::Arrived, &envelope, total, 1);
                self.operations.recvs[id.index()].stage =
                    ReceiveStage::Incoming { envelope, total, position: 0 };
                InboundTarget::Receive(id)
            }
            None => {
                let copy = match Block::allocate(total) {
                    Ok(copy) => copy.view(Shape::Contiguous { bytes: total }),
                    Err(no_memory) => return Ok(PacketEnd::Left(no_memory)),
                };
                let message = UnexpectedMessage::Buffered { copy, arrived: 0, acknowledge: None };
                let ticket = self.insert_unexpected(envelope, message);
                self.check_backlog_of(source)?;
                InboundTarget::Unexpected(ticket)
            }
        };
        self.peers.entry(source).inbound = Some(Inbound { total, position: 0, target });
        self.unload_inbound(source, packet);
        self.watch_skew(source)?;
        Ok(PacketEnd::Handled)
    }

    /// More cells, or a chunk, of a message have arrived from `source`.
    pub(crate) fn on_more_cells(&mut self, source: u32, packet: &Packet) {
        match packet.word(0) {
            0 => self.unload_inbound(source, packet),
            op => self.unload_streamed(
                source,
                packet,
                RecvId(self.operations.recvs.key_at((op - 1) as u32)),
            ),
        }
    }

    /// Unloads the cells of an eager message.
    fn unload_inbound(&mut self, source: u32, packet: &Packet) {
        let Some(mut inbound) = self.peers.get_mut(source).and_then(|p| p.inbound.take()) else {
            debug_assert!(false, "cells of no message");
            return;
        };
        let view = match inbound.target {
            InboundTarget::Receive(id) => self.operations.recvs[id.index()].view.clone(),
            InboundTarget::Unexpected(ticket) => copy_of(self.matching.unexpected.get(ticket).1),
            InboundTarget::Probed(index) => copy_of(&self.matching.probed[index].1),
        };
        inbound.position = self.unload(source, packet, &view, inbound.position, inbound.total);
        match inbound.target {
            InboundTarget::Receive(id) if inbound.position == inbound.total => {
                self.finish_incoming(id)
            }
            InboundTarget::Receive(_) => {}
            InboundTarget::Unexpected(ticket) => {
                set_arrived(self.matching.unexpected.get_mut(ticket), inbound.position);
            }
            InboundTarget::Probed(index) => {
                set_arrived(&mut self.matching.probed[index].1, inbound.position)
            }
        }
        if inbound.position < inbound.total {
            self.peers.entry(source).inbound = Some(inbound);
        }
    }

    /// Unloads the cells, or the chunk, of a message that receive `id` requested by a CTS.
    fn unload_streamed(&mut self, source: u32, packet: &Packet, id: RecvId) {
        let op = &self.operations.recvs[id.index()];
        let ReceiveStage::Incoming { envelope, total, position } = op.stage else {
            debug_assert!(false, "cells for a receive that sent no CTS");
            return;
        };
        let view = op.view.clone();
        let position = self.unload(source, packet, &view, position, total);
        self.operations.recvs[id.index()].stage =
            ReceiveStage::Incoming { envelope, total, position };
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
        let ReceiveStage::Incoming { position, .. } = self.operations.recvs[receiver_op].stage
        else {
            debug_assert!(false, "more for a receive that is not in progress");
            return Ok(());
        };
        self.send_control(source, packet::cts(sender_op, receiver_op, position))
    }

    /// An RTS has arrived from `source`.
    pub(crate) fn on_rts(&mut self, source: u32, packet: &Packet) -> Result<(), Fault> {
        let envelope = MatchEnvelope { context: packet.context, source, tag: packet.tag };
        let rts = packet::read_rts(packet);
        match self.matching.posted.take(&envelope) {
            Some(id) => {
                self.report(EngineEventKind::Arrived, &envelope, rts.len as usize, 1);
                self.fetch(id, envelope, rts)?
            }
            None => {
                let message = UnexpectedMessage::Announced(rts);
                self.insert_unexpected(envelope, message);
                self.check_backlog_of(source)?;
            }
        }
        self.watch_skew(source)
    }
}

fn copy_of(message: &UnexpectedMessage) -> View {
    match message {
        UnexpectedMessage::Buffered { copy, .. } => copy.clone(),
        UnexpectedMessage::Announced(_)
        | UnexpectedMessage::AtAdapter { .. }
        | UnexpectedMessage::FromSelf { .. } => {
            unreachable!("cells belong to a buffered message")
        }
    }
}

fn set_arrived(message: &mut UnexpectedMessage, position: usize) {
    if let UnexpectedMessage::Buffered { arrived, .. } = message {
        *arrived = position;
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
        let waits = !self.matching.unexpected.is_empty()
            && self.matching.unexpected.find(pattern).is_some();
        if waits || !(self.matching.posted.is_empty() && self.backlog.is_empty()) {
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
