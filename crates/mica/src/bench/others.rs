//! The load of other programs while the rounds run: how many processors are busy at moments when
//! this command and its jobs do nothing.
//!
//! It is measured before each round and after the last one, from `/proc/stat`. What a hypervisor
//! takes away (steal) counts as busy. Load that comes and goes within a round is not seen.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use serde::Serialize;

/// Ticks of the kernel are 10 ms: ten of them on each processor.
const PROBE: Duration = Duration::from_millis(100);

/// A machine is loaded when other programs use this part of one processor on average: what daemons
/// do in the background is below.
const LOADED: f64 = 0.25;

/// Processors that other programs used, at each probe.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub struct OthersLoad(Vec<f64>);

impl OthersLoad {
    /// Measures now, which takes [`PROBE`].
    pub fn probe(&mut self) {
        let before = processor_ticks();
        sleep(PROBE);
        self.0.extend(before.zip(processor_ticks()).and_then(|(a, b)| busy(&a, &b)));
    }

    /// As if these had been measured.
    #[cfg(test)]
    pub fn of(probes: &[f64]) -> OthersLoad {
        OthersLoad(probes.to_vec())
    }

    /// Nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their mean, if the machine was loaded: then verdicts and figures are of a loaded machine.
    pub fn loaded(&self) -> Option<f64> {
        let mean = self.mean()?;
        (mean >= LOADED).then_some(mean)
    }

    /// The mean number of processors.
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self.0.iter().sum();
        (!self.0.is_empty()).then(|| sum / self.0.len() as f64)
    }
}

/// Ticks of all processors together, and of each kind, as `/proc/stat` counts them.
#[derive(Debug, PartialEq)]
struct ProcessorTicks {
    processors: usize,
    kinds: Vec<u64>,
}

/// Places of idle and iowait among the kinds.
const IDLE: [usize; 2] = [3, 4];
/// User, nice, system, idle, iowait, irq, softirq, steal; guests are part of user.
const KINDS: usize = 8;

fn processor_ticks() -> Option<ProcessorTicks> {
    parse(&fs::read_to_string("/proc/stat").ok()?)
}

fn parse(stat: &str) -> Option<ProcessorTicks> {
    let mut lines = stat.lines();
    let all = lines.next()?.strip_prefix("cpu ")?;
    let kinds: Option<Vec<u64>> =
        all.split_whitespace().take(KINDS).map(|ticks| ticks.parse().ok()).collect();
    let processors = lines.take_while(|line| line.starts_with("cpu")).count();
    Some(ProcessorTicks { processors, kinds: kinds? })
}

/// The number of processors that were busy between two moments.
fn busy(before: &ProcessorTicks, after: &ProcessorTicks) -> Option<f64> {
    let grown = before.kinds.iter().zip(&after.kinds).map(|(a, b)| b.saturating_sub(*a) as f64);
    let grown: Vec<f64> = grown.collect();
    let all: f64 = grown.iter().sum();
    let idle: f64 = IDLE.iter().filter_map(|&kind| grown.get(kind)).sum();
    (all > 0.0).then(|| (all - idle) / all * after.processors as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_processors_are_those_that_are_not_idle() {
        let stat = |user: u64, idle: u64, steal: u64| {
            let line = format!("cpu  {user} 0 5 {idle} 7 0 0 {steal} 0 0\n");
            parse(&(line + "cpu0 1 2 3 4\ncpu1 1 2 3 4\nintr 5\n")).expect("a line of all")
        };
        let before = stat(100, 1000, 0);
        assert_eq!(before.processors, 2);
        assert_eq!(busy(&before, &stat(100, 1020, 0)), Some(0.0));
        assert_eq!(busy(&before, &stat(110, 1005, 5)), Some(1.5));
        assert_eq!(busy(&before, &before), None, "no tick");
        assert_eq!(parse("intr 5\n"), None);
    }

    #[test]
    fn a_machine_is_loaded_by_the_mean_of_its_probes() {
        assert_eq!(OthersLoad::default().loaded(), None);
        assert_eq!(OthersLoad(vec![0.5, 0.0, 0.0]).loaded(), None);
        assert_eq!(OthersLoad(vec![1.0, 0.5]).loaded(), Some(0.75));
        let mut measured = OthersLoad::default();
        measured.probe();
        assert!(measured.mean().is_none_or(|mean| mean >= 0.0));
    }
}
