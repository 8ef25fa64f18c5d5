//! The calendar of a link or port: the moments for which it is taken.
//!
//! Work is entered in the order in which packets depart, which is not the order in which they come
//! to this link: one that left early may come late. So later work may use the free moments before
//! earlier work, in parts if they are short, as packets do that are cut into smaller ones on the
//! way. The link is never idle while work waits for it.
//!
//! Invariant: the intervals are disjoint, in order, and do not touch.

use std::collections::VecDeque;

use crate::time::SimTime;

/// When a link is taken.
#[derive(Debug, Clone, Default)]
pub(super) struct Calendar {
    /// Start and end of each busy interval.
    busy: VecDeque<(SimTime, SimTime)>,
}

/// The time that was found for some work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FreeTime {
    /// The first free moment.
    pub first: SimTime,
    /// When the work is done.
    pub done: SimTime,
}

impl Calendar {
    /// Takes the first `work` of free time at or after `from`. What is before `floor` is
    /// forgotten.
    pub fn reserve(&mut self, from: SimTime, work: SimTime, floor: SimTime) -> FreeTime {
        while self.busy.front().is_some_and(|(_, end)| *end <= floor) {
            self.busy.pop_front();
        }
        let from_index = self.busy.partition_point(|(_, end)| *end <= from);
        let mut next = from_index;
        let mut first = from;
        if let Some((start, end)) = self.busy.get(next)
            && *start <= from
        {
            first = *end;
            next += 1;
        }
        let mut left = work;
        let mut done = first;
        while left > SimTime::default() {
            let free_until = self.busy.get(next).map_or(SimTime::NEVER, |b| b.0);
            let part = left.min(free_until.since(done));
            left = left.since(part);
            done += part;
            if left > SimTime::default() {
                done = self.busy[next].1;
                next += 1;
            }
        }
        if work > SimTime::default() {
            self.mark(first, done, next);
        }
        FreeTime { first, done }
    }

    /// Marks all from `first` to `done` as busy; `next` is the first interval at or after `done`.
    fn mark(&mut self, mut first: SimTime, mut done: SimTime, next: usize) {
        let mut until = next;
        if let Some((start, end)) = self.busy.get(until)
            && *start == done
        {
            done = *end;
            until += 1;
        }
        let mut since = self.busy.partition_point(|(start, _)| *start < first);
        if since > 0 && self.busy[since - 1].1 == first {
            since -= 1;
            first = self.busy[since].0;
        }
        if since == until {
            self.busy.insert(since, (first, done));
        } else {
            self.busy[since] = (first, done);
            self.busy.drain(since + 1..until);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The naive calendar: one flag a moment.
    fn reserve_naively(taken: &mut [bool], from: usize, work: usize) -> (usize, usize) {
        let first = (from..).find(|at| !taken[*at]).expect("the table is long");
        let (mut done, mut left) = (first, work);
        while left > 0 {
            if !taken[done] {
                taken[done] = true;
                left -= 1;
            }
            done += 1;
        }
        (first, done)
    }

    proptest! {
        #[test]
        fn finds_the_free_moments_of_a_table(
            works in prop::collection::vec((0_usize..300, 0_usize..20), 1..60),
        ) {
            let mut table = vec![false; 4000];
            let mut calendar = Calendar::default();
            for (from, work) in works {
                let (first, done) = reserve_naively(&mut table, from, work);
                let at = |t: usize| SimTime(t as u64);
                let slot = calendar.reserve(at(from), at(work), SimTime::default());
                let wanted = FreeTime { first: at(first), done: at(done) };
                prop_assert_eq!(slot, wanted);
                let busy: u64 = calendar.busy.iter().map(|(s, e)| e.0 - s.0).sum();
                prop_assert_eq!(busy as usize, table.iter().filter(|t| **t).count());
                let apart = calendar.busy.iter().zip(calendar.busy.iter().skip(1));
                prop_assert!(apart.into_iter().all(|(a, b)| a.1 < b.0));
            }
        }
    }

    #[test]
    fn forgets_what_is_over() {
        let mut calendar = Calendar::default();
        for at in 0..1000 {
            let at = SimTime(10 * at);
            calendar.reserve(at, SimTime(3), at);
            assert!(calendar.busy.len() <= 2);
        }
    }
}
