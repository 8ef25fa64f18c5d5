//! Ranks, Spearman's rank correlation with its test, and Holm's correction for many tests.
//!
//! Rank correlation, since a few calls are a thousand times longer than the others (muecke-2010,
//! Figure 2), and Pearson's coefficient would see these alone.
//!
//! Holm's procedure bounds the chance of any false positive. Benjamini and Hochberg's would accept
//! a share of false ones among the positives; but a user rebinds a program because of each link
//! that is blamed, and with some dozens of links Holm's loses little power.

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::statistics::{Data, OrderStatistics, RankTieBreaker};

/// The ranks of the values, centred and scaled to length 1. Equal values share their mean rank. All
/// zero if all values are equal. The scalar product of two such vectors is Spearman's coefficient.
pub fn unit_ranks(values: &[f64]) -> Vec<f64> {
    let mut ranks = Data::new(values.to_vec()).ranks(RankTieBreaker::Average);
    let mean = (values.len() as f64 + 1.0) / 2.0;
    for rank in &mut ranks {
        *rank -= mean;
    }
    normalize(&mut ranks);
    ranks
}

/// Scales a vector to length 1; sets it to zero if it is nearly zero already.
pub fn normalize(vector: &mut [f64]) {
    let length = dot(vector, vector).sqrt();
    let factor = if length > 1e-9 { 1.0 / length } else { 0.0 };
    for value in vector {
        *value *= factor;
    }
}

/// The scalar product.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The number of independent calls that carry as much information as these (Bartlett 1935; Pyper
/// and Peterman 1998): the product of both autocorrelations, summed over lags, says how much
/// neighbours repeat each other. At most the number of calls.
pub fn effective_number(x: &[f64], y: &[f64]) -> f64 {
    let n = x.len();
    if n < 8 {
        return n as f64;
    }
    let lags = ((10.0 * (n as f64).log10()) as usize).min(n / 4);
    let autocorrelation = |v: &[f64], lag: usize| dot(&v[lag..], &v[..n - lag]);
    let sum: f64 = (1..=lags)
        .map(|lag| {
            let weight = 1.0 - lag as f64 / n as f64;
            weight * autocorrelation(x, lag) * autocorrelation(y, lag)
        })
        .sum();
    n as f64 / (1.0 + 2.0 * sum).max(1.0)
}

/// The chance of a coefficient of at least `rho` if there is no relation: one-sided, Student's t
/// with the effective number of calls.
pub fn p_positive(rho: f64, number: f64) -> f64 {
    let freedom = number - 2.0;
    if freedom < 1.0 || !rho.is_finite() {
        return 1.0;
    }
    let t = rho * (freedom / (1.0 - rho * rho).max(1e-12)).sqrt();
    StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |students| students.sf(t))
}

/// Holm's (1979) adjusted p-values, in the order of the arguments.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least = 0.0f64;
    for (place, index) in order.into_iter().enumerate() {
        least = least.max(p[index] * (p.len() - place) as f64).min(1.0);
        adjusted[index] = least;
    }
    adjusted
}
