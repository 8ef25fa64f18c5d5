//! Statistics that relate the execution time of calls to the load of links (muecke-2010, chapter
//! 5), without a person who looks at plots.
//!
//! Pure functions over plain columns ([`Columns`]): the seconds of each call, and for each directed
//! link its load during each call. The caller decides what load is; the paper's is the bytes that
//! the link carried during the call. Everything random takes a seed, and equal seeds give equal
//! results.
//!
//! Calls follow one another, and background traffic lasts over many of them, so neighbouring calls
//! are not independent. The statistics respect that: the test of a correlation uses an effective
//! number of calls, the bootstrap draws blocks, permutations shuffle blocks.
//!
//! A limit that every reader must know, and that the paper does not discuss: a long call counts
//! more bytes on a link with steady traffic only because it lasts. Correlation with bytes is
//! therefore no proof of a cause; correlation with the rate in the interval before the call, which
//! [`crate::predictor`] uses, is free of this.
//!
//! | file | what it has | figure |
//! |---|---|---|
//! | `rank` | ranks, Spearman's correlation and its test, Holm's correction | |
//! | `resample` | block bootstrap, shuffled blocks, intervals | |
//! | `distribution` | quantiles, histogram, the slowest; load of links in fast calls | 2, 3, 6 |
//! | `blame` | links ordered by correlation with time, and those to blame | 4, 5 |
//! | `cluster` | clusters of execution time and the links that mark each | 7 |
//! | `select` | the relevant set of links and its stability | |

pub mod blame;
pub mod cluster;
pub mod distribution;
pub mod rank;
pub mod resample;
pub mod select;
#[cfg(test)]
mod tests;

/// The error rate of all tests together: the chance that a link without influence is blamed.
pub const ALPHA: f64 = 0.01;

/// Calls as columns.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    /// The execution time of each call.
    pub seconds: &'a [f64],
    /// For each link, its load during each call. All columns are as long as `seconds`.
    pub loads: &'a [&'a [f64]],
}

impl Columns<'_> {
    /// The load of all links together during each call.
    pub fn total(&self) -> Vec<f64> {
        (0..self.seconds.len()).map(|call| self.loads.iter().map(|load| load[call]).sum()).collect()
    }
}
