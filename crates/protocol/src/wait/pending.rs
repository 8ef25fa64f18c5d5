//! What a thread of this rank waits for: pending operations, listed for hang reports.

use std::borrow::Cow;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use crate::matching::MatchPattern;
use mica_node::segment::{WaitKind, Waiting, monotonic_ns};

/// One pending operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Kind of operation.
    pub kind: WaitKind,
    /// Job-wide rank of the peer; `None`: any, or several.
    pub peer: Option<u32>,
    /// Its tag; `None`: any, or none.
    pub tag: Option<i32>,
    /// Context of its communicator, with the plane in bit 0. `None`: it has none that the program
    /// knows.
    pub context: Option<u64>,
    /// Bytes of the message, or of the buffer.
    pub bytes: Option<usize>,
    /// What it is, if `kind` does not say.
    pub name: Option<Cow<'static, str>>,
}

impl Pending {
    /// An operation of which only the kind is known.
    pub fn of(kind: WaitKind) -> Pending {
        Pending { kind, peer: None, tag: None, context: None, bytes: None, name: None }
    }

    /// A receive or probe of messages that match `pattern`.
    pub(crate) fn matching(
        kind: WaitKind,
        pattern: &MatchPattern,
        bytes: Option<usize>,
    ) -> Pending {
        let MatchPattern { context, source, tag } = *pattern;
        Pending { peer: source, tag, context: Some(context), bytes, ..Pending::of(kind) }
    }

    /// The short record of it, for the segment.
    pub(crate) fn record(&self, unexpected: usize) -> Waiting {
        Waiting {
            kind: self.kind,
            peer: self.peer.map_or(-1, |peer| peer as i32),
            tag: self.tag.unwrap_or(-1),
            context: self.context.unwrap_or(0),
            unexpected: unexpected as u32,
        }
    }
}

/// The pending operations that a thread waits for, up to a limit.
#[derive(Debug, PartialEq, Eq)]
pub struct WaitList {
    limit: usize,
    /// The first of them.
    pub items: Vec<Pending>,
    /// Number of all of them.
    pub total: usize,
}

impl WaitList {
    pub(crate) fn new(limit: usize) -> WaitList {
        WaitList { limit, items: Vec::new(), total: 0 }
    }

    /// Adds an operation.
    pub fn add(&mut self, pending: Pending) {
        self.total += 1;
        if self.items.len() < self.limit {
            self.items.push(pending);
        }
    }

    /// True when further operations need not be added: a shortcut for callers with long lists.
    pub fn is_complete(&self) -> bool {
        self.limit == 1 && self.total >= 1
    }
}

/// Messages that have arrived and are not matched yet.
#[derive(Debug, Default)]
pub struct QueuedMessages {
    /// Number of all of them.
    pub total: usize,
    /// Those that came first; empty if an earlier wait of the same answer lists them.
    pub first: Vec<QueuedMessage>,
}

/// A message that is not matched yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedMessage {
    /// Job-wide rank of the sender.
    pub source: u32,
    /// Its tag.
    pub tag: i32,
    /// Context of its communicator, with the plane in bit 0.
    pub context: u64,
    /// Bytes of the message.
    pub bytes: usize,
}

/// What a thread that has found nothing to do waits for, and for how long.
#[derive(Debug)]
pub struct IdleWait<'a> {
    /// What it waits for, or polls for.
    pub list: &'a WaitList,
    /// Number of its failed polls, if it polls and does not wait.
    pub polls: Option<u32>,
    /// For how long.
    pub time: Duration,
    /// Messages that have arrived and are not matched yet.
    pub unexpected: &'a QueuedMessages,
}

/// Describes a wait in words; called by the thread in question, outside the engine.
pub type Describe = fn(&IdleWait<'_>) -> String;

/// The function of MPI that this thread is in, as the program called it, if it can be found.
pub type FindCall = fn() -> Option<String>;

/// One wait of one thread.
#[derive(Debug, Default)]
pub(crate) struct WaitClock {
    /// Start of the wait; 0: it has just begun.
    since_ns: u64,
    /// When it last checked that its peers exist; 0: not yet.
    checked_alive_ns: u64,
    /// The last question that the thread has answered.
    pub answered: u32,
}

impl WaitClock {
    /// True once in each `period` of the wait, however often the thread wakes meanwhile.
    pub fn is_due(&mut self, period: Duration) -> bool {
        let (last, now) = (self.since().max(self.checked_alive_ns), monotonic_ns());
        let due = u128::from(now.saturating_sub(last)) >= period.as_nanos();
        if due {
            self.checked_alive_ns = now;
        }
        due
    }

    /// Whether the wait has lasted for this long.
    pub fn has_lasted(&mut self, time: Duration) -> bool {
        let lasted = monotonic_ns().saturating_sub(self.since());
        u128::from(lasted) >= time.as_nanos()
    }

    /// When the wait began, by [`monotonic_ns`].
    pub fn since(&mut self) -> u64 {
        if self.since_ns == 0 {
            self.since_ns = monotonic_ns();
        }
        self.since_ns
    }
}

/// An engine's state for hang reports.
#[derive(Debug, Default)]
pub(crate) struct HangReporter {
    pub describe: OnceLock<Describe>,
    pub find_call: OnceLock<FindCall>,
    pub answer: Mutex<HangAnswer>,
}

/// The answer to one question.
#[derive(Debug, Default)]
pub(crate) struct HangAnswer {
    pub question: u32,
    /// The waits that it contains: polls or not, and which operations.
    pub waits: Vec<(bool, WaitList)>,
    pub text: String,
    pub polls_examined: u32,
}
