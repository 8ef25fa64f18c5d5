//! `mica loggp [OPTIONS] [-- LAUNCHER]`: the LogGP parameters L, o_s, o_r, g and G of a channel.
//!
//! It compiles `bench/src/loggp.c` (whose head says how each time is measured), runs it between
//! the first and the last rank of a job, and fits the parameters (`mica_sim::loggp`). The launcher
//! decides what is measured: shared memory, the network between two hosts, another MPI library
//! (`--prefix`); or it is a simulated machine's network (`--machine`).
//!
//! Ranks that share processors are refused, or, where only a count of context switches says so, the
//! result says it.
//!
//! The result is a table and, in the output directory, `loggp.json` (which `mica sim replay`
//! reads), `loggp.html` and the raw times.

mod page;
mod raw;
mod text;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use mica_sim::loggp::{CoreSharing, FitOptions, LogGpFit, Measurement, fit};

use crate::compiled::{CompiledProgram, MpiPrefix, command_of, output_of};
use crate::origin::ResultOrigin;
use crate::scratch::write_new;
use crate::terminal::spinner;

/// The options of `mica loggp`.
#[derive(Args)]
pub struct LogGpOptions {
    /// What carries the messages between ranks of this node. Other places: by the launcher.
    #[arg(long, value_enum, conflicts_with = "machine")]
    channel: Option<MeasuredChannel>,
    /// Measure the simulated network of this machine: a name of a shipped one, or a TOML file.
    #[arg(long, value_name = "MACHINE", conflicts_with_all = ["prefix", "launcher"])]
    machine: Option<String>,
    /// Another value for a key of the machine, such as network.latency_ns=500.
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "machine")]
    set: Vec<String>,
    /// Measure the MPI library installed in this directory.
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Rounds; intervals are over rounds. The default is 15, and 2 on a simulated machine, where
    /// nothing disturbs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: Option<u32>,
    /// Repetitions of each measurement in a round, fewer for long messages (100; simulated: 3).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: Option<u32>,
    /// The longest message, such as 64K or 1M (256K; simulated: 128K).
    #[arg(long, value_name = "SIZE")]
    largest: Option<String>,
    /// Fit the raw times of this file; run nothing.
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["channel", "machine", "prefix", "launcher"])]
    raw: Option<PathBuf>,
    /// Print also the differences from this loggp.json.
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Write loggp.json, loggp.html and the raw times into this directory.
    #[arg(short, long, value_name = "DIR", default_value = "mica-loggp")]
    output: PathBuf,
    /// Print JSON and write nothing.
    #[arg(long, conflicts_with_all = ["output", "compare"])]
    json: bool,
    /// Resamples of each interval.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    resamples: usize,
    /// The seed of resampling: equal seeds give equal intervals.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The launcher with its options; the default is the library's mpiexec -n 2.
    #[arg(last = true, value_name = "LAUNCHER")]
    launcher: Vec<String>,
}

/// What carries the messages between ranks of one node.
#[derive(Clone, Copy, ValueEnum)]
enum MeasuredChannel {
    /// Shared memory and direct copies, as a job takes them.
    Shm,
    /// The network, over its loopback.
    Network,
}

