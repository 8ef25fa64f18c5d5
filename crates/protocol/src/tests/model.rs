//! MPI's matching (MPI 5.0, 3.5) as two plain lists for each rank.
//!
//! A posted receive takes the first unexpected message that matches, in order of arrival; a message
//! that arrives takes the first posted receive that matches, in order of posting. Messages of one
//! rank to another arrive in the order in which they were sent. The order of arrivals is otherwise
//! undefined: the tests report each arrival to the model.

use std::collections::{HashMap, VecDeque};

use super::scripted::Head;
use crate::matching::{MatchEnvelope, MatchPattern};

/// Number of a message, in the order of sends.
pub type Message = usize;
/// Number of a receive, in the order of posting.
pub type Receive = usize;

/// What is known of a message.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub receiver: u32,
    pub envelope: MatchEnvelope,
    pub len: usize,
}

#[derive(Debug, Default)]
struct Queues {
    posted: Vec<(Receive, MatchPattern)>,
    unexpected: Vec<Message>,
}

/// The contents of all ranks' queues, and the matches.
#[derive(Debug)]
pub struct Model {
    queues: Vec<Queues>,
    pub messages: Vec<Sent>,
    /// By sender and receiver: messages that have not arrived yet.
    in_flight: HashMap<(u32, u32), VecDeque<Message>>,
    pub matched: HashMap<Receive, Message>,
    /// By message: a receive, or a matched probe, has taken it.
    pub is_taken: Vec<bool>,
}

impl Model {
    pub fn new(ranks: usize) -> Model {
        Model {
            queues: (0..ranks).map(|_| Queues::default()).collect(),
            messages: Vec::new(),
            in_flight: HashMap::new(),
            matched: HashMap::new(),
            is_taken: Vec::new(),
        }
    }

    /// A message has been sent. A message of a rank to itself has thereby arrived.
    pub fn send(&mut self, receiver: u32, envelope: MatchEnvelope, len: usize) {
        let message = self.messages.len();
        let sent = Sent { receiver, envelope, len };
        self.messages.push(sent);
        self.is_taken.push(false);
        if receiver == envelope.source {
            return self.match_arrival(message);
        }
        let link = (envelope.source, receiver);
        self.in_flight.entry(link).or_default().push_back(message);
    }

    /// The header of a message has arrived: it must be that of the oldest message in flight.
    pub fn arrive(&mut self, head: &Head) {
        let link = (head.envelope.source, head.receiver);
        let oldest = self.in_flight.get_mut(&link).and_then(VecDeque::pop_front);
        let message = oldest.unwrap_or_else(|| panic!("no rank has sent {head:?}"));
        let sent = self.messages[message];
        assert_eq!(
            (head.envelope, head.len),
            (sent.envelope, sent.len),
            "message {message} is overtaken"
        );
        self.match_arrival(message);
    }

    fn match_arrival(&mut self, message: Message) {
        let Sent { receiver, envelope, .. } = self.messages[message];
        let queues = &mut self.queues[receiver as usize];
        match queues.posted.iter().position(|(_, p)| p.matches(&envelope)) {
            Some(at) => {
                let (receive, _) = queues.posted.remove(at);
                self.matched.insert(receive, message);
                self.is_taken[message] = true;
            }
            None => queues.unexpected.push(message),
        }
    }

    /// `rank` has posted a receive.
    pub fn receive(&mut self, rank: u32, receive: Receive, pattern: MatchPattern) {
        match self.take(rank, &pattern) {
            Some(message) => {
                self.matched.insert(receive, message);
            }
            None => self.queues[rank as usize].posted.push((receive, pattern)),
        }
    }

    /// The message that a probe of `rank` finds.
    pub fn probe(&self, rank: u32, pattern: &MatchPattern) -> Option<Message> {
        let unexpected = &self.queues[rank as usize].unexpected;
        let fits = |m: &&Message| pattern.matches(&self.messages[**m].envelope);
        unexpected.iter().find(fits).copied()
    }

    /// The message that a matched probe of `rank` takes.
    pub fn take(&mut self, rank: u32, pattern: &MatchPattern) -> Option<Message> {
        let found = self.probe(rank, pattern)?;
        self.queues[rank as usize].unexpected.retain(|&m| m != found);
        self.is_taken[found] = true;
        Some(found)
    }

    /// `rank` cancels a receive. True if the receive was not matched.
    pub fn cancel(&mut self, rank: u32, receive: Receive) -> bool {
        let posted = &mut self.queues[rank as usize].posted;
        let at = posted.iter().position(|(r, _)| *r == receive);
        at.map(|at| posted.remove(at)).is_some()
    }

    /// The unexpected messages of `rank`, in order of arrival.
    pub fn unexpected(&self, rank: u32) -> &[Message] {
        &self.queues[rank as usize].unexpected
    }

    /// Whether all messages have been taken.
    pub fn is_over(&self) -> bool {
        self.is_taken.iter().all(|&taken| taken)
    }
}
