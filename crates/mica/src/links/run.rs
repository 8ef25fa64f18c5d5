//! `mica links run [OPTIONS] [-- mpiexec -n N ...]`: times the calls of a collective on this
//! machine.
//!
//! The program is `bench/src/links.c` of the suite of `mica bench`, compiled by this installation's
//! `mpicc` or another one (`--mpicc`). It is portable: with another library's compiler and launcher
//! it times that library's collectives. It writes the times of all ranks, on one clock; this module
//! makes an observation of them.
//!
//! Which bytes went over which link needs counters or the library's account. Neither is read here
//! yet, so the observation has no link columns: distributions and clusters of time are what it
//! shows, and its notes say so. On a machine of one memory domain there are no links in any case.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use mica_links::{Calls, LinkSet, Observation, Provenance, Source, Workload};

use crate::explain::prefix;

/// The options of `mica links run`.
#[derive(Args)]
pub struct RunOptions {
    /// The collective, without MPI_ and in lower case: any blocking one of MPI's.
    #[arg(long, value_name = "NAME", default_value = "allreduce")]
    collective: String,
    /// Bytes of a rank's vector, or of its block.
    #[arg(long, value_name = "N", default_value_t = 16384)]
    bytes: u64,
    /// Consecutive calls.
    #[arg(long, value_name = "N", default_value_t = 2000,
        value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    calls: u64,
    /// The file to write.
    #[arg(short, long, value_name = "FILE", default_value = "links.mica")]
    output: PathBuf,
    /// The compiler of the MPI library whose calls are timed.
    #[arg(long, value_name = "FILE")]
    mpicc: Option<PathBuf>,
    /// The launcher with its options; the default is this installation's mpiexec -n 2.
    #[arg(last = true, value_name = "LAUNCHER")]
    launcher: Vec<String>,
}

/// A directory for the program and its file; removed with the value.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the job, writes the observation, and says where.
pub fn run(options: &RunOptions) -> Result<String, Box<dyn Error>> {
    let prefix = prefix().ok_or("cannot find the installation of this command")?;
    let spinner = ProgressBar::new_spinner();
    spinner.set_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    spinner.enable_steady_tick(Duration::from_millis(100));
    let scratch = std::env::temp_dir().join(format!("mica-links-{}", std::process::id()));
    fs::create_dir(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let scratch = Scratch(scratch);
    let program = scratch.0.join("links");
    spinner.set_message("compiling bench/src/links.c");
    let source = prefix.join("share/mica/bench/src/links.c");
    let mpicc = options
        .mpicc
        .clone()
        .unwrap_or_else(|| prefix.join("bin/mpicc"));
    let mut compile = Command::new(&mpicc);
    compile
        .args(["-std=gnu11", "-O2", "-o"])
        .arg(&program)
        .arg(&source)
        .arg("-lm");
    execute(compile, &mpicc.display().to_string())?;
    let raw = scratch.0.join("raw");
    let launcher = match options.launcher.is_empty() {
        true => ["bin/mpiexec", "-n", "2"].map(str::to_owned).to_vec(),
        false => options.launcher.clone(),
    };
    let first = match options.launcher.is_empty() {
        true => prefix.join(&launcher[0]),
        false => PathBuf::from(&launcher[0]),
    };
    let numbers = [options.bytes, options.calls].map(|number| number.to_string());
    let mut job = Command::new(&first);
    job.args(&launcher[1..])
        .arg(&program)
        .arg(&options.collective);
    job.args(&numbers).arg(&raw);
    spinner.set_message(format!("{} calls of {}", options.calls, options.collective));
    execute(job, &first.display().to_string())?;
    spinner.finish_and_clear();
    let observation = observation(options, &launcher, BufReader::new(File::open(&raw)?))?;
    let name = |error: &dyn Error| format!("{}: {error}", options.output.display());
    let out = File::create(&options.output).map_err(|error| name(&error))?;
    let mut out = BufWriter::new(out);
    observation.write(&mut out).map_err(|error| name(&error))?;
    out.flush().map_err(|error| name(&error))?;
    let notes = observation.provenance.notes.join("\n");
    Ok(format!(
        "{} calls of {} on {} ranks in {}\n{notes}\n",
        observation.calls.len(),
        options.collective,
        observation.workloads[0].ranks,
        options.output.display()
    ))
}

fn execute(mut command: Command, name: &str) -> Result<(), String> {
    let done = command
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{name}: {}\n{}{}",
            done.status,
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        )),
    }
}

