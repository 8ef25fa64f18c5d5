//! `--check`: predicted and measured times of one program side by side.
//!
//! The program runs under `mica profile` at each number of ranks, with room for its whole time
//! line. The first run is the one that all are predicted from; that it is predicted too shows what
//! the model makes of calls that were measured, without any extrapolation.
//!
//! All ranks run on this node. Where there are more of them than cores they share these: what ranks
//! compute lasts longer by the number of ranks of a core, relative to the first run.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use mica_profile::Profile;
use mica_sim::replay::Recorded;

use super::{Compared, Predictor, ReplayOptions, text};
use crate::compiled::output_of;
use crate::profile::with_ranks;
use crate::scratch::ScratchFolder;

/// Calls of a rank that its time line keeps.
const SPANS: &str = "2000000";

/// Runs, predicts and returns what to print.
pub fn check(options: &ReplayOptions) -> Result<String, Box<dyn Error>> {
    let (mut cluster, notes) = options.cluster.cluster()?;
    // All ranks are on this node.
    cluster.ranks_per_node = u32::MAX;
    cluster.network = cluster.node;
    let folder = ScratchFolder::new("replay")?;
    let mut runs = Vec::new();
    for &ranks in &options.check {
        runs.push(record(&with_ranks(&options.command, ranks as usize)?, folder.path())?);
    }
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let sharing = |ranks: u32| f64::from(ranks.div_ceil(cores));
    let first = &runs[0];
    let mut rows = Vec::new();
    for (run, &ranks) in runs.iter().zip(&options.check) {
        let factor = sharing(ranks) / sharing(options.check[0]);
        let predicted = Predictor::new(options, first, factor)?.predict(ranks, &cluster)?;
        rows.push(Compared {
            ranks,
            measured: run.measured_ns * 1e-9,
            predicted: predicted.seconds,
            computing_measured: run.computing_ns * 1e-9,
            computing_predicted: predicted.computing_seconds,
        });
    }
    Ok(match options.json {
        true => options.cluster.origin().json(&serde_json::json!({ "runs": rows }))?,
        false => text::compared(&rows, &notes, cores),
    })
}

/// Runs the command under the profiler.
fn record(command: &[String], folder: &Path) -> Result<Recorded, Box<dyn Error>> {
    let mut profiler = Command::new(std::env::current_exe()?);
    profiler.args(["profile", "--spans", SPANS, "-o"]).arg(folder);
    profiler.arg("--").args(command);
    output_of(profiler)?;
    let recorded = Recorded::of(&Profile::read(folder)?);
    recorded.map_err(|error| format!("{}: {error}", command.join(" ")).into())
}
