//! `mica tune`: measures the cost of each path between the cores of this machine, and writes its
//! tuning file.
//!
//! For each level that the machine has, and each path, a ping-pong of several sizes runs with that
//! path forced (`plan`, `run`). Start and prices are fitted to the medians (`fit`). A path that the
//! messages did not take, or whose times make no sense, keeps its figures, and the reason is
//! printed. How the two cores share the copying is not measured: it follows from what the path
//! does. Then the steps of collectives are measured, each by the algorithms that consist of it
//! ([`steps`]).
//!
//! What was fitted is a candidate. Where it chooses differently from the shipped figures, both
//! choices are measured ([`compare`]), and only figures with which something gains and nothing
//! loses are written ([`verify`]).

mod compare;
mod fit;
mod measure;
mod plan;
mod report;
mod run;
mod steps;
mod verify;

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use mica_node::identity::Identity;
use mica_node::topology::Machine;
use mica_policy::PathCosts;
use mica_policy::collective::CollectiveCosts;
use mica_policy::costs::level_name;
use mica_policy::tuning::{self, CollectiveTuning, Tuning};

use crate::explain::prefix;
use crate::origin::ResultOrigin;
use crate::scratch::ScratchFolder;
use measure::{SeriesOutcome, measure, seconds_per_sample};
use plan::{CorePair, Pace};
use report::{noise, table, thresholds, warnings};
use run::Installation;

/// The options of `mica tune`.
#[derive(Args)]
pub struct TuneOptions {
    /// Measure and show, but write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Write this file rather than this machine's in the user's configuration folder.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Measure fewer and shorter messages (seconds rather than a minute or so).
    #[arg(long)]
    quick: bool,
    /// Write the file even if most measurements are noise.
    #[arg(long)]
    force: bool,
    /// Use the installation below this folder rather than this command's.
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
}

/// Tunes this machine. Returns the report.
pub fn tune(options: &TuneOptions) -> Result<String, Box<dyn Error>> {
    let machine = Machine::load()?;
    if machine.is_synthetic() {
        return Err(
            "MICA_TOPOLOGY_SYNTHETIC is set: only the machine that is there can be measured".into(),
        );
    }
    let pairs = plan::pairs(&machine);
    if pairs.is_empty() {
        return Err("measuring takes two cores, and this process may use one only".into());
    }
    let prefix = options.prefix.clone().or_else(prefix);
    let installation = Installation::below(prefix.as_deref().unwrap_or(Path::new("/")))?;
    let identity = Identity::read();
    let file = match &options.output {
        Some(file) => file.clone(),
        None => default_file(&identity)?,
    };
    // If the file in force cannot be used, it is about to be replaced; the library would have used
    // the shipped figures.
    let (before, source) = tuning::collective_in_force(prefix.as_deref())
        .unwrap_or_else(|_| (CollectiveCosts::default(), tuning::TuningSource::Shipped));
    let pace = if options.quick { Pace::Quick } else { Pace::Thorough };

    let start = Instant::now();
    let (candidate, measurements) = measure_all(&installation, &pairs, pace, identity, before)?;
    let (tuning, compared) = accept(&installation, pace, &pairs, &candidate)?;
    let mut text =
        format!("Measured in {:.0} s; before: {source}\n\n", start.elapsed().as_secs_f64());
    text += &measurements.report(&tuning, &compared);
    let (noisy, all) = noise(&measurements.outcomes);
    if noisy * 2 > all && !options.dry_run && !options.force {
        let refusal =
            "nothing written: most of what was measured is noise (--force writes it all the same)";
        return Err(format!("{text}\n{refusal}").into());
    }
    if options.dry_run {
        let _ =
            writeln!(text, "Nothing written (--dry-run); it would have been {}", file.display());
    } else {
        write(&file, &tuning)?;
        let _ = writeln!(text, "Written to {}", file.display());
    }
    Ok(text)
}

/// What was measured, before any of it is accepted.
struct Measurements {
    /// The costs in force before.
    before: PathCosts,
    outcomes: Vec<SeriesOutcome>,
    figures: Vec<steps::StepOutcome>,
}

