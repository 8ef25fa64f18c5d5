//! `mpiexec`: starts the ranks of a job, watches them, and leaves nothing behind.
//!
//! [`options`] reads the command line (one table drives parsing, `--help`, the manual page and
//! completion), [`placement`] decides whether the job runs here or on several nodes, and what each
//! rank has on its node. [`local`] runs the ranks of a node; [`report`] describes the outcome in
//! words. For several nodes the [`controller`] starts an agent on each by [`remote`] shells, which
//! runs its ranks as a job on one node is run; they talk over a [`link`]. The ranks of a node and
//! the agents of several are what one [`event_loop`] works for.
//! MPI 5.0 section 11.5 describes the portable part of the command. See `docs/design/launching.md`.
//!
//! The library exists for the program of this crate and for the fuzz targets, which need the
//! parsers of untrusted input.

#![forbid(unsafe_code)]

mod controller;
mod error;
mod event_loop;
#[doc(hidden)]
pub mod hosts;
#[doc(hidden)]
pub mod link;
mod local;
mod options;
mod output;
mod placement;
mod remote;
mod report;
mod signals;

use std::io::Write as _;
use std::process::ExitCode;

use local::{agent, spawned, supervisor};
use options::{CommandRequest, JobOptions};
use output::OutputTarget;
use placement::Placement;
use placement::node_job::NodeJob;
use placement::plan::NodePlan;
use remote::starter;
use report::{INTERNAL, USAGE, say};

/// The program: `mpiexec`'s main function.
pub fn main() -> ExitCode {
    mica_node::process::take_dispositions();
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    let request = match options::parse(&arguments, &|name| std::env::var_os(name)) {
        Ok(request) => request,
        Err(error) => {
            say(format_args!("mpiexec: {error}\nmpiexec: try `mpiexec --help`\n"));
            return ExitCode::from(USAGE);
        }
    };
    let options = match request {
        CommandRequest::Help => return print(&options::help()),
        CommandRequest::Manual => return print(&options::manual()),
        CommandRequest::Completion(shell) => return print(&options::completion(shell)),
        CommandRequest::Version => {
            return print(concat!("mpiexec (Mica) ", env!("CARGO_PKG_VERSION"), "\n"));
        }
        CommandRequest::Run(options) => options,
        CommandRequest::Agent(agent) => return ExitCode::from(agent::run(&agent)),
        CommandRequest::Starter => return ExitCode::from(starter::run()),
        CommandRequest::Spawn { by, command_line } => {
            return ExitCode::from(spawned::begin(&by, &command_line));
        }
        CommandRequest::Spawned(job) => return ExitCode::from(spawned::run(&job)),
    };
    let status = run(*options).unwrap_or_else(|ExitFailure { text, status }| {
        say(format_args!("mpiexec: {text}\n"));
        status
    });
    ExitCode::from(status)
}

/// Prints the answer to a question of the user on standard output.
fn print(text: &str) -> ExitCode {
    match output::own(OutputTarget::Out).and_then(|mut out| out.write_all(text.as_bytes())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("mpiexec: cannot write to standard output: {error}\n"));
            ExitCode::from(INTERNAL)
        }
    }
}

/// Why there was no job: what the user reads, and the exit status.
struct ExitFailure {
    text: String,
    status: u8,
}

impl ExitFailure {
    fn new(error: &dyn std::error::Error, status: u8) -> ExitFailure {
        ExitFailure { text: error.to_string(), status }
    }
}

/// Runs a job, here or on other nodes.
fn run(mut options: JobOptions) -> Result<u8, ExitFailure> {
    let placement = placement::place(&mut options, &|name| std::env::var(name).ok());
    let status = match placement.map_err(|error| ExitFailure::new(&error, USAGE))? {
        Placement::Here => {
            let node = NodeJob::all_here(&options);
            let plan = NodePlan::new(&node).map_err(|error| ExitFailure::new(&error, INTERNAL))?;
            if options.verbose {
                say(plan.describe());
            }
            say(plan.notice(&node));
            supervisor::run(&options, &node, &plan)
        }
        Placement::Nodes(nodes) => controller::run(&options, &nodes),
    };
    status.map_err(|error| ExitFailure::new(&error, error.status()))
}
