//! `mica links run|model|analyze|report|cost`: which links between the chips of a node make a
//! collective slow (muecke-2010).
//!
//! [`run`] observes consecutive calls on this machine and writes an observation (`mica_links::file`
//! has the format); [`model`] writes one of a modelled machine. `analyze` prints what
//! `mica_links::explain` says about it, as text or JSON; [`report`] draws that on one page, with
//! the figures of the paper and its numbers ([`paper`]). [`cost`] measures what observing and
//! predicting cost. An observation may come from any other source that writes the same file.

mod cost;
mod disturb;
mod job;
mod model;
mod named;
mod observed;
mod paper;
mod placement;
mod promise;
mod raw;
mod report;
mod run;
mod studies;
#[cfg(test)]
mod tests;
mod text;
mod wanted;

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use indicatif::ProgressBar;
use mica_links::Observation;
use mica_links::data::{LoadSource, NumaFacts};
use mica_links::explain::{ExplainOptions, Explanation, LoadKind, STEPS, explain_in_steps, select};
use mica_links::promise::Promise;
use mica_links::study::ModelStudy;
use paper::PaperRow;
use promise::PromiseOptions;
use serde::Serialize;
use serde_json::json;

use crate::origin::ResultOrigin;

/// The options of `mica links`.
#[derive(Args)]
pub struct LinksOptions {
    #[command(subcommand)]
    command: LinksCommand,
}

#[derive(Subcommand)]
enum LinksCommand {
    /// Observe consecutive calls of a collective on this machine, and write them to a file.
    Run(run::LinksRunOptions),
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
        promise: PromiseOptions,
        #[command(flatten)]
        statistics: StatisticsOptions,
    },
    /// Measure what a prediction costs, and what observing does to the calls.
    Cost(cost::CostOptions),
    /// Write one HTML page with the figures.
    Report {
        /// What `mica links run` has written.
        file: PathBuf,
        /// The page.
        #[arg(short, long, value_name = "FILE", default_value = "links.html")]
        output: PathBuf,
        #[command(flatten)]
        promise: PromiseOptions,
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
        LinksCommand::Cost(options) => cost::cost(options),
        LinksCommand::Analyze { file, json, promise, statistics } => {
            let observation = read(file)?;
            let findings = findings(&observation, file, statistics, promise)?;
            Ok(match json {
                true => origin(&observation).json(&json!({ "workloads": findings }))?,
                false => {
                    let study = observation.study.as_ref().map(text::study);
                    let texts = findings.iter().map(text::render);
                    texts.chain(study).collect()
                }
            })
        }
        LinksCommand::Report { file, output, promise, statistics } => {
            let observation = read(file)?;
            let findings = findings(&observation, file, statistics, promise)?;
            let page = report::page(&observation, &findings);
            let page = origin(&observation).on_page(&page);
            fs::write(output, page).map_err(|error| format!("{}: {error}", output.display()))?;
            Ok(format!("{}\n", output.display()))
        }
    }
}

/// What carries the messages of calls that are observed.
const CHANNEL: &str = "as the job takes it between the chips of a node";

/// Where an observation comes from.
fn origin(observation: &Observation) -> ResultOrigin {
    let made = &observation.provenance;
    let here = match made.source {
        LoadSource::Model => return ResultOrigin::simulated(&made.machine),
        LoadSource::Counters | LoadSource::Account => ResultOrigin::of_this_command(CHANNEL),
    };
    let known = |text: &String| if text.is_empty() { "not known".to_owned() } else { text.clone() };
    ResultOrigin {
        host: known(&made.host),
        date: known(&made.date),
        mica: known(&made.tool),
        command: known(&made.command),
        ..here
    }
}

fn read(file: &Path) -> Result<Observation, Box<dyn Error>> {
    let name = |error: &dyn Error| format!("{}: {error}", file.display());
    let input = File::open(file).map_err(|error| name(&error))?;
    Ok(Observation::read(BufReader::new(input)).map_err(|error| name(&error))?)
}

/// Writes an observation to a file.
fn write(observation: &Observation, file: &Path) -> Result<(), Box<dyn Error>> {
    let name = |error: &dyn Error| format!("{}: {error}", file.display());
    let out = File::create(file).map_err(|error| name(&error))?;
    let mut out = BufWriter::new(out);
    observation.write(&mut out).map_err(|error| name(&error))?;
    out.flush().map_err(|error| name(&error))?;
    Ok(())
}

/// What is said about the calls of one workload.
#[derive(Serialize)]
struct WorkloadFinding<'a> {
    #[serde(flatten)]
    explanation: Explanation,
    /// Bytes that a call moves between ranks on average, if the library accounted for them.
    moved_bytes: Option<f64>,
    /// What a description of the machine promises, if one was compared with.
    promise: Option<Promise>,
    /// The paper's numbers beside these.
    paper: Vec<PaperRow>,
    /// Where the kernel had pages.
    numa: Option<&'a NumaFacts>,
    /// What `mica links model --study` found.
    study: Option<&'a ModelStudy>,
}

/// A finding for each workload that has calls, with a progress bar on a terminal.
fn findings<'a>(
    observation: &'a Observation,
    file: &Path,
    options: &StatisticsOptions,
    compared: &PromiseOptions,
) -> Result<Vec<WorkloadFinding<'a>>, Box<dyn Error>> {
    let options = ExplainOptions {
        load: match options.load {
            LoadArgument::Bytes => LoadKind::Bytes,
            LoadArgument::Background => LoadKind::Background,
            LoadArgument::Rate => LoadKind::Rate,
        },
        resamples: options.resamples,
        seed: options.seed,
    };
    let workloads = observation.workloads.len();
    // Hidden where stderr is no terminal.
    let bar = ProgressBar::new((workloads * STEPS) as u64);
    bar.tick();
    let mut found = Vec::new();
    for workload in 0..workloads {
        let explained = explain_in_steps(observation, workload, &options, &mut || bar.inc(1));
        let Some(mut explanation) = explained else { continue };
        let promise = promise::promise(observation, workload, compared)?;
        explanation.advice.extend(promise.as_ref().map(Promise::text));
        explanation.advice.extend(placement::advice(observation, workload, file));
        let seconds = select(observation, workload, explanation.load).0.seconds;
        found.push(WorkloadFinding {
            paper: paper::rows(&explanation, &seconds),
            explanation,
            moved_bytes: moved(observation, workload),
            promise,
            numa: observation.provenance.numa.as_ref(),
            study: observation.study.as_ref(),
        });
    }
    bar.finish_and_clear();
    if found.is_empty() { Err("the file has no calls".into()) } else { Ok(found) }
}

/// The mean bytes that the workload's calls move between ranks.
fn moved(observation: &Observation, workload: usize) -> Option<f64> {
    let calls = &observation.calls;
    let both = calls.moved_bytes.iter().zip(&calls.workload);
    let own: Vec<f64> =
        both.filter(|(_, of)| **of as usize == workload).map(|(bytes, _)| *bytes).collect();
    (!own.is_empty()).then(|| own.iter().sum::<f64>() / own.len() as f64)
}
