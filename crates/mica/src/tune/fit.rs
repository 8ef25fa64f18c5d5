//! Fits a cost to measured times: least squares over the medians, in pieces where one line does not
//! suffice.
//!
//! Errors are relative to the time (each point has weight 1/t²), since sizes span five orders of
//! magnitude. The fit has the fewest spans that keep every point within [`GOOD`] of its time, at
//! most [`SPANS`]; a span begins at a measured size.

use mica_policy::costs::{CostSpan, SPANS};

/// A measured size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Bytes.
    pub len: u64,
    /// The median of its batches, in nanoseconds.
    pub ns: f64,
    /// The interquartile range as a fraction of the median.
    pub spread: f64,
}

/// The cost that was fitted to the points.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Start-up time in nanoseconds.
    pub start_ns: f64,
    /// The first byte of each span and nanoseconds per byte; the first span begins at 0.
    pub prices: Vec<(u64, f64)>,
    /// The greatest deviation of a point from the fit, as a fraction of its time.
    pub error: f64,
}

/// Why no cost can be fitted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FitError {
    /// A line needs at least two sizes.
    #[error("{0} sizes were measured: a line needs two")]
    TooFew(usize),
    /// Longer messages took less time.
    #[error("no line fits: longer messages took less time ({0:.4} ns for each byte)")]
    Falls(f64),
    /// A time is not finite and positive.
    #[error("a message of {len} bytes took {ns} ns")]
    Nonsense {
        /// Bytes.
        len: u64,
        /// Nanoseconds.
        ns: f64,
    },
}

/// A fit is good enough if all points are within this fraction of it.
pub const GOOD: f64 = 0.1;

/// Fits start and prices to `points`, which are ordered by size. The start is at least `least_ns`:
/// where only long messages were measured, noise would make it arbitrary.
pub fn fit(points: &[Point], least_ns: f64) -> Result<Fit, FitError> {
    if let Some(point) = points.iter().find(|p| !(p.ns.is_finite() && p.ns > 0.0)) {
        let Point { len, ns, .. } = *point;
        return Err(FitError::Nonsense { len, ns });
    }
    if points.len() < 2 {
        return Err(FitError::TooFew(points.len()));
    }
    let mut best = with_knots(points, &[], least_ns)?;
    for spans in 2..=SPANS {
        if best.error <= GOOD {
            break;
        }
        for knots in choices(points.len(), spans - 1) {
            // A knot after which the cost would fall is not used.
            if let Ok(fit) = with_knots(points, &knots, least_ns)
                && fit.error < best.error
            {
                best = fit;
            }
        }
    }
    Ok(best)
}

/// All choices of `n` indices from 1 on that leave at least one point after the last.
fn choices(points: usize, n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let mut found = Vec::new();
    for fewer in choices(points, n - 1) {
        let first = fewer.last().map_or(1, |last| last + 1);
        found.extend((first..points.saturating_sub(1)).map(|knot| {
            let mut knots = fewer.clone();
            knots.push(knot);
            knots
        }));
    }
    found
}

/// The fit whose spans begin at 0 and at the sizes of these points.
fn with_knots(points: &[Point], knots: &[usize], least_ns: f64) -> Result<Fit, FitError> {
    let first = knots.first().map_or(points, |&knot| &points[..=knot]);
    let (start_ns, byte_ns) = line(first, least_ns)?;
    let mut prices = vec![(0, byte_ns)];
    for (n, &knot) in knots.iter().enumerate() {
        let end = knots.get(n + 1).map_or(points.len() - 1, |&next| next);
        let from = points[knot].len;
        let base = predict(start_ns, &prices, from);
        let slope = through(from as f64, base, &points[knot + 1..=end]);
        if slope <= 0.0 {
            return Err(FitError::Falls(slope));
        }
        prices.push((from, slope));
    }
    let error = points
        .iter()
        .map(|p| (predict(start_ns, &prices, p.len) / p.ns - 1.0).abs())
        .fold(0.0, f64::max);
    Ok(Fit { start_ns, prices, error })
}

