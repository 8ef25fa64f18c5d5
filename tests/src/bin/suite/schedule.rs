//! Which test runs when: a queue that workers empty, what took longest last time first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

use mica_tests::{TestTime, core_count, target};

use crate::load::LoadProcesses;
use crate::options::Options;
use crate::process;
use crate::report::Report;
use crate::test_binary::{self, TestCase};

/// Tests under way at a time, for each core: those that wait for cores or for time take none.
const TESTS_PER_CORE: usize = 3;

/// Runs the tests that the options select; true if all passed.
pub fn run(options: &Options) -> Result<bool, String> {
    let folder = target().join("logs/times");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let times = folder.join(format!("{}.jsonl", options.name));
    let mut cases = selected(options)?;
    longest_first(&mut cases, &last_times(&times));
    let cases: VecDeque<TestCase> = (0..options.repeat).flat_map(|_| cases.clone()).collect();
    let outputs = target().join("logs").join(&options.name);
    let _ = fs::remove_dir_all(&outputs);
    fs::create_dir_all(&outputs).map_err(|error| format!("{}: {error}", outputs.display()))?;
    fs::write(&times, "").map_err(|error| format!("{}: {error}", times.display()))?;

    let report = Report::new(options, times.clone(), cases.len());
    let load = LoadProcesses::start(options.load)?;
    let (queue, number) = (TestQueue::new(cases), AtomicUsize::new(0));
    let one = || -> Result<(), String> {
        while let Some(case) = queue.next() {
            let output: PathBuf =
                outputs.join(format!("{}.out", number.fetch_add(1, Ordering::Relaxed)));
            let run = process::run(&case, &output, &times, options.limit);
            queue.ended(&case);
            let run = run?;
            if run.passed {
                let _ = fs::remove_file(&output);
            }
            report.add(&case, &run);
        }
        Ok(())
    };
    let errors: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> =
            (0..TESTS_PER_CORE * core_count()).map(|_| scope.spawn(one)).collect();
        let ends = workers.into_iter().map(|worker| worker.join().expect("no worker panics"));
        ends.filter_map(Result::err).collect()
    });
    drop(load);
    match errors.into_iter().next() {
        Some(error) => Err(error),
        None => report.finish(),
    }
}

/// The tests that wait for a worker. Copies of one test (`--repeat`) run one after the other: a
/// test may have a folder or a port of its own.
struct TestQueue {
    tests: Mutex<QueuedTests>,
    /// A test has ended.
    ended: Condvar,
}

struct QueuedTests {
    waiting: VecDeque<TestCase>,
    running: BTreeSet<String>,
}

impl TestQueue {
    fn new(waiting: VecDeque<TestCase>) -> TestQueue {
        let tests = QueuedTests { waiting, running: BTreeSet::new() };
        TestQueue { tests: Mutex::new(tests), ended: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, QueuedTests> {
        self.tests.lock().expect("no worker panics")
    }

    /// The next test that may run, if need be after a copy of it; `None` if there is none left.
    fn next(&self) -> Option<TestCase> {
        let mut tests = self.lock();
        while !tests.waiting.is_empty() {
            let QueuedTests { waiting, running } = &*tests;
            let free = waiting.iter().position(|case| !running.contains(&case.full_name()));
            if let Some(case) = free.and_then(|index| tests.waiting.remove(index)) {
                tests.running.insert(case.full_name());
                return Some(case);
            }
            tests = self.ended.wait(tests).expect("no worker panics");
        }
        None
    }

    fn ended(&self, case: &TestCase) {
        self.lock().running.remove(&case.full_name());
        self.ended.notify_all();
    }
}

/// The tests that the options select.
fn selected(options: &Options) -> Result<Vec<TestCase>, String> {
    let mut cases = Vec::new();
    for binary in test_binary::read(&options.binaries)? {
        if options.packages.is_empty() || options.packages.contains(&binary.package) {
            cases.extend(binary.tests()?);
        }
    }
    cases.retain(|case| options.wants(&case.full_name()));
    match cases.is_empty() {
        true => Err("no test has such a name".to_owned()),
        false => Ok(cases),
    }
}

/// How long tests took in the last run of this name, in seconds.
fn last_times(file: &PathBuf) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let times = text.lines().filter_map(|line| serde_json::from_str::<TestTime>(line).ok());
    times.filter(|time| time.group == "tests").map(|time| (time.name, time.wall)).collect()
}

/// Modules whose tests take longest, for a machine where no times are known.
const LONG: [&str; 3] = [" programs::", " mpi4py::", " ability::"];

/// New tests, of which no time is known, come before the others, and the long ones among them
/// first.
fn longest_first(cases: &mut [TestCase], times: &BTreeMap<String, f64>) {
    let time = |case: &TestCase| {
        let name = case.full_name();
        let is_long = LONG.iter().any(|module| name.contains(module));
        let guess = if is_long { f64::INFINITY } else { f64::MAX };
        times.get(&name).copied().unwrap_or(guess)
    };
    cases.sort_by(|a, b| time(b).total_cmp(&time(a)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str) -> TestCase {
        TestCase { name: name.to_owned(), ..TestCase::default() }
    }

    #[test]
    fn copies_run_one_after_the_other() {
        let queue = TestQueue::new(["a", "a", "b"].map(case).into());
        let (first, second) = (queue.next().expect("a"), queue.next().expect("b"));
        assert_eq!((&first.name[..], &second.name[..]), ("a", "b"));
        thread::scope(|scope| {
            let third = scope.spawn(|| queue.next());
            queue.ended(&second);
            queue.ended(&first);
            assert_eq!(third.join().expect("no panic").expect("a again").name, "a");
        });
        assert!(queue.next().is_none());
    }
}
