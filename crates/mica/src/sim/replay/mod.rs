//! `mica sim replay PROFILE`: what a recorded program would take on other numbers of ranks, or on
//! another network. `mica_sim::replay` has the model, docs/sim-replay.md its assumptions.
//!
//! `--check 4,2,8 -- mpiexec -n 4 PROGRAM` runs the program under `mica profile` at each number of
//! ranks, predicts all of them from the first, and prints predicted and measured times side by
//! side.
//!
//! - [`source`]: the profile, and the parameters of the cluster;
//! - [`check`]: the comparison with runs;
//! - `text`: tables.

mod check;
mod source;
mod text;

pub use text::sensitive;

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use mica_profile::Profile;
use mica_sim::loggp::{Parameter, sensitivity};
use mica_sim::replay::{
    AsRecorded, ExchangePattern, Extrapolated, Grid, Recorded, ReplayCluster, Scaling, Workload,
    balanced, pattern, replay as carry_out,
};
use serde::Serialize;

/// The options of `mica sim replay`.
#[derive(Args)]
pub struct ReplayOptions {
    /// profile.json of a small run, or the directory that `mica profile` wrote.
    #[arg(default_value = "mica-profile", conflicts_with = "check")]
    profile: PathBuf,
    /// Numbers of ranks to predict.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_value = "1000,10000,100000",
        value_parser = clap::value_parser!(u32).range(1..=16_000_000))]
    ranks: Vec<u32>,
    /// What stays the same with more ranks: the work of each rank, or of all of them.
    #[arg(long, value_enum, default_value_t = ScalingArgument::Weak)]
    scaling: ScalingArgument,
    /// The grid of the recorded ranks, such as 2x2, where it is not to be found from the messages.
    #[arg(long, value_name = "NxN", value_parser = parse_grid)]
    grid: Option<Dimensions>,
    /// Every dimension of the grid is a ring.
    #[arg(long)]
    periodic: bool,
    #[command(flatten)]
    cluster: source::ClusterOptions,
    /// Print also the sensitivity to each LogGP parameter, at the first number of ranks.
    #[arg(long)]
    sensitivity: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Run the command after -- at these numbers of ranks, predict all from the first, and print
    /// both times.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', requires = "command",
        value_parser = clap::value_parser!(u32).range(2..))]
    check: Vec<u32>,
    /// The command of --check, such as mpiexec -n 4 ./program.
    #[arg(last = true, value_name = "COMMAND", requires = "check")]
    command: Vec<String>,
}

/// Ranks in each dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Dimensions(Vec<u32>);

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ScalingArgument {
    Weak,
    Strong,
}

fn parse_grid(text: &str) -> Result<Dimensions, String> {
    let sizes = text.split('x').map(|size| size.parse::<u32>().ok());
    let sizes: Option<Vec<u32>> = sizes.map(|size| size.filter(|size| *size > 0)).collect();
    match sizes {
        Some(sizes) if (1..=3).contains(&sizes.len()) => Ok(Dimensions(sizes)),
        _ => Err("expected 1 to 3 numbers of ranks with x between, such as 4x2".into()),
    }
}

/// A prediction with what it is of.
#[derive(Debug, Serialize)]
struct Predicted {
    ranks: u32,
    grid: Vec<u32>,
    seconds: f64,
    computing_seconds: f64,
    messages: u64,
    bytes: u64,
    whole_collectives: u64,
    replay_seconds: f64,
}

/// Predicted and measured.
#[derive(Debug, Serialize)]
struct Compared {
    /// Number of ranks.
    ranks: u32,
    /// Seconds of the slowest rank.
    measured: f64,
    /// The same, predicted.
    predicted: f64,
    /// What is computed, the mean of the ranks, in seconds: measured.
    computing_measured: f64,
    /// The same, predicted.
    computing_predicted: f64,
}

/// All that the command found.
#[derive(Serialize)]
struct ReplayFindings {
    recorded_ranks: u32,
    recorded_grid: Vec<u32>,
    measured_seconds: f64,
    scaling: &'static str,
    notes: Vec<String>,
    predictions: Vec<Predicted>,
    sensitivity: Option<mica_sim::loggp::Sensitivity>,
}

/// Predicts, and returns what to print.
pub fn replay(options: &ReplayOptions) -> Result<String, Box<dyn Error>> {
    if !options.check.is_empty() {
        return check::check(options);
    }
    let (cluster, mut notes) = options.cluster.cluster()?;
    let recorded = Recorded::of(&Profile::read(&options.profile)?)?;
    let ranks = recorded.ranks.len() as u32;
    let mut predictor = Predictor::new(options, &recorded, 1.0)?;
    notes.append(&mut predictor.notes);
    let mut counts = options.ranks.clone();
    counts.insert(0, ranks);
    counts.dedup();
    let predictions = counts.iter().map(|count| predictor.predict(*count, &cluster));
    let predictions = predictions.collect::<Result<Vec<Predicted>, _>>()?;
    let sensitivity = || raised(&predictor, options.ranks[0], &cluster);
    let sensitivity = options.sensitivity.then(sensitivity);
    let outcome = ReplayFindings {
        recorded_ranks: ranks,
        recorded_grid: predictor.grid(),
        measured_seconds: recorded.measured_ns * 1e-9,
        scaling: match options.scaling {
            ScalingArgument::Weak => "weak",
            ScalingArgument::Strong => "strong",
        },
        notes,
        predictions,
        sensitivity: sensitivity.transpose()?,
    };
    Ok(match options.json {
        true => options.cluster.origin().json(&outcome)?,
        false => text::render(&outcome, &cluster),
    })
}

