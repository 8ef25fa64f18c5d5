//! Collective operations with and without the payload policy (leon-2009, 5.3.1; Figure 5.7).

use crate::declaration::Experiment;
use crate::report::{
    Chart, ExperimentReport, ReportPlot, ShapeVerdict, ThesisFinding, XAxis, YAxis, gain, percents,
};
use crate::store::Results;
use crate::table::{Extent, Heading, PrefetcherSetting, SimulationRun};
use crate::thesis;

pub const EXPERIMENT: Experiment = Experiment {
    heading: Heading {
        name: "collectives",
        title: "Collective operations",
        question: "Which collective operations does injecting the payload make faster, at which \
                   sizes?",
        source: "leon-2009, 5.3.1, Figure 5.7",
    },
    runs,
    report,
};

/// Those that gain in the thesis, then the one that does not.
const OPERATIONS: [&str; 4] = ["allgather", "allreduce", "bcast", "scatter"];
const CALLS: u32 = 3;

/// Whether the program reads what an operation brought, as programs do; the thesis's benchmark does
/// not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResultUse {
    Unread,
    Read,
}

/// What a chart is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CollectivePanel {
    nodes: u32,
    result: ResultUse,
    prefetcher: PrefetcherSetting,
}

const fn panel(nodes: u32, result: ResultUse, prefetcher: PrefetcherSetting) -> CollectivePanel {
    CollectivePanel { nodes, result, prefetcher }
}

/// As the thesis has it, on 4 and on 8 nodes.
const AS_THERE: [CollectivePanel; 2] = [
    panel(4, ResultUse::Unread, PrefetcherSetting::On),
    panel(8, ResultUse::Unread, PrefetcherSetting::On),
];
const READ: CollectivePanel = panel(4, ResultUse::Read, PrefetcherSetting::On);
const READ_WITHOUT_PREFETCHER: CollectivePanel = panel(4, ResultUse::Read, PrefetcherSetting::Off);
const PANELS: [CollectivePanel; 4] = [AS_THERE[0], AS_THERE[1], READ, READ_WITHOUT_PREFETCHER];

fn sizes(extent: Extent) -> Vec<u64> {
    let mut sizes = extent.choose(&[8 << 10, 64 << 10, 512 << 10], &[1 << 10, 4 << 10, 2 << 20]);
    sizes.sort_unstable();
    sizes
}

fn run(panel: CollectivePanel, operation: &str, bytes: u64, policy: &str) -> SimulationRun {
    let read = match panel.result {
        ResultUse::Unread => "",
        ResultUse::Read => " --read",
    };
    let arguments = format!("{operation} {bytes} --calls {CALLS}{read}");
    SimulationRun::of("collectives", panel.nodes)
        .arguments(&arguments)
        .prefetcher(panel.prefetcher)
        .policy(policy)
}

fn runs(extent: Extent) -> Vec<SimulationRun> {
    let mut runs = Vec::new();
    for panel in PANELS {
        for operation in OPERATIONS {
            for bytes in sizes(extent) {
                runs.extend(["base", "payload"].map(|policy| run(panel, operation, bytes, policy)));
            }
        }
    }
    runs
}

/// Percents of time less, of each size.
fn gains(extent: Extent, results: &Results, panel: CollectivePanel, operation: &str) -> Vec<f64> {
    let time = |bytes, policy| results.of(&run(panel, operation, bytes, policy)).region_ns;
    let sizes = sizes(extent).into_iter();
    sizes.map(|bytes| gain(time(bytes, "base"), time(bytes, "payload"))).collect()
}

fn greatest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// The one that is farthest from zero.
fn largest(values: &[f64]) -> f64 {
    values.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0)
}

/// The thesis's findings as these panels show them.
fn findings(
    panels: &[CollectivePanel],
    gains: &dyn Fn(CollectivePanel, &str) -> Vec<f64>,
) -> Vec<ThesisFinding> {
    let of = |operation: &str| -> Vec<f64> {
        panels.iter().flat_map(|panel| gains(*panel, operation)).collect()
    };
    let best = OPERATIONS[..3].iter().map(|operation| greatest(&of(operation)));
    let grows = panels.iter().all(|panel| {
        OPERATIONS[..3].iter().all(|operation| {
            let gains = gains(*panel, operation);
            gains.last() >= gains.first()
        })
    });
    let figures = OPERATIONS[..3]
        .iter()
        .map(|operation| format!("{operation} {}", percents(&gains(panels[0], operation))));
    let figures: Vec<String> = figures.collect();
    vec![
        ThesisFinding::number(&thesis::COLLECTIVES_GAIN, greatest(&best.collect::<Vec<_>>())),
        ThesisFinding::shape(
            &thesis::COLLECTIVES_GROW,
            ShapeVerdict::of(grows),
            format!("on 4 nodes {}", figures.join("; ")),
        ),
        ThesisFinding::number(&thesis::SCATTER_GAIN, largest(&of("scatter"))),
    ]
}

fn report(extent: Extent, results: &Results) -> ExperimentReport {
    let gains = |panel: CollectivePanel, operation: &str| gains(extent, results, panel, operation);
    let read: Vec<f64> = OPERATIONS.map(|o| greatest(&gains(READ, o))).into();
    let without = findings(&[READ_WITHOUT_PREFETCHER], &gains).into_iter();
    let without = without.map(|finding| {
        finding.under("if every rank reads its result and the processor does not prefetch")
    });
    ExperimentReport {
        findings: findings(&AS_THERE, &gains).into_iter().chain(without).collect(),
        notes: vec![format!(
            "The benchmark never looks at what a bcast, scatter or allgather brings, and Mica \
             receives into and sends from the program's buffers, so no processor reads it: there \
             is nothing to gain but the library's own reads. If every rank reads its result, the \
             prefetcher hides most of the memory: the greatest gains on 4 nodes are then {} of {}",
            percents(&read),
            OPERATIONS.join(", ")
        )],
        charts: PANELS
            .iter()
            .map(|panel| chart(extent, *panel, &|operation| gains(*panel, operation)))
            .collect(),
    }
}

fn chart(extent: Extent, panel: CollectivePanel, gains: &dyn Fn(&str) -> Vec<f64>) -> Chart {
    let curve = |operation: &str| {
        let sizes = sizes(extent).into_iter().map(|bytes| bytes as f64);
        (operation.to_owned(), sizes.zip(gains(operation)).collect())
    };
    let how = match panel.result {
        ResultUse::Unread => "results not read",
        ResultUse::Read => "every rank reads its result",
    };
    Chart {
        title: format!("{} nodes, {how}, {}", panel.nodes, panel.prefetcher.name()),
        caption: "Time less by the payload policy (Figure 5.7)".into(),
        x_name: "bytes of the vector or of a block",
        y_name: "time less",
        plot: ReportPlot::Curves {
            x: XAxis::Bytes,
            y: YAxis::Percent,
            curves: OPERATIONS.map(curve).into(),
        },
    }
}
