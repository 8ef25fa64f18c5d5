//! Fits the parameters to the raw times.
//!
//! - `o_s` and `o_r` are the processor times of the smallest message, median of the rounds.
//! - `L` is half a round trip without what the two processors do on its path: the start of the
//!   send and the completion of a receive that was posted before (Kielmann, Bal, Verstoep 2000;
//!   posting the receive and completing the send are part of `o_r` and `o_s`, but not on the path).
//! - The gap of a size is `(train of n - train of 1) / (n - 1)` (Hoefler, Lichei, Rehm 2007). `g`
//!   and `G` are the line through the gaps, by least squares of relative errors, over the sizes
//!   whose gap is above both overheads: of the others the processor sets the pace, not the network.
//!   Where at least three such sizes are not there, all count, and [`GapBound::Processor`] says so.
//! - A library that announces long messages and sends them when they are asked for has more short
//!   messages on the network for each of those. So the line may have one step; it is taken where
//!   it lowers the error enough (Bayesian information criterion), and `g` is that of short
//!   messages.
//!
//! Intervals are bootstrap percentiles over rounds: a round is drawn with all of its sizes.

use mica_statistics::median;
use serde::{Deserialize, Serialize};

use super::measurement::{LoggpSample, Measurement};
use super::sharing::CoreSharing;
use super::{Parameter, Parameters};

/// A value with its 95 % interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What limits the rate of short messages, as far as the gaps show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapBound {
    /// Some gaps are above the overheads: g and G are the network's.
    Network,
    /// The processors are the limit at every size: g and G are theirs.
    Processor,
}

/// The times of one size, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SizeRow {
    /// Bytes of a message.
    pub bytes: u64,
    /// Processor time of a send.
    pub send: Estimate,
    /// Processor time of a receive.
    pub receive: Estimate,
    /// Half a round trip.
    pub one_way: Estimate,
    /// Between the starts of messages.
    pub gap: Estimate,
    /// Whether the fit of g and G counts it.
    pub counts: bool,
}

/// The fitted parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogGpFit {
    /// Version of this form: 1.
    pub format: u32,
    /// The MPI library that was measured.
    pub library: String,
    /// The values, none below 0.
    pub parameters: Parameters,
    /// The values as fitted, with their intervals, in the order of [`Parameter::ALL`].
    pub estimates: [Estimate; 5],
    /// What limits the rate of messages.
    pub bound: GapBound,
    /// Where the gaps have a step, and how high it is (nanoseconds): the first size above it.
    pub step: Option<(u64, f64)>,
    /// Root mean square of the relative errors of the gaps that count.
    pub gap_error: f64,
    /// How ranks shared processors, if they did: then the values are the scheduler's, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<CoreSharing>,
    /// Each size.
    pub sizes: Vec<SizeRow>,
}

/// How to fit.
#[derive(Debug, Clone, Copy)]
pub struct FitOptions {
    /// Resamples of the intervals.
    pub resamples: usize,
    /// Equal seeds give equal intervals.
    pub seed: u64,
}

impl Default for FitOptions {
    fn default() -> FitOptions {
        FitOptions { resamples: 1000, seed: 1 }
    }
}

/// A gap must be this many times the larger overhead to be the network's.
const ABOVE_OVERHEAD: f64 = 1.15;

/// Fits the parameters. The measurement has been checked by its parser.
pub fn fit(measurement: &Measurement, options: &FitOptions) -> LogGpFit {
    let table = SampleTable::new(measurement);
    let all: Vec<usize> = (0..table.rounds).collect();
    let rows = table.rows(&all);
    let point = solve(&rows);
    let mut random = fastrand::Rng::with_seed(options.seed);
    let mut resampled = Resampled::new(rows.len(), options.resamples);
    for _ in 0..options.resamples {
        let drawn: Vec<usize> = all.iter().map(|_| random.usize(0..table.rounds)).collect();
        let rows = table.rows(&drawn);
        resampled.add(&solve(&rows).values, &rows);
    }
    let mut parameters = Parameters::default();
    let mut estimates = [Estimate::default(); 5];
    for (at, parameter) in Parameter::ALL.into_iter().enumerate() {
        estimates[at] = interval(point.values[at], &mut resampled.values[at]);
        parameters = parameters.with(parameter, point.values[at].max(0.0));
    }
    let sizes = rows.iter().zip(&mut resampled.rows).enumerate();
    let sizes = sizes.map(|(at, (row, drawn))| SizeRow {
        bytes: row.bytes,
        send: interval(row.send, &mut drawn[0]),
        receive: interval(row.receive, &mut drawn[1]),
        one_way: interval(row.round_trip / 2.0, &mut drawn[2]),
        gap: interval(row.gap, &mut drawn[3]),
        counts: point.counts[at],
    });
    LogGpFit {
        format: 1,
        library: measurement.library.clone(),
        parameters,
        estimates,
        bound: point.bound,
        step: point.step,
        gap_error: point.error,
        sharing: measurement.sharing(),
        sizes: sizes.collect(),
    }
}

