//! `mica sim experiment NAME`: the thesis's experiments (leon-2009) as commands.
//!
//! An experiment is a declared table of runs and a function that makes a report of their results.
//! What is missing of the table is simulated, one run after another; a result that is there is not
//! simulated again. Then data (CSV), charts (one HTML page) and a text are written that put the
//! results beside what the thesis says.
//!
//! - `table`: runs as data; `declaration`: experiments.
//! - `thesis`: what the thesis says, in one place.
//! - `store`: results, a file a run.
//! - `driver`: runs what is missing; `runner` is the simulator that it calls.
//! - `report`: text and page.
//! - one file an experiment.
//!
//! Under mpiexec all host ranks simulate each run together, and the first one reports.

mod adaptive;
mod collectives;
mod communication;
mod declaration;
mod divergence;
mod driver;
mod fft;
mod jacobi;
mod prefetch_injection;
mod report;
mod runner;
mod solver;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod thesis;
mod throttle;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use self::declaration::Experiment;
use self::runner::Simulator;
use self::store::{Results, Store};
use self::table::Extent;
use super::run::host_ranks::HostRanks;
use crate::origin::ResultOrigin;
use crate::scratch::write_new;

/// All experiments, in the thesis's order.
const EXPERIMENTS: [&Experiment; 9] = [
    &prefetch_injection::EXPERIMENT,
    &jacobi::EXPERIMENT,
    &throttle::EXPERIMENT,
    &divergence::EXPERIMENT,
    &solver::EXPERIMENT,
    &fft::EXPERIMENT,
    &communication::EXPERIMENT,
    &collectives::EXPERIMENT,
    &adaptive::EXPERIMENT,
];

/// The options of `mica sim experiment`.
#[derive(Args)]
pub struct ExperimentOptions {
    /// The experiment, `all`, or `list` for their names and questions.
    name: String,
    /// Fewer points and smaller clusters: some minutes on two cores.
    #[arg(long)]
    quick: bool,
    /// Where results and reports are written, and results of earlier runs are found.
    #[arg(short, long, value_name = "DIR", default_value = "sim-experiments")]
    output: PathBuf,
    /// The folder of the programs, which `bench/sim_programs.sh` builds.
    #[arg(long, value_name = "DIR", default_value = "target/sim-programs")]
    programs: PathBuf,
}

/// Runs the command.
pub fn main(options: &ExperimentOptions) -> ExitCode {
    if options.name == "list" {
        print!("{}", list());
        return ExitCode::SUCCESS;
    }
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mica sim experiment: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Names, questions and numbers of runs.
fn list() -> String {
    let mut text = String::new();
    for experiment in EXPERIMENTS {
        let count = |extent| (experiment.runs)(extent).len();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{}: {}\n    {}\n    {} runs with --quick, {} without",
            experiment.heading.name,
            experiment.heading.question,
            experiment.heading.source,
            count(Extent::Quick),
            count(Extent::Full)
        );
    }
    text
}

/// The experiments that a name means.
fn named(name: &str) -> Result<Vec<&'static Experiment>, String> {
    let is_meant = |experiment: &&Experiment| name == "all" || experiment.heading.name == name;
    let meant: Vec<_> = EXPERIMENTS.into_iter().filter(is_meant).collect();
    match meant.is_empty() {
        true => Err(format!("no experiment {name}; `mica sim experiment list` has their names")),
        false => Ok(meant),
    }
}

fn run(options: &ExperimentOptions) -> Result<(), String> {
    let experiments = named(&options.name)?;
    HostRanks::with(|hosts| Ok(run_all(&experiments, options, hosts)?))
        .map_err(|error| error.to_string())
}

fn run_all(
    experiments: &[&Experiment],
    options: &ExperimentOptions,
    hosts: &mut HostRanks,
) -> Result<(), String> {
    let extent = match options.quick {
        true => Extent::Quick,
        false => Extent::Full,
    };
    let is_first = hosts.rank() == 0;
    let store = Store::open(&options.output)?;
    let mut simulator = Simulator::new(hosts, &options.programs)?;
    for experiment in experiments {
        let results = driver::complete((experiment.runs)(extent), &mut simulator, &store)?;
        if is_first {
            print!("{}", write(experiment, extent, &results, &options.output)?);
        }
    }
    Ok(())
}

/// Where an experiment's results come from.
fn origin(results: &Results) -> ResultOrigin {
    let machines: BTreeSet<&str> =
        results.all().iter().map(|(run, _)| run.machine.as_str()).collect();
    ResultOrigin::simulated(&machines.into_iter().collect::<Vec<_>>().join(", "))
}

/// Writes data, text and page of an experiment. Returns the text.
fn write(
    experiment: &Experiment,
    extent: Extent,
    results: &Results,
    output: &Path,
) -> Result<String, String> {
    let report = (experiment.report)(extent, results);
    let text = report.text(&experiment.heading, results);
    let files = [
        ("csv", results.csv()),
        ("txt", text.clone()),
        ("html", origin(results).on_page(&report.page(&experiment.heading, results))),
    ];
    for (extension, content) in files {
        let file = output.join(format!("{}.{extension}", experiment.heading.name));
        write_new(&file, content).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let page = output.join(format!("{}.html", experiment.heading.name));
    Ok(format!("{text}written to {}\n\n", page.display()))
}
