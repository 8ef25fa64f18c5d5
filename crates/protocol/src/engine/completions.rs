//! CompletionNotes: what an operation leaves to do when it ends, and for whom.
//!
//! A send or receive that ends hands its [`CompletionActions`] to [`CompletionNotes::finish`];
//! whatever else ends (schedules, transfers) calls [`CompletionNotes::note`]. Both only take notes.
//! They are read later, by:
//!
//! | reader | note | when |
//! |---|---|---|
//! | sleeping threads of this rank | [`NOTIFY_WAITERS`] | the lock is given back |
//! | the progress thread | [`WAKE_PROGRESS_THREAD`] | the same |
//! | schedules and reactions | `completed` | at the end of a progress iteration |
//! | `MPI_Waitany` and its kin | [`CompletionReports`] | at its next check |
//!
//! So an operation may end anywhere in the engine, with any of its parts borrowed, and nothing is
//! called back from there. All is behind the engine's lock: no field is atomic. An operation that
//! was begun as a long message ends as one exactly once, by its actions or by its RTS state.

use std::collections::VecDeque;

/// Something has completed: other threads of this rank may wait for it.
pub(crate) const NOTIFY_WAITERS: u8 = 1;
/// A long message needs the progress thread.
pub(crate) const WAKE_PROGRESS_THREAD: u8 = 2;

/// What the threads of this rank are to be notified of, and what they do.
#[derive(Debug, Default)]
pub(crate) struct CompletionNotes {
    /// Notifications due when the lock is given back: [`NOTIFY_WAITERS`], [`WAKE_PROGRESS_THREAD`].
    pub notifications: u8,
    /// An operation has completed since schedules and reactions were last advanced.
    pub completed: bool,
    /// Long messages in progress, if a progress thread handles them while the program computes.
    pub long_messages: Option<usize>,
    /// The progress thread has the lock.
    pub in_progress_thread: bool,
    /// A thread that the program has not asked for has the lock
    /// ([`progress_in_background`](crate::Engine::progress_in_background)).
    pub in_background: bool,
    /// It has left a schedule to the program's threads.
    pub held_back: bool,
    /// Threads of the program that wait in MPI. Counted only where there is a copy engine.
    pub waiting_threads: u32,
    /// The operations that the program looks for among many.
    pub reports: CompletionReports,
}

impl CompletionNotes {
    /// Notes that an operation has completed: threads that wait poll again.
    #[inline]
    pub fn note(&mut self) {
        self.notifications |= NOTIFY_WAITERS;
        self.completed = true;
    }

    /// Notes that an operation with these actions has completed.
    #[inline]
    pub fn finish(&mut self, actions: CompletionActions) {
        if !actions.is_empty() {
            self.run(actions);
        }
        self.note();
    }

    #[cold]
    fn run(&mut self, actions: CompletionActions) {
        if actions.is_long() {
            self.end_long_message();
        }
        if let Some(place) = actions.place() {
            self.reports.watched -= 1;
            self.reports.places.push_back(place);
        }
    }

    /// Counts a long message that begins, and notifies the progress thread; false if there is none.
    pub fn begin_long_message(&mut self) -> bool {
        let Some(count) = &mut self.long_messages else {
            return false;
        };
        *count += 1;
        self.notifications |= WAKE_PROGRESS_THREAD;
        true
    }

    /// A long message that was counted has completed.
    pub fn end_long_message(&mut self) {
        if let Some(count) = &mut self.long_messages {
            *count -= 1;
        }
    }

    /// True while long messages are in progress.
    pub fn has_long_messages(&self) -> bool {
        self.long_messages.is_some_and(|count| count > 0)
    }
}

/// What is due when an operation ends beside its completion; most have nothing. A flag and the
/// place to report, plus one, in one word: every operation has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CompletionActions(u32);

impl CompletionActions {
    const LONG: u32 = 1 << 31;

    /// Of a receive: it is counted as a long message in progress, or not.
    pub fn set_long(&mut self, long: bool) {
        self.0 = self.0 & !Self::LONG | if long { Self::LONG } else { 0 };
    }

    /// Whether it is counted as a long message in progress.
    pub fn is_long(self) -> bool {
        self.0 & Self::LONG != 0
    }

    #[inline(always)]
    fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The place to report.
    fn place(self) -> Option<u32> {
        (self.0 & !Self::LONG).checked_sub(1)
    }
}

/// The places of watched operations that have completed, in the order of completion
/// ([`watched`](crate::pt2pt::watched)).
#[derive(Debug, Default)]
pub(crate) struct CompletionReports {
    pub places: VecDeque<u32>,
    /// Number of operations that are watched.
    pub watched: usize,
}

impl CompletionReports {
    /// Asks to report a place, the index of an element, so below `c_int::MAX`, when the operation
    /// with these actions ends.
    pub fn watch(&mut self, actions: &mut CompletionActions, place: u32) {
        debug_assert!(place < CompletionActions::LONG - 1);
        self.watched += usize::from(actions.place().is_none());
        actions.0 = actions.0 & CompletionActions::LONG | (place + 1);
    }
}
