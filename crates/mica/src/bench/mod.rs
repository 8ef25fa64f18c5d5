//! `mica bench`: Mica beside MPICH, Open MPI and Intel MPI on this machine, in one run.
//!
//! One portable C program is compiled with each library's own mpicc, and rounds are interleaved
//! (see [`rounds`]). A figure is the median of the rounds. The hardware's limits without MPI are
//! measured in every round too. `bench/suite.toml` declares the programs and the bars;
//! docs/bench.md is the guide.

mod bars;
mod build;
mod cache;
mod contestant;
mod data;
mod execute;
mod figure;
#[cfg(test)]
mod golden;
mod guidelines;
mod gzip;
mod host;
mod hosts;
mod html;
mod others;
mod place;
mod plot;
mod position;
mod progress;
mod report;
mod results;
mod rounds;
mod run;
mod session;
mod stats;
mod suite;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use self::execute::Executor;
use self::place::Places;
use self::suite::{ALL, BARS, MICA, Suite, Variant};
use crate::terminal::status;

/// The options of `mica bench`.
#[derive(Args, Clone)]
pub struct BenchOptions {
    /// Sets and programs to run (--list shows them); the set 'bars' unless given.
    #[arg(value_name = "SET|PROGRAM")]
    what: Vec<String>,
    /// Run what the table of bars needs: the set 'bars'.
    #[arg(long)]
    bars: bool,
    /// The libraries, each NAME (peers are installed from PyPI) or NAME=PREFIX; mica+LABEL=PREFIX
    /// is a further installation of Mica.
    #[arg(long, value_delimiter = ',', default_value = "mica,mpich,openmpi,impi")]
    with: Vec<String>,
    /// How often everything is run; a figure is the median.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Mica with other settings as a contestant of its own (may be repeated).
    #[arg(long, value_name = "NAME:MICA_X=1,MICA_Y=2", value_parser = suite::parse_variant)]
    variant: Vec<Variant>,
    /// Where results go; bench/results/DATE-SET in a source tree, mica-bench/DATE-SET elsewhere.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The folder with suite.toml and src.
    #[arg(long, value_name = "DIR")]
    suite: Option<PathBuf>,
    /// Where the peers are or will be installed.
    #[arg(long, value_name = "DIR")]
    peers_dir: Option<PathBuf>,
    /// List sets and programs, and stop.
    #[arg(long)]
    list: bool,
    /// One round and few sizes: shows that everything works, not how fast it is.
    #[arg(long)]
    quick: bool,
    /// Count cache misses per message instead of time (perf, or else cachegrind).
    #[arg(long)]
    cache_misses: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Write no plots.
    #[arg(long)]
    no_plots: bool,
}

/// Runs the command. The exit code is 1 if a run failed or was left out; a bar that is missed is a
/// result, not an error.
pub fn main(options: BenchOptions) -> ExitCode {
    status("mica bench", run(options), ExitCode::from(2))
}

fn run(mut options: BenchOptions) -> Result<ExitCode, String> {
    let places = Places::find(options.suite.as_deref(), options.peers_dir.as_deref())?;
    let suite = Suite::read(&places.suite)?;
    if options.list {
        print!("{}", list(&suite));
        return Ok(ExitCode::SUCCESS);
    }
    if options.bars || (options.what.is_empty() && !options.cache_misses) {
        options.what.push(BARS.to_owned());
    }
    let executor = Executor::new(&places.work);
    let executor = executor.map_err(|error| format!("{}: {error}", places.work.display()))?;
    session::run(&options, &places, &suite, executor)
}

/// Lists the sets, then the programs.
fn list(suite: &Suite) -> String {
    let mut text = "Sets\n".to_owned();
    let bars = "what the table of bars needs (the default)";
    let own = suite.sets.iter().map(|set| (set.name.as_str(), set.title.as_str()));
    for (name, title) in own.chain([(BARS, bars), (ALL, "every program")]) {
        text += &format!("  {name:<16} {title}\n");
    }
    text += "\nPrograms\n";
    for program in &suite.programs {
        let list = |counts: &[u32], by: &str| {
            let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
            counts.join(by)
        };
        let ranks = match (program.floor, program.on_hosts()) {
            (true, _) => "the hardware's floor, in every round".to_owned(),
            (_, true) => format!("{} ranks on two hosts", list(&program.nodes, " + ")),
            (_, false) => format!("{} ranks", list(&program.ranks, ", ")),
        };
        let arguments = program.args.join(" ");
        text += &format!("  {:<24} {ranks}  {} {arguments}\n", program.name, program.source());
    }
    text += &format!("\nVariants of {MICA}\n");
    for variant in &suite.variants {
        let env: Vec<String> = variant.env.iter().map(|(k, v)| format!("{k}={v}")).collect();
        text += &format!("  {:<16} {}\n", variant.name, env.join(" "));
    }
    text
}

#[cfg(test)]
mod tests;
