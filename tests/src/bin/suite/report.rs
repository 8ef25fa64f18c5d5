//! What is said of the tests: a line each, the whole output of those that failed, and their times.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use mica_tests::append_time;

use crate::options::Options;
use crate::process::TestRun;
use crate::test_binary::TestCase;

/// What is shown of one test's failures when it runs often: the first.
const SHOWN: u32 = 1;

/// The report of a run, to which all workers add.
pub struct Report {
    name: String,
    repeat: u32,
    times: PathBuf,
    wanted: usize,
    sums: Mutex<Sums>,
}

#[derive(Default)]
struct Sums {
    passed: usize,
    failed: BTreeMap<String, u32>,
    /// Why tests tested nothing, by the reason.
    skipped: BTreeMap<String, Vec<String>>,
    /// Of each binary: seconds and seconds of a core.
    binaries: BTreeMap<String, (Duration, Duration)>,
}

impl Report {
    /// Of a run of `wanted` tests, whose times go to the file `times`.
    pub fn new(options: &Options, times: PathBuf, wanted: usize) -> Self {
        let (name, repeat) = (options.name.clone(), options.repeat);
        Self { name, repeat, times, wanted, sums: Mutex::default() }
    }

    /// Adds a test.
    pub fn add(&self, case: &TestCase, run: &TestRun) {
        let name = case.full_name();
        let mut sums = self.sums.lock().expect("no worker panics");
        let binary = sums.binaries.entry(case.binary.name.clone()).or_default();
        binary.0 += run.wall;
        binary.1 += run.core;
        append_time(&self.times, "tests", &name, run.wall, run.core);
        let (wall, core) = (run.wall.as_secs_f64(), run.core.as_secs_f64());
        let verdict = if run.passed { "ok" } else { "FAILED" };
        println!("{verdict:6} {wall:7.2} s {core:7.2} s of a core  {name}");
        if run.passed {
            sums.passed += 1;
            for reason in run.output.lines().filter_map(|line| line.strip_prefix("skipped: ")) {
                sums.skipped.entry(reason.to_owned()).or_default().push(name.clone());
            }
            return;
        }
        let times = sums.failed.entry(name.clone()).or_default();
        *times += 1;
        if *times <= SHOWN {
            println!("---- {name}\n{}\n----", run.output.trim_end());
        }
    }

    /// Says what it came to; true if all tests ran and passed.
    pub fn finish(self) -> Result<bool, String> {
        let sums = self.sums.into_inner().expect("no worker panics");
        for (name, (wall, core)) in &sums.binaries {
            append_time(&self.times, "test binaries", name, *wall, *core);
        }
        for (reason, tests) in &sums.skipped {
            println!("skipped in part or whole: {}: {reason}", tests.join(", "));
        }
        for (name, times) in &sums.failed {
            match self.repeat {
                1 => println!("FAILED {name}"),
                repeat => println!("FAILED {times} of {repeat} times: {name}"),
            }
        }
        let failed: u32 = sums.failed.values().sum();
        let ran = sums.passed + failed as usize;
        println!("{}: {} passed, {failed} failed", self.name, sums.passed);
        match ran == self.wanted {
            true => Ok(failed == 0),
            false => Err(format!("{ran} of {} tests ran", self.wanted)),
        }
    }
}
