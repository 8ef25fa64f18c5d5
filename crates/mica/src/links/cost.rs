//! `mica links cost`: what observing and predicting cost on this machine.
//!
//! Prediction: a tree of the predictor is learnt, and decisions are timed in batches; before each
//! decision the predictor reads the counters of at most three links, so reading is timed too: of
//! this machine's link counters, or, where it has none that may be read, of a software event, whose
//! reading takes the same system call and no access to another chip.
//!
//! Observing (`--observer`): batches of a hundred calls alternate within a job, with nothing but
//! the time of the batch, and with the clock after each call and the library's account, as `mica
//! links run` observes where it reads no counters. Jobs of one kind differ by more than the
//! observer costs, batches that follow each other do not. The compared value is the time of an
//! observed batch over the mean of its neighbours: of these the median of a job, of these the
//! median over jobs; the interval is a bootstrap over jobs. In both kinds of batches the fast path
//! of short collectives is off, which the account would also take from an unobserved program.

use std::error::Error;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use clap::Args;
use mica_links::analysis::cluster::TIME_CLASSES;
use mica_links::analysis::resample::median_interval;
use mica_links::predictor::DecisionTree;
use mica_node::perf::{CountedPlace, PerfCounter, PerfEvent};
use mica_statistics::median;
use serde::Serialize;

use super::job::{JobMode, LinksJob, LinksJobOptions};
use super::raw::RawCalls;
use super::wanted::WantedCounters;
use crate::origin::ResultOrigin;
use crate::terminal::spinner;

/// Decisions or readings in a batch; a batch takes some microseconds, a clock reading 25 ns.
const BATCH: usize = 1000;

/// Batches; their median leaves out those that were interrupted.
const BATCHES: usize = 201;

/// Links that a tree reads at most.
const LINKS: usize = 3;

/// Calls of a batch of links.c.
const CALLS: usize = 100;

/// The options of `mica links cost`.
#[derive(Args)]
pub struct CostOptions {
    /// Compare calls with and without the observer, too, in this many jobs.
    #[arg(long, value_name = "JOBS", default_value_t = 0)]
    observer: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    job: LinksJobOptions,
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
    jobs: usize,
    /// Medians over the jobs of the median microseconds of a call.
    without_us: f64,
    with_us: f64,
    /// By how many percent calls with the observer take longer: median and 95 % interval over jobs.
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
        jobs => Some(observer(&options.job, jobs)?),
    };
    let cost = Cost {
        decision_ns,
        reading_ns,
        read,
        prediction_ns: reading_ns.map(|one| LINKS as f64 * one + decision_ns),
        observer,
    };
    Ok(match options.json {
        true => ResultOrigin::of_this_command("as the job chooses within a node").json(&cost)?,
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
        let ObserverCost { what, jobs, without_us, with_us, percent, low, high } = observer;
        let _ = writeln!(
            text,
            "{what}: {without_us:.2} us without the observer, {with_us:.2} us with it; \
             {percent:+.2} % ({low:+.2} to {high:+.2}, {jobs} jobs)"
        );
    }
    text
}

/// The median nanoseconds of one of `BATCH` repetitions.
fn nanoseconds(mut once: impl FnMut(usize)) -> f64 {
    let batches: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            (0..BATCH).for_each(&mut once);
            start.elapsed().as_secs_f64() * 1e9 / BATCH as f64
        })
        .collect();
    median(&batches)
}

/// A tree of the greatest depth on three links, and loads that reach all of its leaves.
fn decision() -> f64 {
    let mut seed = 1_u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as f64 / (1_u64 << 31) as f64
    };
    let columns: Vec<Vec<f64>> = (0..LINKS).map(|_| (0..BATCH).map(|_| next()).collect()).collect();
    let class = |call: usize| {
        let high = columns.iter().filter(|column| column[call] > 0.5).count();
        TIME_CLASSES[high.saturating_sub(1)]
    };
    let classes: Vec<_> = (0..BATCH).map(class).collect();
    let features: Vec<&[f64]> = columns.iter().map(Vec::as_slice).collect();
    let tree = DecisionTree::learn(&features, &classes, &(0..BATCH).collect::<Vec<_>>());
    nanoseconds(|call| {
        black_box(tree.predict(|link| black_box(features[link][call])));
    })
}

