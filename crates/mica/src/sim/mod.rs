//! `mica sim`: unmodified MPI programs on a cluster that does not exist (docs/sim.md, leon-2009).

mod experiment;
mod run;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use mica_sim::machine::Machine;

/// The options of `mica sim`.
#[derive(Args)]
pub struct SimOptions {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Subcommand)]
enum SimCommand {
    /// Run a program on N simulated nodes, one rank each. Under mpiexec, host ranks share the nodes.
    Run(run::RunOptions),
    /// Run an experiment of the thesis, and put its results beside the thesis's.
    Experiment(experiment::ExperimentOptions),
    /// List the machines that ship with Mica.
    Machines,
}

/// Runs the command.
pub fn main(options: &SimOptions) -> ExitCode {
    match &options.command {
        SimCommand::Run(options) => run::main(options),
        SimCommand::Experiment(options) => experiment::main(options),
        SimCommand::Machines => {
            print!("{}", machines());
            ExitCode::SUCCESS
        }
    }
}

/// Names and descriptions of the machines that ship.
fn machines() -> String {
    let line = |name| match Machine::named(name) {
        Ok(machine) => format!("{name}: {}\n", machine.description),
        Err(error) => format!("{name}: {error}\n"),
    };
    Machine::names().map(line).collect()
}
