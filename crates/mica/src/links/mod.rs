//! `mica links run|model|analyze|report`: which links between the chips of a node make a collective slow
//! (muecke-2010).
//!
//! [`run`] times consecutive calls on this machine and writes an observation (`mica_links::file`
//! has the format); [`model`] writes one of a modelled machine. `analyze` prints what `mica_links::explain` says about it, as text or JSON;
//! [`report`] draws that on one page, with the figures of the paper. An observation may come from
//! any other source that writes the same file.

mod model;
mod report;
mod run;
#[cfg(test)]
mod tests;
mod text;

use std::error::Error;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use mica_links::Observation;
use mica_links::explain::{ExplainOptions, Explanation, LoadKind, explain};

/// The options of `mica links`.
#[derive(Args)]
pub struct LinksOptions {
    #[command(subcommand)]
    command: LinksCommand,
}

#[derive(Subcommand)]
enum LinksCommand {
    /// Time consecutive calls of a collective on this machine, and write them to a file.
    Run(run::RunOptions),
    /// Simulate the calls on a described machine, and write them to a file.
    Model(model::ModelOptions),
    /// Print what the calls of a file show.
    Analyze {
        /// What `mica links run` has written.
        file: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        statistics: StatisticsOptions,
    },
    /// Write one HTML page with the figures.
    Report {
        /// What `mica links run` has written.
        file: PathBuf,
        /// The page.
        #[arg(short, long, value_name = "FILE", default_value = "links.html")]
        output: PathBuf,
        #[command(flatten)]
        statistics: StatisticsOptions,
    },
}

/// How the statistics are computed.
#[derive(Args)]
struct StatisticsOptions {
    /// What counts as a link's load: bytes during the call, those among them that are not the
    /// call's, or bytes per second.
    #[arg(long, value_enum, default_value_t = LoadArgument::Bytes)]
    load: LoadArgument,
    /// Resamples of each interval.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    resamples: usize,
    /// The seed of resampling: equal seeds give equal results.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum LoadArgument {
    Bytes,
    Background,
    Rate,
}

/// Runs the command, and returns what it prints.
pub fn links(options: &LinksOptions) -> Result<String, Box<dyn Error>> {
    match &options.command {
        LinksCommand::Run(options) => run::run(options),
        LinksCommand::Model(options) => model::model(options),
        LinksCommand::Analyze {
            file,
            json,
            statistics,
        } => {
            let explanations = explanations(&read(file)?, statistics)?;
            Ok(match json {
                true => serde_json::to_string_pretty(&explanations)? + "\n",
                false => explanations.iter().map(text::render).collect(),
            })
        }
        LinksCommand::Report {
            file,
            output,
            statistics,
        } => {
            let observation = read(file)?;
            let explanations = explanations(&observation, statistics)?;
            let page = report::page(&observation, &explanations);
            fs::write(output, page).map_err(|error| format!("{}: {error}", output.display()))?;
            Ok(format!("{}\n", output.display()))
        }
    }
}

fn read(file: &Path) -> Result<Observation, Box<dyn Error>> {
    let name = |error: &dyn Error| format!("{}: {error}", file.display());
    let input = File::open(file).map_err(|error| name(&error))?;
    Ok(Observation::read(BufReader::new(input)).map_err(|error| name(&error))?)
}

/// One explanation for each workload that has calls, with a progress bar on a terminal.
fn explanations(
    observation: &Observation,
    options: &StatisticsOptions,
) -> Result<Vec<Explanation>, Box<dyn Error>> {
    let options = ExplainOptions {
        load: match options.load {
            LoadArgument::Bytes => LoadKind::Bytes,
            LoadArgument::Background => LoadKind::Background,
            LoadArgument::Rate => LoadKind::Rate,
        },
        resamples: options.resamples,
        seed: options.seed,
    };
    // Hidden where stderr is no terminal.
    let bar = indicatif::ProgressBar::new(observation.workloads.len() as u64);
    bar.tick();
    let workloads = 0..observation.workloads.len();
    let explanations: Vec<Explanation> = workloads
        .inspect(|_| bar.inc(1))
        .filter_map(|workload| explain(observation, workload, &options))
        .collect();
    bar.finish_and_clear();
    match explanations.is_empty() {
        true => Err("the file has no calls".into()),
        false => Ok(explanations),
    }
}
