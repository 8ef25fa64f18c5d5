//! `mpiexec`: starts the ranks of a job on this node, watches them, and leaves nothing behind.
//!
//! [`options`] reads the command line (one table drives parsing, `--help` and the manual),
//! [`plan`] gives every rank its program, environment and place, [`job`] starts the ranks and waits
//! for what happens to them, [`report`] says it in words. MPI 5.0 section 11.5 describes the
//! portable part of the command. See `docs/design/launching.md`.

#![forbid(unsafe_code)]

mod job;
mod options;
mod output;
mod plan;
mod report;
mod traffic;

use std::io::Write as _;
use std::process::ExitCode;

use options::Request;
use report::say;

/// Exit status of a wrong command line.
const USAGE: u8 = 2;
/// Exit status when the launcher itself cannot do its work.
const INTERNAL: u8 = 1;

fn main() -> ExitCode {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    let request = match options::parse(&arguments) {
        Ok(request) => request,
        Err(error) => {
            say(format_args!(
                "mpiexec: {error}\nmpiexec: try `mpiexec --help`\n"
            ));
            return ExitCode::from(USAGE);
        }
    };
    let options = match request {
        Request::Help => {
            let _ = std::io::stdout().write_all(options::help().as_bytes());
            return ExitCode::SUCCESS;
        }
        Request::Version => {
            let _ = writeln!(
                std::io::stdout(),
                "mpiexec (Mica) {}",
                env!("CARGO_PKG_VERSION")
            );
            return ExitCode::SUCCESS;
        }
        Request::Run(options) => options,
    };
    let plan = match plan::Plan::new(&options) {
        Ok(plan) => plan,
        Err(error) => {
            say(format_args!("mpiexec: {error}\n"));
            return ExitCode::from(INTERNAL);
        }
    };
    if options.verbose {
        say(plan.describe());
    }
    match job::run(&options, &plan) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            say(format_args!("mpiexec: {error}\n"));
            ExitCode::from(error.status())
        }
    }
}
