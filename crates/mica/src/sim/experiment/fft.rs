//! HPC Challenge's FFT under the policies (leon-2009, 5.3; Figure 5.5).

use super::report::{Chart, Finding, Plot, Report, Verdict, XAxis, YAxis, gain, percents};
use super::store::{Outcome, Results};
use super::table::{Experiment, Extent, Run};
use super::thesis;

pub const EXPERIMENT: Experiment = Experiment {
    name: "fft",
    title: "A Fourier transform",
    question: "What do the policies gain where all-to-all moves the data and the program uses all \
        of it right after?",
    source: "leon-2009, 5.3, Figure 5.5",
    runs,
    report,
};

pub const POLICIES: [&str; 4] = ["base", "header", "payload", "message"];

fn clusters(extent: Extent) -> Vec<u32> {
    extent.choose(&[4, 8, 16], &[64])
}

pub fn run(nodes: u32, policy: &str) -> Run {
    Run::of("fft", nodes).policy(policy)
}

fn runs(extent: Extent) -> Vec<Run> {
    let of_cluster = |nodes| POLICIES.map(|policy| run(nodes, policy));
    clusters(extent).into_iter().flat_map(of_cluster).collect()
}

fn gains(extent: Extent, results: &Results, policy: &str, of: fn(&Outcome) -> f64) -> Vec<f64> {
    let value = |nodes, policy| of(results.of(&run(nodes, policy)));
    let clusters = clusters(extent).into_iter();
    clusters
        .map(|nodes| gain(value(nodes, "base"), value(nodes, policy)))
        .collect()
}

/// Percents of Gflop/s more, which is what the thesis has: time is what Gflop/s divide by.
fn speed_ups(extent: Extent, results: &Results, policy: &str) -> Vec<f64> {
    let times = gains(extent, results, policy, |outcome| outcome.region_ns);
    let speed_up = |less: f64| (1.0 / (1.0 - less / 100.0) - 1.0) * 100.0;
    times.into_iter().map(speed_up).collect()
}

fn report(extent: Extent, results: &Results) -> Report {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let speed_ups = |policy: &str| speed_ups(extent, results, policy);
    let reads = |policy: &str| gains(extent, results, policy, Outcome::memory_reads);
    let (payload, header) = (speed_ups("payload"), speed_ups("header"));
    let (payload_reads, header_reads) = (reads("payload"), reads("header"));
    let nodes: Vec<String> = clusters(extent).iter().map(u32::to_string).collect();
    let fewer = mean(&payload_reads) > 2.0 * mean(&header_reads).abs();
    Report {
        findings: vec![
            Finding::number(&thesis::FFT_PAYLOAD, mean(&payload)),
            Finding::number(&thesis::FFT_HEADER, mean(&header)),
            Finding::shape(
                &thesis::FFT_READS,
                Verdict::of(fewer),
                format!(
                    "payload {} fewer, header {} fewer",
                    percents(&payload_reads),
                    percents(&header_reads)
                ),
            ),
        ],
        notes: vec![format!(
            "Gflop/s more than base's: payload {}, header {}, on {} nodes; the findings have the \
             means",
            percents(&payload),
            percents(&header),
            nodes.join(", ")
        )],
        charts: vec![
            chart(extent, "Speed", "Gflop/s more than base's", &speed_ups),
            chart(extent, "Memory reads", "Fewer than base's", &reads),
        ],
    }
}

fn chart(extent: Extent, title: &str, what: &str, values: &dyn Fn(&str) -> Vec<f64>) -> Chart {
    let curve = |policy: &str| {
        let nodes = clusters(extent).into_iter().map(f64::from);
        (policy.to_owned(), nodes.zip(values(policy)).collect())
    };
    Chart {
        title: title.to_owned(),
        caption: format!("{what}; 65,536 complex numbers a node (Figure 5.5)"),
        x_name: "nodes",
        y_name: "percent",
        plot: Plot::Curves {
            x: XAxis::Nodes,
            y: YAxis::Percent,
            curves: POLICIES[1..].iter().map(|policy| curve(policy)).collect(),
        },
    }
}
