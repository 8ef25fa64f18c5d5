//! The quantum against the result (leon-2009, 3.2, which refers to a paper for the curve): the
//! nodes' clocks meet every quantum, and a quantum longer than the network's latency delivers
//! messages late.

use crate::declaration::Experiment;
use crate::report::{
    Chart, ExperimentReport, ReportPlot, ShapeVerdict, ThesisFinding, XAxis, YAxis, percents, round,
};
use crate::store::Results;
use crate::table::{Extent, Heading, SimulationRun};
use crate::thesis;

pub const EXPERIMENT: Experiment = Experiment {
    heading: Heading {
        name: "divergence",
        title: "The quantum and the result",
        question: "How long may the quantum be until the simulated time differs?",
        source: "leon-2009, 3.1 and 3.2",
    },
    runs,
    report,
};

/// Programs, by what they wait for: long messages, short ones.
const PROGRAMS: [&str; 2] = ["integer_sort", "collectives"];

/// Nanoseconds; the default is the network's shortest latency, 1.2 us with this machine.
fn quanta(extent: Extent) -> Vec<u32> {
    let mut quanta =
        extent.choose(&[600, 1200, 2400, 4800, 9600, 19_200, 76_800], &[300, 38_400, 153_600]);
    quanta.sort_unstable();
    quanta
}

fn run(program: &str, quantum: u32) -> SimulationRun {
    let arguments = match program {
        "integer_sort" => "S --iterations 2",
        _ => "allreduce 1024 --calls 20",
    };
    SimulationRun::of(program, 4).arguments(arguments).quantum(f64::from(quantum))
}

fn runs(extent: Extent) -> Vec<SimulationRun> {
    let of_program = |program: &&str| {
        quanta(extent).into_iter().map(|quantum| run(program, quantum)).collect::<Vec<_>>()
    };
    PROGRAMS.iter().flat_map(of_program).collect()
}

/// Percents by which the time differs from that of the shortest quantum.
fn differences(extent: Extent, results: &Results, program: &str) -> Vec<f64> {
    let quanta = quanta(extent);
    let time = |quantum| results.of(&run(program, quantum)).region_ns;
    let shortest = time(quanta[0]);
    quanta.iter().map(|quantum| (time(*quantum) / shortest - 1.0) * 100.0).collect()
}

fn report(extent: Extent, results: &Results) -> ExperimentReport {
    let all = PROGRAMS.map(|program| differences(extent, results, program));
    let quanta = quanta(extent);
    let safe = quanta.iter().take_while(|quantum| **quantum <= 1200).count();
    let within = |d: &Vec<f64>| d[..safe].iter().map(|d| d.abs()).fold(0.0, f64::max);
    let beyond = |d: &Vec<f64>| d.last().is_some_and(|d| d.abs() > 1.0);
    let verdict = all.iter().all(|d| within(d) < 1.0 && beyond(d));
    let figures = PROGRAMS
        .iter()
        .zip(&all)
        .map(|(program, differences)| format!("{program} differs by {}", percents(differences)));
    let figures = figures.collect::<Vec<_>>().join("; ");
    let texts: Vec<String> = quanta.iter().map(|q| format!("{} us", f64::from(*q) / 1e3)).collect();
    let worst = all.iter().map(within).fold(0.0, f64::max);
    ExperimentReport {
        findings: vec![ThesisFinding::shape(
            &thesis::DIVERGENCE,
            ShapeVerdict::of(verdict),
            format!("{figures}, at {}", texts.join(", ")),
        )],
        notes: vec![format!(
            "Up to the network's shortest latency, 1.2 us, which is the default, a shorter quantum \
             changes the time by at most {} %",
            round(worst)
        )],
        charts: vec![Chart {
            title: "Time against the quantum".into(),
            caption: "Difference from the time with the shortest quantum; 4 nodes".into(),
            x_name: "quantum",
            y_name: "difference",
            plot: ReportPlot::Curves {
                x: XAxis::Nanoseconds,
                y: YAxis::Percent,
                curves: PROGRAMS
                    .iter()
                    .zip(all)
                    .map(|(program, differences)| {
                        let quanta = quanta.iter().map(|quantum| f64::from(*quantum));
                        ((*program).to_owned(), quanta.zip(differences).collect())
                    })
                    .collect(),
            },
        }],
    }
}
