//! Measures the paths: each series of samples by ping-pongs, and the cost that fits them.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use mica_node::topology::Level;
use mica_policy::costs::level_name;
use mica_policy::{MessagePath, PathCost, PathCosts};

use super::fit::{self, Fit, Point};
use super::plan::{self, CorePair, Pace, SampleSeries, SeriesMessage};
use super::run::{Installation, RunError};

/// An interquartile range above this fraction of the median is noise.
pub(super) const NOISY: f64 = 0.25;

/// The result of one series.
pub(super) struct SeriesOutcome {
    pub level: Level,
    pub path: MessagePath,
    pub result: Result<MeasuredCost, String>,
}

pub(super) struct MeasuredCost {
    pub cost: PathCost,
    /// See [`Fit::error`].
    pub error: f64,
    /// Number of messages that varied by more than [`NOISY`], and of all messages.
    pub noisy: (usize, usize),
}

/// How long one sample is measured.
pub(super) fn seconds_per_sample(pace: Pace) -> f64 {
    pace.choose(0.04, 0.15)
}

pub(super) fn measure(
    installation: &Installation,
    pairs: &[CorePair],
    pace: Pace,
    before: &PathCosts,
) -> Vec<SeriesOutcome> {
    let all = plan::series(pace);
    let start = Instant::now();
    // All measurements end within two minutes, for any number of levels and any noise.
    let share = 2.0 / (1 + pairs.len()) as f64;
    let seconds = share * seconds_per_sample(pace);
    let time_limit = Duration::from_secs(pace.choose(15, 45));
    let samples: usize = all.iter().map(|series| series.samples.len()).sum();
    let bar = ProgressBar::new((samples * pairs.len()) as u64);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}");
    bar.set_style(style.expect("the template is valid"));
    let mut outcomes = Vec::new();
    let mut costs = before.clone();
    for &pair in pairs {
        for series in &all {
            bar.set_message(format!("{}, {}", level_name(pair.level), series.path.name()));
            let done = bar.position();
            let tries = |sample: &SeriesMessage| {
                let run = || installation.run(pair, series, sample, seconds);
                if start.elapsed() < time_limit { calm(run) } else { run() }
            };
            let result = probe(installation, pair, series).and_then(|()| {
                measure_one(pair.level, series, &costs, |sample| {
                    let point = tries(sample);
                    bar.inc(1);
                    point
                })
            });
            if let Ok(measured) = &result {
                costs.set(pair.level, series.path, measured.cost);
            }
            // A series that ended early counts as done.
            bar.set_position(done + series.samples.len() as u64);
            outcomes.push(SeriesOutcome { level: pair.level, path: series.path, result });
        }
    }
    bar.finish_and_clear();
    outcomes
}

/// Checks with one message, of a length that the path carries if any, whether the path is
/// available.
fn probe(installation: &Installation, pair: CorePair, series: &SampleSeries) -> Result<(), String> {
    let typical = |sample: &&SeriesMessage| sample.block == 0 && sample.len <= 1 << 20;
    let Some(sample) = series.samples.iter().rfind(typical) else { return Ok(()) };
    installation.run(pair, series, sample, 0.005).map(drop).map_err(|error| error.to_string())
}

pub(super) fn measure_one(
    level: Level,
    series: &SampleSeries,
    costs: &PathCosts,
    mut run: impl FnMut(&SeriesMessage) -> Result<Point, RunError>,
) -> Result<MeasuredCost, String> {
    let mut points = Vec::new();
    for sample in &series.samples {
        match run(sample) {
            Ok(point) => points.push((*sample, point)),
            // Too short to be divided, or in pieces: the other messages still give the cost of the
            // path.
            Err(RunError::OtherWay(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    let noisy = points.iter().filter(|(_, p)| p.spread > NOISY).count();
    let before = costs.of(level, series.path);
    let least = least_start(level, series.path, costs);
    let (cost, error) = cost(series.path, &points, before, least)?;
    Ok(MeasuredCost { cost, error, noisy: (noisy, points.len()) })
}

/// The result of `measure`, or the less noisy of two results if the first is noisy.
pub(super) fn calm(
    mut measure: impl FnMut() -> Result<Point, RunError>,
) -> Result<Point, RunError> {
    let first = measure()?;
    if first.spread <= NOISY {
        return Ok(first);
    }
    let second = measure()?;
    Ok(if second.spread < first.spread { second } else { first })
}

/// The least start-up time of a path: that of the path that it begins with.
pub(super) fn least_start(level: Level, path: MessagePath, costs: &PathCosts) -> f64 {
    let beginning = match path {
        MessagePath::Inline => return 0.0,
        // The header, or the RTS, is sent like a short message.
        MessagePath::Ring
        | MessagePath::Cells
        | MessagePath::Pull
        | MessagePath::Mapped
        | MessagePath::Offload => MessagePath::Inline,
        MessagePath::Streamed => MessagePath::Cells,
        MessagePath::Cooperate => MessagePath::Pull,
        MessagePath::MappedCooperate => MessagePath::Mapped,
    };
    costs.of(level, beginning).start_ns
}

/// The cost that fits the points of a path, with a start of at least `least`, and its greatest
/// deviation from a point.
pub(super) fn cost(
    path: MessagePath,
    points: &[(SeriesMessage, Point)],
    before: &PathCost,
    least: f64,
) -> Result<(PathCost, f64), String> {
    let contiguous: Vec<Point> =
        points.iter().filter(|(sample, _)| sample.block == 0).map(|(_, point)| *point).collect();
    let fit = if path == MessagePath::Inline {
        // The slot is one cache line, full or not: only the start can be measured.
        start_only(&contiguous, before)
    } else {
        fit::fit(&contiguous, least).map_err(|error| error.to_string())?
    };
    let prices: Vec<(u64, f64)> =
        fit.prices.iter().map(|&(from, ns)| (from, rounded(ns))).collect();
    let mut cost =
        PathCost::new(rounded(fit.start_ns), &prices).shares(before.sender, before.receiver);
    cost.piece_ns = before.piece_ns;
    if let Some((sample, point)) = points.iter().find(|(sample, _)| sample.block > 0)
        && let Some(whole) = contiguous.iter().find(|whole| whole.len == sample.len)
    {
        let pieces = sample.len / sample.block;
        // A price per piece below the noise counts as 0.
        cost.piece_ns = rounded(((point.ns - whole.ns) / (pieces - 1) as f64).max(0.0));
    }
    cost.flaw().map_or(Ok((cost, fit.error)), Err)
}

pub(super) fn start_only(points: &[Point], before: &PathCost) -> Fit {
    let byte_ns = before.spans[0].byte_ns;
    let mut starts: Vec<f64> =
        points.iter().map(|point| (point.ns - byte_ns * point.len as f64).max(0.0)).collect();
    starts.sort_by(f64::total_cmp);
    let start_ns = starts.get(starts.len() / 2).copied().unwrap_or(before.start_ns);
    let off = |point: &Point| ((start_ns + byte_ns * point.len as f64) / point.ns - 1.0).abs();
    Fit { start_ns, prices: vec![(0, byte_ns)], error: points.iter().map(off).fold(0.0, f64::max) }
}

/// Rounds to four digits: the measurements are not more precise.
pub(super) fn rounded(ns: f64) -> f64 {
    format!("{ns:.3e}").parse().unwrap_or(ns)
}
