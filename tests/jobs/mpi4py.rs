//! mpi4py's own test suite: every module that `tests/python/mpi4py-modules.txt` lists as `run` on 2
//! ranks (with numpy's arrays), on 3, and on two nodes with two ranks each, but for those that
//! spawn processes; the modules that do something else there on 1 rank and on 5; and on 1 rank
//! those that do not communicate. [`BATCH`] modules in one job, since starting Python takes longer
//! than most modules. Modules of a batch that fails run again, each in its own job, to name the one
//! at fault; the failure of the batch counts as one all the same.
//!
//! `MICA_PYTHON` names a Python with mpi4py built against this library (default
//! `target/venv/bin/python`), `MICA_MPI4PY_SRC` its unpacked source (default `target/mpi4py-src`),
//! `MICA_MPI4PY_ONLY` some modules, comma-separated, for debugging.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use mica_tests::{Install, Job, TWO_NODES, target, workspace};

pub fn path(variable: &str, default: &str) -> PathBuf {
    let path = env::var_os(variable).map_or_else(|| target().join(default), PathBuf::from);
    assert!(
        path.exists(),
        "{} does not exist: `make run` makes it, or set {variable}",
        path.display()
    );
    path
}

/// A line of the list.
pub struct Listed {
    pub name: String,
    pub runs: bool,
    /// Its tests need numpy.
    numpy: bool,
    /// If set, it runs on this number of ranks only.
    only_on: Option<u32>,
    /// It runs on two nodes as well.
    on_nodes: bool,
}

impl Listed {
    /// Whether it runs on this number of ranks, where modules without a number of their own run if
    /// `is_wanted` says so.
    fn runs_on(&self, ranks: u32, is_wanted: &dyn Fn(&str) -> bool) -> bool {
        self.runs && self.only_on.map_or_else(|| is_wanted(&self.name), |only| only == ranks)
    }
}

/// The lines of the list.
pub fn listed() -> Vec<Listed> {
    let file = workspace().join("tests/python/mpi4py-modules.txt");
    let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    text.lines()
        .filter(|l| !l.trim().is_empty() && !l.starts_with('#'))
        .map(|l| {
            let mut words = l.split_whitespace();
            let name = words.next().expect("not empty").to_owned();
            let verdict = words.next().unwrap_or_else(|| panic!("{name}: run or skip?"));
            let runs = verdict == "run";
            let rest: Vec<&str> = words.collect();
            assert!(runs || !rest.is_empty(), "{name}: skipped without a reason");
            let mut listed = Listed { name, runs, numpy: false, only_on: None, on_nodes: true };
            for word in rest.into_iter().filter(|_| runs) {
                match word.split_once('=') {
                    Some(("ranks", ranks)) => listed.only_on = ranks.parse().ok(),
                    Some(("nodes", "no")) => listed.on_nodes = false,
                    None if word == "numpy" => listed.numpy = true,
                    _ => panic!("{}: '{word}' is no word of this list", listed.name),
                }
            }
            listed
        })
        .collect()
}

/// `mpi4py: MODULE: RUN run, SKIPPED skipped, BAD failed`, printed by rank 0 of run_mpi4py.py.
pub fn counts(stdout: &str) -> Option<(u32, u32, u32)> {
    let line = stdout.lines().find(|l| l.starts_with("mpi4py: "))?;
    let (_, tail) = line.rsplit_once(": ")?;
    let mut numbers = tail.split(", ").map(|part| part.split(' ').next()?.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

/// Modules in one job.
const BATCH: usize = 16;

/// The suite's tests on some ranks, as they went so far.
#[derive(Default)]
struct SuiteRun {
    run: u32,
    skipped: u32,
    /// The skipped tests with their reasons, a line each.
    reasons: String,
    failures: Vec<String>,
}

/// How a job of the suite is started.
struct SuiteJob<'a> {
    ranks: u32,
    /// Arrays of numpy are tested as well.
    numpy: bool,
    mpiexec: &'a dyn Fn(&Install) -> Job,
}

impl SuiteJob<'_> {
    /// Runs these modules in one job. Adds up what they did, or returns the report of the failure.
    fn run(&self, modules: &[&str], sum: &mut SuiteRun) -> Result<(), String> {
        let install = Install::find();
        let python = path("MICA_PYTHON", "venv/bin/python");
        let source = path("MICA_MPI4PY_SRC", "mpi4py-src");
        let folder = workspace().join("tests/python");
        let job = (self.mpiexec)(&install)
            .args(["-n", &self.ranks.to_string()])
            .args([&python, &folder.join("run_mpi4py.py")])
            .args(["--limit", "300"])
            .args(["--src".as_ref(), source.as_os_str()])
            .args(["--list".as_ref(), folder.join("mpi4py-modules.txt").as_os_str()])
            .args((!self.numpy).then_some("--no-numpy"))
            .args(modules);
        let outcome = job.limit(Duration::from_secs(340)).run();
        let ended_well = outcome.code() == 0 && !outcome.hung() && outcome.survivors.is_empty();
        let lines = outcome.stdout.lines();
        for line in lines.filter(|line| line.starts_with("skipped: ")) {
            sum.reasons.push_str(line);
            sum.reasons.push('\n');
        }
        match counts(&outcome.stdout) {
            Some((done, left_out, 0)) if ended_well && done > 0 => {
                sum.run += done - left_out;
                sum.skipped += left_out;
                Ok(())
            }
            _ => Err(outcome.report()),
        }
    }
}

