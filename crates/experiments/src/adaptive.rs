//! The adaptive policy beside every fixed one (leon-2009, 7.2, leaves open whether a bad policy can
//! be detected and changed while a program runs).

use crate::declaration::Experiment;
use crate::report::{
    Chart, ExperimentReport, ReportPlot, ShapeVerdict, ThesisFinding, YAxis, gain, round,
};
use crate::store::Results;
use crate::table::{Extent, Heading, PrefetcherSetting, SimulationRun};
use crate::{fft, jacobi, thesis};

pub const EXPERIMENT: Experiment = Experiment {
    heading: Heading {
        name: "adaptive",
        title: "A policy that changes itself",
        question: "Does a policy that watches what becomes of injected lines come close to the \
            best fixed one, whatever the program?",
        source: "leon-2009, 7.2",
    },
    runs,
    report,
};

/// All fixed policies that need no help of the program.
const FIXED: [&str; 9] = [
    "base",
    "header",
    "preposted",
    "unexpected",
    "payload",
    "message",
    "on-wait",
    "in-cache",
    "size-dependent",
];
const ADAPTIVE: &str = "adaptive";

/// Programs of unlike needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PolicyWorkload {
    /// All payload is read at once.
    Traversal,
    /// Payload comes long before it is used.
    Jacobi,
    /// Long messages, read once.
    Fourier,
}

const QUICK: [PolicyWorkload; 2] = [PolicyWorkload::Traversal, PolicyWorkload::Jacobi];

impl PolicyWorkload {
    fn name(self) -> &'static str {
        match self {
            PolicyWorkload::Traversal => "traversal of messages of 64 KiB",
            PolicyWorkload::Jacobi => "Jacobi, rows of 64 Ki points",
            PolicyWorkload::Fourier => "Fourier transform, 4 nodes",
        }
    }

    /// Without a prefetcher in the traversal, whose payload it would bring.
    fn run(self, policy: &str) -> SimulationRun {
        match self {
            PolicyWorkload::Traversal => SimulationRun::of("traverse", 2)
                .arguments("65536 --messages 48")
                .prefetcher(PrefetcherSetting::Off)
                .policy(policy),
            PolicyWorkload::Jacobi => jacobi::run(policy, 64),
            PolicyWorkload::Fourier => fft::run(4, policy),
        }
    }
}

fn workloads(extent: Extent) -> Vec<PolicyWorkload> {
    extent.choose(&QUICK, &[PolicyWorkload::Fourier])
}

fn policies() -> impl Iterator<Item = &'static str> {
    FIXED.into_iter().chain([ADAPTIVE])
}

fn runs(extent: Extent) -> Vec<SimulationRun> {
    let of_workload = |workload: PolicyWorkload| policies().map(move |policy| workload.run(policy));
    workloads(extent).into_iter().flat_map(of_workload).collect()
}

/// Percents of time less than base's.
fn gain_of(results: &Results, workload: PolicyWorkload, policy: &str) -> f64 {
    let time = |policy| results.of(&workload.run(policy)).region_ns;
    gain(time("base"), time(policy))
}

fn report(extent: Extent, results: &Results) -> ExperimentReport {
    let beside = |workload: PolicyWorkload| {
        let gain = |policy| gain_of(results, workload, policy);
        let ordered = |a: &(f64, &str), b: &(f64, &str)| a.0.total_cmp(&b.0);
        let fixed = || FIXED.into_iter().map(|policy| (gain(policy), policy));
        let best = fixed().max_by(ordered).expect("there are policies");
        (workload, gain(ADAPTIVE), best, fixed().min_by(ordered).expect("there are policies"))
    };
    let all: Vec<_> = workloads(extent).into_iter().map(beside).collect();
    let text =
        |(workload, adaptive, best, worst): &(PolicyWorkload, f64, (f64, &str), (f64, &str))| {
            format!(
                "{}: {} % of time less by adaptive, {} % by the best ({}), {} % by the worst ({})",
                workload.name(),
                round(*adaptive),
                round(best.0),
                best.1,
                round(worst.0),
                worst.1
            )
        };
    let texts: Vec<String> = all.iter().map(text).collect();
    let is_close = all.iter().all(|(_, adaptive, best, _)| best.0 - adaptive < 2.0);
    ExperimentReport {
        findings: vec![ThesisFinding::shape(
            &thesis::ADAPTIVE,
            ShapeVerdict::of(is_close),
            texts.join("; "),
        )],
        notes: vec!["Close is less than two points from the best fixed policy.".into()],
        charts: workloads(extent).into_iter().map(|workload| chart(results, workload)).collect(),
    }
}

fn chart(results: &Results, workload: PolicyWorkload) -> Chart {
    let bar =
        |policy: &str| (policy.to_owned(), vec![results.of(&workload.run(policy)).region_ns / 1e3]);
    Chart {
        title: format!("Policies: {}", workload.name()),
        caption: "Time in the region, of the slowest node".into(),
        x_name: "policy",
        y_name: "time",
        plot: ReportPlot::Bars {
            parts: vec!["time".into()],
            bars: policies().map(bar).collect(),
            y: YAxis::Microseconds,
        },
    }
}
