//! `mica profile [OPTIONS] -- mpiexec -n N PROGRAM`: runs a job with the profiler's library in its
//! ranks and says where its communication time goes.
//!
//! [`command`] puts the library into the ranks, and into nothing else of the command. The ranks
//! leave their records in a directory of this run, which is removed at the end; [`records`] reads
//! them, [`merge`] makes one [`Profile`] of them, with [`symbols`] (function and line of a call
//! site) and [`late`] (which rank collectives waited for). [`text`] prints it in mpiP's terms, with
//! the tables of ma-2011; [`report`] draws it on a page for a browser.
//!
//! [`scaling`] and [`compare`] run it several times and set the profiles side by side, [`overhead`]
//! says what profiling costs it.
//!
//! The library under test may be any that has the standard's ABI. The command's exit code is that
//! of the job.

mod command;
mod compare;
mod late;
mod merge;
mod overhead;
mod records;
mod report;
mod rounds;
mod scaling;
mod symbols;
mod text;

use std::error::Error;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use mica_profile::file::FILE;
use mica_profile::{Profile, ProfiledJob};

use self::command::ProgramOutput;
use self::compare::Format;
pub use self::scaling::with_ranks;
use crate::explain::prefix;
use crate::scratch::{ScratchFolder, write_new};

/// The options of `mica profile`.
#[derive(Args)]
pub struct ProfileOptions {
    /// Write profile.json and the reports into this directory.
    #[arg(short, long, value_name = "DIR", default_value = "mica-profile")]
    output: PathBuf,
    /// Print the report and write nothing.
    #[arg(long, conflicts_with = "output")]
    text: bool,
    /// Print the profile as JSON and write nothing; the program's output goes to standard error.
    #[arg(long, conflicts_with_all = ["output", "text"])]
    json: bool,
    /// Keep no time line.
    #[arg(long)]
    no_timeline: bool,
    /// Tell calls apart by this many call sites, those that led to a call after its own, so that
    /// calls through a wrapper count for its callers. Lines of Python have no callers.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=16))]
    stack: u8,
    /// Run the command at these numbers of ranks, on one node and on two virtual ones, and print
    /// times, speed-ups and the share of each level; -n of the command is replaced.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    scaling: Vec<u32>,
    /// Run the command as it is and with these settings, in alternating rounds, and print both
    /// profiles' tables side by side. Several: compare these with each other. The directory or
    /// profile.json of a saved profile is a side as well; two of them need no command.
    #[arg(long, value_name = "NAME=VALUE,...|DIR", value_parser = compare::parse_side,
        num_args = 1.., conflicts_with_all = ["scaling", "overhead"])]
    compare: Vec<compare::SideArgument>,
    /// Run the command without and with the profiler in alternating rounds, and print what the
    /// profiler costs it.
    #[arg(long, conflicts_with_all = ["scaling", "text"])]
    overhead: bool,
    /// Nanoseconds that the profiler costs a call, from and to (bench/profile_cost.sh measures
    /// them):
    /// --overhead prints what follows from them and the number of calls.
    #[arg(long, value_name = "FROM,TO", requires = "overhead", value_parser = overhead::parse_cost)]
    call_cost: Option<overhead::CallCost>,
    /// Rounds of --compare, --overhead and --scaling.
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Rows of the tables of call sites.
    #[arg(long, value_name = "N", default_value_t = 20)]
    sites: usize,
    /// Use this library in the ranks rather than the one of this installation.
    #[arg(long, value_name = "FILE", hide = true)]
    library: Option<PathBuf>,
    /// The command, as it is without the profiler: mpiexec -n 4 ./program.
    #[arg(last = true, required_unless_present = "compare", value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs the job and reports. The exit code is the job's, or 1 if there is no report.
