//! `mica profile [OPTIONS] -- mpiexec -n N PROGRAM`: runs a job with the profiler's library in its
//! ranks and says where its communication time goes.
//!
//! [`command`] puts the library into the ranks, and into nothing else of the command. The ranks
//! leave their records in a directory of this run, which is removed at the end; [`records`] reads
//! them, [`merge`] makes one [`Profile`] of those of each job, with [`symbols`] (function and line
//! of a call site) and [`late`] (which rank collectives waited for). [`text`] prints it in mpiP's
//! terms, with the tables of ma-2011; [`report`] draws it on a page for a browser.
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
use mica_profile::file::{FILE, several_to_json};
use mica_profile::{Profile, ProfiledJob};

use self::command::ProgramOutput;
use self::compare::Format;
use self::records::{CommandRecords, RecordingEnd};
pub use self::scaling::with_ranks;
use crate::explain::prefix;
use crate::origin::ResultOrigin;
use crate::scratch::{ScratchFolder, write_new};
use crate::terminal::{print, status};

/// The text of the report.
const REPORT: &str = "report.txt";
/// What a run writes.
const REPORTS: [&str; 4] = [FILE, REPORT, report::PAGE, report::TRACE];
/// What a comparison writes.
const COMPARISONS: [&str; 4] =
    ["comparison.json", "comparison.txt", "comparison.md", "comparison.html"];
const SCALINGS: [&str; 3] = ["scaling.json", "scaling.txt", "scaling.html"];
/// Where each job of a command that runs several has its reports: with its number.
const JOB_FOLDER: &str = "job-";

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
    /// Intervals on the time line of each thread (10,000): if there are more calls, short ones are
    /// kept several together.
    #[arg(long, value_name = "N", conflicts_with = "no_timeline")]
    spans: Option<u32>,
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
    /// profile.json of a saved profile is a side as well; two of them need no command. A value may
    /// be a list with commas, in small letters.
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

/// Runs the command and reports. The exit code is the command's, or 1 if the report fails.
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
    status("mica profile", result, ExitCode::FAILURE)
}

fn compare_settings(options: &ProfileOptions) -> Result<(), Box<dyn Error>> {
    options.clean(&COMPARISONS)?;
    let comparison = compare::compare(&options.command, &options.compare, options.rounds.into())?;
    let (text, markdown) = (comparison.render(Format::Text), comparison.render(Format::Markdown));
    let origin = origin();
    let (json, page) = (origin.json(&comparison)?, origin.on_page(&comparison.page()));
    publish(options, &COMPARISONS, [json, text, markdown, page])
}

