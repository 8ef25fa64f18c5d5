//! Rounds: in which order several runs are repeated, and the median of what they show, with the
//! extremes, within which a difference says nothing.

use mica_statistics::{quantile, sorted};
use serde::Serialize;

/// A median and the extremes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

/// The median and the extremes of at least one value.
pub fn spread(values: Vec<f64>) -> Spread {
    let values = sorted(values);
    Spread { median: quantile(&values, 0.5), min: values[0], max: values[values.len() - 1] }
}

/// Round and side of each run: every other round is reversed.
pub fn turns(rounds: usize, sides: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rounds).flat_map(move |round| {
        (0..sides).map(move |turn| match round % 2 {
            0 => (round, turn),
            _ => (round, sides - 1 - turn),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_other_round_is_reversed() {
        let order: Vec<usize> = turns(3, 2).map(|(_, side)| side).collect();
        assert_eq!(order, [0, 1, 1, 0, 0, 1]);
    }
}
