//! `mica links cost`: what observing and predicting cost on this machine.
//!
//! Prediction: a tree of the predictor is learnt, and decisions are timed in batches; before each
//! decision the predictor reads the counters of at most three links, so reading is timed too: of
//! this machine's link counters, or, where it has none that may be read, of a software event, whose
//! reading takes the same system call and no access to another chip.
//!
//! Observing (`--observer`): jobs of the same calls alternate, with nothing observed but the time
//! of each hundred calls, and with everything that `mica links run` observes. The compared value is
//! the median time of a hundred calls, and of these the median over the pairs of jobs; the interval
//! is a bootstrap over the pairs.

use std::error::Error;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use clap::Args;
use mica_links::analysis::cluster::TIME_CLASSES;
use mica_links::analysis::resample::{median_interval, quantile};
use mica_links::predictor::Tree;
use mica_node::perf::{CountedPlace, PerfCounter, PerfEvent};
use serde::Serialize;

use super::job::{JobMode, JobOptions, LinksJob};
use super::raw::RawCalls;
use super::run::spinner;
use super::wanted::WantedCounters;

/// Decisions or readings in a batch; a batch takes some microseconds, a clock reading 25 ns.
const BATCH: usize = 1000;

/// Batches; their median leaves out those that were interrupted.
const BATCHES: usize = 201;

/// Links that a tree reads at most.
const LINKS: usize = 3;

/// Calls of a batch of links.c, whose time is compared.
const CALLS: usize = 100;

/// The options of `mica links cost`.
#[derive(Args)]
pub struct CostOptions {
    /// Compare jobs with and without the observer, too: this many pairs.
    #[arg(long, value_name = "PAIRS", default_value_t = 0)]
    observer: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    job: JobOptions,
}

/// What was measured.
#[derive(Debug, Serialize)]
struct Cost {
    /// Nanoseconds of a decision from loads that have been read.
    decision_ns: f64,
    /// Nanoseconds to read one counter; absent where the kernel refuses even software events.
    reading_ns: Option<f64>,
    /// What was read.
    read: String,
    /// Nanoseconds of a prediction: the readings of three links, and the decision.
    prediction_ns: Option<f64>,
    observer: Option<ObserverCost>,
}

/// The observer's effect on the calls.
#[derive(Debug, Serialize)]
struct ObserverCost {
    what: String,
    pairs: usize,
    /// Medians over the pairs of the median microseconds of a call.
    without_us: f64,
    with_us: f64,
    /// By how many percent calls with the observer take longer: median and 95 % interval over
    /// pairs, of which one in which the machine changed its speed counts as any other.
    percent: f64,
    low: f64,
    high: f64,
}

/// Measures, and returns what is printed.
pub fn cost(options: &CostOptions) -> Result<String, Box<dyn Error>> {
    let (read, reading_ns) = reading();
    let decision_ns = decision();
    let observer = match options.observer {
        0 => None,
        pairs => Some(observer(&options.job, pairs)?),
    };
    let cost = Cost {
        decision_ns,
        reading_ns,
        read,
        prediction_ns: reading_ns.map(|one| LINKS as f64 * one + decision_ns),
        observer,
    };
    Ok(match options.json {
        true => serde_json::to_string_pretty(&cost)? + "\n",
        false => render(&cost),
    })
}

fn render(cost: &Cost) -> String {
    let mut text = format!("A decision of the predictor: {:.1} ns\n", cost.decision_ns);
    let _ = match (cost.reading_ns, cost.prediction_ns) {
        (Some(one), Some(all)) => writeln!(
            text,
            "A reading of {}: {one:.0} ns; a prediction from {LINKS} links: {all:.0} ns",
            cost.read
        ),
        _ => writeln!(text, "No counter can be read: {}", cost.read),
    };
    if let Some(observer) = &cost.observer {
        let _ = writeln!(
            text,
            "{}: {:.2} us without the observer, {:.2} us with it; {:+.2} % ({:+.2} to {:+.2}, \
             {} pairs of jobs)",
            observer.what,
            observer.without_us,
            observer.with_us,
            observer.percent,
            observer.low,
            observer.high,
            observer.pairs
        );
    }
    text
}

/// The median nanoseconds of one of `BATCH` repetitions.
fn nanoseconds(mut once: impl FnMut(usize)) -> f64 {
    let mut batches: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            (0..BATCH).for_each(&mut once);
            start.elapsed().as_secs_f64() * 1e9 / BATCH as f64
        })
        .collect();
    batches.sort_by(f64::total_cmp);
    quantile(&batches, 0.5)
}