/// The medians of one size over some rounds.
#[derive(Debug, Clone, Copy)]
struct SizeMedians {
    bytes: u64,
    send: f64,
    issue: f64,
    receive: f64,
    complete: f64,
    round_trip: f64,
    gap: f64,
}

/// The samples by size and round.
struct SampleTable<'a> {
    sizes: Vec<Vec<&'a LoggpSample>>,
    rounds: usize,
    train: f64,
}

impl SampleTable<'_> {
    fn new(measurement: &Measurement) -> SampleTable<'_> {
        let of = |bytes: u64| {
            let samples = measurement.samples.iter();
            let mut samples: Vec<&LoggpSample> = samples.filter(|s| s.bytes == bytes).collect();
            samples.sort_by_key(|sample| sample.round);
            samples
        };
        SampleTable {
            sizes: measurement.sizes().into_iter().map(of).collect(),
            rounds: measurement.rounds().len(),
            train: f64::from(measurement.train),
        }
    }

    fn rows(&self, rounds: &[usize]) -> Vec<SizeMedians> {
        let of = |samples: &Vec<&LoggpSample>| {
            let over = |value: &dyn Fn(&LoggpSample) -> f64| {
                let values = rounds.iter().map(|round| value(samples[*round]));
                median(&values.collect::<Vec<_>>())
            };
            SizeMedians {
                bytes: samples[0].bytes,
                send: over(&|s| s.send),
                issue: over(&|s| s.issue),
                receive: over(&|s| s.receive),
                complete: over(&|s| s.complete),
                round_trip: over(&|s| s.round_trip),
                gap: over(&|s| (s.train - s.single) / (self.train - 1.0)),
            }
        };
        self.sizes.iter().map(of).collect()
    }
}

/// The parameters of one set of rows.
struct Solution {
    values: [f64; 5],
    bound: GapBound,
    counts: Vec<bool>,
    step: Option<(u64, f64)>,
    error: f64,
}

fn solve(rows: &[SizeMedians]) -> Solution {
    let above = |row: &SizeMedians| row.gap > ABOVE_OVERHEAD * row.send.max(row.receive);
    let positive = |row: &SizeMedians| row.gap > 0.0;
    let mut counts: Vec<bool> = rows.iter().map(|r| positive(r) && above(r)).collect();
    let mut bound = GapBound::Network;
    if counts.iter().filter(|counts| **counts).count() < 3 {
        bound = GapBound::Processor;
        counts = rows.iter().map(positive).collect();
    }
    let counted = rows.iter().zip(&counts).filter(|(_, counts)| **counts);
    let points: Vec<(f64, f64)> = counted.map(|(r, _)| (r.bytes as f64, r.gap)).collect();
    let line = FittedLine::with_step(&points);
    let short = &rows[0];
    let latency = short.round_trip / 2.0 - short.issue - short.complete;
    Solution {
        values: [latency, short.send, short.receive, line.at_one_byte, line.slope],
        bound,
        counts,
        step: line.step.map(|(bytes, height)| (bytes as u64, height)),
        error: line.error,
    }
}

/// `gap = at_one_byte + slope * (bytes - 1)`, and `+ height` from `step` on.
struct FittedLine {
    at_one_byte: f64,
    slope: f64,
    step: Option<(f64, f64)>,
    error: f64,
}