fn run_suite(ranks: u32, name: &str, mpiexec: &dyn Fn(&Install) -> Job) {
    run_modules(ranks, name, &|_| true, mpiexec);
}

fn run_modules(
    ranks: u32,
    name: &str,
    is_wanted: &dyn Fn(&str) -> bool,
    mpiexec: &dyn Fn(&Install) -> Job,
) {
    let only = env::var("MICA_MPI4PY_ONLY").unwrap_or_default();
    let mut sum = SuiteRun::default();
    let mut batches: [Vec<String>; 2] = Default::default();
    for module in listed() {
        let is_named = only.is_empty() || only.split(',').any(|name| name == module.name);
        if !is_named || !module.runs_on(ranks, is_wanted) {
            continue;
        }
        // numpy arrays on one number of ranks only: each kind of array repeats all tests.
        let with_numpy = module.numpy || module.only_on.is_some() || name == "2";
        batches[usize::from(with_numpy)].push(module.name);
    }
    for (numpy, modules) in [false, true].into_iter().zip(&batches) {
        let job = SuiteJob { ranks, numpy, mpiexec };
        for batch in modules.chunks(BATCH) {
            let batch: Vec<&str> = batch.iter().map(String::as_str).collect();
            if let Err(report) = job.run(&batch, &mut sum) {
                sum.failures.push(report);
                for module in batch {
                    let again = job.run(&[module], &mut sum);
                    sum.failures.extend(again.err());
                }
            }
        }
    }
    let SuiteRun { run, skipped, reasons, failures } = sum;
    // The skipped tests with their reasons, for people: `docs/mpi4py.md` summarizes them.
    let list = workspace().join(format!("target/mpi4py-skipped-{name}.txt"));
    fs::write(&list, reasons).unwrap_or_else(|e| panic!("{}: {e}", list.display()));
    println!("mpi4py on {name} ranks: {run} tests passed, {skipped} skipped");
    assert!(
        failures.is_empty(),
        "mpi4py on {name} ranks: {} jobs failed ({run} tests passed in the others)\n\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(run > 0, "nothing ran");
}

/// Runs on this node.
fn here(install: &Install) -> Job {
    install.mpiexec([""; 0])
}

/// A rank that talks to itself takes paths of its own.
#[test]
fn what_a_rank_does_alone() {
    run_modules(1, "1", &differs_alone, &here);
}

fn differs_alone(name: &str) -> bool {
    begins_with(name, &["test_p2p", "test_cco", "test_rma", "test_win", "test_spawn"])
}

#[test]
fn on_two_ranks() {
    run_suite(2, "2", &here);
}

#[test]
fn on_three_ranks() {
    run_suite(3, "3", &here);
}

/// More than twice as many ranks as cores on a machine of two, and deeper trees.
#[test]
fn collectives_and_groups_of_five_ranks() {
    let differs =
        |name: &str| begins_with(name, &["test_cco", "test_comm", "test_rma", "test_win"]);
    run_modules(5, "5", &differs, &here);
}

fn begins_with(name: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| name.starts_with(part))
}

/// A number of ranks in the list is one on which there is a test.
#[test]
fn every_listed_module_runs_somewhere() {
    let nowhere = |module: &Listed| {
        module.runs
            && !module.runs_on(1, &differs_alone)
            && ![2, 3].iter().any(|ranks| module.runs_on(*ranks, &|_| true))
    };
    let left_out: Vec<String> = listed().into_iter().filter(nowhere).map(|m| m.name).collect();
    assert!(left_out.is_empty(), "run on no number of ranks: {left_out:?}");
}

/// Every module of the suite is in the list, and the list has no others.
#[test]
fn the_list_is_complete() {
    let dir = path("MICA_MPI4PY_SRC", "mpi4py-src").join("test");
    let modules: BTreeSet<String> = fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.strip_suffix(".py").map(str::to_owned))
        .filter(|name| name.starts_with("test_"))
        .collect();
    let names: BTreeSet<String> =
        listed().into_iter().map(|module| module.name).filter(|name| !name.contains('.')).collect();
    assert_eq!(names, modules);
}

#[test]
fn on_two_nodes_of_two_ranks() {
    let on_one_node: BTreeSet<String> =
        listed().into_iter().filter(|module| !module.on_nodes).map(|module| module.name).collect();
    let is_wanted = |name: &str| !on_one_node.contains(name);
    run_modules(4, "2x2", &is_wanted, &|install| {
        let job = here(install);
        TWO_NODES.iter().fold(job, |job, (name, value)| job.env(name, value))
    });
}