/// What the program wrote, as an observation.
fn observation(
    options: &RunOptions,
    launcher: &[String],
    mut raw: impl BufRead,
) -> Result<Observation, Box<dyn Error>> {
    let mut line = String::new();
    raw.read_line(&mut line)?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["mica-links-raw", ranks, calls] = words[..] else {
        return Err(format!("not a file of links.c: {line:?}").into());
    };
    let (ranks, calls): (usize, usize) = (ranks.parse()?, calls.parse()?);
    let (mut entry, mut exit) = (Vec::new(), Vec::new());
    for _ in 0..ranks {
        entry.push(column(&mut raw, calls)?);
        exit.push(column(&mut raw, calls)?);
    }
    let domains = domains(Path::new("/sys/devices/system/node"));
    let observation = Observation {
        provenance: Provenance {
            machine: machine(domains),
            source: Source::Account,
            command: format!("{} links", launcher.join(" ")),
            seed: 0,
            rank_chips: if domains == 1 {
                vec![0; ranks]
            } else {
                Vec::new()
            },
            notes: vec![note(domains)],
        },
        links: LinkSet::default(),
        workloads: vec![Workload {
            collective: options.collective.clone(),
            bytes: options.bytes,
            ranks: ranks as u32,
            schedule: String::new(),
            pairs: Vec::new(),
        }],
        calls: table(&entry, &exit),
    };
    observation.check()?;
    Ok(observation)
}

/// The calls: from the first rank's entry to the last rank's return.
fn table(entry: &[Vec<f64>], exit: &[Vec<f64>]) -> Calls {
    let mut calls = Calls::with_columns(entry.len(), 0);
    let number = entry.first().map_or(0, Vec::len);
    let over = |columns: &[Vec<f64>], call: usize, worse: fn(f64, f64) -> f64| {
        let values = columns.iter().map(|column| column[call]);
        values.reduce(worse).unwrap_or_default()
    };
    let origin = if number > 0 {
        over(entry, 0, f64::min)
    } else {
        0.0
    };
    for call in 0..number {
        let (first, last) = (over(entry, call, f64::min), over(exit, call, f64::max));
        calls.workload.push(0);
        calls.start.push(first - origin);
        calls.time.push(last - first);
        for rank in 0..entry.len() {
            calls.rank_entry[rank].push(entry[rank][call] - first);
            calls.rank_time[rank].push(exit[rank][call] - entry[rank][call]);
        }
    }
    calls
}

fn column(raw: &mut impl Read, calls: usize) -> std::io::Result<Vec<f64>> {
    let mut value = [0; 8];
    let one = |_| {
        raw.read_exact(&mut value)?;
        Ok(f64::from_ne_bytes(value))
    };
    (0..calls).map(one).collect()
}

/// Memory domains, as folders of sysfs; one if it does not say.
fn domains(nodes: &Path) -> usize {
    let is_node = |name: &str| {
        name.strip_prefix("node")
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    let entries = fs::read_dir(nodes).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_node));
    names.count().max(1)
}

fn machine(domains: usize) -> String {
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let domain = if domains == 1 { "domain" } else { "domains" };
    format!("{host}, {domains} memory {domain}")
}

fn note(domains: usize) -> String {
    match domains {
        1 => {
            "This machine has one memory domain: there are no links between chips to blame.".into()
        }
        _ => format!(
            "This machine has {domains} memory domains, but the bytes on its links were not \
             counted: the file has times alone."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> RunOptions {
        RunOptions {
            collective: "barrier".into(),
            bytes: 0,
            calls: 2,
            output: PathBuf::new(),
            mpicc: None,
            launcher: Vec::new(),
        }
    }

    #[test]
    fn a_call_lasts_from_the_first_entry_to_the_last_return() {
        let mut raw = b"mica-links-raw 2 2\n".to_vec();
        for value in [5.0, 7.0, 6.0, 9.0, 5.5, 6.5, 6.25, 8.0] {
            raw.extend(f64::to_ne_bytes(value));
        }
        let observation = observation(&options(), &[], raw.as_slice()).unwrap();
        let calls = &observation.calls;
        assert_eq!(
            (&calls.start[..], &calls.time[..]),
            (&[0.0, 1.5][..], &[1.25, 2.5][..])
        );
        assert_eq!(calls.rank_entry[1], [0.5, 0.0]);
        assert_eq!(calls.rank_time[0], [1.0, 2.0]);
    }

    #[test]
    fn refuses_what_links_c_has_not_written_whole() {
        let error = |raw: &[u8]| observation(&options(), &[], raw).unwrap_err().to_string();
        assert!(error(b"nothing\n").contains("not a file of links.c"));
        assert!(!error(b"mica-links-raw 1 2\n12345678").is_empty());
    }

    #[test]
    fn counts_memory_domains() {
        let folder = std::env::temp_dir().join(format!("mica-domains-{}", std::process::id()));
        for name in ["node0", "node1", "node12", "nodes", "power"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        assert_eq!(domains(&folder), 3);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(domains(&folder), 1);
    }
}
