//! `mica sim`: unmodified MPI programs on a cluster that does not exist (docs/sim.md, leon-2009).

mod replay;
mod run;

use std::io::Write;
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
    /// Predict the time of a recorded program on other numbers of ranks, or another network.
    Replay(replay::ReplayOptions),
}

/// Runs the command.
pub fn main(options: &SimOptions) -> ExitCode {
    match &options.command {
        SimCommand::Run(options) => run::main(options),
        SimCommand::Replay(options) => match replay::replay(options) {
            Ok(text) => {
                // A reader that has exited (`| head`) is no error.
                let _ = std::io::stdout().write_all(text.as_bytes());
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("mica sim replay: {error}");
                ExitCode::FAILURE
            }
        },
    }
}
