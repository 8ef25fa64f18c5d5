//! The calendar of a resource that serves one piece of work at a time: a link, a port, an engine of
//! the adapter. It answers at once when a piece of work is done, from what was entered before.
//!
//! States of a moment: free, or busy with the label of the work that has it. A moment that was
//! given away is never given to other work; [`Calendar::forget_before`] and
//! [`Calendar::keep_newest`] drop moments that no later work can use.
//!
//! Work is entered in the order in which it is known, which is not the order in which it comes to
//! the resource: a packet that left early may come late. So later work may use the free moments
//! before earlier work, in parts if they are short, as packets do that are cut into smaller ones on
//! the way. The resource is never idle while work waits for it. (In the words of scheduling:
//! preemptive resume, with the order of entry as the priority.)
//!
//! Callers: `network` (links and receiving ports, in picoseconds) and `memory::controller` (engines
//! of the adapter, in fractions of a cycle); a calendar does not know its unit.
//!
//! Invariants: the intervals are disjoint and in order, and those that touch have different labels.
//! Cost: a search in the intervals, and a step for each part of the work.

use std::collections::VecDeque;

/// When a resource is busy, and with what.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calendar<L = ()> {
    busy: VecDeque<BusyInterval<L>>,
}

/// Moments in a row that belong to work with one label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BusyInterval<L> {
    start: u64,
    end: u64,
    label: L,
}

/// The time that was found for some work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FreeTime {
    /// The first free moment.
    pub first: u64,
    /// When the work is done.
    pub done: u64,
}

impl<L: Copy + PartialEq> Calendar<L> {
    /// Takes the first `work` of free time at or after `from`.
    pub fn reserve(&mut self, from: u64, work: u64, label: L) -> FreeTime {
        let mut place = self.busy.partition_point(|busy| busy.end <= from);
        let first = self.next_free(from, &mut place);
        let (mut at, mut left) = (first, work);
        while left > 0 {
            at = self.next_free(at, &mut place);
            let free = self.busy.get(place).map_or(left, |next| next.start - at);
            let part = left.min(free);
            self.mark(BusyInterval { start: at, end: at + part, label }, &mut place);
            at += part;
            left -= part;
        }
        FreeTime { first, done: at }
    }

    /// The first free moment at or after `at`; `place` becomes that of the first interval after it.
    fn next_free(&self, mut at: u64, place: &mut usize) -> u64 {
        while let Some(next) = self.busy.get(*place)
            && next.start <= at
        {
            at = next.end;
            *place += 1;
        }
        at
    }

    /// Enters an interval before the one at `place`, which becomes that of the first which ends
    /// later than the new one.
    fn mark(&mut self, new: BusyInterval<L>, place: &mut usize) {
        let before = place.checked_sub(1).map(|before| self.busy[before]);
        let joins_before = before.is_some_and(|b| b.end == new.start && b.label == new.label);
        let after = self.busy.get(*place);
        let joins_after = after.is_some_and(|a| a.start == new.end && a.label == new.label);
        match (joins_before, joins_after) {
            (true, true) => {
                self.busy[*place - 1].end = self.busy[*place].end;
                self.busy.remove(*place);
                *place -= 1;
            }
            (true, false) => self.busy[*place - 1].end = new.end,
            (false, true) => self.busy[*place].start = new.start,
            (false, false) => {
                self.busy.insert(*place, new);
                *place += 1;
            }
        }
    }

    /// The label of the work that has this moment.
    pub fn label(&self, at: u64) -> Option<L> {
        let place = self.busy.partition_point(|busy| busy.end <= at);
        self.busy.get(place).filter(|busy| busy.start <= at).map(|busy| busy.label)
    }

    /// Whether no moment from this one on is busy.
    pub fn is_free_from(&self, at: u64) -> bool {
        self.busy.back().is_none_or(|last| last.end <= at)
    }

    /// Forgets what has ended at this moment: no work that is entered later begins before it.
    pub fn forget_before(&mut self, floor: u64) {
        while self.busy.front().is_some_and(|first| first.end <= floor) {
            self.busy.pop_front();
        }
    }

    /// Forgets the oldest intervals but for this many; returns the end of the last of those.
    pub fn keep_newest(&mut self, intervals: usize) -> Option<u64> {
        let surplus = self.busy.len().saturating_sub(intervals);
        self.busy.drain(..surplus).last().map(|forgotten| forgotten.end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The naive calendar: one label a moment.
    fn reserve_naively(
        taken: &mut [Option<u8>],
        from: usize,
        work: usize,
        label: u8,
    ) -> (usize, usize) {
        let first = (from..).find(|at| taken[*at].is_none()).expect("the table is long");
        let (mut done, mut left) = (first, work);
        while left > 0 {
            if taken[done].is_none() {
                taken[done] = Some(label);
                left -= 1;
            }
            done += 1;
        }
        (first, done)
    }

    proptest! {
        #[test]
        fn finds_the_free_moments_of_a_table(
            works in prop::collection::vec((0_usize..300, 0_usize..20, 0_u8..3), 1..60),
        ) {
            let mut table = vec![None; 4000];
            let mut calendar = Calendar::default();
            for (from, work, label) in works {
                let (first, done) = reserve_naively(&mut table, from, work, label);
                let slot = calendar.reserve(from as u64, work as u64, label);
                prop_assert_eq!(slot, FreeTime { first: first as u64, done: done as u64 });
                for (at, label) in table.iter().enumerate() {
                    prop_assert_eq!(calendar.label(at as u64), *label);
                }
                let neighbours = calendar.busy.iter().zip(calendar.busy.iter().skip(1));
                let apart = |(a, b): (&BusyInterval<u8>, &BusyInterval<u8>)| {
                    a.end < b.start || a.end == b.start && a.label != b.label
                };
                prop_assert!(neighbours.into_iter().all(apart));
            }
        }
    }

    #[test]
    fn takes_the_free_time_in_parts() {
        let mut engine = Calendar::default();
        let mut done = |from, work, label| engine.reserve(from, work, label).done;
        assert_eq!(done(100, 50, 0), 150);
        assert_eq!(done(400, 50, 1), 450);
        // Asked for later, done before.
        assert_eq!(done(0, 100, 2), 100);
        // Fits between, does not fit between, and no bytes.
        assert_eq!(done(120, 150, 3), 300);
        assert_eq!(done(300, 150, 4), 500);
        assert_eq!(done(420, 0, 5), 500);
        let parts: Vec<_> = engine.busy.iter().map(|part| (part.start, part.end)).collect();
        assert_eq!(parts, [(0, 100), (100, 150), (150, 300), (300, 400), (400, 450), (450, 500)]);
    }

    #[test]
    fn forgets_what_is_over() {
        let mut calendar = Calendar::default();
        for at in 0..1000 {
            calendar.forget_before(10 * at);
            calendar.reserve(10 * at, 3, ());
            assert!(calendar.busy.len() <= 2);
        }
        calendar.reserve(10_000, 3, ());
        assert_eq!(calendar.keep_newest(2), None);
        assert_eq!(calendar.keep_newest(1), Some(9993));
    }

    #[test]
    fn knows_whose_a_moment_is() {
        let mut engine = Calendar::default();
        engine.reserve(100, 50, 0.25);
        for (at, share) in [(99, None), (100, Some(0.25)), (149, Some(0.25)), (150, None)] {
            assert_eq!(engine.label(at), share, "{at}");
            assert_eq!(engine.is_free_from(at), at == 150, "{at}");
        }
    }
}