pub fn main(options: &ProfileOptions) -> ExitCode {
    let several = |result: Result<(), _>| result.map(|()| ExitCode::SUCCESS);
    let result = if options.overhead {
        several(measure_overhead(options))
    } else if !options.compare.is_empty() {
        several(compare_settings(options))
    } else if !options.scaling.is_empty() {
        several(scale(options))
    } else {
        profile(options).map(code)
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("mica profile: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare_settings(options: &ProfileOptions) -> Result<(), Box<dyn Error>> {
    let rounds = options.rounds.into();
    let writes = !options.text && !options.json;
    if writes {
        make_directory(&options.output)?;
    }
    let comparison = compare::compare(&options.command, &options.compare, rounds)?;
    let json = serde_json::to_string_pretty(&comparison)? + "\n";
    let text = comparison.render(Format::Text);
    let printed = if options.json { &json } else { &text };
    std::io::stdout().write_all(printed.as_bytes())?;
    if writes {
        let markdown = comparison.render(Format::Markdown);
        let files = [
            ("comparison.json", json),
            ("comparison.txt", text),
            ("comparison.md", markdown),
            ("comparison.html", comparison.page()),
        ];
        write_files(&options.output, files)?;
    }
    Ok(())
}

fn measure_overhead(options: &ProfileOptions) -> Result<(), Box<dyn Error>> {
    let library = library(options)?;
    let rounds = options.rounds.into();
    let overhead = overhead::overhead(&options.command, &library, rounds, options.call_cost)?;
    let text = match options.json {
        true => serde_json::to_string_pretty(&overhead)? + "\n",
        false => overhead.render(),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn scale(options: &ProfileOptions) -> Result<(), Box<dyn Error>> {
    let counts: Vec<usize> = options.scaling.iter().map(|&n| n as usize).collect();
    let writes = !options.text && !options.json;
    if writes {
        make_directory(&options.output)?;
    }
    let scaling = scaling::scaling(&options.command, &counts, options.rounds.into())?;
    let json = serde_json::to_string_pretty(&scaling)? + "\n";
    let text = scaling.render();
    let printed = if options.json { &json } else { &text };
    std::io::stdout().write_all(printed.as_bytes())?;
    if writes {
        let files =
            [("scaling.json", json), ("scaling.txt", text), ("scaling.html", scaling.page())];
        write_files(&options.output, files)?;
    }
    Ok(())
}

fn profile(options: &ProfileOptions) -> Result<ExitStatus, Box<dyn Error>> {
    let library = library(options)?;
    let writes = !options.text && !options.json;
    if writes {
        make_directory(&options.output)?;
    }
    // Ranks on other nodes write there as well, so it lies where the output does: more likely
    // shared than the directory for temporary files.
    let parent = if writes { options.output.clone() } else { std::env::temp_dir() };
    let records = ScratchFolder::within(&parent, "records")?;
    let (started, clock) = (SystemTime::now(), Instant::now());
    let mut command = command::under_profiler(&options.command, &library, records.path())?;
    if options.no_timeline {
        command::keep_no_spans(&mut command);
    }
    command::keep_callers(&mut command, options.stack);
    let output = match options.json {
        true => ProgramOutput::StandardError,
        false => ProgramOutput::Standard,
    };
    let status = command::run(&command, output)?;
    let job = ProfiledJob {
        command: options.command.clone(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        exit_code: i32::from(number(status)),
        started_unix_s: started.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        wall_ns: clock.elapsed().as_nanos() as u64,
        ..ProfiledJob::default()
    };
    let ranks = records::read_all(records.path())?;
    if ranks.is_empty() {
        let what = "no rank left a record: the command started no MPI program with the \
                    standard's ABI (libmpi_abi.so), or its ranks were killed";
        eprintln!("mica profile: {what}");
        return Ok(status);
    }
    let profile = merge::merge(job, ranks);
    show(&profile, options)?;
    Ok(status)
}

/// Prints and writes.
fn show(profile: &Profile, options: &ProfileOptions) -> Result<(), Box<dyn Error>> {
    let json = || profile.to_json();
    let text = text::render(profile, options.sites);
    let printed = if options.json { json() } else { text.clone() };
    // A reader that has exited (`| head`) is no error.
    let _ = std::io::stdout().write_all(printed.as_bytes());
    if options.text || options.json {
        return Ok(());
    }
    write_files(&options.output, [(FILE, json()), ("report.txt", text)])?;
    report::write(profile, &options.output)
        .map_err(|error| format!("{}: {error}", options.output.display()))?;
    let page = options.output.join(report::PAGE);
    println!("Written to {}; open {}", options.output.display(), page.display());
    Ok(())
}

fn make_directory(path: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn write_files<const N: usize>(
    directory: &Path,
    files: [(&str, String); N],
) -> Result<(), Box<dyn Error>> {
    for (name, content) in files {
        let path = directory.join(name);
        write_new(&path, content).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// The library for the ranks.
fn library(options: &ProfileOptions) -> Result<PathBuf, Box<dyn Error>> {
    match &options.library {
        Some(file) => Ok(file.clone()),
        None => installed_library(),
    }
}

/// `lib/libmica_profile.so` of this installation.
fn installed_library() -> Result<PathBuf, Box<dyn Error>> {
    let prefix = prefix().ok_or("cannot find the installation of this command")?;
    let library = prefix.join("lib/libmica_profile.so");
    match library.exists() {
        true => Ok(fs::canonicalize(library)?),
        false => Err(format!("{} does not exist: install Mica first", library.display()).into()),
    }
}

fn code(status: ExitStatus) -> ExitCode {
    ExitCode::from(number(status))
}

/// The exit code as a shell gives it.
fn number(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128 + signal as u8,
        (None, None) => 1,
    }
}
