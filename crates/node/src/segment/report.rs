//! Reports of what ranks wait for, written when the launcher asks (`mpiexec`'s hang report).
//!
//! The launcher opens a question by making the node's question number odd, wakes the ranks that
//! sleep, reads the answers, and closes the question by making the number even. A rank checks the
//! number only where it has found nothing to do: when it yields, when it wakes up, when a test or
//! probe found nothing. So without a question, a job pays one load in such places, and no memory: a
//! rank's text has its part of the segment, which is allocated when the rank first answers.
//!
//! | who | writes |
//! |---|---|
//! | launcher | the question number |
//! | rank, under its own lock | its text, then its answer word: question number and bytes of text |
//!
//! While the question stays the same, a text only grows, so that the bytes that the answer word
//! covers never change while they are read. There is one launcher, and it has read all texts before
//! it opens the next question.

use super::geometry::{PAGE, REPORT_BYTES};
use super::{JobSegment, SegmentError};
use crate::park::Fencing;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Offset of the question number: in the header's page, in a line of its own.
pub(super) const QUESTION_OFFSET: usize = 2048 + 256;

const _: () = assert!(QUESTION_OFFSET < PAGE);

/// A rank's answer: the question number (high half) and the bytes of its text.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct AnswerLine(AtomicU64);

impl JobSegment {
    fn question(&self) -> &AtomicU32 {
        // SAFETY: in the header's page, after the header, allocated and zeroed by `create`; used
        // for nothing else, and only accessed through its atomic.
        unsafe { &*self.at(QUESTION_OFFSET).cast::<AtomicU32>() }
    }

    /// The open question, if there is one.
    #[inline(always)]
    pub fn open_question(&self) -> Option<u32> {
        // Relaxed: the rank reads nothing else that the launcher wrote before.
        let number = self.question().load(Ordering::Relaxed);
        (number & 1 == 1).then_some(number)
    }

    /// Opens a question. To be called by the launcher only. Returns its number.
    pub fn ask(&self) -> u32 {
        // Relaxed: see `open_question`; `wake_for_question` fences.
        let number = self.question().load(Ordering::Relaxed).wrapping_add(1) | 1;
        self.question().store(number, Ordering::Relaxed);
        number
    }

    /// Closes the open question.
    pub fn end_question(&self) {
        let number = self.question().load(Ordering::Relaxed);
        self.question().store(number.wrapping_add(number & 1), Ordering::Relaxed);
    }

    /// Wakes `rank` if it sleeps, so that it sees the question. To be repeated until it has
    /// answered: a rank that was about to sleep may miss it once.
    pub fn wake_for_question(&self, rank: u32) {
        self.block(rank).parking.0.wake(Fencing::Sender);
    }

    /// Publishes `text`, cut to [`REPORT_BYTES`], as `rank`'s answer to the question. To be called
    /// by that rank, by one thread at a time; a later text for the same question must begin with
    /// the earlier one.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn answer(&self, rank: u32, question: u32, text: &str) -> Result<(), SegmentError> {
        let text = &text.as_bytes()[..text.floor_char_boundary(REPORT_BYTES)];
        let offset = self.geometry.report(self.index(rank));
        self.allocate(offset, REPORT_BYTES)?;
        // SAFETY: in the mapping and just allocated, with the bytes that the geometry reserves for
        // this text and for nothing else. One thread of the rank writes here at a time. Others read
        // by `pread` only, as far as the answer word covers; those bytes are overwritten with the
        // same values.
        unsafe {
            self.at(offset).copy_from_nonoverlapping(text.as_ptr(), text.len());
        }
        let word = u64::from(question) << 32 | text.len() as u64;
        // SYNC answer: pairs with the Acquire load in `answer_of`; the text is written before the
        // word.
        self.block(rank).answer.0.store(word, Ordering::Release);
        Ok(())
    }

    /// The text that `rank` has published for this question, if any.
    pub fn answer_of(&self, rank: u32, question: u32) -> Option<String> {
        // SYNC answer
        let word = self.block(rank).answer.0.load(Ordering::Acquire);
        let bytes = (word as u32 as usize).min(REPORT_BYTES);
        if (word >> 32) as u32 != question || bytes == 0 {
            return None;
        }
        let mut text = vec![0; bytes];
        // Not through the mapping: the rank may write after these bytes.
        let file = File::from(self.as_fd().try_clone_to_owned().ok()?);
        let offset = self.geometry.report(self.index(rank)) as u64;
        file.read_exact_at(&mut text, offset).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}
