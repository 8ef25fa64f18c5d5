//! Progress of the rounds: a bar on a terminal, plain lines elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use super::run::BenchRun;
use crate::draw::text::three_digits;

/// Shown on stderr; stdout is for results.
pub struct BenchProgress {
    bar: Option<ProgressBar>,
    round: String,
}

impl BenchProgress {
    /// A display for this number of steps.
    pub fn new(steps: usize) -> BenchProgress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(
                "{bar:30} {pos}/{len}  {elapsed} gone, {eta} to go  {wide_msg}",
            );
            let bar = ProgressBar::new(steps as u64);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        BenchProgress { bar, round: String::new() }
    }

    /// Shows that a round begins.
    pub fn round(&mut self, round: usize, rounds: usize) {
        self.round = format!("round {} of {rounds}", round + 1);
        if self.bar.is_none() {
            self.say(&self.round);
        }
    }

    /// Shows that a run begins.
    pub fn step(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}: {what}", self.round));
        }
    }

    /// Shows that a run has ended.
    pub fn done(&self, run: &BenchRun) {
        let who = format!("{} {} ({} ranks)", run.contestant, run.program, run.ranks);
        if let Some(error) = &run.error {
            let output = run.output.as_deref().unwrap_or_default();
            self.say(&format!("  {who} failed: {error}"));
            for line in output.lines() {
                self.say(&format!("    | {line}"));
            }
        } else if self.bar.is_none() {
            let figures = run.figures.iter().map(|f| match f.bytes {
                0 => format!("{} {} {}", f.measure, three_digits(f.value), f.unit),
                bytes => format!("{} {bytes} B {} {}", f.measure, three_digits(f.value), f.unit),
            });
            let figures: Vec<String> = figures.collect();
            self.say(&format!("  {who}, {:.1} s: {}", run.seconds, figures.join("; ")));
        }
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Prints a line that stays.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
