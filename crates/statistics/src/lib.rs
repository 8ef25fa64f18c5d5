//! Order statistics of measured values, for every tool that prints a median or a quantile: the one
//! place that says how they are interpolated (Hyndman and Fan's type 7, as in R).
#![forbid(unsafe_code)]

/// An interpolated quantile of sorted values; zero if there are none.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = share * last as f64;
    let low = sorted[place.floor() as usize];
    let high = sorted[place.ceil() as usize];
    low + (high - low) * place.fract()
}

/// The median of values in any order; zero if there are none.
pub fn median(values: &[f64]) -> f64 {
    quantile(&sorted(values.iter().copied()), 0.5)
}

/// The values in order.
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated() {
        let values = sorted([4.0, 1.0, 3.0, 2.0]);
        let at = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| quantile(&values, share));
        assert_eq!(at, [1.0, 1.75, 2.5, 3.25, 4.0]);
        assert_eq!((quantile(&[7.0], 0.9), quantile(&[], 0.5)), (7.0, 0.0));
        assert_eq!((median(&[5.0, 1.0, 2.0]), median(&[])), (2.0, 0.0));
    }
}
