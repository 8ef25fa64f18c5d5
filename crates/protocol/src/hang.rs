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

use crate::engine::Engine;
use crate::pending::{Describe, FindCall, HangAnswer, IdleScene, Pending, WaitList, WaitSpell};
use crate::state::EngineState;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mica_node::segment::{WaitKind, Waiting, monotonic_ns};

/// Maximum number of operations that a report lists; the others are counted.
const LISTED: usize = 16;

/// Number of failed polls from which on a rank counts as polling; a power of two.
const POLLS: u32 = 64;

/// Polls that are examined more closely per question: enough for a loop over some requests, few
/// enough to cost little if a rank keeps polling while the question is open.
const POLLS_ANSWERED: u32 = 256;

impl Engine {
    /// Sets how scenes are described, and how the function is found that a thread waits in. Before
    /// that, reports contain only the short record, and that names no function.
    pub fn describe_by(&self, describe: Describe, find_call: FindCall) {
        // A second call passes the same functions.
        let _ = self.reporter.describe.set(describe);
        let _ = self.reporter.find_call.set(find_call);
    }

    /// To be called when a test or probe has failed. `waiting` lists what it asked for.
    #[inline]
    pub fn note_failed_poll(&self, waiting: impl Fn(&EngineState, &mut WaitList)) {
        // Relaxed, here and below: with several threads the count is not exact, and need not be.
        let polls = self.reporter.polls.load(Ordering::Relaxed).wrapping_add(1);
        self.reporter.polls.store(polls, Ordering::Relaxed);
        let question = self.segment.open_question();
        if polls == POLLS || question.is_some() {
            self.note_polls(polls, question, &waiting);
        }
    }

    /// To be called when a test or probe has succeeded.
    #[inline]
    pub fn note_successful_poll(&self) {
        self.reporter.polls.store(0, Ordering::Relaxed);
    }

    #[cold]
    fn note_polls(
        &self,
        polls: u32,
        question: Option<u32>,
        waiting: &dyn Fn(&EngineState, &mut WaitList),
    ) {
        if polls == POLLS {
            let now = monotonic_ns();
            self.reporter.since_ns.store(now, Ordering::Relaxed);
        }
        if let Some(question) = question
            && polls >= POLLS
        {
            let since = self.reporter.since_ns.load(Ordering::Relaxed);
            self.answer(question, since, Some(polls), waiting);
        }
    }

    /// Answers the launcher's question, if one is open that this thread has not answered in this
    /// wait.
    #[inline]
    pub(crate) fn answer_open_question(
        &self,
        spell: &mut WaitSpell,
        waiting: &dyn Fn(&EngineState, &mut WaitList),
    ) {
        if let Some(question) = self.segment.open_question()
            && spell.answered != question
        {
            spell.answered = question;
            self.answer(question, spell.since(), None, waiting);
        }
    }

    /// The first pending operation of a thread, for the short record.
    pub(crate) fn first_pending(&self, waiting: &dyn Fn(&EngineState, &mut WaitList)) -> Waiting {
        let mut list = WaitList::new(1);
        let state = self.state.lock();
        waiting(&state, &mut list);
        let first = list.items.pop();
        first
            .unwrap_or(Pending::of(WaitKind::Requests))
            .record(state.unexpected_messages())
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
        let unexpected = {
            let state = self.state.lock();
            waiting(&state, &mut list);
            state.unexpected_messages()
        };
        let answer = self.reporter.answer.lock();
        let mut answer = answer.unwrap_or_else(PoisonError::into_inner);
        if answer.question != question {
            *answer = HangAnswer {
                question,
                ..HangAnswer::default()
            };
        }
        if polls.is_some() {
            answer.polls_examined += 1;
            if answer.polls_examined > POLLS_ANSWERED {
                return;
            }
        }
        let is_known =
            |(polled, known): &(bool, WaitList)| *polled == polls.is_some() && *known == list;
        if answer.scenes.iter().any(is_known) {
            return;
        }
        let text = describe(&IdleScene {
            list: &list,
            polls,
            time: Duration::from_nanos(monotonic_ns().saturating_sub(since_ns)),
            unexpected,
        });
        answer.scenes.push((polls.is_some(), list));
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
