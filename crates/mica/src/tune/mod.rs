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
mod plan;
mod run;
mod steps;
mod verify;

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use comfy_table::{Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use mica_node::identity::Identity;
use mica_node::topology::{Level, Machine};
use mica_policy::collective::CollectiveCosts;
use mica_policy::costs::level_name;
use mica_policy::tuning::{self, CollectiveTuning, Tuning};
use mica_policy::{MessagePath, MessagePaths, PathCost, PathCosts, Situation, Thresholds};

use crate::explain::{prefix, threshold_rows, time};
use fit::{Fit, Point};
use plan::{Pace, Pair, Sample, SampleSeries};
use run::{Installation, RunError};

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

/// An interquartile range above this fraction of the median is noise.
const NOISY: f64 = 0.25;

/// A fit with a larger error than this gets a remark.
const POOR: f64 = 0.3;

/// The result of one series.
struct SeriesOutcome {
    level: Level,
    path: MessagePath,
    result: Result<Measured, String>,
}

struct Measured {
    cost: PathCost,
    /// See [`Fit::error`].
    error: f64,
    /// Number of messages that varied by more than [`NOISY`], and of all messages.
    noisy: (usize, usize),
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
        .unwrap_or_else(|_| (CollectiveCosts::default(), tuning::Source::Shipped));
    let pace = match options.quick {
        true => Pace::Quick,
        false => Pace::Thorough,
    };

    let start = Instant::now();
    let (candidate, measurements) = measure_all(&installation, &pairs, pace, identity, before)?;
    let (tuning, compared) = accept(&installation, pace, &pairs, &candidate)?;
    let mut text = format!(
        "Measured in {:.0} s; before: {source}\n\n",
        start.elapsed().as_secs_f64()
    );
    text += &measurements.report(&tuning, &compared);
    let (noisy, all) = noise(&measurements.outcomes);
    if noisy * 2 > all && !options.dry_run && !options.force {
        let refusal =
            "nothing written: most of what was measured is noise (--force writes it all the same)";
        return Err(format!("{text}\n{refusal}").into());
    }
    if options.dry_run {
        let _ = writeln!(
            text,
            "Nothing written (--dry-run); it would have been {}",
            file.display()
        );
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
    pairs: &[Pair],
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
    let mut tuning = Tuning {
        machine,
        costs: measured.collect(),
        ..Tuning::default()
    };
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
    let measurements = Measurements {
        before,
        outcomes,
        figures,
    };
    Ok((tuning, measurements))
}

/// How long one sample is measured.
fn seconds_per_sample(pace: Pace) -> f64 {
    match pace {
        Pace::Quick => 0.04,
        Pace::Thorough => 0.15,
    }
}

impl Measurements {
    /// The measurements, the comparisons and what was accepted, as text.
    fn report(&self, accepted: &Tuning, compared: &[compare::ComparisonRow]) -> String {
        let Measurements {
            before,
            outcomes,
            figures,
        } = self;
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
    pairs: &[Pair],
    tuning: &Tuning,
) -> Result<(Tuning, Vec<compare::ComparisonRow>), Box<dyn Error>> {
    let folder = ScratchFolder::new()?;
    let effort = compare::Effort::new(pace);
    let jobs = compare::Jobs {
        installation,
        folder: &folder.0,
        seconds: effort.seconds,
    };
    let mut rows = Vec::new();
    let (costs, gain) = compare::messages(&jobs, effort, pairs, tuning, &mut rows);
    let accepted = compare::collectives(&jobs, effort, pairs, tuning, (&costs, gain), &mut rows);
    Ok((accepted, rows))
}

/// A folder that is removed on drop.
struct ScratchFolder(PathBuf);

impl ScratchFolder {
    fn new() -> Result<ScratchFolder, Box<dyn Error>> {
        let name = format!("mica-tune-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        match fs::create_dir(&folder) {
            Ok(()) => Ok(ScratchFolder(folder)),
            Err(error) => Err(format!("{}: {error}", folder.display()).into()),
        }
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // What cannot be removed stays in the temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What the file will contain, as text.
fn accepted_text(accepted: &Tuning) -> String {
    let costs = accepted.costs.iter();
    let mut names: Vec<String> = costs
        .map(|(level, path, _)| format!("{}.{}", level_name(*level), path.name()))
        .collect();
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
    let text = tuning.to_string();
    if Tuning::parse(&text, file)? != *tuning {
        return Err(format!("{}: what was measured cannot be written", file.display()).into());
    }
    let mut new = file.as_os_str().to_owned();
    new.push(format!(".{}", std::process::id()));
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, file))
        .map_err(|error| {
            let _ = fs::remove_file(&new);
            failed(error).into()
        })
}

fn measure(
    installation: &Installation,
    pairs: &[Pair],
    pace: Pace,
    before: &PathCosts,
) -> Vec<SeriesOutcome> {
    let all = plan::series(pace);
    let start = Instant::now();
    // All measurements end within two minutes, for any number of levels and any noise.
    let share = 2.0 / (1 + pairs.len()) as f64;
    let seconds = share * seconds_per_sample(pace);
    let time_limit = Duration::from_secs(match pace {
        Pace::Quick => 15,
        Pace::Thorough => 45,
    });
    let samples: usize = all.iter().map(|series| series.samples.len()).sum();
    let bar = ProgressBar::new((samples * pairs.len()) as u64);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}");
    bar.set_style(style.expect("the template is valid"));
    let mut outcomes = Vec::new();
    let mut costs = before.clone();
    for &pair in pairs {
        for series in &all {
            bar.set_message(format!(
                "{}, {}",
                level_name(pair.level),
                series.path.name()
            ));
            let done = bar.position();
            let tries = |sample: &Sample| {
                let run = || installation.run(pair, series, sample, seconds);
                if start.elapsed() < time_limit {
                    calm(run)
                } else {
                    run()
                }
            };
            let result = probe(installation, pair, series).and_then(|()| {
                measure_one(pair.level, series, &costs, |sample| {
                    let point = tries(sample);
                    bar.inc(1);
                    point
                })
            });
            if let Ok(measured) = &result {
                costs.set(pair.level, series.path, measured.cost);
            }
            // A series that ended early counts as done.
            bar.set_position(done + series.samples.len() as u64);
            outcomes.push(SeriesOutcome {
                level: pair.level,
                path: series.path,
                result,
            });
        }
    }
    bar.finish_and_clear();
    outcomes
}

/// Checks with one message, of a length that the path carries if any, whether the path is
/// available.
fn probe(installation: &Installation, pair: Pair, series: &SampleSeries) -> Result<(), String> {
    let typical = |sample: &&Sample| sample.block == 0 && sample.len <= 1 << 20;
    match series.samples.iter().rfind(typical) {
        Some(sample) => match installation.run(pair, series, sample, 0.005) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        },
        None => Ok(()),
    }
}

fn measure_one(
    level: Level,
    series: &SampleSeries,
    costs: &PathCosts,
    mut run: impl FnMut(&Sample) -> Result<Point, RunError>,
) -> Result<Measured, String> {
    let mut points = Vec::new();
    for sample in &series.samples {
        match run(sample) {
            Ok(point) => points.push((*sample, point)),
            // Too short to be divided, or in pieces: the other messages still give the cost of the
            // path.
            Err(RunError::OtherWay(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    let noisy = points.iter().filter(|(_, p)| p.spread > NOISY).count();
    let before = costs.of(level, series.path);
    let least = least_start(level, series.path, costs);
    let (cost, error) = cost(series.path, &points, before, least)?;
    Ok(Measured {
        cost,
        error,
        noisy: (noisy, points.len()),
    })
}

/// The result of `measure`, or the less noisy of two results if the first is noisy.
fn calm(mut measure: impl FnMut() -> Result<Point, RunError>) -> Result<Point, RunError> {
    let first = measure()?;
    if first.spread <= NOISY {
        return Ok(first);
    }
    let second = measure()?;
    Ok(if second.spread < first.spread {
        second
    } else {
        first
    })
}

/// The least start-up time of a path: that of the path that it begins with.
fn least_start(level: Level, path: MessagePath, costs: &PathCosts) -> f64 {
    let beginning = match path {
        MessagePath::Inline => return 0.0,
        // The header, or the RTS, is sent like a short message.
        MessagePath::Ring
        | MessagePath::Cells
        | MessagePath::Pull
        | MessagePath::Mapped
        | MessagePath::Offload => MessagePath::Inline,
        MessagePath::Streamed => MessagePath::Cells,
        MessagePath::Cooperate => MessagePath::Pull,
        MessagePath::MappedCooperate => MessagePath::Mapped,
    };
    costs.of(level, beginning).start_ns
}

/// The cost that fits the points of a path, with a start of at least `least`, and its greatest
/// deviation from a point.
fn cost(
    path: MessagePath,
    points: &[(Sample, Point)],
    before: &PathCost,
    least: f64,
) -> Result<(PathCost, f64), String> {
    let contiguous: Vec<Point> = points
        .iter()
        .filter(|(sample, _)| sample.block == 0)
        .map(|(_, point)| *point)
        .collect();
    let fit = if path == MessagePath::Inline {
        // The slot is one cache line, full or not: only the start can be measured.
        start_only(&contiguous, before)
    } else {
        fit::fit(&contiguous, least).map_err(|error| error.to_string())?
    };
    let prices: Vec<(u64, f64)> = fit
        .prices
        .iter()
        .map(|&(from, ns)| (from, rounded(ns)))
        .collect();
    let mut cost =
        PathCost::new(rounded(fit.start_ns), &prices).shares(before.sender, before.receiver);
    cost.piece_ns = before.piece_ns;
    if let Some((sample, point)) = points.iter().find(|(sample, _)| sample.block > 0)
        && let Some(whole) = contiguous.iter().find(|whole| whole.len == sample.len)
    {
        let pieces = sample.len / sample.block;
        // A price per piece below the noise counts as 0.
        cost.piece_ns = rounded(((point.ns - whole.ns) / (pieces - 1) as f64).max(0.0));
    }
    match cost.flaw() {
        Some(flaw) => Err(flaw),
        None => Ok((cost, fit.error)),
    }
}

fn start_only(points: &[Point], before: &PathCost) -> Fit {
    let byte_ns = before.spans[0].byte_ns;
    let mut starts: Vec<f64> = points
        .iter()
        .map(|point| (point.ns - byte_ns * point.len as f64).max(0.0))
        .collect();
    starts.sort_by(f64::total_cmp);
    let start_ns = starts
        .get(starts.len() / 2)
        .copied()
        .unwrap_or(before.start_ns);
    let off = |point: &Point| ((start_ns + byte_ns * point.len as f64) / point.ns - 1.0).abs();
    Fit {
        start_ns,
        prices: vec![(0, byte_ns)],
        error: points.iter().map(off).fold(0.0, f64::max),
    }
}

/// Rounds to four digits: the measurements are not more precise.
fn rounded(ns: f64) -> f64 {
    format!("{ns:.3e}").parse().unwrap_or(ns)
}

fn table(outcomes: &[SeriesOutcome], before: &PathCosts) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header([
        " level", "path", "start", "(before)", "ns/byte", "(before)", "ns/piece", "(before)",
        "off by",
    ]);
    for SeriesOutcome {
        level,
        path,
        result,
    } in outcomes
    {
        let old = before.of(*level, *path);
        let name = format!(" {}", level_name(*level));
        match result {
            Ok(Measured { cost, error, .. }) => table.add_row([
                name,
                path.name().to_owned(),
                time(cost.start_ns),
                time(old.start_ns),
                prices(cost),
                prices(old),
                format!("{}", cost.piece_ns),
                format!("{}", old.piece_ns),
                format!("{:.0} %", 100.0 * error),
            ]),
            Err(why) => table.add_row([
                name,
                path.name().to_owned(),
                "as before".to_owned(),
                time(old.start_ns),
                "as before".to_owned(),
                prices(old),
                String::new(),
                format!("{}", old.piece_ns),
                why.lines().next().unwrap_or_default().to_owned(),
            ]),
        };
    }
    table.trim_fmt()
}

/// `0.0225, 0.043 from 4 MiB`.
fn prices(cost: &PathCost) -> String {
    let price = |span: &mica_policy::CostSpan| match span.from {
        0 => format!("{}", span.byte_ns),
        from => {
            let from = mica_node::topology::readable_bytes(from);
            format!("{} from {from}", span.byte_ns)
        }
    };
    cost.used_spans().map(price).collect::<Vec<_>>().join(", ")
}

/// The thresholds of each measured level, with the paths that were available.
fn thresholds(outcomes: &[SeriesOutcome], before: &PathCosts, after: &PathCosts) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header([" level", "threshold", "bytes", "(before)"]);
    for same_level in outcomes.chunk_by(|a, b| a.level == b.level) {
        let level = same_level[0].level;
        let there = same_level.iter().filter(|outcome| outcome.result.is_ok());
        let available: MessagePaths = there.map(|outcome| outcome.path).collect();
        let situation = Situation::waiting(level, available.union(MessagePaths::SHARED_MEMORY));
        let new = threshold_rows(&Thresholds::derive(after, &situation));
        let old = threshold_rows(&Thresholds::derive(before, &situation));
        for ((name, new), (_, old)) in new.into_iter().zip(old) {
            table.add_row([format!(" {}", level_name(level)), name.to_owned(), new, old]);
        }
    }
    table.trim_fmt()
}

/// Number of messages that varied by more than [`NOISY`], and of all messages.
fn noise(outcomes: &[SeriesOutcome]) -> (usize, usize) {
    let measured = outcomes.iter().filter_map(|o| o.result.as_ref().ok());
    measured.fold((0, 0), |(noisy, all), measured| {
        (noisy + measured.noisy.0, all + measured.noisy.1)
    })
}

fn warnings(outcomes: &[SeriesOutcome]) -> Vec<String> {
    let mut warnings = Vec::new();
    let measured = || {
        outcomes
            .iter()
            .filter_map(|o| Some((o, o.result.as_ref().ok()?)))
    };
    let (noisy, all) = noise(outcomes);
    if noisy * 10 > all {
        warnings.push(format!(
            "{noisy} of {all} measurements varied by more than {:.0} %: is something else \
             running? Measure again when the machine is quiet.",
            100.0 * NOISY
        ));
    }
    for (SeriesOutcome { level, path, .. }, Measured { error, .. }) in measured() {
        if *error > POOR {
            warnings.push(format!(
                "{}, {}: the fit is off by {:.0} % at one size.",
                level_name(*level),
                path.name(),
                100.0 * error
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests;
