//! Runs tests, each in a process of its own: `suite [OPTIONS] BINARIES.json`.
//!
//! cargo builds the test binaries (`cargo test --no-run --message-format=json`) and this program
//! runs them as cargo-nextest does, by the same protocol (`--list --format terse`, `--exact NAME`):
//! all binaries share the machine, what took longest last time starts first, and a test that hangs
//! or aborts is named and takes no other with it. nextest itself takes ten minutes of a core to
//! compile, more than it could save; and it knows neither this project's budget of cores
//! (`mica_tests::Cores`), nor the processor time of what a test started.
//!
//! A test that fails shows its whole output at once. One that does not end is shown with its stacks
//! and the hang report of its mpiexec, and ended. At the end there is a table of times, which is in
//! `target/logs/times/NAME.json` as well.
//!
//! ```text
//! suite --name program-tests target/logs/binaries.json
//! suite --only faults:: --repeat 30 --load busy target/logs/binaries.json
//! ```

#![forbid(unsafe_code)]

mod load;
mod options;
mod process;
mod report;
mod schedule;
mod test_binary;

use std::process::ExitCode;

use options::Options;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("suite: {why}\n\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    match schedule::run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("suite: {why}");
            ExitCode::from(2)
        }
    }
}
