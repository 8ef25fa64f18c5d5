//! Sets of stretches, as lists of disjoint ranges.

use std::ops::Range;

/// The parts of `part` outside `holes`, which are in order.
pub(super) fn without<T: Copy + Ord>(part: &Range<T>, holes: &[Range<T>]) -> Vec<Range<T>> {
    let mut rest = Vec::new();
    let mut at = part.start;
    for hole in holes {
        if hole.start >= part.end {
            break;
        }
        if at < hole.start {
            rest.push(at..hole.start);
        }
        at = at.max(hole.end);
    }
    if at < part.end {
        rest.push(at..part.end);
    }
    rest
}

/// The parts of `before` that `now` lacks. Both are in order.
pub(super) fn gone<T: Copy + Ord>(before: &[Range<T>], now: &[Range<T>]) -> Vec<Range<T>> {
    before.iter().flat_map(|part| without(part, now)).collect()
}

/// The union of both, in order.
pub(super) fn union<T: Copy + Ord>(a: &[Range<T>], b: &[Range<T>]) -> Vec<Range<T>> {
    let mut all: Vec<Range<T>> = a.iter().chain(b).cloned().collect();
    all.sort_by_key(|part| part.start);
    let mut union: Vec<Range<T>> = Vec::with_capacity(all.len());
    for part in all {
        match union.last_mut() {
            Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
            _ => union.push(part),
        }
    }
    union
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;

    #[test]
    fn subtracts_and_joins() {
        assert_eq!(without(&(10..50), &[0..12, 20..30, 45..60, 70..80]), [12..20, 30..45]);
        assert_eq!(without(&(10..50), &[]), [10..50]);
        assert!(without(&(10..50), &[0..50]).is_empty());
        assert_eq!(gone(&[0..10, 20..30], &[5..25]), [0..5, 25..30]);
        assert!(gone(&[5..6], &[0..10, 20..30]).is_empty());
        assert_eq!(union(&[0..10, 30..40], &[8..20, 40..41]), [0..20, 30..41]);
    }
}
