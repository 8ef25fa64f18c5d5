//! Messages over an adapter that matches by itself (`mica_channel::transport`, leon-2009, 3.1):
//! this rank's sends, receives, probes and cancels are handed to it, and its completions end them.
//!
//! All messages of the job go there, also those of a rank to itself, so `crate::matching` stays
//! empty; requests, schedules and reactions are as over any network. What the adapter wants in one
//! piece and is not is packed here: a send before it is posted, a receive when it has completed.
//!
//! | state of an operation | moves by |
//! |---|---|
//! | queued | the adapter has room: posted; a cancel of a receive: removed |
//! | posted | the adapter completes, cancels or refuses it |
//! | query (probe, extract, cancel) | posted at once; polled for until its answer is here |
//!
//! - **Order.** Operations are posted in the order of the program's calls. If the adapter has no
//!   room, they wait in `queued`, and later ones wait behind them.
//! - **Queries** are polled for ([`query`](EngineState::query)), since the adapter answers without
//!   the help of peers. They do not use the adapter's wait, whose return would count a message as
//!   seen that came after the probe.
//! - **Tokens.** An operation's token is its index here and, above it, a number that makes it
//!   different from those before it at the same index.
//! - **Memory.** The adapter's queues publish commands and completions (`mica_channel::adapter`);
//!   here all is under the engine's lock.
//!
//! Cost: one command and one completion for each operation, and a copy if it is not contiguous.
//! Jobs without such an adapter ask for it off their fast paths only.

pub(crate) mod operations;

use crate::adapter::operations::{AdapterOperationKind, Injection, match_key};
use crate::engine::{EngineEventKind, EngineState, Fault, report};
use crate::matching::{MatchEnvelope, MatchPattern};
use crate::pt2pt::{
    MessageId, ProbedMessage, ReceiveCompletion, ReceiveStage, RecvId, RecvOp, SendCompletion,
    SendEnd, SendId, SendOp, SendPhase, UnexpectedMessage,
};
use mica_channel::transport::{MatchCompletion, MatchOperation, MatchOutcome};
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
        let op = SendOp::new(peer, (context, tag), view, SendPhase::AwaitingReply);
        let key = self.sends.ops.insert(op);
        self.post(AdapterOperationKind::Send { id: key.index(), completion, packed });
        Ok(Some(SendId(key)))
    }

    /// Posts a receive to the adapter, of the message that an `Extract` has taken, if one has.
    #[cold]
    #[inline(never)]
    pub(crate) fn receive_by_adapter(
        &mut self,
        pattern: MatchPattern,
        view: &View,
        extracted: Option<u64>,
    ) -> Result<RecvId, Fault> {
        let packed = bounce(view)?;
        let id = RecvId(self.receives.ops.insert(RecvOp::new(pattern, view)));
        let operation = self.post(AdapterOperationKind::Receive { id, extracted, packed });
        self.receives.ops[id.index()].stage = ReceiveStage::AtAdapter { operation };
        Ok(id)
    }

    /// Posts an operation, or queues it. Returns its index.
    fn post(&mut self, kind: AdapterOperationKind) -> u32 {
        let EngineState { channels, adapter: Some(adapter), sends, receives, .. } = self else {
            unreachable!("only engines with an adapter come here");
        };
        let at = adapter.insert(kind);
        adapter.queued.push_back(at);
        if adapter.queued.len() == 1 {
            adapter.post_queued(channels, sends, receives);
        }
        at as u32
    }

    /// Handles what the adapter has completed. True when there was anything.
    pub(crate) fn handle_adapter(&mut self) -> Result<bool, Fault> {
        let mut any = false;
        while let Some(done) = self.channels.matching().and_then(|m| m.next_match()) {
            any = true;
            self.complete_by_adapter(&done)?;
        }
        let EngineState { channels, adapter: Some(adapter), sends, receives, .. } = self else {
            return Ok(any);
        };
        adapter.post_queued(channels, sends, receives);
        adapter.fault.take().map_or(Ok(any), Err)
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
            AdapterOperationKind::Query => adapter.answer = Some(*done),
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
        let op = &self.receives.ops[id.index()];
        let capacity = op.view.len();
        if done.outcome == MatchOutcome::Cancelled {
            return self.finish_cancelled(id);
        }
        if let Some(packed) = packed {
            op.view.copy_from(&packed.start(done.bytes.min(capacity)));
        }
        let envelope =
            MatchEnvelope { context: op.pattern.context, source: done.source, tag: done.tag };
        report(EngineEventKind::Arrived, &envelope, done.bytes, 1);
        self.finish(
            id,
            ReceiveCompletion { envelope, sent: done.bytes, capacity, cancelled: false },
        );
    }

    /// Asks the adapter, and polls for its answer. `None` after a fault.
    fn query(&mut self, operation: MatchOperation<'_>) -> Option<MatchCompletion> {
        let adapter = self.adapter.as_mut()?;
        let at = adapter.insert(AdapterOperationKind::Query);
        let token = adapter.operations[at].token;
        let matching = self.channels.matching()?;
        let posted = matching.post(operation, token);
        debug_assert!(posted, "queries always find room");
        loop {
            self.poll_adapter()?;
            if let Some(answer) = self.adapter.as_mut()?.answer.take() {
                return Some(answer);
            }
        }
    }

    /// Takes in what the adapter has completed. `None` after a fault, which the next progress
    /// returns.
    fn poll_adapter(&mut self) -> Option<()> {
        self.channels.poll_adapter();
        let fault = self.handle_adapter().err();
        let adapter = self.adapter.as_mut()?;
        adapter.fault = fault;
        adapter.fault.is_none().then_some(())
    }

    /// The first message that matches `pattern`, if one has arrived.
    #[cold]
    #[inline(never)]
    pub(crate) fn probe_by_adapter(&mut self, pattern: &MatchPattern) -> Option<ProbedMessage> {
        let found = self.query(MatchOperation::Probe(match_key(pattern)))?;
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
        let done = self.query(MatchOperation::Extract(match_key(pattern)))?;
        let found = probed(pattern, &done)?;
        let message = UnexpectedMessage::AtAdapter { extract: done.token, bytes: found.bytes };
        let index = self.queues.probed.insert((found.envelope, message));
        Some((MessageId(index as u32), found))
    }

    fn is_for_queued(&self, envelope: &MatchEnvelope) -> bool {
        self.adapter.as_ref().is_some_and(|adapter| {
            adapter.queued.iter().any(|&at| {
                let kind = &adapter.operations[at].kind;
                matches!(kind, AdapterOperationKind::Receive { id, extracted: None, .. }
                    if self.receives.ops[id.index()].pattern.matches(envelope))
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
        let found = self.query(MatchOperation::Cancel(token));
        if found.is_some_and(|found| found.outcome == MatchOutcome::Done) {
            while !self.is_received(id) && self.poll_adapter().is_some() {}
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
