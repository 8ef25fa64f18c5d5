//! `mica sim`: a cluster that does not exist.
//!
//! [`replay`] predicts a program on many ranks from the recorded calls of a small run.

mod replay;

use std::error::Error;

use clap::{Args, Subcommand};

/// The options of `mica sim`.
#[derive(Args)]
pub struct SimOptions {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Subcommand)]
enum SimCommand {
    /// Predict the time of a recorded program on other numbers of ranks, or another network.
    Replay(replay::ReplayOptions),
}

/// Runs the command, and returns what it prints.
pub fn sim(options: &SimOptions) -> Result<String, Box<dyn Error>> {
    match &options.command {
        SimCommand::Replay(options) => replay::replay(options),
    }
}