/// Measures, writes the files, and returns what to print.
pub fn loggp(options: &LogGpOptions) -> Result<String, Box<dyn Error>> {
    let baseline = options.compare.as_deref().map(read_fit).transpose()?;
    let (origin, raw) = match &options.raw {
        Some(file) => {
            let text = fs::read_to_string(file);
            raw::parse(&text.map_err(|error| format!("{}: {error}", file.display()))?)?
        }
        None => (origin(options), measure(options)?),
    };
    let mut measurement = Measurement::parse(&raw)?;
    match measurement.sharing() {
        // A simulated node has a processor of its own, whatever its emulator runs on.
        Some(_) if origin.simulated.is_some() => measurement.forget_sharing(),
        Some(sharing @ CoreSharing::TooFew { .. }) => return Err(refusal(&sharing).into()),
        _ => {}
    }
    let options_of_fit = FitOptions { resamples: options.resamples, seed: options.seed };
    let fitted = fit(&measurement, &options_of_fit);
    let json = origin.json(&fitted)?;
    if options.json {
        return Ok(json);
    }
    let page = origin.on_page(&page::page(&fitted));
    let made = fs::create_dir_all(&options.output);
    made.map_err(|error| format!("{}: {error}", options.output.display()))?;
    for (name, content) in
        [("loggp.json", &json), ("loggp.html", &page), ("raw.txt", &raw::written(&origin, &raw)?)]
    {
        let path = options.output.join(name);
        write_new(&path, content).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let mut text = text::render(&fitted);
    text += &format!("{}\n", origin.line());
    if let Some(baseline) = baseline {
        text += &text::differences(&fitted, &baseline);
    }
    Ok(format!("{text}Written to {}\n", options.output.display()))
}

/// Where what is measured comes from.
fn origin(options: &LogGpOptions) -> ResultOrigin {
    let channel = match (&options.machine, options.channel) {
        (Some(machine), _) => return ResultOrigin::simulated(machine),
        (None, Some(MeasuredChannel::Network)) => "the network, over its loopback".to_owned(),
        (None, Some(MeasuredChannel::Shm)) => "shared memory and direct copies".to_owned(),
        (None, None) if options.launcher.is_empty() => {
            "shared memory and direct copies, as the job takes them".to_owned()
        }
        (None, None) => format!("as a job takes it that `{}` starts", options.launcher.join(" ")),
    };
    ResultOrigin::of_this_command(channel)
}

/// Why ranks that share processors are not measured, and what to do.
fn refusal(sharing: &CoreSharing) -> String {
    format!(
        "{sharing}: nothing is fitted, since LogGP gives each rank a processor, and what the \
         scheduler takes would pass for the channel's latency. Bind two ranks to processors of \
         their own (mpiexec -n 2 --bind-to core), or start them on two hosts"
    )
}

/// Reads a `loggp.json`.
pub fn read_fit(file: &Path) -> Result<LogGpFit, String> {
    let name = |error: &dyn Error| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| name(&error))?;
    let fitted: LogGpFit = serde_json::from_str(&text).map_err(|error| name(&error))?;
    match fitted.parameters.flaw() {
        Some(flaw) => Err(format!("{}: {flaw}", file.display())),
        None => Ok(fitted),
    }
}

/// The program's output.
fn measure(options: &LogGpOptions) -> Result<String, Box<dyn Error>> {
    let spinner = spinner()?;
    spinner.set_message("compiling bench/src/loggp.c");
    let library = MpiPrefix::of(options.prefix.as_deref())?;
    let program = CompiledProgram::new("loggp", &library.command("mpicc"))?;
    let mut words = launcher(options, &library)?;
    words.push(program.file.display().to_string());
    let (rounds, repeat, largest) = match options.machine {
        // Three sizes above the step of announced messages.
        Some(_) => (2, 3, "128K"),
        None => (15, 100, "256K"),
    };
    let given = |value: &Option<u32>, otherwise: u32| value.unwrap_or(otherwise).to_string();
    for (name, value) in [
        ("--rounds", given(&options.rounds, rounds)),
        ("--repeat", given(&options.repeat, repeat)),
        ("--largest", options.largest.clone().unwrap_or_else(|| largest.to_owned())),
    ] {
        words.extend([name.to_owned(), value]);
    }
    let mut job = command_of(&words);
    match options.channel {
        Some(MeasuredChannel::Network) => drop(job.env("MICA_NET", "loopback")),
        Some(MeasuredChannel::Shm) => drop(job.env("MICA_NET", "auto")),
        None => {}
    }
    spinner.set_message(words.join(" "));
    let output = output_of(job)?;
    spinner.finish_and_clear();
    Ok(output)
}

/// The words before the program.
fn launcher(options: &LogGpOptions, library: &MpiPrefix) -> Result<Vec<String>, Box<dyn Error>> {
    if let Some(machine) = &options.machine {
        return simulator(machine, &options.set);
    }
    let mpiexec = library.command("mpiexec").display().to_string();
    let mut words = options.launcher.clone();
    match words.first_mut() {
        // The one of the library that is measured, whatever PATH has.
        Some(first) if first == "mpiexec" => *first = mpiexec,
        Some(_) => {}
        None => words = vec![mpiexec, "-n".into(), "2".into()],
    }
    Ok(words)
}

/// `mica sim run` of two nodes of a machine, before the program.
fn simulator(machine: &str, set: &[String]) -> Result<Vec<String>, Box<dyn Error>> {
    let this = std::env::current_exe()?.display().to_string();
    let mut words = vec![this];
    words.extend(["sim", "run", "-n", "2", "--quiet", "--machine", machine].map(str::to_owned));
    words.extend(set.iter().flat_map(|set| ["--set".to_owned(), set.clone()]));
    words.push("--".to_owned());
    Ok(words)
}
