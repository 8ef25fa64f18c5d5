//! The Jacobi method with overlap (leon-2009, 2.4): what blind injection costs, and which policies
//! avoid it.

use crate::declaration::Experiment;
use crate::report::{
    Chart, ExperimentReport, ReportPlot, ShapeVerdict, ThesisFinding, YAxis, gain, percents,
};
use crate::store::Results;
use crate::table::{Extent, Heading, SimulationRun};
use crate::thesis;

pub const EXPERIMENT: Experiment = Experiment {
    heading: Heading {
        name: "jacobi",
        title: "Pollution: the Jacobi method with overlap",
        question: "Ghost rows come while the program computes on other data. Does putting them \
            into the cache at once evict what it needs, and which policy avoids that?",
        source: "leon-2009, 2.4, Figure 2.6",
    },
    runs,
    report,
};

const NODES: u32 = 4;
const ROWS: u32 = 8;
const ITERATIONS: u32 = 2;

/// Blind injection: into the L2 of the core that runs the program, as soon as a message comes.
const BLIND: &str = "processor-direction";
/// Base, blind injection (2.4.2) and the policies of 2.5 that decide by when and how much.
const POLICIES: [&str; 7] =
    ["base", BLIND, "payload", "on-wait", "in-cache", "size-dependent", "adaptive"];

/// Points of a row. The sweep needs three rows of the old grid and one of the new one in the L2
/// (1.9 MB): with 32 Ki points they are half of it, with 48 Ki four fifths, with 64 Ki they do not
/// fit.
fn widths(extent: Extent) -> Vec<u32> {
    let mut widths = extent.choose(&[32, 64], &[16, 48, 128]);
    widths.sort_unstable();
    widths
}

pub fn run(policy: &str, width: u32) -> SimulationRun {
    let arguments = format!("{width}K --rows {ROWS} --iterations {ITERATIONS}");
    SimulationRun::of("jacobi", NODES).arguments(&arguments).policy(policy)
}

fn runs(extent: Extent) -> Vec<SimulationRun> {
    widths(extent).into_iter().flat_map(|width| POLICIES.map(|policy| run(policy, width))).collect()
}

/// Percents that a policy gains at each width.
fn gains(extent: Extent, results: &Results, policy: &str) -> Vec<f64> {
    let time = |policy, width| results.of(&run(policy, width)).region_ns;
    widths(extent).into_iter().map(|width| gain(time("base", width), time(policy, width))).collect()
}

fn report(extent: Extent, results: &Results) -> ExperimentReport {
    let gains = |policy| gains(extent, results, policy);
    let blind = gains(BLIND);
    let rows: Vec<String> = widths(extent).iter().map(|w| format!("{w} Ki")).collect();
    let figures =
        |values: &[f64]| format!("{} of time less, rows of {}", percents(values), rows.join(", "));
    let is_slower = blind.iter().any(|gain| *gain < 0.0);
    let no_worse = |values: &[f64]| ShapeVerdict::of(values.iter().all(|gain| *gain > -0.1));
    let (on_wait, sized) = (gains("on-wait"), gains("size-dependent"));
    let findings = vec![
        ThesisFinding::shape(&thesis::BLIND_POLLUTES, ShapeVerdict::of(is_slower), figures(&blind)),
        ThesisFinding::shape(&thesis::WAIT_POLICY_HELPS, no_worse(&on_wait), figures(&on_wait)),
        ThesisFinding::shape(&thesis::L3_HELPS, no_worse(&sized), figures(&sized)),
    ];
    let evicted = |width: &u32| {
        let outcome = results.of(&run(BLIND, *width));
        outcome.count("injected_evicted") / outcome.count("injected_l2").max(1.0) * 100.0
    };
    let evicted: Vec<f64> = widths(extent).iter().map(evicted).collect();
    ExperimentReport {
        findings,
        notes: vec![
            format!(
                "Of the lines that blind injection put into the L2, {} left the caches before the \
                 program used them (rows of {}).",
                percents(&evicted),
                rows.join(", ")
            ),
            "Ghost rows come into the same buffers in every iteration, and the sweep reads them \
             there: without injection each of their lines is read from memory. What injection \
             drives out of the L2 goes to the L3, a victim cache, from where it comes back in a \
             third of memory's time. So there is more to gain than to lose here."
                .into(),
        ],
        charts: widths(extent).into_iter().map(|width| chart(results, width)).collect(),
    }
}

fn chart(results: &Results, width: u32) -> Chart {
    let bar = |policy: &str| {
        let time = results.of(&run(policy, width)).region_ns / 1e3;
        (policy.to_owned(), vec![time / f64::from(ITERATIONS)])
    };
    Chart {
        title: format!("An iteration, rows of {width} Ki points"),
        caption: format!("{ROWS} rows on each of {NODES} nodes; the slowest node"),
        x_name: "policy",
        y_name: "time",
        plot: ReportPlot::Bars {
            parts: vec!["time".into()],
            bars: POLICIES.map(bar).into(),
            y: YAxis::Microseconds,
        },
    }
}
