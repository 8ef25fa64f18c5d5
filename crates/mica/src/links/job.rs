//! The program `bench/src/links.c`, compiled by an MPI library's compiler and run by its launcher.
//! `mica links run` and `mica links cost` start it.
//!
//! It is portable: with another library's compiler and launcher it times that library's
//! collectives. The library's own account (`MICA_TRANSFER_ACCOUNT`) is Mica's alone.

use std::error::Error;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use mica_links::account::RankAccount;

use super::raw::RawCalls;
use crate::compiled::{CompiledProgram, MpiPrefix, output_of};

/// What is called, and by which library.
#[derive(Args)]
pub struct LinksJobOptions {
    /// The collective, without MPI_ and in lower case: any of MPI's, blocking, neighborhood (on a
    /// ring) or non-blocking (iallreduce, completed at once).
    #[arg(long, value_name = "NAME", default_value = "allreduce")]
    pub collective: String,
    /// Bytes of a rank's vector, or of its block.
    #[arg(long, value_name = "N", default_value_t = 16384)]
    pub bytes: u64,
    /// Consecutive calls.
    #[arg(long, value_name = "N", default_value_t = 2000,
        value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub calls: u64,
    /// The compiler of the MPI library whose calls are timed.
    #[arg(long, value_name = "FILE")]
    pub mpicc: Option<PathBuf>,
    /// The launcher with its options; the default is this installation's mpiexec -n 2.
    #[arg(last = true, value_name = "LAUNCHER")]
    pub launcher: Vec<String>,
}

/// What the program does beside calling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobMode {
    /// Each call is observed, with counters and the library's account.
    Observe,
    /// Calls in batches, by turns without and with the observer, but for counters.
    Alternate,
}

/// The compiled program, its launcher, and a directory for what they write.
pub struct LinksJob<'a> {
    options: &'a LinksJobOptions,
    launcher: Vec<String>,
    first: PathBuf,
    program: CompiledProgram,
}

impl<'a> LinksJob<'a> {
    /// Compiles the program.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn compile(options: &'a LinksJobOptions) -> Result<LinksJob<'a>, Box<dyn Error>> {
        let own = MpiPrefix::of(None)?;
        let (launcher, first) = match options.launcher.first() {
            None => {
                let words = ["bin/mpiexec", "-n", "2"].map(str::to_owned).to_vec();
                (words, own.command("mpiexec"))
            }
            Some(first) => (options.launcher.clone(), PathBuf::from(first)),
        };
        let mpicc = options.mpicc.clone();
        let mpicc = mpicc.unwrap_or_else(|| own.command("mpicc"));
        Ok(LinksJob { options, launcher, first, program: CompiledProgram::new("links", &mpicc)? })
    }

    /// The launcher's words, for people.
    pub fn command(&self) -> String {
        format!("{} links", self.launcher.join(" "))
    }

    /// A directory for files that go with the job.
    pub fn scratch(&self) -> &Path {
        self.program.directory()
    }

    /// Runs the job, whose ranks read the counters in `list` (lines of links.c).
    ///
    /// # Errors
    /// What the job says when it fails.
    pub fn run(&self, mode: JobMode, list: &str) -> Result<RawCalls, Box<dyn Error>> {
        let (raw, counters) = (self.scratch().join("raw"), self.scratch().join("counters"));
        fs::write(&counters, list)?;
        let mut job = Command::new(&self.first);
        job.args(&self.launcher[1..])
            .arg(&self.program.file)
            .arg(&self.options.collective)
            .args([self.options.bytes, self.options.calls].map(|number| number.to_string()))
            .arg(&raw);
        job.env("MICA_TRANSFER_ACCOUNT", self.scratch().join("account"));
        match mode {
            JobMode::Observe if list.is_empty() => job.arg("-"),
            JobMode::Observe => job.arg(&counters),
            JobMode::Alternate => job.args(["-", "alternate"]),
        };
        output_of(job)?;
        RawCalls::read(BufReader::new(File::open(&raw)?))
    }

    /// The accounts that the ranks of the last run wrote; the reason if one is missing.
    pub fn accounts(&self, ranks: usize) -> Result<Vec<RankAccount>, String> {
        let of_rank = |rank: usize| {
            let file = self.scratch().join(format!("account.{rank}"));
            let bytes = fs::read(&file);
            let bytes = bytes.map_err(|_| {
                format!(
                    "rank {rank} has written none here (it runs another library, or on another \
                     host)"
                )
            })?;
            RankAccount::parse(&bytes).map_err(|error| format!("rank {rank}: {error}"))
        };
        (0..ranks).map(of_rank).collect()
    }
}