/// What is read, and the nanoseconds that it takes.
fn reading() -> (String, Option<f64>) {
    let wanted = WantedCounters::find(Path::new("/"), &[]).unwrap_or_default();
    let opened = wanted.counters.first().map(|counter| (counter.name.clone(), counter.open()));
    let (name, counter) = opened.unwrap_or_else(|| {
        // PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK.
        let event = PerfEvent { event_type: 1, config: 1 };
        let counter = PerfCounter::open(event, CountedPlace::ThisThread);
        ("a software event (no link counter can be read here)".to_owned(), counter)
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

fn observer(options: &LinksJobOptions, jobs: usize) -> Result<ObserverCost, Box<dyn Error>> {
    if options.calls < 3 * CALLS as u64 {
        return Err(format!("--observer needs {} calls or more", 3 * CALLS).into());
    }
    let spinner = spinner()?;
    let job = LinksJob::compile(options)?;
    let mut found: Vec<Alternation> = Vec::new();
    let mut ranks = 0;
    for number in 1..=jobs {
        spinner.set_message(format!("job {number} of {jobs}"));
        let raw = job.run(JobMode::Alternate, "")?;
        ranks = raw.entry.len();
        found.push(Alternation::of(&batches(&raw)));
    }
    spinner.finish_and_clear();
    let all = |value: fn(&Alternation) -> f64| found.iter().map(value).collect::<Vec<f64>>();
    let percents = all(|job| job.percent);
    let interval = median_interval(&percents, 1000, 1);
    Ok(ObserverCost {
        what: format!("{} of {} B on {ranks} ranks", options.collective, options.bytes),
        jobs,
        without_us: median(&all(|job| job.without)) * 1e6 / CALLS as f64,
        with_us: median(&all(|job| job.with)) * 1e6 / CALLS as f64,
        percent: median(&percents),
        low: interval.low,
        high: interval.high,
    })
}

/// The seconds of each batch on rank 0.
fn batches(raw: &RawCalls) -> Vec<f64> {
    let times = raw.entry.first().zip(raw.exit.first());
    let times = times.map(|(entry, exit)| entry.iter().zip(exit));
    let times = times.into_iter().flatten();
    times.map(|(entry, exit)| exit - entry).collect()
}

/// The batches of a job: medians of their seconds without and with the observer, and of the percent
/// by which observed ones took longer than the mean of their neighbours.
#[derive(Debug, PartialEq)]
struct Alternation {
    without: f64,
    with: f64,
    percent: f64,
}

impl Alternation {
    /// Of batches that are without and with it by turns.
    fn of(batches: &[f64]) -> Alternation {
        let every_other = |from: usize| batches.iter().copied().skip(from).step_by(2);
        let percents = batches.windows(3).step_by(2).map(|three| match *three {
            [before, observed, after] => 100.0 * (2.0 * observed / (before + after) - 1.0),
            _ => 0.0,
        });
        Alternation {
            without: median(&every_other(0).collect::<Vec<_>>()),
            with: median(&every_other(1).collect::<Vec<_>>()),
            percent: median(&percents.collect::<Vec<_>>()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_and_readings_take_time() {
        let options = CostOptions {
            observer: 0,
            json: false,
            job: LinksJobOptions {
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
    fn observed_batches_are_compared_with_their_neighbours() {
        let entry = vec![0.0, 10.0, 20.0, 30.0, 40.0, 50.0];
        let took = [1.0, 1.25, 1.5, 2.5, 2.5, 9.0];
        let exit = entry.iter().zip(took).map(|(at, time)| at + time).collect();
        let raw = RawCalls { entry: vec![entry], exit: vec![exit], ..RawCalls::default() };
        assert_eq!(batches(&raw), took);
        // Over neighbours: 1.25 over 1.25, and 2.5 over 2.
        let expected = Alternation { without: 1.5, with: 2.5, percent: 12.5 };
        assert_eq!(Alternation::of(&took), expected);
    }
}
