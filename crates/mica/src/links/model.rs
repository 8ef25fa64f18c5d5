//! `mica links model MACHINE SCHEDULE`: calls of a recorded schedule on a modelled machine
//! (`mica_links::model`), written as `mica links run` writes what it measures.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use mica_links::{Background, Machine, Schedule, observe_model};

/// The options of `mica links model`.
#[derive(Args)]
pub struct ModelOptions {
    /// The machine: a file with .toml at the end, or the name of one that is shipped (x4600).
    machine: String,
    /// The schedule: a file with .txt at the end, or the name of one that is shipped.
    #[arg(default_value = "allreduce-16384")]
    schedule: String,
    /// Other traffic.
    #[arg(long, value_enum, default_value_t = Traffic::Io)]
    background: Traffic,
    /// Consecutive calls.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    calls: usize,
    /// The seed of the other traffic.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The file to write.
    #[arg(short, long, value_name = "FILE", default_value = "links.mica")]
    output: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Traffic {
    None,
    Io,
    Memory,
    Both,
}

/// Runs the model, writes the observation, and says where.
pub fn model(options: &ModelOptions) -> Result<String, Box<dyn Error>> {
    let machine = match options.machine.ends_with(".toml") {
        true => Machine::parse(&read(&options.machine)?)?,
        false => Machine::shipped(&options.machine)?,
    };
    let schedule = match options.schedule.ends_with(".txt") {
        true => Schedule::parse(&read(&options.schedule)?)?,
        false => Schedule::shipped(&options.schedule)?,
    };
    let background = match options.background {
        Traffic::None => Background::none(),
        Traffic::Io => Background::io(&machine),
        Traffic::Memory => Background::memory_streams(&machine),
        Traffic::Both => Background::io(&machine).and(Background::memory_streams(&machine)),
    };
    let observation = observe_model(
        &machine,
        &schedule,
        &background,
        options.calls,
        options.seed,
    )?;
    let name = |error: &dyn Error| format!("{}: {error}", options.output.display());
    let out = File::create(&options.output).map_err(|error| name(&error))?;
    let mut out = BufWriter::new(out);
    observation.write(&mut out).map_err(|error| name(&error))?;
    out.flush().map_err(|error| name(&error))?;
    Ok(format!(
        "{} calls of {} on {} in {}\n",
        observation.calls.len(),
        schedule.collective,
        machine.name(),
        options.output.display()
    ))
}

fn read(file: &str) -> Result<String, String> {
    fs::read_to_string(Path::new(file)).map_err(|error| format!("{file}: {error}"))
}
