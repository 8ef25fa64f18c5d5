//! The `mica` command: what the library finds on this machine and how it is set (`info`), and how fast it is beside
//! its peers (`bench`).

#![forbid(unsafe_code)]

mod bench;
mod info;
mod table;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tools of the Mica MPI library.
#[derive(Parser)]
#[command(name = "mica", version, about, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the machine, the channels that work here (and why others do not), and the tunables.
    Info {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Draw the machine's topology as well.
        #[arg(long)]
        topology: bool,
    },
    /// Measure Mica beside MPICH, Open MPI and Intel MPI on this machine.
    Bench(bench::Options),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Info { json, topology } => info(json, topology),
        Command::Bench(options) => bench::main(options),
    }
}

fn info(json: bool, topology: bool) -> ExitCode {
    let info = match info::Info::gather(topology) {
        Ok(info) => info,
        Err(error) => {
            eprintln!("mica: {error}");
            return ExitCode::FAILURE;
        }
    };
    let text = if json {
        serde_json::to_string_pretty(&info).expect("plain data is valid JSON") + "\n"
    } else {
        table::render(&info)
    };
    // A reader that has gone (`| head`) is no failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
