//! Matching, exactly as MPI has it (MPI 5.0, 3.5): posted receives in order of their posting,
//! unexpected messages in order of their arrival, per context.
//!
//! Whether a message's bytes are here or wait at its sender makes no difference, so a rendezvous
//! message keeps its place. Searches are linear: the adapter's time for a search is a constant of
//! the machine, and the lists of simulated programs are short.

use std::collections::{HashMap, VecDeque};

use super::request::MessagePattern;

/// A receive that waits for its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PostedReceive {
    pub token: u64,
    pub pattern: MessagePattern,
    pub address: u64,
    /// Bytes of the buffer.
    pub room: u64,
    /// The program has said that it will use the payload at once.
    pub is_hinted: bool,
}

/// A message that has come before its receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnmatchedMessage {
    pub source: u32,
    pub tag: i32,
    pub body: MessageBody,
}

/// The bytes of a message, or where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MessageBody {
    /// Here.
    Here {
        payload: Vec<u8>,
        /// Token of a synchronous send.
        acknowledge: Option<u64>,
    },
    /// At the sender, under this token.
    Announced { length: u64, send: u64 },
}

impl MessageBody {
    /// Bytes of the message.
    pub fn len(&self) -> u64 {
        match self {
            MessageBody::Here { payload, .. } => payload.len() as u64,
            MessageBody::Announced { length, .. } => *length,
        }
    }
}

/// The lists of an adapter.
#[derive(Debug, Default)]
pub(super) struct MatchingLists {
    contexts: HashMap<u64, ContextLists>,
    /// Context of each posted receive, by token.
    posted: HashMap<u64, u64>,
}

/// The lists of a context. At most one of a message and a receive that match is in them.
#[derive(Debug, Default)]
struct ContextLists {
    posted: VecDeque<PostedReceive>,
    unexpected: VecDeque<UnmatchedMessage>,
}

impl MatchingLists {
    /// Takes the first posted receive that a message matches.
    pub fn take_posted(&mut self, context: u64, source: u32, tag: i32) -> Option<PostedReceive> {
        let posted = &mut self.contexts.get_mut(&context)?.posted;
        let receive = posted.remove(posted.iter().position(|r| r.pattern.matches(source, tag))?)?;
        self.posted.remove(&receive.token);
        Some(receive)
    }

    /// Appends a receive that no unexpected message matches.
    pub fn post(&mut self, context: u64, receive: PostedReceive) {
        self.posted.insert(receive.token, context);
        self.contexts.entry(context).or_default().posted.push_back(receive);
    }

    /// Appends a message that no posted receive matches.
    pub fn keep(&mut self, context: u64, message: UnmatchedMessage) {
        self.contexts.entry(context).or_default().unexpected.push_back(message);
    }

    /// The first unexpected message that matches.
    pub fn find_unexpected(
        &self,
        context: u64,
        pattern: MessagePattern,
    ) -> Option<&UnmatchedMessage> {
        let mut unexpected = self.contexts.get(&context)?.unexpected.iter();
        unexpected.find(|m| pattern.matches(m.source, m.tag))
    }

    /// Takes the first unexpected message that matches.
    pub fn take_unexpected(
        &mut self,
        context: u64,
        wanted: MessagePattern,
    ) -> Option<UnmatchedMessage> {
        let unexpected = &mut self.contexts.get_mut(&context)?.unexpected;
        let mut messages = unexpected.iter();
        let first = messages.position(|m| wanted.matches(m.source, m.tag))?;
        unexpected.remove(first)
    }

    /// Takes a receive out of its list. Whether it was posted.
    pub fn cancel(&mut self, token: u64) -> bool {
        let Some(context) = self.posted.remove(&token) else { return false };
        if let Some(lists) = self.contexts.get_mut(&context) {
            lists.posted.retain(|receive| receive.token != token);
        }
        true
    }

    /// The posted receive with this token.
    pub fn posted_mut(&mut self, token: u64) -> Option<&mut PostedReceive> {
        let context = self.posted.get(&token)?;
        let mut posted = self.contexts.get_mut(context)?.posted.iter_mut();
        posted.find(|receive| receive.token == token)
    }
}
