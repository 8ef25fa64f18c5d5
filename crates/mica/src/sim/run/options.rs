//! The options of `mica sim run`.

use std::path::PathBuf;

use clap::Args;
use mica_sim::port::DetailedRegion;

/// The options of `mica sim run`.
#[derive(Args, Debug, Clone)]
pub struct SimRunOptions {
    /// Number of nodes; each runs one rank.
    #[arg(short, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub n: u32,
    /// The machine: a name that `mica sim machines` lists, or a TOML file.
    #[arg(long, value_name = "MACHINE", default_value = "power5-redstorm")]
    pub machine: String,
    /// Another value for a key of the machine's description, for example memory.slow_down=2.5.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// What the adapter injects into the caches.
    #[arg(long, value_name = "POLICY", default_value = "base")]
    pub policy: String,
    /// Simulate no caches: an access costs what a hit in the first cache does.
    #[arg(long)]
    pub loose: bool,
    /// Simulate in detail only between MPI_Pcontrol(1) and MPI_Pcontrol(0) (pcontrol), between the
    /// entries of two functions (BEGIN:END), or during calls of one (NAME:FIRST-LAST).
    #[arg(long, value_name = "REGION", value_parser = region)]
    pub region: Option<DetailedRegion>,
    /// Nanoseconds between two meetings of the nodes' clocks; the default is the network's shortest
    /// latency, with which no message is late.
    #[arg(long, value_name = "NS")]
    pub quantum: Option<f64>,
    /// Let quanta double up to FACTOR times the first while no packet is sent. Faster where
    /// programs compute for long; the first packet after such a time may arrive late by up to a
    /// quantum.
    #[arg(long, value_name = "FACTOR", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub growth: u64,
    /// Seed of the random bytes that programs ask the system for.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Write the results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write what the program prints to this file.
    #[arg(long, value_name = "FILE")]
    pub stdout: Option<PathBuf>,
    /// Print nothing but what the program prints.
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub program: Vec<String>,
}

/// Parses `--region`.
fn region(text: &str) -> Result<DetailedRegion, String> {
    if text == "pcontrol" {
        return Ok(DetailedRegion::Pcontrol);
    }
    let (left, right) = text
        .split_once(':')
        .filter(|(left, right)| !left.is_empty() && !right.is_empty())
        .ok_or("expected pcontrol, BEGIN:END or NAME:FIRST-LAST")?;
    let calls = right
        .split_once('-')
        .and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    Ok(match calls {
        Some((first, last)) => DetailedRegion::Calls { function: left.to_owned(), first, last },
        None => DetailedRegion::Functions { begin: left.to_owned(), end: right.to_owned() },
    })
}
