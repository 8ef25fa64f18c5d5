//! `mica sim`: MPI programs on a cluster that does not exist (docs/sim.md, leon-2009).
//!
//! - [`run`]: an unmodified program on simulated nodes.
//! - [`sensitivity`]: its time with each parameter of the network raised.
//! - [`replay`]: a program on many ranks, predicted from the recorded calls of a small run.

mod replay;
mod run;
mod sensitivity;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use mica_sim::machine::SimulatedMachine;

use crate::terminal::print_text;

/// The options of `mica sim`.
#[derive(Args)]
pub struct SimOptions {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Subcommand)]
enum SimCommand {
    /// Run a program on N simulated nodes, one rank each. Under mpiexec, host ranks share the
    /// nodes.
    Run(run::SimRunOptions),
    /// Run a program with each parameter of the network raised, and say how much longer it takes.
    Sensitivity(sensitivity::SensitivityOptions),
    /// Predict the time of a recorded program on other numbers of ranks, or another network.
    Replay(replay::ReplayOptions),
    /// List the machines that ship with Mica.
    Machines,
}

/// Runs the command.
pub fn main(options: &SimOptions) -> ExitCode {
    let text = match &options.command {
        SimCommand::Run(options) => return run::main(options),
        SimCommand::Replay(options) => replay::replay(options),
        SimCommand::Sensitivity(options) => sensitivity::text(options),
        SimCommand::Machines => Ok(machines()),
    };
    print_text("mica sim", text)
}

/// Names and descriptions of the machines that ship.
fn machines() -> String {
    let line = |name| match SimulatedMachine::named(name) {
        Ok(machine) => format!("{name}: {}\n", machine.description),
        Err(error) => format!("{name}: {error}\n"),
    };
    SimulatedMachine::names().map(line).collect()
}
