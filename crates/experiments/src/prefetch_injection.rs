//! Prefetching against injection (leon-2009, 2.3; Figures 2.4 and 2.5): a linear traversal of
//! incoming data with neither, with the prefetcher, and with injection into the L3.

use crate::declaration::Experiment;
use crate::report::{
    Chart, ExperimentReport, ReportPlot, ThesisFinding, XAxis, YAxis, gain, round,
};
use crate::store::{Results, SimulationOutcome};
use crate::table::{Extent, Heading, PrefetcherSetting, SimulationRun};
use crate::thesis;

pub const EXPERIMENT: Experiment = Experiment {
    heading: Heading {
        name: "prefetch-injection",
        title: "Prefetching and injection",
        question: "What do a prefetcher and injection into the L3 gain where a program reads all \
            that comes in, once and in order?",
        source: "leon-2009, 2.3, Figures 2.4 and 2.5",
    },
    runs,
    report,
};

/// The configurations of Figures 2.4 and 2.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Configuration {
    Base,
    Prefetch,
    Injection,
}

const CONFIGURATIONS: [Configuration; 3] =
    [Configuration::Base, Configuration::Prefetch, Configuration::Injection];

/// Dependent operations on a word. The plain loop, which the findings are about, takes some 225
/// cycles for a line beside its latency; the thesis's times imply about 270, since (270 + 80) /
/// (270 + 230) is its 30 % less. One operation more shows what becomes of the gain.
const WORK: [u32; 2] = [0, 1];

/// Messages that the program times, and all that it receives in the region.
const MESSAGES: u32 = 8;
const MESSAGES_IN_REGION: u32 = MESSAGES + 2;

impl Configuration {
    fn name(self) -> &'static str {
        match self {
            Configuration::Base => "base",
            Configuration::Prefetch => "prefetching",
            Configuration::Injection => "injection into the L3",
        }
    }
}

fn sizes(extent: Extent) -> Vec<u64> {
    let mut sizes = extent.choose(&[64 << 10, 256 << 10, 1 << 20], &[16 << 10, 4 << 20]);
    sizes.sort_unstable();
    sizes
}

fn run(configuration: Configuration, bytes: u64, work: u32) -> SimulationRun {
    let arguments = format!("{bytes} --messages {MESSAGES} --work {work}");
    let run = SimulationRun::of("traverse", 2).arguments(&arguments);
    match configuration {
        Configuration::Base => run.prefetcher(PrefetcherSetting::Off),
        Configuration::Prefetch => run,
        Configuration::Injection => run.prefetcher(PrefetcherSetting::Off).policy("payload"),
    }
}

fn runs(extent: Extent) -> Vec<SimulationRun> {
    let mut runs = Vec::new();
    for work in WORK {
        for bytes in sizes(extent) {
            runs.extend(CONFIGURATIONS.map(|configuration| run(configuration, bytes, work)));
        }
    }
    runs
}

/// The greatest reduction over all sizes.
fn greatest(
    extent: Extent,
    results: &Results,
    configuration: Configuration,
    of: fn(&SimulationOutcome) -> f64,
) -> f64 {
    let gains = sizes(extent).into_iter().map(|bytes| {
        let value = |configuration| of(results.of(&run(configuration, bytes, WORK[0])));
        gain(value(Configuration::Base), value(configuration))
    });
    gains.fold(f64::NEG_INFINITY, f64::max)
}

fn report(extent: Extent, results: &Results) -> ExperimentReport {
    let time: fn(&SimulationOutcome) -> f64 = |outcome| outcome.region_ns;
    let greatest = |configuration, of| greatest(extent, results, configuration, of);
    let reads: fn(&SimulationOutcome) -> f64 = SimulationOutcome::memory_reads;
    let findings = vec![
        ThesisFinding::number(&thesis::INJECTION_READS, greatest(Configuration::Injection, reads)),
        ThesisFinding::number(&thesis::PREFETCH_READS, greatest(Configuration::Prefetch, reads)),
        ThesisFinding::number(&thesis::INJECTION_TIME, greatest(Configuration::Injection, time)),
        ThesisFinding::number(&thesis::PREFETCH_TIME, greatest(Configuration::Prefetch, time)),
    ];
    let charts = WORK.iter().flat_map(|&work| {
        let of_work = |value: fn(&SimulationOutcome) -> f64| curves(extent, results, work, value);
        [
            chart("Memory reads", "Figure 2.4", YAxis::Count, work, of_work(reads)),
            chart(
                "Time of the traversal",
                "Figure 2.5",
                YAxis::Microseconds,
                work,
                of_work(|outcome| outcome.region_ns / 1e3),
            ),
        ]
    });
    ExperimentReport { findings, notes: vec![more_work(extent, results)], charts: charts.collect() }
}

/// What becomes of the gains with more work on a word.
fn more_work(extent: Extent, results: &Results) -> String {
    let bytes = sizes(extent)[0].max(256 << 10);
    let time = |configuration| results.of(&run(configuration, bytes, WORK[1])).region_ns;
    let base = time(Configuration::Base);
    format!(
        "How much of a line's time is memory decides how much there is to gain. With one operation \
         more on each word, messages of 256 KiB gain {} % by injection and {} % by prefetching.",
        round(gain(base, time(Configuration::Injection))),
        round(gain(base, time(Configuration::Prefetch))),
    )
}

type Curve = (String, Vec<(f64, f64)>);

fn curves(
    extent: Extent,
    results: &Results,
    work: u32,
    value: impl Fn(&SimulationOutcome) -> f64,
) -> Vec<Curve> {
    let curve = |configuration: Configuration| {
        let points = sizes(extent).into_iter().map(|bytes| {
            let outcome = results.of(&run(configuration, bytes, work));
            (bytes as f64, value(outcome) / f64::from(MESSAGES_IN_REGION))
        });
        (configuration.name().to_owned(), points.collect())
    };
    CONFIGURATIONS.map(curve).into()
}

fn chart(what: &str, figure: &str, y: YAxis, work: u32, curves: Vec<Curve>) -> Chart {
    Chart {
        title: format!("{what} of a message, {work} more operations a word"),
        caption: format!("Both nodes together; receivers alone mark the region ({figure})"),
        x_name: "bytes of a message",
        y_name: match y {
            YAxis::Count => "lines read from memory",
            _ => "time",
        },
        plot: ReportPlot::Curves { x: XAxis::Bytes, y, curves },
    }
}