/// A tree of the greatest depth on three links, and loads that reach all of its leaves.
fn decision() -> f64 {
    let mut seed = 1_u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as f64 / (1_u64 << 31) as f64
    };
    let columns: Vec<Vec<f64>> = (0..LINKS)
        .map(|_| (0..BATCH).map(|_| next()).collect())
        .collect();
    let class = |call: usize| {
        let high = columns.iter().filter(|column| column[call] > 0.5).count();
        TIME_CLASSES[high.saturating_sub(1)]
    };
    let classes: Vec<_> = (0..BATCH).map(class).collect();
    let features: Vec<&[f64]> = columns.iter().map(Vec::as_slice).collect();
    let tree = Tree::learn(&features, &classes, &(0..BATCH).collect::<Vec<_>>());
    nanoseconds(|call| {
        black_box(tree.predict(|link| black_box(features[link][call])));
    })
}

/// What is read, and the nanoseconds that it takes.
fn reading() -> (String, Option<f64>) {
    let wanted = WantedCounters::find(Path::new("/"), &[]).unwrap_or_default();
    let opened = wanted
        .counters
        .first()
        .map(|counter| (counter.name.clone(), counter.open()));
    let (name, counter) = opened.unwrap_or_else(|| {
        // PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK.
        let event = PerfEvent {
            event_type: 1,
            config: 1,
        };
        let counter = PerfCounter::open(event, CountedPlace::ThisThread);
        (
            "a software event (no link counter can be read here)".to_owned(),
            counter,
        )
    });
    match counter {
        Err(error) => (format!("{name}: {error}"), None),
        Ok(counter) => {
            let time = nanoseconds(|_| {
                black_box(counter.read().unwrap_or_default());
            });
            (name, Some(time))
        }
    }
}

fn observer(options: &JobOptions, pairs: usize) -> Result<ObserverCost, Box<dyn Error>> {
    if options.calls < 2 * CALLS as u64 {
        return Err(format!("--observer needs {} calls or more", 2 * CALLS).into());
    }
    let wanted = WantedCounters::find(Path::new("/"), &[])?;
    let spinner = spinner()?;
    let job = LinksJob::compile(options)?;
    let mut medians: [Vec<f64>; 2] = Default::default();
    let mut ranks = 0;
    for pair in 0..pairs {
        spinner.set_message(format!("pair {} of {pairs}", pair + 1));
        // Every other pair begins with the observer: a drift of the machine is not its effect.
        let order = if pair % 2 == 0 { [0, 1] } else { [1, 0] };
        for side in order {
            let raw = match side {
                0 => job.run(JobMode::Bare, "")?,
                _ => job.run(JobMode::Observe, &wanted.list())?,
            };
            ranks = raw.entry.len();
            medians[side].push(median_of_batches(&raw, side == 0) * 1e6 / CALLS as f64);
        }
    }
    spinner.finish_and_clear();
    let differences = medians[0].iter().zip(&medians[1]);
    let percents: Vec<f64> = differences
        .map(|(bare, seen)| 100.0 * (seen / bare - 1.0))
        .collect();
    let interval = median_interval(&percents, 1000, 1);
    Ok(ObserverCost {
        what: format!(
            "{} of {} B on {ranks} ranks",
            options.collective, options.bytes
        ),
        pairs,
        without_us: median(&medians[0]),
        with_us: median(&medians[1]),
        percent: median(&percents),
        low: interval.low,
        high: interval.high,
    })
}

/// The median seconds of a hundred calls on rank 0.
fn median_of_batches(raw: &RawCalls, is_bare: bool) -> f64 {
    let Some((entry, exit)) = raw.entry.first().zip(raw.exit.first()) else {
        return 0.0;
    };
    let times: Vec<f64> = match is_bare {
        true => entry
            .iter()
            .zip(exit)
            .map(|(entry, exit)| exit - entry)
            .collect(),
        // From a call's entry to the entry of the one a hundred later: all of the observer.
        false => entry
            .iter()
            .step_by(CALLS)
            .zip(entry.iter().skip(CALLS).step_by(CALLS))
            .map(|(from, to)| to - from)
            .collect(),
    };
    median(&times)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_and_readings_take_time() {
        let options = CostOptions {
            observer: 0,
            json: false,
            job: JobOptions {
                collective: "barrier".into(),
                bytes: 0,
                calls: 1,
                mpicc: None,
                launcher: Vec::new(),
            },
        };
        let text = cost(&options).unwrap();
        assert!(text.starts_with("A decision of the predictor: "), "{text}");
        assert!(text.contains("A reading of ") || text.contains("No counter can be read: "));
        assert!(decision() > 0.0);
    }

    #[test]
    fn batches_of_observed_calls_contain_what_is_between_them() {
        let entry: Vec<f64> = (0..301).map(f64::from).collect();
        let exit: Vec<f64> = entry.iter().map(|time| time + 0.25).collect();
        let raw = RawCalls {
            entry: vec![entry],
            exit: vec![exit],
            ..RawCalls::default()
        };
        assert_eq!(median_of_batches(&raw, false), 100.0);
        assert_eq!(median_of_batches(&raw, true), 0.25);
    }
}