fn measure_overhead(options: &ProfileOptions) -> Result<(), Box<dyn Error>> {
    let library = library(options)?;
    let rounds = options.rounds.into();
    let overhead = overhead::overhead(&options.command, &library, rounds, options.call_cost)?;
    let text = if options.json { origin().json(&overhead)? } else { overhead.render() };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn scale(options: &ProfileOptions) -> Result<(), Box<dyn Error>> {
    let counts: Vec<usize> = options.scaling.iter().map(|&n| n as usize).collect();
    options.clean(&SCALINGS)?;
    let scaling = scaling::scaling(&options.command, &counts, options.rounds.into())?;
    let origin = origin();
    let (json, page) = (origin.json(&scaling)?, origin.on_page(&scaling.page()));
    publish(options, &SCALINGS, [json, scaling.render(), page])
}

/// Prints the JSON or the text, which are the first two, and writes all as files of these names.
fn publish<const FILES: usize>(
    options: &ProfileOptions,
    names: &[&str; FILES],
    contents: [String; FILES],
) -> Result<(), Box<dyn Error>> {
    std::io::stdout().write_all(contents[usize::from(!options.json)].as_bytes())?;
    if options.writes() {
        write_files(&options.output, names.iter().copied().zip(contents))?;
    }
    Ok(())
}

impl ProfileOptions {
    /// Whether files are written.
    fn writes(&self) -> bool {
        !self.text && !self.json
    }

    /// Makes the directory of the output, if files are written, without those of these names.
    fn clean(&self, names: &[&str]) -> Result<(), Box<dyn Error>> {
        if self.writes() { clean_directory(&self.output, names) } else { Ok(()) }
    }
}

fn profile(options: &ProfileOptions) -> Result<ExitStatus, Box<dyn Error>> {
    let library = library(options)?;
    options.clean(&REPORTS)?;
    // Ranks on other nodes write there as well, so it lies where the output does: more likely
    // shared than the directory for temporary files.
    let parent = if options.writes() { options.output.clone() } else { std::env::temp_dir() };
    let records = ScratchFolder::within(&parent, "records")?;
    let (started, clock) = (SystemTime::now(), Instant::now());
    let mut command = command::under_profiler(&options.command, &library, records.path())?;
    if let Some(spans) = options.spans.or(options.no_timeline.then_some(0)) {
        command::keep_spans(&mut command, spans);
    }
    command::keep_callers(&mut command, options.stack);
    let output = if options.json { ProgramOutput::StandardError } else { ProgramOutput::Standard };
    let status = command::run(&command, output)?;
    let end = RecordingEnd::now();
    let job = ProfiledJob {
        command: options.command.clone(),
        host: mica_node::identity::host_name(),
        exit_code: i32::from(number(status)),
        started_unix_s: started.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        wall_ns: clock.elapsed().as_nanos() as u64,
        ..ProfiledJob::default()
    };
    let CommandRecords { jobs, other_abi } = records::read_all(records.path(), &end)?;
    if jobs.is_empty() {
        // A program of another ABI has said so itself.
        if !other_abi {
            let what = "no rank left a record: the command started no MPI program with the \
                        standard's ABI (libmpi_abi.so), or its ranks ended before MPI_Init did";
            eprintln!("mica profile: {what}");
        }
        return Ok(status);
    }
    let all = jobs.len() as u32;
    let profile = |(number, ranks)| {
        let number = (all > 1).then_some([number, all]);
        merge::merge(ProfiledJob { number, ..job.clone() }, ranks)
    };
    show(&(1..).zip(jobs).map(profile).collect::<Vec<_>>(), options)?;
    Ok(status)
}

/// Prints and writes the profiles of the jobs that the command ran, one at least.
fn show(profiles: &[Profile], options: &ProfileOptions) -> Result<(), Box<dyn Error>> {
    let texts: Vec<String> =
        profiles.iter().map(|profile| text::render(profile, options.sites)).collect();
    let text = texts.join("\n\n");
    let printed = match (options.json, profiles) {
        (false, _) => text.clone(),
        (true, [profile]) => profile.to_json(),
        (true, several) => several_to_json(several),
    };
    print(&printed);
    if !options.writes() {
        return Ok(());
    }
    let output = &options.output;
    if let [profile] = profiles {
        write_profile(profile, text, output)?;
        println!("Written to {}; open {}", output.display(), output.join(report::PAGE).display());
        return Ok(());
    }
    write_files(output, [(REPORT, text)])?;
    for (profile, (number, text)) in profiles.iter().zip((1..).zip(texts)) {
        let folder = output.join(format!("{JOB_FOLDER}{number}"));
        clean_directory(&folder, &REPORTS)?;
        write_profile(profile, text, &folder)?;
        println!("Job {number} written to {}", folder.display());
    }
    Ok(())
}

/// Where these results come from. Which channels carried the messages, the library alone knows.
fn origin() -> ResultOrigin {
    ResultOrigin::of_this_command("those of the program's own MPI library")
}

fn write_profile(profile: &Profile, text: String, folder: &Path) -> Result<(), Box<dyn Error>> {
    write_files(folder, [(FILE, profile.to_json()), (REPORT, text)])?;
    report::write(profile, folder, &origin())
        .map_err(|error| format!("{}: {error}", folder.display()).into())
}

/// Makes the directory, without the files of this name of an earlier run, also in the folders of
/// its jobs: if this run ends without a profile, they must not be taken for it.
fn clean_directory(path: &Path, names: &[&str]) -> Result<(), Box<dyn Error>> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(path).map_err(named)?;
    let mut folders = vec![path.to_owned()];
    for entry in fs::read_dir(path).map_err(named)? {
        let entry = entry.map_err(named)?;
        let is_folder = entry.file_type().map_err(named)?.is_dir();
        let name = entry.file_name();
        if is_folder && name.to_str().is_some_and(|name| name.starts_with(JOB_FOLDER)) {
            folders.push(entry.path());
        }
    }
    for folder in &folders {
        for name in names {
            match fs::remove_file(folder.join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(format!("{}: {error}", folder.join(name).display()).into());
                }
                _ => {}
            }
        }
    }
    // A folder with something else in it stays.
    folders[1..].iter().for_each(|folder| drop(fs::remove_dir(folder)));
    Ok(())
}

fn write_files<'a>(
    directory: &Path,
    files: impl IntoIterator<Item = (&'a str, String)>,
) -> Result<(), Box<dyn Error>> {
    for (name, content) in files {
        let path = directory.join(name);
        write_new(&path, content).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// The library for the ranks.
fn library(options: &ProfileOptions) -> Result<PathBuf, Box<dyn Error>> {
    options.library.clone().map_or_else(installed_library, Ok)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_profile_is_removed_and_nothing_else() {
        let folder = ScratchFolder::new("test").unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("job-1")).unwrap();
        fs::create_dir(path("job-2")).unwrap();
        for name in
            ["profile.json", "notes.txt", "job-1/report.txt", "job-2/own", "job-2/trace.json"]
        {
            fs::write(path(name), "x").unwrap();
        }
        clean_directory(folder.path(), &REPORTS).unwrap();
        let kept: Vec<bool> =
            ["profile.json", "notes.txt", "job-1", "job-2/own", "job-2/trace.json"]
                .iter()
                .map(|name| path(name).exists())
                .collect();
        assert_eq!(kept, [false, true, false, true, false]);
        clean_directory(&path("new"), &REPORTS).unwrap();
        assert!(path("new").is_dir());
    }
}
