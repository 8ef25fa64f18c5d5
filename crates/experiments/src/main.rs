//! The thesis's experiments (leon-2009): `make experiments`, or
//! `cargo run -p mica-experiments -- NAME`.
//!
//! An experiment is a declared table of runs and a function that makes a report of their results.
//! What is missing of the table is simulated, one run after another; a result that is there is not
//! simulated again. Then data (CSV), charts (one HTML page) and a text are written that put the
//! results beside what the thesis says.
//!
//! - `table`: runs as data; `declaration`: experiments.
//! - `thesis`: what the thesis says, in one place.
//! - `store`: results, a file a run.
//! - `driver`: runs what is missing; `runner` simulates, by the installed `mica sim run`.
//! - `report`: text and page.
//! - one file an experiment.

#![forbid(unsafe_code)]

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

use clap::Parser;
use mica_report::origin::ResultOrigin;
use mica_report::scratch::write_new;

use crate::declaration::Experiment;
use crate::runner::Simulator;
use crate::store::{Results, Store};
use crate::table::Extent;

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

/// Repeats the experiments of a thesis on the simulated cluster, and puts the results beside the
/// thesis's.
#[derive(Parser)]
#[command(name = "sim-experiments")]
struct ExperimentOptions {
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
    /// The installed Mica whose simulator runs.
    #[arg(long, value_name = "DIR", default_value = "target/dist")]
    prefix: PathBuf,
    /// Processes of this machine that simulate each run together.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..))]
    hosts: u32,
}

fn main() -> ExitCode {
    let options = ExperimentOptions::parse();
    if options.name == "list" {
        print!("{}", list());
        return ExitCode::SUCCESS;
    }
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sim-experiments: {error}");
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
        true => Err(format!("no experiment {name}; `list` has their names")),
        false => Ok(meant),
    }
}

fn run(options: &ExperimentOptions) -> Result<(), String> {
    let experiments = named(&options.name)?;
    let extent = if options.quick { Extent::Quick } else { Extent::Full };
    let store = Store::open(&options.output)?;
    let mut simulator = Simulator::new(&options.prefix, &options.programs, options.hosts)?;
    for experiment in experiments {
        let results = driver::complete((experiment.runs)(extent), &mut simulator, &store)?;
        print!("{}", write(experiment, extent, &results, &options.output)?);
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
