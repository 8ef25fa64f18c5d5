//! Messages over an adapter that matches by itself (`mica_channel::transport`, leon-2009, 3.1):
//! this rank's sends, receives, probes and cancels are handed to it, and its completions end them.
//!
//! All messages of the job go there, also those of a rank to itself, so `crate::matching` stays
//! empty; requests, schedules and reactions are as over any network. What the adapter wants in one
//! piece and is not is packed here: a send before it is posted, a receive when it has completed.
//!
//! - **Order.** Operations are posted in the order of the program's calls. If the adapter has no
//!   room, they wait in `queued`, and later ones wait behind them.
//! - **Probes and cancels** are questions: they are posted and polled for
//!   ([`ask`](EngineState::ask)), since the adapter answers without the help of peers. They do not
//!   use the adapter's wait, whose return would count a message as seen that came after the probe.
//! - **Tokens.** An operation's token is its index here and, above it, a number that makes it
//!   different from those before it at the same index.
//!
//! Called from `send.rs` and `receive.rs` where an engine has such an adapter, `progress.rs` and
//! `wait.rs`. Jobs without one ask for it off their fast paths only.

use crate::adapter_operations::{AdapterOperation, AdapterOperationKind, Injection};
use crate::end_duties::EndDuties;
use crate::events::EngineEventKind;
use crate::fault::Fault;
use crate::matching::{MatchEnvelope, MatchPattern};
use crate::operation::{
    MessageId, ProbedMessage, ReceiveCompletion, ReceiveStage, RecvId, RecvOp, RtsState, SendEnd,
    SendId, SendOp, SendPhase,
};
use crate::select::SendCompletion;
use crate::state::{EngineState, UnexpectedMessage};
use mica_channel::transport::{MatchCompletion, MatchKey, MatchOperation, MatchOutcome};
use mica_memory::{Block, Shape, View};
use mica_node::counters::TrafficClass;

/// Memory in one piece for the bytes of `view`, if they do not lie in one.
fn bounce(view: &View) -> Result<Option<View>, Fault> {
    if view.as_contiguous().is_some() {
        return Ok(None);
    }
    let bytes = view.len();
    Ok(Some(Block::allocate(bytes)?.view(Shape::Contiguous { bytes })))
}

fn key(pattern: &MatchPattern) -> MatchKey {
    MatchKey { context: pattern.context, peer: pattern.source, tag: pattern.tag }
}

impl EngineState {
    /// Whether messages with `peer` (`None`: any rank) are the adapter's to match.
    #[inline]
    pub(crate) fn goes_to_adapter(&self, peer: Option<u32>) -> bool {
        let adapter = self.adapter.as_ref();
        adapter.is_some_and(|adapter| peer.is_none_or(|peer| peer < adapter.ranks))
    }

    /// Sends by the adapter.
    #[cold]
    #[inline(never)]
    pub(crate) fn send_by_adapter(
        &mut self,
        peer: u32,
        (context, tag): (u64, i32),
        view: &View,
        completion: SendCompletion,
    ) -> Result<Option<SendId>, Fault> {
        match peer == self.me {
            true => self.counters.count_on_path(TrafficClass::Own, view.len()),
            false => self.count_message(TrafficClass::Net, peer, view.len()),
        }
        let packed = bounce(view)?;
        if let Some(packed) = &packed {
            packed.copy_from(view);
        }
        let op = SendOp {
            peer,
            context,
            tag,
            view: view.clone(),
            phase: SendPhase::AwaitingReply,
            rts_state: RtsState::default(),
            duties: EndDuties::default(),
        };
        let key = self.operations.sends.insert(op);
        self.post(AdapterOperationKind::Send { id: key.index(), completion, packed });
        Ok(Some(SendId(key)))
    }

    /// Posts a receive to the adapter, of the message that an `Extract` has taken, if one has.
    #[cold]
    #[inline(never)]
    fn receive_by_adapter(
        &mut self,
        pattern: MatchPattern,
        view: &View,
        extracted: Option<u64>,
    ) -> Result<RecvId, Fault> {
        let packed = bounce(view)?;
        let id = RecvId(self.operations.recvs.insert(RecvOp::new(pattern, view)));
        let operation = self.post(AdapterOperationKind::Receive { id, extracted, packed });
        self.operations.recvs[id.index()].stage = ReceiveStage::AtAdapter { operation };
        Ok(id)
    }

    /// Starts a receive by the adapter.
    pub(crate) fn post_to_adapter(
        &mut self,
        pattern: MatchPattern,
        view: &View,
    ) -> Result<RecvId, Fault> {
        self.receive_by_adapter(pattern, view, None)
    }

