//! HPC Challenge's FFT under the policies (leon-2009, 5.3; Figure 5.5).
//!
//! The thesis does not say whether the simulated processor prefetched in these runs; its table of
//! the machine has no prefetcher, the Power5 has one. So all runs are made with and without.

use crate::declaration::Experiment;
use crate::report::{
    Chart, ExperimentReport, ReportPlot, ShapeVerdict, ThesisFinding, XAxis, YAxis, gain, percents,
};
use crate::store::{Results, SimulationOutcome};
use crate::table::{Extent, Heading, PrefetcherSetting, SimulationRun};
use crate::thesis;

pub const EXPERIMENT: Experiment = Experiment {
    heading: Heading {
        name: "fft",
        title: "A Fourier transform",
        question: "What do the policies gain where all-to-all moves the data and the program uses \
            all of it right after?",
        source: "leon-2009, 5.3, Figure 5.5",
    },
    runs,
    report,
};

const POLICIES: [&str; 4] = ["base", "header", "payload", "message"];

fn clusters(extent: Extent, prefetcher: PrefetcherSetting) -> Vec<u32> {
    match prefetcher {
        PrefetcherSetting::On => extent.choose(&[4, 8], &[16, 64]),
        PrefetcherSetting::Off => extent.choose(&[4], &[8, 16, 64]),
    }
}

/// A run on the machine as it is.
pub fn run(nodes: u32, policy: &str) -> SimulationRun {
    SimulationRun::of("fft", nodes).policy(policy)
}

fn run_with(prefetcher: PrefetcherSetting, nodes: u32, policy: &str) -> SimulationRun {
    run(nodes, policy).prefetcher(prefetcher)
}

fn runs(extent: Extent) -> Vec<SimulationRun> {
    let mut runs = Vec::new();
    for prefetcher in PrefetcherSetting::BOTH {
        for nodes in clusters(extent, prefetcher) {
            runs.extend(POLICIES.map(|policy| run_with(prefetcher, nodes, policy)));
        }
    }
    runs
}

/// The results of an extent with or without the prefetcher.
#[derive(Clone, Copy)]
struct ExtentView<'a> {
    extent: Extent,
    results: &'a Results,
    prefetcher: PrefetcherSetting,
}

impl ExtentView<'_> {
    /// Of each cluster, by how many percent a policy's value is less than base's.
    fn gains(self, policy: &str, of: fn(&SimulationOutcome) -> f64) -> Vec<f64> {
        let value = |nodes, policy| of(self.results.of(&run_with(self.prefetcher, nodes, policy)));
        let clusters = clusters(self.extent, self.prefetcher).into_iter();
        clusters.map(|nodes| gain(value(nodes, "base"), value(nodes, policy))).collect()
    }

    /// Percents of Gflop/s more, which is what the thesis has: time is what Gflop/s divide by.
    fn speed_ups(self, policy: &str) -> Vec<f64> {
        let times = self.gains(policy, |outcome| outcome.region_ns);
        times.into_iter().map(|less: f64| (1.0 / (1.0 - less / 100.0) - 1.0) * 100.0).collect()
    }

    fn findings(self) -> Vec<ThesisFinding> {
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        let reads = |policy| self.gains(policy, SimulationOutcome::memory_reads);
        let fewer = mean(reads("payload")) > 2.0 * mean(reads("header")).abs();
        let figures = format!(
            "payload {} fewer, header {} fewer",
            percents(&reads("payload")),
            percents(&reads("header"))
        );
        let findings = [
            ThesisFinding::number(&thesis::FFT_PAYLOAD, mean(self.speed_ups("payload"))),
            ThesisFinding::number(&thesis::FFT_HEADER, mean(self.speed_ups("header"))),
            ThesisFinding::shape(&thesis::FFT_READS, ShapeVerdict::of(fewer), figures),
        ];
        findings.into_iter().map(|finding| finding.under(self.prefetcher.name())).collect()
    }
}

fn report(extent: Extent, results: &Results) -> ExperimentReport {
    let views =
        PrefetcherSetting::BOTH.map(|prefetcher| ExtentView { extent, results, prefetcher });
    let note = |view: &ExtentView| {
        let nodes = clusters(extent, view.prefetcher);
        let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
        format!(
            "Gflop/s more than base's, {}, on {} nodes: payload {}, header {}; the findings have \
             the means",
            view.prefetcher.name(),
            nodes.join(", "),
            percents(&view.speed_ups("payload")),
            percents(&view.speed_ups("header"))
        )
    };
    let charts = |view: &ExtentView| {
        let speed = |policy: &str| view.speed_ups(policy);
        let reads = |policy: &str| view.gains(policy, SimulationOutcome::memory_reads);
        [
            chart(view, "Speed", "Gflop/s more than base's", &speed),
            chart(view, "Memory reads", "Fewer than base's", &reads),
        ]
    };
    ExperimentReport {
        findings: views.into_iter().flat_map(ExtentView::findings).collect(),
        notes: views.iter().map(note).collect(),
        charts: views.iter().flat_map(charts).collect(),
    }
}

fn chart(view: &ExtentView, title: &str, what: &str, values: &dyn Fn(&str) -> Vec<f64>) -> Chart {
    let curve = |policy: &&str| {
        let nodes = clusters(view.extent, view.prefetcher).into_iter().map(f64::from);
        ((*policy).to_owned(), nodes.zip(values(policy)).collect())
    };
    Chart {
        title: format!("{title}, {}", view.prefetcher.name()),
        caption: format!("{what}; 65,536 complex numbers a node (Figure 5.5)"),
        x_name: "nodes",
        y_name: "percent",
        plot: ReportPlot::Curves {
            x: XAxis::Nodes,
            y: YAxis::Percent,
            curves: POLICIES[1..].iter().map(curve).collect(),
        },
    }
}
