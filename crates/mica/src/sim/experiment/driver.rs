//! Runs what is missing of a table, one run after another, with a progress bar.
//!
//! Under mpiexec all host ranks come here together: the first one says which runs are missing, all
//! simulate them together, and the first one keeps the results.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::store::{Results, SimulationOutcome, Store, StoredRun};
use super::table::SimulationRun;

/// Something that can simulate: `super::runner::Simulator`, or a fake one in tests.
pub trait Runner {
    /// Hash of all that a run's result depends on besides the run.
    ///
    /// # Errors
    /// When the program is missing, or the machine.
    fn fingerprint(&self, run: &SimulationRun) -> Result<String, String>;

    /// Simulates.
    ///
    /// # Errors
    /// When the simulation fails, or the program.
    fn run(&mut self, run: &SimulationRun) -> Result<SimulationOutcome, String>;

    /// Whether this is the host rank that keeps results.
    fn is_first(&self) -> bool {
        true
    }

    /// What the first host rank has passed, on all.
    ///
    /// # Errors
    /// Those of MPI.
    fn agree(&self, missing: Vec<usize>) -> Result<Vec<usize>, String> {
        Ok(missing)
    }
}

/// The results of all runs; those that are not in the store are simulated first. On host ranks
/// other than the first one, the results are only those that were missing.
///
/// # Errors
/// Of the first run that fails. Those before it are kept.
pub fn complete(
    runs: Vec<SimulationRun>,
    runner: &mut dyn Runner,
    store: &Store,
) -> Result<Results, String> {
    let mut outcomes = Vec::new();
    let mut fingerprints = Vec::new();
    for run in &runs {
        let fingerprint = runner.fingerprint(run)?;
        outcomes.push(store.load(run, &fingerprint));
        fingerprints.push(fingerprint);
    }
    let missing = (0..runs.len()).filter(|&i| outcomes[i].is_none());
    let missing = runner.agree(missing.collect())?;
    let progress = ExperimentProgress::new(runner.is_first(), missing.len());
    for index in missing {
        let run = &runs[index];
        progress.begin(run);
        let outcome = runner.run(run).map_err(|error| format!("{}: {error}", run.name()))?;
        progress.end(run, &outcome);
        if runner.is_first() {
            store.save(&StoredRun {
                run: run.clone(),
                fingerprint: std::mem::take(&mut fingerprints[index]),
                outcome: outcome.clone(),
            })?;
        }
        outcomes[index] = Some(outcome);
    }
    progress.finish();
    let mut results = Results::default();
    for (run, outcome) in runs.into_iter().zip(outcomes) {
        if let Some(outcome) = outcome {
            results.add(run, outcome);
        }
    }
    Ok(results)
}

/// A bar on a terminal, lines elsewhere; on stderr.
struct ExperimentProgress {
    bar: ProgressBar,
    has_lines: bool,
}

impl ExperimentProgress {
    // flag: the call passes `is_first()`: one host rank of all shows it.
    fn new(is_shown: bool, runs: usize) -> ExperimentProgress {
        let is_terminal = std::io::stderr().is_terminal();
        let target = match is_shown && is_terminal && runs > 0 {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(runs as u64), target);
        let style = ProgressStyle::with_template(
            "{bar:30} {pos}/{len}  {elapsed} gone, {eta} to go  {wide_msg}",
        );
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        ExperimentProgress { bar, has_lines: is_shown && !is_terminal }
    }

    fn begin(&self, run: &SimulationRun) {
        self.bar.set_message(run.name());
    }

    fn end(&self, run: &SimulationRun, outcome: &SimulationOutcome) {
        self.bar.inc(1);
        if self.has_lines {
            eprintln!(
                "{}/{} {}: {:.1} us in the region, {:.1} s",
                self.bar.position(),
                self.bar.length().unwrap_or(0),
                run.name(),
                outcome.region_ns / 1e3,
                outcome.host_seconds
            );
        }
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
