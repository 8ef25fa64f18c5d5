//! What this rank has posted to an adapter that matches: operations with their tokens, and those
//! that wait for room. [`adapter`](crate::adapter) has the states, and completes them.

use std::collections::VecDeque;

use slab::Slab;

use crate::channels::Channels;
use crate::engine::Fault;
use crate::matching::MatchPattern;
use crate::pt2pt::{Receives, RecvId, SendCompletion, Sends};
use mica_channel::transport::{MatchCompletion, MatchKey, MatchOperation, MatchingAdapter};
use mica_memory::View;

/// Numbers of tokens, above their 32 bits of index.
const NUMBERS: u64 = 1 << 30;

/// What this rank has posted to its adapter.
#[derive(Debug)]
pub(crate) struct AdapterMatching {
    /// The adapter reaches the ranks below this.
    pub ranks: u32,
    pub operations: Slab<AdapterOperation>,
    /// Number of the next token.
    number: u64,
    /// Operations for which the adapter had no room yet, in order.
    pub queued: VecDeque<usize>,
    /// Contexts whose receives are hinted at, with their bit 0 set.
    pub hinted: Vec<u64>,
    /// The answer to the query that is waited for.
    pub answer: Option<MatchCompletion>,
    /// What was found during a call that cannot report it.
    pub fault: Option<Fault>,
}

/// An operation that is posted or queued.
#[derive(Debug)]
pub(crate) struct AdapterOperation {
    pub token: u64,
    pub kind: AdapterOperationKind,
}

#[derive(Debug)]
pub(crate) enum AdapterOperationKind {
    Send {
        id: u32,
        completion: SendCompletion,
        packed: Option<View>,
    },
    Receive {
        id: RecvId,
        /// The `Extract` whose message it receives.
        extracted: Option<u64>,
        packed: Option<View>,
    },
    /// A probe, extract or cancel.
    Query,
}

impl AdapterMatching {
    /// For a job of `ranks` ranks.
    pub fn new(ranks: u32) -> AdapterMatching {
        AdapterMatching {
            ranks,
            operations: Slab::new(),
            number: 0,
            queued: VecDeque::new(),
            hinted: Vec::new(),
            answer: None,
            fault: None,
        }
    }

    /// Enters an operation, with a new token. Returns its index.
    pub fn insert(&mut self, kind: AdapterOperationKind) -> usize {
        self.number = (self.number + 1) % NUMBERS;
        let entry = self.operations.vacant_entry();
        let at = entry.key();
        let token = self.number << 32 | at as u64;
        entry.insert(AdapterOperation { token, kind });
        at
    }

    /// Whether receives in `context` are hinted at.
    fn is_hinted(&self, context: u64) -> bool {
        !self.hinted.is_empty() && self.hinted.contains(&(context | 1))
    }

    /// Posts the operations that are queued, in order, as far as the adapter has room.
    pub fn post_queued(&mut self, channels: &mut Channels, sends: &Sends, receives: &Receives) {
        let Some(matching) = channels.matching() else {
            return;
        };
        while let Some(&at) = self.queued.front()
            && self.try_post(at, matching, sends, receives)
        {
            self.queued.pop_front();
        }
    }

    /// Posts the operation at `at`. False when there is no room.
    fn try_post(
        &self,
        at: usize,
        matching: &mut dyn MatchingAdapter,
        sends: &Sends,
        receives: &Receives,
    ) -> bool {
        let AdapterOperation { token, kind } = &self.operations[at];
        match kind {
            AdapterOperationKind::Send { id, completion, packed } => {
                let op = &sends.ops[*id];
                let view = packed.as_ref().unwrap_or(&op.view);
                let to = MatchKey { context: op.context, peer: Some(op.peer), tag: Some(op.tag) };
                let operation = match completion {
                    SendCompletion::Local => MatchOperation::Send(to, view),
                    SendCompletion::Matched => MatchOperation::SendSynchronous(to, view),
                };
                matching.post(operation, *token)
            }
            AdapterOperationKind::Receive { id, extracted, packed } => {
                let op = &receives.ops[id.index()];
                let view = packed.as_ref().unwrap_or(&op.view);
                let operation = match extracted {
                    Some(extract) => MatchOperation::ReceiveExtracted(*extract, view),
                    None => MatchOperation::Receive(match_key(&op.pattern), view),
                };
                let posted = matching.post(operation, *token);
                if posted && self.is_hinted(op.pattern.context) {
                    matching.hint(*token);
                }
                posted
            }
            AdapterOperationKind::Query => false,
        }
    }
}

pub(crate) fn match_key(pattern: &MatchPattern) -> MatchKey {
    MatchKey { context: pattern.context, peer: pattern.source, tag: pattern.tag }
}

/// Whether the program wants what it receives brought near the processor (leon-2009, 2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Injection {
    /// It will use it at once.
    Wanted,
    /// It says nothing of it.
    Unspecified,
}
