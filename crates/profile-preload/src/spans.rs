//! The time line of one thread: a bounded number of calls, of which the long ones are kept.
//!
//! While there is room every call is kept. When there is none, short calls that follow one another
//! become one entry, which knows how many they were, how long they took together and when the first
//! began and the last ended: so the line covers the whole run, and what is drawn as computing was
//! computing. What is short is decided by a limit, which doubles until half of the room is free;
//! later calls are joined as they come. Calls of the limit or more stay as they are.
//!
//! Two neighbours are joined if each is shorter than the limit or joined already, the gap between
//! them is a quarter of it at most, and both together take eight limits at most: the rule by which
//! the page draws short calls (`report/timeline.rs`), so that a long run of short calls is drawn as
//! several bars, and pauses of the program between calls remain to be seen.
//!
//! While entries are joined in place, the file says which are void (`ThreadHead::void_spans`): a
//! process that is killed meanwhile leaves a line that can be read.

use std::sync::atomic::{AtomicU64, Ordering};

use mica_profile::rank_tables::{SpanEntry, SpanKind, ThreadHead};

use crate::list::RecordList;

/// The line.
pub struct SpanList {
    entries: RecordList<SpanEntry>,
    /// Entries that there is room for; 0: none is kept.
    room: usize,
    /// Calls shorter than this are joined, in ticks; 0 as long as all are kept.
    limit: u64,
    void: &'static [AtomicU64; 2],
    unkept: &'static AtomicU64,
}

impl SpanList {
    /// An empty one.
    pub fn new(head: &'static ThreadHead, room: usize) -> SpanList {
        SpanList {
            entries: RecordList::new(&head.spans),
            // With one entry there is nothing to be joined.
            room: if room == 1 { 2 } else { room },
            limit: 0,
            void: &head.void_spans,
            unkept: &head.unkept_spans,
        }
    }

    /// Adds a call to those that are joined at the end of the line, if it is as short and as near.
    /// That is what happens to most calls of a long run, so it comes before an entry is made.
    #[inline]
    pub fn join_call(&mut self, (start, end): (u64, u64), bytes: u64) -> bool {
        let (limit, length) = (self.limit, end.saturating_sub(start));
        if length >= limit {
            return false;
        }
        let Some(last) = self.entries.last() else { return false };
        let joins = is_joined(last)
            && length <= last.more[2]
            && start.saturating_sub(last.end) <= limit / 4
            && end.saturating_sub(last.start) <= limit.saturating_mul(8);
        if joins {
            last.end = end;
            last.bytes += bytes;
            last.more[0] += 1;
            last.more[1] += length;
        }
        joins
    }

    /// Keeps a call, by itself or joined with the one before it.
    #[inline]
    pub fn keep(&mut self, span: SpanEntry) {
        // The limit is 0 as long as there is room for all.
        if length(&span) < self.limit && self.join_last(&span) {
            return;
        }
        if self.entries.len() < self.room {
            self.entries.push(span);
        } else {
            self.keep_in_full(span);
        }
    }

    #[inline]
    fn join_last(&mut self, span: &SpanEntry) -> bool {
        let limit = self.limit;
        let Some(last) = self.entries.last() else { return false };
        let joins = joins(last, span, limit);
        if joins {
            join(last, span);
        }
        joins
    }

    #[cold]
    fn keep_in_full(&mut self, span: SpanEntry) {
        if self.room == 0 {
            add(self.unkept, 1);
            return;
        }
        let first = self.entries.at(0).start;
        let line = span.end.saturating_sub(first);
        self.limit = (self.limit * 2).max(line >> 16).max(1);
        while self.left_by(self.limit) > self.room / 2 {
            self.limit = self.limit.saturating_mul(2);
        }
        self.join_all();
        self.keep(span);
    }

    /// How many entries a limit would leave.
    fn left_by(&mut self, limit: u64) -> usize {
        let mut last = *self.entries.at(0);
        let mut left = 1;
        for index in 1..self.entries.len() {
            let span = *self.entries.at(index);
            if joins(&last, &span, limit) {
                join(&mut last, &span);
            } else {
                (last, left) = (span, left + 1);
            }
        }
        left
    }

    fn join_all(&mut self) {
        let mut kept = 1;
        for index in 1..self.entries.len() {
            let span = *self.entries.at(index);
            if joins(self.entries.at(kept - 1), &span, self.limit) {
                join(self.entries.at(kept - 1), &span);
            } else {
                *self.entries.at(kept) = span;
                kept += 1;
            }
            // Release: entries before the words that say which of them are void.
            self.void[0].store(kept as u64, Ordering::Release);
            self.void[1].store(index as u64 + 1, Ordering::Release);
        }
        self.entries.set_len(kept);
        self.void[1].store(0, Ordering::Release);
    }
}

