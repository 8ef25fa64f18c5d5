//! `mica profile --overhead -- mpiexec -n N PROGRAM`: what the profiler costs a program, by three
//! measures. Every round runs the command once without and once with the profiler's library, in
//! changing order.
//!
//! - **Elapsed time**: the ratio of a round's two times; the figure is the median of the rounds. A
//!   time is that of the whole command, launcher and start included: without the library it is not
//!   known when `MPI_Init` was over. What `mica profile` does after the job is not in it. A program
//!   should so run for a second or more, on a machine that does nothing else.
//! - **Processor time** of the command's processes, likewise: what other processes and a
//!   hypervisor take from the ranks is not in it. Ranks that wait spin, so that it is no exact
//!   measure either.
//! - **Calls times cost**: the calls that the busiest rank makes, each times what the profiler
//!   costs a call ([`CallCost`]), in percent of the rank's application time. The number of calls is
//!   exact, and the cost of a call can be measured to a nanosecond in many short batches, so that
//!   this resolves what the other two cannot on a noisy machine. It leaves out what the profiler's
//!   memory traffic costs the program between calls.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use mica_node::process_stat::ProcessStat;
use serde::Serialize;

use super::records::{self, RankRecords, RecordingEnd};
use super::rounds::{Spread, spread, turns};
use super::{ProgramOutput, command};
use crate::scratch::ScratchFolder;

/// Times of a command without and with the profiler.
#[derive(Debug, Serialize)]
pub struct Overhead {
    command: Vec<String>,
    rounds: usize,
    without_s: Spread,
    with_s: Spread,
    /// Of the rounds.
    overhead_percent: Spread,
    /// Processor time of all processes.
    cpu_without_s: Spread,
    cpu_with_s: Spread,
    cpu_overhead_percent: Spread,
    /// Calls times their cost, where that was given.
    calls: Option<CallBound>,
}

/// What the profiler costs a call, in nanoseconds: from and to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CallCost {
    from_ns: f64,
    to_ns: f64,
}

/// `FROM,TO`, in nanoseconds.
pub fn parse_cost(text: &str) -> Result<CallCost, String> {
    let pair = text.split_once(',');
    let pair = pair.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    match pair {
        Some((from_ns, to_ns)) if 0.0 <= from_ns && from_ns <= to_ns && to_ns < 1e9 => {
            Ok(CallCost { from_ns, to_ns })
        }
        _ => Err("not two numbers of nanoseconds, FROM,TO".to_owned()),
    }
}

/// Calls times their cost.
#[derive(Debug, Serialize)]
pub struct CallBound {
    cost: CallCost,
    /// Of the rank for which they are most, beside its time.
    calls: u64,
    app_s: f64,
    /// Percent of that time, from and to.
    percent: [f64; 2],
}

/// Seconds of a run.
#[derive(Debug, Clone, Copy)]
struct RunTime {
    elapsed: f64,
    cpu: f64,
}

/// Measures it.
///
/// # Errors
/// If a run fails.
pub fn overhead(
    arguments: &[String],
    library: &Path,
    rounds: usize,
    cost: Option<CallCost>,
) -> Result<Overhead, Box<dyn Error>> {
    let mut times = [Vec::new(), Vec::new()];
    let mut calls = None;
    for (round, side) in turns(rounds, 2) {
        let records = ScratchFolder::new("records")?;
        let run = match side {
            0 => command::without_profiler(arguments),
            _ => command::under_profiler(arguments, library, records.path())?,
        };
        let which = ["without", "with"][side];
        let (start, cpu_before) = (Instant::now(), children_cpu()?);
        let status = command::run(&run, ProgramOutput::Discarded)?;
        let time =
            RunTime { elapsed: start.elapsed().as_secs_f64(), cpu: children_cpu()? - cpu_before };
        if !status.success() {
            return Err(format!("{} ({which} the profiler): {status}", arguments.join(" ")).into());
        }
        eprintln!("round {} of {rounds}: {:.3} s {which} the profiler", round + 1, time.elapsed);
        times[side].push(time);
        if side == 1
            && let Some(cost) = cost
        {
            let jobs = records::read_all(records.path(), &RecordingEnd::now())?.jobs;
            calls = bound(&jobs.into_iter().flatten().collect::<Vec<_>>(), cost);
        }
    }
    Ok(of(arguments, &times, calls))
}

