//! `mica sim`: unmodified MPI programs on a cluster that does not exist (docs/sim.md, leon-2009).

mod run;

use std::process::ExitCode;

use clap::{Args, Subcommand};

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
}

/// Runs the command.
pub fn main(options: &SimOptions) -> ExitCode {
    match &options.command {
        SimCommand::Run(options) => run::main(options),
    }
}
