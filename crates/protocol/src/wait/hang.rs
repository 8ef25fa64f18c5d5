//! Hang reports: what the threads of this rank wait for, or poll for without success, reported when
//! the launcher asks.
//!
//! A thread that has found nothing to do (it yields, it has slept, a test or probe has failed)
//! checks whether the launcher has a question open ([`mica_node::segment`], `report.rs`). If so, it
//! lists the operations that it waits for, has them described by the layer above, which knows
//! communicators and functions by name, and leaves the text in the segment. Several threads, and
//! polls of several kinds, add to one text, each item once.
//!
//! How long a rank has polled is derived from a count of failed polls, which a successful poll
//! resets: the clock is read once, at poll number [`POLLS`].

use crate::engine::{Engine, EngineState};
use crate::wait::pending::{
    Describe, FindCall, HangAnswer, IdleWait, Pending, QueuedMessages, WaitClock, WaitList,
};
use std::sync::PoisonError;
use std::time::Duration;

use mica_node::segment::{POLLS, WaitKind, Waiting, monotonic_ns};

/// Maximum number of operations that a report lists; the others are counted.
const LISTED: usize = 16;

/// Maximum number of messages without a receive that a report lists.
const QUEUED: usize = 8;

/// Failed polls between two records of what is polled for: 1 ms of a loop that does nothing else.
const RECORD_EVERY: u32 = 1 << 14;

/// Polling for this time is worth a look at the stack: 10 ms, as a wait.
const NAME_AFTER_NS: u64 = 10_000_000;

/// Polls that are examined more closely per question: enough for a loop over some requests, few
/// enough to cost little if a rank keeps polling while the question is open.
const POLLS_ANSWERED: u32 = 256;

impl Engine {
    /// Sets how waits are described, and how the function is found that a thread waits in. Before
    /// that, reports contain only the short record, and that names no function.
    pub fn describe_by(&self, describe: Describe, find_call: FindCall) {
        // A second call passes the same functions.
        let _ = self.reporter.describe.set(describe);
        let _ = self.reporter.find_call.set(find_call);
    }

    /// To be called when a test or probe has failed. `waiting` lists what it asked for.
    #[inline]
    pub(crate) fn note_failed_poll(&self, waiting: impl Fn(&EngineState, &mut WaitList)) {
        let polls = self.polls.count_failed();
        let question = self.segment.open_question();
        if polls.is_multiple_of(POLLS) || question.is_some() {
            self.note_polls(polls, question, &waiting);
        }
    }

    /// To be called when a test or probe has succeeded.
    #[inline]
    pub(crate) fn note_successful_poll(&self) {
        self.polls.succeed();
    }

    #[cold]
    fn note_polls(
        &self,
        polls: u32,
        question: Option<u32>,
        waiting: &dyn Fn(&EngineState, &mut WaitList),
    ) {
        if polls.is_multiple_of(POLLS) {
            self.record_polls(polls, waiting);
        }
        if let Some(question) = question
            && polls >= POLLS
        {
            self.answer(question, self.polls.since_ns(), Some(polls), waiting);
        }
    }

    /// Records what is polled for, for `mica top`: when the polls begin to count, and every
    /// [`RECORD_EVERY`] polls after that, since a loop may ask for several things. The function is
    /// found once, when the polls have lasted: to walk the stack takes as long as hundreds of them.
    fn record_polls(&self, polls: u32, waiting: &dyn Fn(&EngineState, &mut WaitList)) {
        if polls == POLLS {
            self.polls.begin(monotonic_ns());
        } else if polls.is_multiple_of(RECORD_EVERY) {
            let lasted = monotonic_ns().saturating_sub(self.polls.since_ns());
            if lasted >= NAME_AFTER_NS && !self.polls.call().is_known() {
                let find_call = self.reporter.find_call.get();
                if let Some(call) = find_call.and_then(|find_call| find_call()) {
                    self.polls.call().set(&call);
                }
            }
        } else {
            return;
        }
        self.polls.record(&self.first_pending(waiting));
    }

    /// Answers the launcher's question, if one is open that this thread has not answered in this
    /// wait.
    #[inline]
    pub(crate) fn answer_open_question(
        &self,
        clock: &mut WaitClock,
        waiting: &dyn Fn(&EngineState, &mut WaitList),
    ) {
        if let Some(question) = self.segment.open_question()
            && clock.answered != question
        {
            clock.answered = question;
            self.answer(question, clock.since(), None, waiting);
        }
    }

    /// The first pending operation of a thread, for the short record.
    pub(crate) fn first_pending(&self, waiting: &dyn Fn(&EngineState, &mut WaitList)) -> Waiting {
        let mut list = WaitList::new(1);
        let state = self.state.lock();
        waiting(&state, &mut list);
        let first = list.items.pop();
        first.unwrap_or(Pending::of(WaitKind::Requests)).record(state.queues.unexpected.len())
    }

    #[cold]
    fn answer(
        &self,
        question: u32,
        since_ns: u64,
        polls: Option<u32>,
        waiting: &dyn Fn(&EngineState, &mut WaitList),
    ) {
        let Some(describe) = self.reporter.describe.get() else {
            return;
        };
        let mut list = WaitList::new(LISTED);
        let mut unexpected = {
            let state = self.state.lock();
            waiting(&state, &mut list);
            let first = state.queues.first_unexpected(None, QUEUED);
            QueuedMessages { total: state.queues.unexpected.len(), first }
        };
        let answer = self.reporter.answer.lock();
        let mut answer = answer.unwrap_or_else(PoisonError::into_inner);
        if answer.question != question {
            *answer = HangAnswer { question, ..HangAnswer::default() };
        }
        if polls.is_some() {
            answer.polls_examined += 1;
            if answer.polls_examined > POLLS_ANSWERED {
                return;
            }
        }
        let is_known =
            |(polled, known): &(bool, WaitList)| *polled == polls.is_some() && *known == list;
        if answer.waits.iter().any(is_known) {
            return;
        }
        if !answer.waits.is_empty() {
            unexpected.first.clear();
        }
        let text = describe(&IdleWait {
            list: &list,
            polls,
            time: Duration::from_nanos(monotonic_ns().saturating_sub(since_ns)),
            unexpected: &unexpected,
        });
        answer.waits.push((polls.is_some(), list));
        if !answer.text.is_empty() {
            answer.text.push('\n');
        }
        answer.text.push_str(&text);
        // If the question was closed meanwhile, the text is not read.
        if self.segment.open_question() == Some(question) {
            // Without memory for the text, the short record must suffice.
            let _ = self.segment.answer(self.rank, question, &answer.text);
        }
    }
}