/// Processor time of all processes that this one has waited for, and theirs: seconds.
fn children_cpu() -> Result<f64, Box<dyn Error>> {
    let stat = ProcessStat::own().ok_or("/proc/self/stat cannot be read")?;
    Ok(stat.children_ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// What the calls cost the rank whose time they take the largest part of.
fn bound(ranks: &[RankRecords], cost: CallCost) -> Option<CallBound> {
    let share = |rank: &RankRecords| -> (u64, f64) {
        let calls = rank.calls.iter().map(|call| call.count).sum();
        (calls, rank.app_ns.max(1) as f64)
    };
    let most = |a: &(u64, f64), b: &(u64, f64)| (a.0 as f64 / a.1).total_cmp(&(b.0 as f64 / b.1));
    let (calls, app_ns) = ranks.iter().map(share).max_by(most)?;
    let percent = [cost.from_ns, cost.to_ns].map(|ns| 100.0 * calls as f64 * ns / app_ns);
    Some(CallBound { cost, calls, app_s: app_ns / 1e9, percent })
}

fn of(arguments: &[String], times: &[Vec<RunTime>; 2], calls: Option<CallBound>) -> Overhead {
    let [without, with] = times;
    let values = |side: &[RunTime], what: fn(&RunTime) -> f64| side.iter().map(what).collect();
    let ratios = |what: fn(&RunTime) -> f64| {
        let rounds = without.iter().zip(with);
        // Processor time is counted in hundredths of a second, and may be 0.
        let ratio = |(a, b): (&RunTime, &RunTime)| 100.0 * (what(b) / what(a).max(0.01) - 1.0);
        spread(rounds.map(ratio).collect())
    };
    Overhead {
        command: arguments.to_vec(),
        rounds: without.len(),
        without_s: spread(values(without, |time| time.elapsed)),
        with_s: spread(values(with, |time| time.elapsed)),
        overhead_percent: ratios(|time| time.elapsed),
        cpu_without_s: spread(values(without, |time| time.cpu)),
        cpu_with_s: spread(values(with, |time| time.cpu)),
        cpu_overhead_percent: ratios(|time| time.cpu),
        calls,
    }
}

impl Overhead {
    /// A line for each measure, and the times.
    pub fn render(&self) -> String {
        let mut text = format!("Overhead of the profiler: {}\n", self.command.join(" "));
        for (name, over) in
            [("elapsed time", self.overhead_percent), ("processor time", self.cpu_overhead_percent)]
        {
            let _ = writeln!(
                text,
                "{name:<15} {:+.2} % (median of {} rounds; from {:+.2} to {:+.2} %)",
                over.median, self.rounds, over.min, over.max
            );
        }
        if let Some(CallBound { cost, calls, app_s, percent: [low, high] }) = &self.calls {
            let CallCost { from_ns, to_ns } = cost;
            let _ = writeln!(
                text,
                "calls x cost    {low:+.2} to {high:+.2} % ({calls} calls of a rank in \
                 {app_s:.3} s, {from_ns:.0} to {to_ns:.0} ns each)"
            );
        }
        for (name, times, cpu) in [
            ("without", self.without_s, self.cpu_without_s),
            ("with", self.with_s, self.cpu_with_s),
        ] {
            let _ = writeln!(
                text,
                "{name:<8} {:.3} s, from {:.3} to {:.3}; processor time {:.2} s, from {:.2} to \
                 {:.2}",
                times.median, times.min, times.max, cpu.median, cpu.min, cpu.max
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::SiteCalls;
    use super::*;

    #[test]
    fn overhead_is_the_median_of_the_rounds() {
        let command = ["mpiexec", "a"].map(String::from);
        let time = |elapsed: f64| RunTime { elapsed, cpu: 2.0 * elapsed };
        let times = [[1.0, 2.0, 4.0], [1.01, 2.2, 3.9]].map(|side| side.map(time).to_vec());
        let text = of(&command, &times, None).render();
        for line in [
            "elapsed time    +1.00 % (median of 3 rounds; from -2.50 to +10.00 %)",
            "processor time  +1.00 % (median of 3 rounds; from -2.50 to +10.00 %)",
            "without  2.000 s, from 1.000 to 4.000; processor time 4.00 s, from 2.00 to 8.00",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("calls x cost"));
    }

    #[test]
    fn the_bound_is_that_of_the_rank_with_most_calls_in_its_time() {
        let rank = |count: u64, app_ns: u64| {
            let call = SiteCalls { count, ..SiteCalls::default() };
            RankRecords { app_ns, calls: vec![call], ..RankRecords::default() }
        };
        let cost = parse_cost("20,50").expect("two numbers");
        let ranks = [rank(100_000, 1_000_000_000), rank(90_000, 500_000_000)];
        let bound = bound(&ranks, cost).expect("a rank");
        assert_eq!(bound.calls, 90_000);
        assert!((bound.percent[0] - 0.36).abs() < 1e-9 && (bound.percent[1] - 0.9).abs() < 1e-9);
        for bad in ["", "20", "50,20", "-1,2", "a,b"] {
            assert!(parse_cost(bad).is_err(), "{bad}");
        }
    }
}
