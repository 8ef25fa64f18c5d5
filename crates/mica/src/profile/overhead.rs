//! `mica profile --overhead -- mpiexec -n N PROGRAM`: what the profiler costs a program. Every
//! round runs the command once without and once with the profiler's library, in changing order; the
//! overhead of a round is the ratio of its two times. The figure is the median of the rounds'
//! overheads.
//!
//! A time is that of the whole command, launcher and start included: without the library it is
//! not known when `MPI_Init` was over. What `mica profile` does after the job is not in it. A program
//! should so run for a second or more.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::compare::{Spread, spread, turns};
use super::{RecordsDirectory, command};

/// Times of a command without and with the profiler.
#[derive(Debug, Serialize)]
pub struct Overhead {
    command: Vec<String>,
    rounds: usize,
    without_s: Spread,
    with_s: Spread,
    /// Of the rounds.
    overhead_percent: Spread,
}

/// Measures it.
///
/// # Errors
/// If a run fails.
pub fn overhead(
    arguments: &[String],
    library: &Path,
    rounds: usize,
) -> Result<Overhead, Box<dyn Error>> {
    let mut times = [Vec::new(), Vec::new()];
    for (round, side) in turns(rounds, 2) {
        let records = RecordsDirectory::make(&std::env::temp_dir())?;
        let run = match side {
            0 => command::without_profiler(arguments),
            _ => command::under_profiler(arguments, library, &records.path)?,
        };
        let start = Instant::now();
        let status = command::run_silently(&run)?;
        let seconds = start.elapsed().as_secs_f64();
        let which = ["without", "with"][side];
        if !status.success() {
            return Err(format!("{} ({which} the profiler): {status}", arguments.join(" ")).into());
        }
        eprintln!(
            "round {} of {rounds}: {seconds:.3} s {which} the profiler",
            round + 1
        );
        times[side].push(seconds);
    }
    Ok(of(arguments, times))
}

fn of(arguments: &[String], [without, with]: [Vec<f64>; 2]) -> Overhead {
    let rounds = without.iter().zip(&with);
    let overheads = rounds
        .map(|(without, with)| 100.0 * (with / without - 1.0))
        .collect();
    Overhead {
        command: arguments.to_vec(),
        rounds: without.len(),
        without_s: spread(without),
        with_s: spread(with),
        overhead_percent: spread(overheads),
    }
}

impl Overhead {
    /// One line for the result, one for the times.
    pub fn render(&self) -> String {
        let mut text = format!("Overhead of the profiler: {}\n", self.command.join(" "));
        let over = self.overhead_percent;
        let _ = writeln!(
            text,
            "{:+.2} % (median of {} rounds; from {:+.2} to {:+.2} %)",
            over.median, self.rounds, over.min, over.max
        );
        for (name, times) in [("without", self.without_s), ("with", self.with_s)] {
            let _ = writeln!(
                text,
                "{name:<8} {:.3} s, from {:.3} to {:.3}",
                times.median, times.min, times.max
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_is_the_median_of_the_rounds() {
        let command = ["mpiexec", "a"].map(String::from);
        let result = of(&command, [vec![1.0, 2.0, 4.0], vec![1.01, 2.2, 3.9]]);
        let text = result.render();
        assert!(
            text.contains("+1.00 % (median of 3 rounds; from -2.50 to +10.00 %)"),
            "{text}"
        );
        assert!(
            text.contains("without  2.000 s, from 1.000 to 4.000"),
            "{text}"
        );
    }
}