    /// Starts the receive of the message that `extract` has taken.
    pub(crate) fn receive_extracted(
        &mut self,
        envelope: MatchEnvelope,
        extract: u64,
        view: &View,
    ) -> Result<RecvId, Fault> {
        let pattern = MatchPattern {
            context: envelope.context,
            source: Some(envelope.source),
            tag: Some(envelope.tag),
        };
        self.receive_by_adapter(pattern, view, Some(extract))
    }

    /// Posts an operation, or queues it. Returns its index.
    fn post(&mut self, kind: AdapterOperationKind) -> u32 {
        let Some(adapter) = &mut self.adapter else {
            unreachable!("only engines with an adapter come here");
        };
        let at = adapter.insert(kind);
        if !adapter.queued.is_empty() || !self.try_post(at) {
            let adapter = self.adapter.as_mut();
            adapter.expect("as above").queued.push_back(at);
        }
        at as u32
    }

    /// Posts the operation at `at`. False when there is no room.
    fn try_post(&mut self, at: usize) -> bool {
        let EngineState { channels, adapter: Some(adapter), operations, .. } = self else {
            return false;
        };
        let Some(matching) = channels.matching() else {
            return false;
        };
        let AdapterOperation { token, kind } = &adapter.operations[at];
        match kind {
            AdapterOperationKind::Send { id, completion, packed } => {
                let op = &operations.sends[*id];
                let view = packed.as_ref().unwrap_or(&op.view);
                let to = MatchKey { context: op.context, peer: Some(op.peer), tag: Some(op.tag) };
                let operation = match completion {
                    SendCompletion::Local => MatchOperation::Send(to, view),
                    SendCompletion::Matched => MatchOperation::SendSynchronous(to, view),
                };
                matching.post(operation, *token)
            }
            AdapterOperationKind::Receive { id, extracted, packed } => {
                let op = &operations.recvs[id.index()];
                let view = packed.as_ref().unwrap_or(&op.view);
                let operation = match extracted {
                    Some(extract) => MatchOperation::ReceiveExtracted(*extract, view),
                    None => MatchOperation::Receive(key(&op.pattern), view),
                };
                let posted = matching.post(operation, *token);
                if posted && adapter.is_hinted(op.pattern.context) {
                    matching.hint(*token);
                }
                posted
            }
            AdapterOperationKind::Question => false,
        }
    }

    /// Handles what the adapter has completed. True when there was anything.
    pub(crate) fn handle_adapter(&mut self) -> Result<bool, Fault> {
        let mut any = false;
        while let Some(done) = self.channels.matching().and_then(|m| m.next_match()) {
            any = true;
            self.complete_by_adapter(&done)?;
        }
        while let Some(&at) = self.adapter.as_ref().and_then(|a| a.queued.front()) {
            if !self.try_post(at) {
                break;
            }
            self.adapter.as_mut().and_then(|a| a.queued.pop_front());
        }
        match self.adapter.as_mut().and_then(|a| a.fault.take()) {
            None => Ok(any),
            Some(fault) => Err(fault),
        }
    }

    fn complete_by_adapter(&mut self, done: &MatchCompletion) -> Result<(), Fault> {
        let at = (done.token & u64::from(u32::MAX)) as usize;
        let Some(adapter) = &mut self.adapter else {
            return Ok(());
        };
        let known = adapter.operations.get(at);
        if known.is_none_or(|operation| operation.token != done.token) {
            return Err(refusal("completed an operation that was not posted", done));
        }
        let operation = adapter.operations.remove(at);
        if done.outcome == MatchOutcome::Refused {
            return Err(refusal("refused an operation", done));
        }
        match operation.kind {
            AdapterOperationKind::Question => adapter.answer = Some(*done),
            AdapterOperationKind::Send { id, .. } => {
                self.end_send(id, SendEnd::Sent);
            }
            AdapterOperationKind::Receive { id, packed, .. } => {
                self.complete_receive_by_adapter(id, packed.as_ref(), done);
            }
        }
        Ok(())
    }

    fn complete_receive_by_adapter(
        &mut self,
        id: RecvId,
        packed: Option<&View>,
        done: &MatchCompletion,
    ) {
        let op = &self.operations.recvs[id.index()];
        let capacity = op.view.len();
        if done.outcome == MatchOutcome::Cancelled {
            return self.finish_cancelled(id);
        }
        if let Some(packed) = packed {
            op.view.copy_from(&packed.start(done.bytes.min(capacity)));
        }
        let envelope =
            MatchEnvelope { context: op.pattern.context, source: done.source, tag: done.tag };
        self.report(EngineEventKind::Arrived, &envelope, done.bytes, 1);
        self.finish(
            id,
            ReceiveCompletion { envelope, sent: done.bytes, capacity, cancelled: false },
        );
    }