/// The line through the points: its start, at least `least_ns`, and its slope, which is positive.
fn line(points: &[Point], least_ns: f64) -> Result<(f64, f64), FitError> {
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for p in points {
        let (x, y) = (p.len as f64, p.ns);
        let weight = 1.0 / (y * y);
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    let slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
    if !slope.is_finite() || slope <= 0.0 {
        return Err(FitError::Falls(slope));
    }
    let start = (wy - slope * wx) / w;
    if start >= least_ns {
        return Ok((start, slope));
    }
    match through(0.0, least_ns, points) {
        slope if slope > 0.0 => Ok((least_ns, slope)),
        slope => Err(FitError::Falls(slope)),
    }
}

/// The slope of the line from (x, y) that best fits the points.
fn through(x: f64, y: f64, points: &[Point]) -> f64 {
    let (mut up, mut down) = (0.0, 0.0);
    for p in points {
        let (dx, dy) = (p.len as f64 - x, p.ns - y);
        up += dx * dy / (p.ns * p.ns);
        down += dx * dx / (p.ns * p.ns);
    }
    up / down
}

fn predict(start_ns: f64, prices: &[(u64, f64)], len: u64) -> f64 {
    let spans = prices.iter().map(|&(from, byte_ns)| CostSpan { from, byte_ns });
    let mut ns = start_ns;
    for (at, span) in spans.enumerate() {
        let end = prices.get(at + 1).map_or(u64::MAX, |next| next.0);
        ns += span.byte_ns * len.min(end).saturating_sub(span.from) as f64;
    }
    ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_policy::PathCost;

    fn points(of: impl Fn(u64) -> f64, lens: &[u64]) -> Vec<Point> {
        let point = |&len: &u64| Point { len, ns: of(len), spread: 0.0 };
        lens.iter().map(point).collect()
    }

    const LENS: [u64; 8] = [64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

    #[test]
    fn a_line_is_found_exactly() {
        let fit = fit(&points(|len| 800.0 + 0.065 * len as f64, &LENS), 0.0).unwrap();
        assert_eq!(fit.prices.len(), 1);
        assert!((fit.start_ns - 800.0).abs() < 1e-6 && (fit.prices[0].1 - 0.065).abs() < 1e-9);
        assert!(fit.error < 1e-9);
    }

    #[test]
    fn a_cache_that_is_too_small_is_a_span() {
        let cost = PathCost::new(300.0, &[(0, 0.02), (64 << 10, 0.2)]);
        let fit = fit(&points(|len| cost.ns(len as usize, 1), &LENS), 0.0).unwrap();
        assert_eq!(fit.prices.len(), 2, "{fit:?}");
        assert_eq!(fit.prices[1].0, 64 << 10);
        assert!(fit.error < 1e-6, "{fit:?}");
    }

    #[test]
    fn noise_within_bounds_needs_no_spans() {
        let noisy =
            |len: u64| (500.0 + 0.1 * len as f64) * if len.is_multiple_of(3) { 1.04 } else { 0.96 };
        let fit = fit(&points(noisy, &LENS), 0.0).unwrap();
        assert_eq!(fit.prices.len(), 1);
        assert!((fit.prices[0].1 / 0.1 - 1.0).abs() < 0.05, "{fit:?}");
    }

    #[test]
    fn a_start_below_the_least_becomes_that() {
        let measured = points(|len| (0.1 * len as f64 - 50.0).max(1.0), &[1000, 2000, 4000]);
        let found = fit(&measured, 0.0).unwrap();
        assert!(found.start_ns == 0.0 && found.prices[0].1 > 0.0, "{found:?}");
        let found = fit(&measured, 20.0).unwrap();
        assert!(found.start_ns == 20.0 && found.prices[0].1 > 0.0, "{found:?}");
        // All times are below the least start: no price could be positive.
        assert!(matches!(fit(&measured, 1e6), Err(FitError::Falls(_))));
    }

    #[test]
    fn rejects_invalid_values() {
        let falling = points(|len| 1e6 / (1 + len) as f64, &LENS);
        assert!(matches!(fit(&falling, 0.0), Err(FitError::Falls(slope)) if slope < 0.0));
        assert_eq!(fit(&points(|_| 5.0, &[8]), 0.0), Err(FitError::TooFew(1)));
        assert_eq!(fit(&[], 0.0), Err(FitError::TooFew(0)));
        let same = points(|_| 5.0, &[8, 8]);
        assert!(matches!(fit(&same, 0.0), Err(FitError::Falls(_))));
        for ns in [f64::NAN, 0.0, -3.0, f64::INFINITY] {
            let found = fit(&points(|_| ns, &LENS), 0.0);
            assert!(matches!(found, Err(FitError::Nonsense { len: 64, .. })), "{found:?}");
        }
    }

    #[test]
    fn every_choice_of_knots_leaves_points_beyond() {
        assert_eq!(choices(4, 1), [[1], [2]]);
        assert_eq!(choices(4, 2), [[1, 2]]);
        assert!(choices(2, 1).is_empty());
    }
}
