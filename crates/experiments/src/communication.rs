//! How the solver and the FFT communicate (leon-2009, 5.3; Figure 5.6), as the simulated clock sees
//! it: which part of the region is in MPI, and in which calls. The runs are base runs of the two
//! other experiments; the programs account for their calls themselves (bench/sim/account.c).

use crate::declaration::Experiment;
use crate::report::{Chart, ExperimentReport, ReportPlot, ThesisFinding, YAxis};
use crate::store::{Results, SimulationOutcome};
use crate::table::{Extent, Heading, SimulationRun};
use crate::{fft, solver, thesis};

pub const EXPERIMENT: Experiment = Experiment {
    heading: Heading {
        name: "communication",
        title: "How the solver and the FFT communicate",
        question: "How much of the time is communication, in which calls, and which calls send the \
            data?",
        source: "leon-2009, 5.3, Figure 5.6",
    },
    runs,
    report,
};

/// Names that the programs' account has.
const CALLS: [&str; 9] = [
    "Waitall",
    "Isend",
    "Irecv",
    "Alltoall",
    "Allreduce",
    "Allgather",
    "Allgatherv",
    "Bcast",
    "Barrier",
];

fn amg_runs(extent: Extent) -> Vec<SimulationRun> {
    let clusters = extent.choose(&[8], &[16, 64]).into_iter();
    clusters.map(|nodes| solver::run(nodes, 2100, 1.0, "base")).collect()
}

fn fft_runs(extent: Extent) -> Vec<SimulationRun> {
    extent.choose(&[4, 8], &[16, 64]).into_iter().map(|nodes| fft::run(nodes, "base")).collect()
}

fn runs(extent: Extent) -> Vec<SimulationRun> {
    [amg_runs(extent), fft_runs(extent)].concat()
}

/// Of each call of [`CALLS`]: its part of the account's column `of` (1: seconds, 2: bytes).
fn parts(outcome: &SimulationOutcome, of: usize) -> Vec<f64> {
    CALLS.iter().map(|name| outcome.account(name).map_or(0.0, |account| account[of])).collect()
}

/// Percents of the sum.
fn shares(values: &[f64]) -> Vec<f64> {
    let sum: f64 = values.iter().sum();
    let sum = if sum > 0.0 { sum } else { 1.0 };
    values.iter().map(|value| value / sum * 100.0).collect()
}

/// Percent of the region's time that is in MPI.
fn in_mpi(outcome: &SimulationOutcome) -> f64 {
    let region = outcome.account("region").map_or(0.0, |account| account[1]);
    if region > 0.0 { parts(outcome, 1).iter().sum::<f64>() / region * 100.0 } else { 0.0 }
}

fn report(extent: Extent, results: &Results) -> ExperimentReport {
    let place = |name| CALLS.iter().position(|call| *call == name).unwrap_or(0);
    let least = |runs: &[SimulationRun], value: &dyn Fn(&SimulationOutcome) -> f64| {
        runs.iter().map(|run| value(results.of(run))).fold(f64::INFINITY, f64::min)
    };
    let (amg, fft) = (amg_runs(extent), fft_runs(extent));
    let of_time = |name| move |outcome: &SimulationOutcome| shares(&parts(outcome, 1))[place(name)];
    let of_bytes =
        |name| move |outcome: &SimulationOutcome| shares(&parts(outcome, 2))[place(name)];
    ExperimentReport {
        findings: vec![
            ThesisFinding::number(&thesis::AMG_WAITS, least(&amg, &of_time("Waitall"))),
            ThesisFinding::number(&thesis::AMG_ISEND, least(&amg, &of_bytes("Isend"))),
            ThesisFinding::number(&thesis::FFT_COMMUNICATION, least(&fft, &in_mpi)),
            ThesisFinding::number(&thesis::FFT_ALLTOALL, least(&fft, &of_time("Alltoall"))),
        ],
        notes: vec!["Of several clusters the least share is in the findings.".into()],
        charts: vec![
            ratio_chart(results, &[amg.clone(), fft.clone()].concat()),
            chart(results, &amg, "The solver's time in MPI by call", 1),
            chart(results, &fft, "The FFT's time in MPI by call", 1),
            chart(results, &amg, "The solver's data by call", 2),
            chart(results, &fft, "The FFT's data by call", 2),
        ],
    }
}

fn label(run: &SimulationRun) -> String {
    format!("{}, {} nodes", run.program, run.nodes)
}

fn ratio_chart(results: &Results, runs: &[SimulationRun]) -> Chart {
    let bar = |run: &SimulationRun| {
        let share = in_mpi(results.of(run));
        (label(run), vec![100.0 - share, share])
    };
    Chart {
        title: "Computation and communication".into(),
        caption: "Shares of the region's time, all ranks together (Figure 5.6(a) and (b))".into(),
        x_name: "run",
        y_name: "share",
        plot: ReportPlot::Bars {
            parts: vec!["computation".into(), "communication".into()],
            bars: runs.iter().map(bar).collect(),
            y: YAxis::Percent,
        },
    }
}

fn chart(results: &Results, runs: &[SimulationRun], title: &str, of: usize) -> Chart {
    let all: Vec<_> =
        runs.iter().map(|run| (label(run), shares(&parts(results.of(run), of)))).collect();
    // Calls that no run makes would only fill the legend.
    let is_used = |&place: &usize| all.iter().any(|(_, shares)| shares[place] > 0.0);
    let used: Vec<usize> = (0..CALLS.len()).filter(is_used).collect();
    let bars = all
        .iter()
        .map(|(label, shares)| (label.clone(), used.iter().map(|&place| shares[place]).collect()));
    Chart {
        title: title.to_owned(),
        caption: match of {
            1 => "Shares of the time in MPI (Figure 5.6(c) and (d))".into(),
            _ => "Shares of the bytes sent (Figure 5.6(e) and (f))".into(),
        },
        x_name: "run",
        y_name: "share",
        plot: ReportPlot::Bars {
            parts: used.iter().map(|&place| CALLS[place].to_owned()).collect(),
            bars: bars.collect(),
            y: YAxis::Percent,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn shares_come_from_the_account() {
        let outcome = SimulationOutcome {
            lines: vec![
                json!({"account": "region", "calls": 4, "seconds": 2.0, "bytes": 0}),
                json!({"account": "Waitall", "calls": 9, "seconds": 0.3, "bytes": 0}),
                json!({"account": "Isend", "calls": 9, "seconds": 0.1, "bytes": 100}),
            ],
            ..SimulationOutcome::default()
        };
        assert_eq!(in_mpi(&outcome).round(), 20.0);
        assert_eq!(shares(&parts(&outcome, 1))[0].round(), 75.0);
        assert_eq!(shares(&parts(&outcome, 2))[1], 100.0);
        assert_eq!(in_mpi(&SimulationOutcome::default()), 0.0);
    }
}
