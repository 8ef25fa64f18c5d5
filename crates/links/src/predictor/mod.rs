//! A cheap predictor on line: will the next call be short, medium or long?
//!
//! A decision tree (Breiman et al. 1984, CART) of depth 3 at most over the load of three links at
//! most: a handful of comparisons for each call, of counters that are read before it. The features
//! of a call are the links' rates during the interval before it: the load during the call itself
//! is the paper's indicator, but it is known only when the call is over.
//!
//! Accuracy is that of held-out calls: folds of consecutive calls, so that a burst is not learnt
//! from its own middle. It is compared with the best constant guess, by a block bootstrap: where
//! 95 % of the calls are short, that guess is right in 95 %, and this is what a predictor must
//! beat.
//!
//! | file | what it has |
//! |---|---|
//! | `tree` | the tree |
//! | `validate` | confusion matrix, accuracy against the constant guess |
//! | `payoff` | what postponing calls or choosing a schedule gains |

pub mod payoff;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod validate;

pub use payoff::{
    Payoff, PayoffTrial, PayoffVerdict, PostponeLimits, PredictorWorld, SchedulePredictor,
    choosing, postponing,
};
pub use tree::DecisionTree;
pub use validate::{Validation, validate};

/// Features of calls from what was observed during the call before: for each link, its bytes per
/// second. The first call has none before it: its features are zero.
pub fn rates_before(seconds: &[f64], loads: &[&[f64]]) -> Vec<Vec<f64>> {
    let rate = |load: &&[f64]| {
        let rates = load.iter().zip(seconds).map(|(load, time)| load / time.max(1e-9));
        let mut before: Vec<f64> = std::iter::once(0.0).chain(rates).collect();
        before.truncate(seconds.len());
        before
    };
    loads.iter().map(rate).collect()
}
