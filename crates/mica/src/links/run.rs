//! `mica links run [OPTIONS] [-- mpiexec -n N ...]`: observes the calls of a collective on this
//! machine.
//!
//! The job ([`super::job`]) times each call on every rank, and one rank of each node reads the
//! counters that [`super::wanted`] has found around each; the library adds up what each call moves.
//! [`super::observed`] makes an observation of both, with what the kernel says about memory
//! domains. Traffic of [`super::disturb`] may run beside it.

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Args;
use mica_links::discover::Domains;
use mica_links::{ChipMachine, Observation};

use super::disturb::{BackgroundTraffic, Disturbing};
use super::job::{JobMode, LinksJob, LinksJobOptions};
use super::observed::Gathered;
use super::wanted::WantedCounters;
use crate::terminal::spinner;

/// The options of `mica links run`.
#[derive(Args)]
pub struct LinksRunOptions {
    #[command(flatten)]
    job: LinksJobOptions,
    /// Count this event too, as perf names it: UNIT/FIELD=VALUE,.../ of a unit in
    /// /sys/bus/event_source/devices; config=N is the whole number. May be given several times.
    #[arg(long, value_name = "EVENT")]
    counter: Vec<String>,
    /// The machine, for the routes of the library's account: the name of one that is shipped, or
    /// a file of TOML. Chips are its memory domains.
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// Make traffic on this machine meanwhile.
    #[arg(long, value_enum, default_value_t = BackgroundTraffic::None)]
    background: BackgroundTraffic,
    /// The seed of that traffic.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The file to write.
    #[arg(short, long, value_name = "FILE", default_value = "links.mica")]
    output: PathBuf,
}

/// Runs the job, writes the observation, and says where.
pub fn run(options: &LinksRunOptions) -> Result<String, Box<dyn Error>> {
    let machine = options.machine.as_deref().map(ChipMachine::named).transpose()?;
    let wanted = WantedCounters::find(Path::new("/"), &options.counter)?;
    let spinner = spinner()?;
    spinner.set_message("compiling bench/src/links.c");
    let job = LinksJob::compile(&options.job)?;
    let before = Domains::find(Path::new("/"))?;
    spinner.set_message(format!("{} calls of {}", options.job.calls, options.job.collective));
    let traffic = Disturbing::start(options.background, options.seed, &before, job.scratch());
    let raw = job.run(JobMode::Observe, &wanted.list());
    let traffic = traffic.stop();
    let raw = raw?;
    let after = Domains::find(Path::new("/"))?;
    spinner.finish_and_clear();
    let gathered = Gathered {
        collective: &options.job.collective,
        bytes: options.job.bytes,
        command: job.command(),
        seed: options.seed,
        raw: &raw,
        wanted: &wanted,
        accounts: job.accounts(raw.entry.len()),
        domains: [before, after],
        machine: machine.as_ref(),
    };
    let mut observation = gathered.observation()?;
    observation.provenance.notes.extend(traffic);
    super::write(&observation, &options.output)?;
    Ok(said(&observation, options))
}

fn said(observation: &Observation, options: &LinksRunOptions) -> String {
    let calls = &observation.calls;
    let moved = match calls.moved_bytes.is_empty() {
        true => String::new(),
        false => {
            let mean = calls.moved_bytes.iter().sum::<f64>() / calls.len().max(1) as f64;
            let mean = crate::draw::text::volume(mean);
            let one = ", all within one memory domain";
            let where_to = if observation.links.is_empty() { one } else { "" };
            format!("A call moves {mean} between ranks on average{where_to}.\n")
        }
    };
    format!(
        "{} calls of {} on {} ranks in {}\n{moved}{}\n",
        calls.len(),
        options.job.collective,
        observation.workloads[0].ranks,
        options.output.display(),
        observation.provenance.notes.join("\n")
    )
}
