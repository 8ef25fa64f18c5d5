//! `mica top`: what the ranks of a running job do, live in a terminal or once for a script.
//!
//! It attaches to a job of Mica's mpiexec on this node ([`find`]), which hands it the job segment
//! for reading, and takes samples of it and of `/proc` ([`job`], [`process`]). Two samples make the
//! rows that are shown ([`rows`]): as text or JSON ([`report`]), or on a screen ([`screen`],
//! [`view`], [`mod@column`]). The ranks do not notice: they neither stop nor answer, and mpiexec
//! answers one question when `mica top` starts.

mod column;
mod direct;
mod error;
mod find;
mod job;
mod number;
mod part;
mod process;
mod report;
mod rows;
mod screen;
mod spawned;
mod view;

use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::time::Duration;

use error::TopError;
use find::{FoundJob, JobSearch, SearchResult};
use job::WatchedJob;
use rows::JobView;

use crate::terminal::{print, status};

/// Shortest interval between two samples, in seconds.
const INTERVAL_MIN: f64 = 0.05;
/// Longest one: a day.
const INTERVAL_MAX: f64 = 86_400.0;

/// The options of `mica top`.
#[derive(clap::Args)]
pub struct TopOptions {
    /// Process id of the job's launcher, or of a rank; may be left out if only one job of yours
    /// runs on this node.
    job: Option<u32>,
    /// Seconds between two samples, which rates are measured over.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Print the state once, after one interval, and exit; the default if standard output is no
    /// terminal.
    #[arg(long)]
    once: bool,
    /// Print JSON (implies --once).
    #[arg(long)]
    json: bool,
    /// List the jobs on this node that this user can watch.
    #[arg(long, conflicts_with_all = ["job", "once"])]
    list: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match (INTERVAL_MIN..=INTERVAL_MAX).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(format!("not between {INTERVAL_MIN} and {INTERVAL_MAX}")),
    }
}

/// Runs `mica top`. The status is that of the command: 0 also if the job ended while it was
/// watched.
pub fn main(options: &TopOptions) -> ExitCode {
    status("mica top", run(options), ExitCode::FAILURE)
}

fn run(options: &TopOptions) -> Result<ExitCode, TopError> {
    let search = JobSearch::new()?;
    if options.list {
        let found = search.find().jobs;
        let text = if options.json { report::list_json(&found) } else { report::list(&found) };
        print(&text);
        return Ok(ExitCode::SUCCESS);
    }
    let mut job = WatchedJob::new(choose(&search, options.job)?);
    if options.once || options.json || !stdout().is_terminal() {
        let view = once(&mut job, options.interval);
        print(&if options.json { report::json(&view) } else { report::text(&view) });
        return Ok(ExitCode::SUCCESS);
    }
    screen::run(&mut job, options.interval)
}

/// The job that was named, or the only one that there is.
fn choose(search: &JobSearch, named: Option<u32>) -> Result<FoundJob, TopError> {
    if let Some(pid) = named {
        return search.job(pid);
    }
    let SearchResult { jobs: mut found, failures } = search.find();
    match (found.pop(), found.is_empty()) {
        (None, _) => match failures.into_iter().next() {
            Some(failure) => Err(failure),
            None => Err(TopError::NoJob { others: search.others() }),
        },
        (Some(job), true) => Ok(job),
        (Some(job), false) => {
            found.push(job);
            Err(TopError::Several(report::list(&found)))
        }
    }
}

/// The state after one interval, or at the job's end if that comes before.
fn once(job: &mut WatchedJob, interval: Duration) -> JobView {
    let before = job.sample();
    job.wait_for_end(interval);
    let has_ended = job.has_ended();
    let after = job.sample();
    JobView { has_ended, ..JobView::between(job, &before, &after) }
}
