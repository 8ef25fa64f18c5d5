//! Runs what is missing of a table, one run after another, with a progress bar.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::store::{Results, SimulationOutcome, Store, StoredRun};
use crate::table::SimulationRun;

/// Something that can simulate: `crate::runner::Simulator`, or a fake one in tests.
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
}

/// The results of all runs; those that are not in the store are simulated first.
///
/// # Errors
/// Of the first run that fails. Those before it are kept.
pub fn complete(
    runs: Vec<SimulationRun>,
    runner: &mut dyn Runner,
    store: &Store,
) -> Result<Results, String> {
    let mut stored = Vec::new();
    for run in runs {
        let fingerprint = runner.fingerprint(&run)?;
        let outcome = store.load(&run, &fingerprint);
        stored.push((run, fingerprint, outcome));
    }
    let missing = stored.iter().filter(|(_, _, outcome)| outcome.is_none()).count();
    let progress = ExperimentProgress::new(missing);
    let mut results = Results::default();
    for (run, fingerprint, outcome) in stored {
        let outcome = match outcome {
            Some(outcome) => outcome,
            None => {
                progress.begin(&run);
                let outcome =
                    runner.run(&run).map_err(|error| format!("{}: {error}", run.name()))?;
                progress.end(&run, &outcome);
                let record = StoredRun { run: run.clone(), fingerprint, outcome };
                store.save(&record)?;
                record.outcome
            }
        };
        results.add(run, outcome);
    }
    progress.finish();
    Ok(results)
}

/// A bar on a terminal, lines elsewhere; on stderr.
struct ExperimentProgress {
    bar: ProgressBar,
    has_lines: bool,
}

impl ExperimentProgress {
    fn new(runs: usize) -> ExperimentProgress {
        let is_terminal = std::io::stderr().is_terminal();
        let target = match is_terminal && runs > 0 {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(runs as u64), target);
        let style = ProgressStyle::with_template(
            "{bar:30} {pos}/{len}  {elapsed} gone, {eta} to go  {wide_msg}",
        );
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        ExperimentProgress { bar, has_lines: !is_terminal }
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