/// The times with one parameter of the network raised.
fn raised(
    predictor: &Predictor,
    ranks: u32,
    cluster: &ReplayCluster,
) -> Result<mica_sim::loggp::Sensitivity, Box<dyn Error>> {
    sensitivity(&Parameter::ALL, &[2.0, 4.0, 8.0], |raised| {
        let mut cluster = cluster.clone();
        if let Some((parameter, factor)) = raised {
            let value = cluster.network.get(parameter) * factor;
            cluster.network = cluster.network.with(parameter, value);
        }
        Ok(predictor.predict(ranks, &cluster)?.seconds)
    })
}

/// A recorded run that can be replayed on several numbers of ranks.
struct Predictor<'a> {
    recorded: &'a Recorded,
    /// Where ranks do not do alike, only the recorded number of ranks can be replayed.
    pattern: Result<ExchangePattern, String>,
    scaling: Scaling,
    periodic: bool,
    /// Times of computing are multiplied by it, besides what scaling does.
    compute_factor: f64,
    notes: Vec<String>,
}

impl<'a> Predictor<'a> {
    fn new(
        options: &ReplayOptions,
        recorded: &'a Recorded,
        compute_factor: f64,
    ) -> Result<Predictor<'a>, Box<dyn Error>> {
        let ranks = recorded.ranks.len() as u64;
        let given = options.grid.as_ref().map(|Dimensions(sizes)| Grid {
            dimensions: sizes.clone(),
            periodic: vec![options.periodic; sizes.len()],
        });
        if let Some(grid) = given.as_ref().filter(|grid| grid.ranks() != ranks) {
            let sizes = text::grid(&grid.dimensions);
            return Err(format!("--grid {sizes}: the profile has {ranks} ranks").into());
        }
        let found = pattern(recorded, given.as_ref()).map_err(|error| error.to_string());
        let notes = found.as_ref().map(|found| found.notes.clone());
        Ok(Predictor {
            recorded,
            notes: notes.unwrap_or_default(),
            pattern: found,
            scaling: match options.scaling {
                ScalingArgument::Weak => Scaling::Weak,
                ScalingArgument::Strong => Scaling::Strong,
            },
            periodic: options.periodic,
            compute_factor,
        })
    }

    /// The grid of the recorded run, if it has one.
    fn grid(&self) -> Vec<u32> {
        let pattern = self.pattern.as_ref();
        pattern.map_or_else(|_| Vec::new(), |pattern| pattern.grid.dimensions.clone())
    }

    /// The time on this many ranks. The recorded number is replayed as it was recorded.
    fn predict(&self, ranks: u32, cluster: &ReplayCluster) -> Result<Predicted, Box<dyn Error>> {
        let recorded = self.recorded.ranks.len() as u32;
        match &self.pattern {
            _ if ranks == recorded && self.compute_factor == 1.0 => {
                let run = AsRecorded(self.recorded);
                timed(&run, &self.grid(), cluster)
            }
            Err(why) => Err(why.clone().into()),
            Ok(pattern) => {
                let grid = larger(&pattern.grid, ranks, self.periodic);
                let sizes = grid.dimensions.clone();
                let run = Extrapolated::new(pattern, grid, self.scaling)?;
                timed(&run.with_compute_factor(self.compute_factor), &sizes, cluster)
            }
        }
    }
}

/// The grid of another number of ranks: as even as it can be. Dimensions of one rank stay so.
// flag: the command's own flag, passed on.
fn larger(recorded: &Grid, ranks: u32, periodic: bool) -> Grid {
    if recorded.ranks() == u64::from(ranks) {
        return recorded.clone();
    }
    let wide = recorded.dimensions.iter().filter(|size| **size > 1).count();
    let mut even = balanced(ranks, wide.max(1)).into_iter();
    let sizes = recorded.dimensions.iter().enumerate().map(|(at, size)| {
        let is_wide = *size > 1 || (wide == 0 && at == 0);
        if is_wide { even.next().unwrap_or(1) } else { 1 }
    });
    Grid {
        dimensions: sizes.collect(),
        periodic: recorded.periodic.iter().map(|ring| *ring || periodic).collect(),
    }
}

/// Carries out a workload, with a progress bar on a terminal.
fn timed(
    workload: &dyn Workload,
    grid: &[u32],
    cluster: &ReplayCluster,
) -> Result<Predicted, Box<dyn Error>> {
    let steps = u64::from(workload.ranks()) * u64::from(workload.steps());
    let bar = ProgressBar::new(steps);
    let template = "{bar:40} {percent} % of the steps of {msg} ranks, {eta} left";
    bar.set_style(ProgressStyle::with_template(template)?);
    bar.set_message(workload.ranks().to_string());
    let started = Instant::now();
    let prediction = carry_out(workload, cluster, &mut |steps| bar.inc(steps));
    bar.finish_and_clear();
    let prediction = prediction?;
    Ok(Predicted {
        ranks: prediction.ranks,
        grid: grid.to_vec(),
        seconds: prediction.time.seconds(),
        computing_seconds: prediction.computing.seconds(),
        messages: prediction.messages,
        bytes: prediction.bytes,
        whole_collectives: prediction.whole_collectives,
        replay_seconds: started.elapsed().as_secs_f64(),
    })
}

#[cfg(test)]
mod tests;
