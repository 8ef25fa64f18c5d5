//! Launches whose ranks' cores lay equally far apart.
//!
//! The host of a virtual machine moves its processors. Two of them share a cache in one launch and
//! not in the next, which decides how long two ranks take to synchronize, with any library: a
//! median over launches is then the median of a coin. Programs may say how far apart their ranks'
//! cores lay (`bench/src/distance.h`). Of the figures with the same key, only those of the launches
//! in one position are then compared: the position that all contestants had most often.

use serde::Serialize;

use crate::draw::text::three_digits;

/// Two launches are in different positions if the lines of one take so much longer, and those of no
/// other lie between: positions differ by 1.8 or more, launches in one of them by less than 1.3.
const GAP: f64 = 1.5;

/// The share of its launches that each contestant must have in a position, so that its median
/// means something: 1 of this many.
const SHARE: usize = 3;

/// The position of the launches that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Position {
    /// The shortest and the longest time in which two cores exchanged a line, microseconds.
    pub line_us: [f64; 2],
    /// The number of launches there, and of all.
    pub launches: [usize; 2],
}

impl Position {
    /// The position to compare contestants in, from the times of each contestant's launches. All
    /// launches, if no position has enough of each. `None` if a launch does not say its time.
    pub fn common(contestants: &[Vec<Option<f64>>]) -> Option<Position> {
        let known: Vec<Vec<f64>> = contestants
            .iter()
            .map(|times| times.iter().copied().collect::<Option<Vec<f64>>>())
            .collect::<Option<_>>()?;
        let mut all: Vec<f64> = known.concat();
        all.sort_by(f64::total_cmp);
        let positions: Vec<&[f64]> = all.chunk_by(|before, after| *after <= before * GAP).collect();
        let ends = |times: &[f64]| Some([*times.first()?, *times.last()?]);
        let least = |position: &&[f64]| {
            let [low, high] = ends(position).unwrap_or_default();
            let there =
                |times: &Vec<f64>| times.iter().filter(|t| (low..=high).contains(*t)).count();
            let share = |times: &Vec<f64>| there(times) as f64 / times.len() as f64;
            known.iter().map(share).fold(1.0, f64::min)
        };
        let best = positions.iter().max_by(|a, b| least(a).total_cmp(&least(b)))?;
        let chosen = if least(best) * SHARE as f64 >= 1.0 { best } else { all.as_slice() };
        Some(Position { line_us: ends(chosen)?, launches: [chosen.len(), all.len()] })
    }

    /// Whether a launch was in this position. The floor's times need not lie between the others'.
    pub fn has(&self, line_us: f64) -> bool {
        let [low, high] = self.line_us;
        (low / GAP..=high * GAP).contains(&line_us)
    }

    /// `a line in 0.053 to 0.061 us, 17 of 20 launches`.
    pub fn text(&self) -> String {
        let ([low, high], [there, all]) = (self.line_us.map(three_digits), self.launches);
        format!("a line in {low} to {high} us, {there} of {all} launches")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(contestants: &[&[f64]]) -> Position {
        let known = |times: &&[f64]| times.iter().copied().map(Some).collect();
        let contestants: Vec<_> = contestants.iter().map(known).collect();
        Position::common(&contestants).unwrap()
    }

    #[test]
    fn takes_the_position_in_which_the_rarest_contestant_was_most_often() {
        // Most launches were near, but hardly any of the second contestant's.
        let near_and_far =
            common(&[&[0.05, 0.052, 0.2, 0.051, 0.21], &[0.2, 0.22, 0.06, 0.19, 0.2]]);
        assert_eq!(near_and_far, Position { line_us: [0.19, 0.22], launches: [6, 10] });
        assert!(near_and_far.has(0.17) && !near_and_far.has(0.06));
        assert_eq!(near_and_far.text(), "a line in 0.190 to 0.220 us, 6 of 10 launches");
    }

    #[test]
    fn launches_that_share_one_position_or_none_are_compared_as_they_are() {
        let steady = common(&[&[0.05, 0.07, 0.1], &[0.06, 0.08, 0.11]]);
        assert_eq!(steady, Position { line_us: [0.05, 0.11], launches: [6, 6] });
        let apart = common(&[&[0.05, 0.05, 0.05], &[0.2, 0.2, 0.2]]);
        assert_eq!(apart, Position { line_us: [0.05, 0.2], launches: [6, 6] });
        assert_eq!(Position::common(&[vec![Some(0.05)], vec![None]]), None);
        assert_eq!(Position::common(&[]), None);
    }
}