/// Adds to a word that this thread alone changes.
#[inline]
pub fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

#[inline]
fn length(span: &SpanEntry) -> u64 {
    span.end.saturating_sub(span.start)
}

#[inline]
fn is_joined(span: &SpanEntry) -> bool {
    span.call_and_kind >> 16 == SpanKind::Joined as u32
}

#[inline]
fn joins(last: &SpanEntry, span: &SpanEntry, limit: u64) -> bool {
    (length(last) < limit || is_joined(last))
        && (length(span) < limit || is_joined(span))
        && span.start.saturating_sub(last.end) <= limit / 4
        && span.end.saturating_sub(last.start) <= limit.saturating_mul(8)
}

#[inline]
fn join(last: &mut SpanEntry, span: &SpanEntry) {
    let [calls, busy, longest] = sums(last);
    let [more_calls, more_busy, other_longest] = sums(span);
    if other_longest > longest {
        (last.call_and_kind, last.site, last.peer) = (span.call_and_kind, span.site, span.peer);
    }
    last.call_and_kind = SpanEntry::pack(last.call(), SpanKind::Joined);
    last.end = last.end.max(span.end);
    last.bytes += span.bytes;
    last.more = [calls + more_calls, busy + more_busy, longest.max(other_longest)];
}

/// Calls, the ticks in them and those of the longest.
#[inline]
fn sums(span: &SpanEntry) -> [u64; 3] {
    if is_joined(span) {
        span.more
    } else if span.kind() == Some(SpanKind::Paused) {
        [0; 3]
    } else {
        [1, length(span), length(span)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::{read_thread, thread_head};

    fn call(start: u64, length: u64, call: u16) -> SpanEntry {
        SpanEntry {
            start,
            end: start + length,
            site: u64::from(call),
            bytes: 1,
            peer: 0,
            call_and_kind: SpanEntry::pack(call, SpanKind::Call),
            more: [0; 3],
        }
    }

    /// The line that is left of these calls, as a reader of the file finds it.
    fn line(room: usize, calls: impl Iterator<Item = SpanEntry>) -> Vec<SpanEntry> {
        let (head, number) = thread_head();
        let mut spans = SpanList::new(head, room);
        for call in calls {
            if !spans.join_call((call.start, call.end), call.bytes) {
                spans.keep(call);
            }
        }
        read_thread(number).spans
    }

    #[test]
    fn keeps_all_calls_while_there_is_room() {
        let left = line(100, (0..100).map(|i| call(i * 10, 5, i as u16)));
        assert_eq!(left.len(), 100);
        assert!(left.iter().all(|span| span.kind() == Some(SpanKind::Call)));
    }

    #[test]
    fn keeps_long_calls_and_counts_the_short_ones_among_them() {
        // Every 500th call takes 1000 times as long as the others; the last ones are short.
        let mut at = 0;
        let calls = (0..20_000).map(|i| {
            let long = i % 500 == 250;
            let span = call(at, if long { 10_000 } else { 10 }, u16::from(long));
            at = span.end + 5;
            span
        });
        let left = line(200, calls);
        assert!(left.len() <= 200, "{}", left.len());
        let long =
            left.iter().filter(|span| span.kind() == Some(SpanKind::Call) && span.call() == 1);
        assert_eq!(long.count(), 40);
        let sums = left.iter().map(sums).fold([0; 2], |sum, of| [sum[0] + of[0], sum[1] + of[1]]);
        assert_eq!(sums, [20_000, 40 * 10_000 + 19_960 * 10]);
        assert_eq!(left.iter().map(|span| span.bytes).sum::<u64>(), 20_000);
        // The line reaches to the last call, in order and without an overlap.
        assert_eq!(left.last().expect("an entry").end, at - 5);
        assert!(left.windows(2).all(|two| two[0].end <= two[1].start));
    }

    #[test]
    fn keeps_the_gaps_of_a_program_that_computes() {
        // Short calls in groups, with long gaps between the groups.
        let calls = (0..4000).map(|i| call(i / 100 * 1_000_000 + i % 100 * 20, 10, 0));
        let left = line(200, calls);
        let gaps = left.windows(2).filter(|two| two[1].start - two[0].end > 900_000);
        assert_eq!(gaps.count(), 39);
    }

    #[test]
    fn keeps_nothing_but_the_number_without_room() {
        let (head, number) = thread_head();
        let mut spans = SpanList::new(head, 0);
        (0..7).for_each(|i| spans.keep(call(i * 10, 5, 0)));
        let thread = read_thread(number);
        assert_eq!((thread.spans.len(), thread.unkept_spans), (0, 7));
    }
}