/// Measures all paths and all steps of collectives. Returns the candidate for the tuning file, and
/// what it comes from.
fn measure_all(
    installation: &Installation,
    pairs: &[CorePair],
    pace: Pace,
    machine: Identity,
    steps_before: CollectiveCosts,
) -> Result<(Tuning, Measurements), Box<dyn Error>> {
    let before = steps_before.messages.clone();
    let outcomes = measure(installation, pairs, pace, &before);
    let measured = outcomes.iter().filter_map(|outcome| {
        let measured = outcome.result.as_ref().ok()?;
        Some((outcome.level, outcome.path, measured.cost))
    });
    let mut tuning = Tuning { machine, costs: measured.collect(), ..Tuning::default() };
    let (collective, figures) = steps::measure(
        pairs,
        pace,
        &steps_before,
        &tuning.applied(),
        &steps::runner(installation, seconds_per_sample(pace)),
    );
    tuning.collective = collective;
    if tuning.costs.is_empty() {
        return Err(format!("nothing could be measured:\n{}", table(&outcomes, &before)).into());
    }
    let measurements = Measurements { before, outcomes, figures };
    Ok((tuning, measurements))
}

impl Measurements {
    /// The measurements, the comparisons and what was accepted, as text.
    fn report(&self, accepted: &Tuning, compared: &[compare::ComparisonRow]) -> String {
        let Measurements { before, outcomes, figures } = self;
        let mut text = String::new();
        let _ = writeln!(text, "{}\n", table(outcomes, before));
        let _ = writeln!(text, "{}\n", steps::table(figures));
        let _ = writeln!(text, "By these figures, beside the shipped ones:\n");
        let _ = writeln!(text, "{}\n", compare::table(compared));
        let _ = writeln!(text, "{}\n", accepted_text(accepted));
        let thresholds = thresholds(outcomes, before, &accepted.applied());
        let _ = writeln!(text, "{thresholds}\n");
        for warning in warnings(outcomes) {
            let _ = writeln!(text, "Warning: {warning}");
        }
        text
    }
}

/// The figures of `tuning` that were shown to choose better, and the comparisons.
fn accept(
    installation: &Installation,
    pace: Pace,
    pairs: &[CorePair],
    tuning: &Tuning,
) -> Result<(Tuning, Vec<compare::ComparisonRow>), Box<dyn Error>> {
    let folder = ScratchFolder::new("tune")?;
    let effort = compare::MeasuringEffort::new(pace);
    let jobs = compare::Jobs { installation, folder: folder.path(), seconds: effort.seconds };
    let mut rows = Vec::new();
    let (costs, gain) = compare::messages(&jobs, effort, pairs, tuning, &mut rows);
    let accepted = compare::collectives(&jobs, effort, pairs, tuning, (&costs, gain), &mut rows);
    Ok((accepted, rows))
}

/// What the file will contain, as text.
fn accepted_text(accepted: &Tuning) -> String {
    let costs = accepted.costs.iter();
    let mut names: Vec<String> =
        costs.map(|(level, path, _)| format!("{}.{}", level_name(*level), path.name())).collect();
    if accepted.collective != CollectiveTuning::default() {
        names.push("steps of collectives".to_owned());
    }
    match names.is_empty() {
        true => "Accepted: nothing, the shipped figures choose as well or better.".to_owned(),
        false => format!("Accepted: {}; all else is as shipped.", names.join(", ")),
    }
}

fn default_file(identity: &Identity) -> Result<PathBuf, Box<dyn Error>> {
    let folders = tuning::folders(&|name| std::env::var_os(name), None);
    let folder = folders
        .into_iter()
        .next()
        .ok_or("neither XDG_CONFIG_HOME nor HOME is set: say where to write with --output FILE")?;
    Ok(folder.join(tuning::machine_key(identity) + ".toml"))
}

/// Writes the file under a new name and renames it, so that a job that starts meanwhile reads the
/// old one or the new one. Parses the text before that: a file that the library would refuse is not
/// installed.
fn write(file: &Path, tuning: &Tuning) -> Result<(), Box<dyn Error>> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let origin = ResultOrigin::of_this_command("each path of a node, one at a time");
    let text = format!("# {}\n{tuning}", origin.line());
    if Tuning::parse(&text, file)? != *tuning {
        return Err(format!("{}: what was measured cannot be written", file.display()).into());
    }
    let mut new = file.as_os_str().to_owned();
    new.push(format!(".{}", std::process::id()));
    fs::write(&new, text).and_then(|()| fs::rename(&new, file)).map_err(|error| {
        let _ = fs::remove_file(&new);
        failed(error).into()
    })
}

#[cfg(test)]
mod tests;
