//! Collective operations with and without the payload policy (leon-2009, 5.3.1; Figure 5.7).

use super::report::{Chart, Finding, Plot, Report, Verdict, XAxis, YAxis, gain, percents};
use super::store::Results;
use super::table::{Experiment, Extent, Run};
use super::thesis;

pub const EXPERIMENT: Experiment = Experiment {
    name: "collectives",
    title: "Collective operations",
    question: "Which collective operations does injecting the payload make faster, at which sizes?",
    source: "leon-2009, 5.3.1, Figure 5.7",
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

/// A chart: a cluster, and whether results are read.
const PANELS: [(u32, ResultUse); 3] = [
    (4, ResultUse::Unread),
    (8, ResultUse::Unread),
    (4, ResultUse::Read),
];

fn sizes(extent: Extent) -> Vec<u64> {
    let mut sizes = extent.choose(
        &[8 << 10, 64 << 10, 512 << 10],
        &[1 << 10, 4 << 10, 2 << 20],
    );
    sizes.sort_unstable();
    sizes
}

fn run((nodes, result): (u32, ResultUse), operation: &str, bytes: u64, policy: &str) -> Run {
    let read = match result {
        ResultUse::Unread => "",
        ResultUse::Read => " --read",
    };
    let arguments = format!("{operation} {bytes} --calls {CALLS}{read}");
    Run::of("collectives", nodes)
        .arguments(&arguments)
        .policy(policy)
}

fn runs(extent: Extent) -> Vec<Run> {
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
fn gains(extent: Extent, results: &Results, panel: (u32, ResultUse), operation: &str) -> Vec<f64> {
    let time = |bytes, policy| results.of(&run(panel, operation, bytes, policy)).region_ns;
    let sizes = sizes(extent).into_iter();
    sizes
        .map(|bytes| gain(time(bytes, "base"), time(bytes, "payload")))
        .collect()
}

fn report(extent: Extent, results: &Results) -> Report {
    let gains = |panel, operation: &str| gains(extent, results, panel, operation);
    let greatest = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let three = || {
        PANELS[..2]
            .iter()
            .flat_map(|panel| OPERATIONS[..3].iter().map(move |o| (panel, o)))
    };
    let best: Vec<f64> = three()
        .map(|(panel, o)| greatest(&gains(*panel, o)))
        .collect();
    let grows = three().all(|(panel, operation)| {
        let gains = gains(*panel, operation);
        gains.last() >= gains.first()
    });
    let scatter: Vec<f64> = PANELS[..2]
        .iter()
        .flat_map(|p| gains(*p, "scatter"))
        .collect();
    let largest = |values: &[f64]| {
        let by_size = |a: &f64, b: &f64| a.abs().total_cmp(&b.abs());
        values.iter().copied().max_by(by_size).unwrap_or(0.0)
    };
    let read: Vec<f64> = OPERATIONS.map(|o| greatest(&gains(PANELS[2], o))).into();
    Report {
        findings: vec![
            Finding::number(&thesis::COLLECTIVES_GAIN, greatest(&best)),
            Finding::shape(
                &thesis::COLLECTIVES_GROW,
                Verdict::of(grows),
                format!(
                    "on 4 nodes allgather {}; allreduce {}; bcast {}",
                    percents(&gains(PANELS[0], "allgather")),
                    percents(&gains(PANELS[0], "allreduce")),
                    percents(&gains(PANELS[0], "bcast"))
                ),
            ),
            Finding::number(&thesis::SCATTER_GAIN, largest(&scatter)),
        ],
        notes: vec![format!(
            "The benchmark never looks at what a bcast or an allgather brings, so only the library \
             can gain. If every rank reads its result, the greatest gains on 4 nodes are {} of {}",
            percents(&read),
            OPERATIONS.join(", ")
        )],
        charts: PANELS
            .iter()
            .map(|panel| chart(extent, *panel, &|operation| gains(*panel, operation)))
            .collect(),
    }
}

fn chart(
    extent: Extent,
    (nodes, result): (u32, ResultUse),
    gains: &dyn Fn(&str) -> Vec<f64>,
) -> Chart {
    let curve = |operation: &str| {
        let sizes = sizes(extent).into_iter().map(|bytes| bytes as f64);
        (operation.to_owned(), sizes.zip(gains(operation)).collect())
    };
    let how = match result {
        ResultUse::Unread => "results not read",
        ResultUse::Read => "every rank reads its result",
    };
    Chart {
        title: format!("{nodes} nodes, {how}"),
        caption: "Time less by the payload policy (Figure 5.7)".into(),
        x_name: "bytes of the vector or of a block",
        y_name: "time less",
        plot: Plot::Curves {
            x: XAxis::Bytes,
            y: YAxis::Percent,
            curves: OPERATIONS.map(curve).into(),
        },
    }
}