    /// Asks the adapter, and polls for its answer. `None` after a fault, which the next progress
    /// returns.
    fn ask(&mut self, operation: MatchOperation<'_>) -> Option<MatchCompletion> {
        let adapter = self.adapter.as_mut()?;
        let at = adapter.insert(AdapterOperationKind::Question);
        let token = adapter.operations[at].token;
        let matching = self.channels.matching()?;
        let posted = matching.post(operation, token);
        debug_assert!(posted, "questions always find room");
        loop {
            self.channels.poll_adapter();
            if let Err(fault) = self.handle_adapter() {
                self.adapter.as_mut()?.fault = Some(fault);
                return None;
            }
            if let Some(answer) = self.adapter.as_mut()?.answer.take() {
                return Some(answer);
            }
        }
    }

    /// The first message that matches `pattern`, if one has arrived.
    #[cold]
    #[inline(never)]
    pub(crate) fn probe_by_adapter(&mut self, pattern: &MatchPattern) -> Option<ProbedMessage> {
        let found = self.ask(MatchOperation::Probe(key(pattern)))?;
        let found = probed(pattern, &found)?;
        // A receive that is still queued was started before this probe, and takes it.
        (!self.is_for_queued(&found.envelope)).then_some(found)
    }

    /// The first message that matches `pattern`, if one has arrived; it is taken.
    #[cold]
    #[inline(never)]
    pub(crate) fn extract_by_adapter(
        &mut self,
        pattern: &MatchPattern,
    ) -> Option<(MessageId, ProbedMessage)> {
        if self.adapter.as_ref().is_some_and(|a| !a.queued.is_empty()) {
            self.probe_by_adapter(pattern)?;
        }
        let done = self.ask(MatchOperation::Extract(key(pattern)))?;
        let found = probed(pattern, &done)?;
        let message = UnexpectedMessage::AtAdapter { extract: done.token, bytes: found.bytes };
        let index = self.matching.probed.insert((found.envelope, message));
        Some((MessageId(index as u32), found))
    }

    fn is_for_queued(&self, envelope: &MatchEnvelope) -> bool {
        self.adapter.as_ref().is_some_and(|adapter| {
            adapter.queued.iter().any(|&at| {
                let kind = &adapter.operations[at].kind;
                matches!(kind, AdapterOperationKind::Receive { id, extracted: None, .. }
                    if self.operations.recvs[id.index()].pattern.matches(envelope))
            })
        })
    }

    /// Cancels a receive that the adapter has, if it is not matched yet.
    #[cold]
    #[inline(never)]
    pub(crate) fn cancel_by_adapter(&mut self, id: RecvId, operation: u32) {
        let Some(adapter) = &mut self.adapter else {
            return;
        };
        let at = operation as usize;
        if let Some(place) = adapter.queued.iter().position(|&queued| queued == at) {
            adapter.queued.remove(place);
            adapter.operations.remove(at);
            return self.finish_cancelled(id);
        }
        let token = adapter.operations[at].token;
        let found = self.ask(MatchOperation::Cancel(token));
        if found.is_some_and(|found| found.outcome == MatchOutcome::Done) {
            while !self.is_received(id) {
                self.channels.poll_adapter();
                if let Err(fault) = self.handle_adapter() {
                    self.adapter.as_mut().expect("as above").fault = Some(fault);
                    return;
                }
            }
        }
    }

    /// Waits until the adapter has something new.
    pub(crate) fn wait_for_adapter(&mut self) {
        if let Some(matching) = self.channels.matching() {
            matching.wait();
        }
    }

    /// Sets whether receives in `context`, and in its other plane, are hinted at from now on.
    pub(crate) fn hint_receives(&mut self, context: u64, hint: Injection) {
        if let Some(adapter) = &mut self.adapter {
            adapter.hinted.retain(|&hinted| hinted != context | 1);
            if hint == Injection::Wanted {
                adapter.hinted.push(context | 1);
            }
        }
    }
}

/// What a probe or extract has found.
fn probed(pattern: &MatchPattern, done: &MatchCompletion) -> Option<ProbedMessage> {
    (done.outcome == MatchOutcome::Done).then_some(ProbedMessage {
        envelope: MatchEnvelope { context: pattern.context, source: done.source, tag: done.tag },
        bytes: done.bytes,
    })
}

#[cold]
fn refusal(what: &str, done: &MatchCompletion) -> Fault {
    Fault::Channel { detail: format!("the network adapter {what}: {done:?}") }
}