impl FittedLine {
    /// The line with the step that the points speak for, or without one.
    fn with_step(points: &[(f64, f64)]) -> FittedLine {
        let plain = FittedLine::through(points, None);
        // A step needs three sizes on either side, so that it is none of noise in one size.
        let inner = points.len().saturating_sub(2);
        let steps = (3..inner).filter_map(|at| {
            let line = FittedLine::through(points, Some(points[at].0));
            line.step.filter(|(_, height)| *height > 0.0).map(|_| line)
        });
        let best = steps.min_by(|a, b| a.error.total_cmp(&b.error));
        let score = |line: &FittedLine, unknowns: f64| {
            let n = points.len() as f64;
            // Errors below a millionth are rounding.
            n * line.error.max(1e-6).powi(2).ln() + unknowns * n.ln()
        };
        match best {
            // The place and the height of the step are two more unknowns.
            Some(best) if score(&best, 4.0) < score(&plain, 2.0) - 2.0 => best,
            _ => plain,
        }
    }

    /// Least squares of the relative errors.
    fn through(points: &[(f64, f64)], step: Option<f64>) -> FittedLine {
        let basis = |bytes: f64| {
            let above = step.is_some_and(|step| bytes >= step);
            [1.0, bytes - 1.0, f64::from(u8::from(above))]
        };
        let unknowns = if step.is_some() { 3 } else { 2 };
        let mut sums = [[0.0; 4]; 3];
        for &(bytes, gap) in points {
            let basis = basis(bytes);
            for row in 0..unknowns {
                for column in 0..unknowns {
                    sums[row][column] += basis[row] * basis[column] / (gap * gap);
                }
                sums[row][3] += basis[row] * gap / (gap * gap);
            }
        }
        let [at_one_byte, slope, height] = eliminate(sums, unknowns);
        let error = |&(bytes, gap): &(f64, f64)| {
            let [one, more, above] = basis(bytes);
            let line = at_one_byte * one + slope * more + height * above;
            ((line - gap) / gap).powi(2)
        };
        let squares: f64 = points.iter().map(error).sum();
        FittedLine {
            at_one_byte,
            slope,
            step: step.map(|step| (step, height)),
            error: (squares / points.len().max(1) as f64).sqrt(),
        }
    }
}

/// Solves the normal equations by Gauss and Jordan with pivots; unknowns that the equations do not
/// determine are 0.
fn eliminate(mut rows: [[f64; 4]; 3], unknowns: usize) -> [f64; 3] {
    for at in 0..unknowns {
        let size = |row: &usize| rows[*row][at].abs();
        let pivot = (at..unknowns).max_by(|a, b| size(a).total_cmp(&size(b)));
        rows.swap(at, pivot.unwrap_or(at));
        if rows[at][at].abs() < f64::MIN_POSITIVE {
            continue;
        }
        let pivot = rows[at];
        for (number, row) in rows.iter_mut().enumerate().take(unknowns) {
            if number != at {
                let factor = row[at] / pivot[at];
                for (value, above) in row.iter_mut().zip(pivot) {
                    *value -= factor * above;
                }
            }
        }
    }
    let mut solution = [0.0; 3];
    for (at, value) in solution.iter_mut().enumerate().take(unknowns) {
        let pivot = rows[at][at];
        if pivot.abs() >= f64::MIN_POSITIVE {
            *value = rows[at][3] / pivot;
        }
    }
    solution
}

/// What the resamples gave: for each parameter, and for each size its four columns.
struct Resampled {
    values: [Vec<f64>; 5],
    rows: Vec<[Vec<f64>; 4]>,
}

impl Resampled {
    fn new(sizes: usize, resamples: usize) -> Resampled {
        let empty = || Vec::with_capacity(resamples);
        Resampled {
            values: std::array::from_fn(|_| empty()),
            rows: (0..sizes).map(|_| std::array::from_fn(|_| empty())).collect(),
        }
    }

    fn add(&mut self, values: &[f64; 5], rows: &[SizeMedians]) {
        for (all, value) in self.values.iter_mut().zip(values) {
            all.push(*value);
        }
        for (all, row) in self.rows.iter_mut().zip(rows) {
            let columns = [row.send, row.receive, row.round_trip / 2.0, row.gap];
            for (all, value) in all.iter_mut().zip(columns) {
                all.push(value);
            }
        }
    }
}

/// The 2.5 % and 97.5 % percentiles, widened to contain the value itself.
fn interval(value: f64, drawn: &mut [f64]) -> Estimate {
    drawn.sort_by(f64::total_cmp);
    let at = |share: f64| match drawn.len() {
        0 => value,
        n => drawn[((n - 1) as f64 * share).round() as usize],
    };
    Estimate { value, low: at(0.025).min(value), high: at(0.975).max(value) }
}
