//! Statistics of a few rounds: median, quartiles, extremes.

use mica_statistics::{quantile, sorted};
use serde::Serialize;

/// The five numbers of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stats {
    pub min: f64,
    pub q1: f64,
    pub median: f64,
    pub q3: f64,
    pub max: f64,
    /// The number of values.
    pub rounds: usize,
}

impl Stats {
    /// `None` if there are no values. The values must be finite.
    pub fn of(values: &[f64]) -> Option<Stats> {
        let sorted = sorted(values.iter().copied());
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let at = |share| quantile(&sorted, share);
        Some(Stats { min, q1: at(0.25), median: at(0.5), q3: at(0.75), max, rounds: sorted.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated() {
        let stats = Stats::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(
            (stats.min, stats.q1, stats.median, stats.q3, stats.max),
            (1.0, 1.75, 2.5, 3.25, 4.0)
        );
        let one = Stats::of(&[7.0]).unwrap();
        assert_eq!(
            (one.min, one.q1, one.median, one.q3, one.max, one.rounds),
            (7.0, 7.0, 7.0, 7.0, 7.0, 1)
        );
        assert_eq!(Stats::of(&[]), None);
    }
}
