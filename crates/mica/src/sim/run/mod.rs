//! `mica sim run -n N --machine M -- PROGRAM`: runs a program on N simulated nodes.
//!
//! - `program`: whether the file is one that can be simulated.
//! - `node_process`: a node's process and the simulator's end of its port.
//! - `cluster`: all nodes, quantum by quantum; `cluster_error`: why they end early.
//! - `host_ranks`: the other processes of this simulator, which is an MPI job of its own.
//! - `options`: the command line.
//! - `progress`: the line on a terminal.
//! - `summary`: what came out, as text and JSON; `figures`: rates and shares of it.

mod cluster;
mod cluster_error;
mod figures;
pub mod host_ranks;
mod node_process;
mod options;
mod program;
mod progress;
mod summary;

use std::error::Error;
use std::fs;
use std::io::Write;
use std::process::ExitCode;

use mica_sim::adapter::policy::Policy;
use mica_sim::machine::SimulatedMachine;
use mica_sim::network::Network;
use mica_sim::port::{DetailedRegion, NodeSetup};
use mica_sim::time::SimTime;

use cluster::{HostCluster, Quanta};
use cluster_error::{ClusterError, RegionNeverEntered};
use host_ranks::HostRanks;
use node_process::NodeCommand;
use progress::RunProgress;
use summary::RunSummary;

pub use options::SimRunOptions;

use crate::origin::ResultOrigin;

/// Runs the command. Its status is the highest of the nodes' programs; when the simulation fails,
/// that of the program whose end is the reason, else 1.
pub fn main(options: &SimRunOptions) -> ExitCode {
    match run(options) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("mica sim: {error}");
            ExitCode::from(ClusterError::exit_code_of(&*error))
        }
    }
}

fn run(options: &SimRunOptions) -> Result<u8, Box<dyn Error>> {
    let (summary, is_first) =
        HostRanks::with(|hosts| Ok((simulate(options, hosts)?, hosts.rank() == 0)))?;
    let code = summary.exit_code();
    if is_first {
        if let Some(file) = &options.json {
            let text = ResultOrigin::simulated(&summary.machine).json(&summary)?;
            fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        if !options.quiet {
            std::io::stderr().write_all(summary.text().as_bytes())?;
        }
    }
    Ok(code)
}

/// Runs the simulation. Every host rank gets the whole summary.
pub fn simulate(
    options: &SimRunOptions,
    hosts: &mut HostRanks,
) -> Result<RunSummary, Box<dyn Error>> {
    let machine = SimulatedMachine::with(&options.machine, &options.set)?;
    // Before a node starts, so that the emulator adds no line of its own.
    Policy::named(&options.policy, &machine)?;
    let mut command = NodeCommand::new(&options.program)?;
    if let Some(file) = &options.stdout {
        command =
            command.with_output(file).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let network = Network::new(&machine.network, options.n)?;
    let quantum = match options.quantum {
        Some(ns) if ns > 0.0 => SimTime::from_ns(ns),
        Some(ns) => return Err(format!("--quantum {ns}: must be above 0").into()),
        // Nothing comes from other nodes.
        None if options.n == 1 => SimTime::from_ns(1e6),
        None => network.min_latency(),
    };
    let setup = NodeSetup {
        machine: toml::to_string(&machine)?,
        policy: options.policy.clone(),
        loose: options.loose,
        region: options.region.clone().unwrap_or(DetailedRegion::Everything),
        rank: 0,
        size: options.n,
        seed: options.seed,
    };
    let started = std::time::Instant::now();
    let mut cluster = HostCluster::start(&command, &setup, hosts)?;
    let progress = RunProgress::new(!options.quiet && hosts.rank() == 0);
    let quanta = Quanta { least: quantum, most: SimTime(quantum.0.saturating_mul(options.growth)) };
    cluster.run(network, quanta, hosts, &progress)?;
    progress.finish();
    let ends = cluster.ends(hosts)?;
    let summary = RunSummary::new(options, &machine, quantum, started.elapsed(), ends);
    match &options.region {
        Some(region) if summary.region_ns == 0.0 => {
            let code = summary.exit_code();
            Err(RegionNeverEntered { region: region.clone(), code }.into())
        }
        _ => Ok(summary),
    }
}
