//! All experiments with a fake simulator: tables, reports and files.

use std::collections::BTreeMap;
use std::fs;

use mica_sim::adapter::policy::Policy;
use mica_sim::machine::SimulatedMachine;
use serde_json::json;

use super::*;
use crate::driver::{Runner, complete};
use crate::store::{SimulationOutcome, Store};
use crate::table::{Extent, SimulationRun};

/// Times and counts that depend on the run, and on how often it was asked.
#[derive(Default)]
struct FakeSimulator {
    runs: usize,
    failing: Option<usize>,
}

impl Runner for FakeSimulator {
    fn fingerprint(&self, _run: &SimulationRun) -> Result<String, String> {
        Ok("fake".into())
    }

    fn run(&mut self, run: &SimulationRun) -> Result<SimulationOutcome, String> {
        if self.failing == Some(self.runs) {
            return Err("no simulator".into());
        }
        self.runs += 1;
        let number = run.name().len() as f64;
        let counts = [("memory_reads_demand", 1000), ("injected_l2", 10)];
        let counts = counts.map(|(name, count)| (name.to_owned(), count + run.name().len() as u64));
        Ok(SimulationOutcome {
            region_ns: 1e6 + 1e3 * number,
            end_ns: 2e6,
            host_seconds: 0.5,
            counts: BTreeMap::from(counts),
            lines: vec![
                json!({"account": "region", "calls": 1, "seconds": 1.0, "bytes": 0}),
                json!({"account": "Alltoall", "calls": 1, "seconds": 0.125, "bytes": 64}),
                json!({"account": "Waitall", "calls": 1, "seconds": 0.125, "bytes": 0}),
            ],
        })
    }
}

/// A folder of this test's own, removed with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("mica-experiment-{name}-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn tables_name_machines_and_policies_that_exist() {
    for experiment in EXPERIMENTS {
        for extent in [Extent::Quick, Extent::Full] {
            let runs = (experiment.runs)(extent);
            assert!(!runs.is_empty());
            for run in &runs {
                let machine = SimulatedMachine::with(&run.machine, &run.settings);
                let machine = machine.unwrap_or_else(|error| panic!("{}: {error}", run.name()));
                let room = machine.network.topology.room();
                assert!(room.is_none_or(|room| room >= u64::from(run.nodes)));
                let policy = Policy::named(&run.policy, &machine);
                assert!(policy.is_ok(), "{}: {}", run.name(), run.policy);
            }
            let mut names: Vec<String> = runs.iter().map(SimulationRun::file_name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), runs.len(), "{} has a run twice", experiment.heading.name);
        }
    }
}

#[test]
fn quick_tables_are_parts_of_the_full_ones() {
    for experiment in EXPERIMENTS {
        let full = (experiment.runs)(Extent::Full);
        for run in (experiment.runs)(Extent::Quick) {
            assert!(full.contains(&run), "{}", run.name());
        }
    }
}

#[test]
fn writes_data_text_and_a_page_that_needs_nothing_else() {
    let folder = Folder::new("files");
    let store = Store::open(&folder.0).expect("a folder");
    for experiment in EXPERIMENTS {
        for extent in [Extent::Quick, Extent::Full] {
            let runs = (experiment.runs)(extent);
            let count = runs.len();
            let results = complete(runs, &mut FakeSimulator::default(), &store).expect("results");
            let text = write(experiment, extent, &results, &folder.0).expect("files");
            assert!(text.contains("Thesis: "), "{text}");
            assert!(text.contains(&format!("{count} runs")), "{text}");
            assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
            let read = |extension: &str| {
                let file = folder.0.join(format!("{}.{extension}", experiment.heading.name));
                fs::read_to_string(file).expect("a file")
            };
            assert_eq!(read("csv").lines().count(), count + 1);
            check_page(&read("html"), count);
        }
    }
}

/// One document, whose elements are closed, without anything from elsewhere.
fn check_page(page: &str, runs: usize) {
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for element in ["section", "svg", "table", "tr", "td", "ul", "li", "main", "body"] {
        let opened = page.matches(&format!("<{element}>")).count()
            + page.matches(&format!("<{element} ")).count();
        assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
    }
    for outside in ["<script", "src=", "href=", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf\""));
    assert!(page.matches("<tr>").count() > runs);
}

#[test]
fn what_is_there_is_not_simulated_again() {
    let folder = Folder::new("again");
    let store = Store::open(&folder.0).expect("a folder");
    let runs = (fft::EXPERIMENT.runs)(Extent::Quick);
    let mut simulator = FakeSimulator { failing: Some(5), ..FakeSimulator::default() };
    let error = complete(runs.clone(), &mut simulator, &store).expect_err("the sixth fails");
    assert_eq!(error, format!("{}: no simulator", runs[5].name()));
    simulator = FakeSimulator::default();
    complete(runs.clone(), &mut simulator, &store).expect("results");
    assert_eq!(simulator.runs, runs.len() - 5);
    // The base runs of another experiment are among them.
    simulator = FakeSimulator::default();
    let others = (communication::EXPERIMENT.runs)(Extent::Quick);
    complete(others.clone(), &mut simulator, &store).expect("results");
    assert_eq!(simulator.runs, others.len() - 2);
}

#[test]
fn unknown_names_are_refused_and_all_means_all() {
    assert_eq!(named("all").expect("all").len(), EXPERIMENTS.len());
    assert_eq!(named("fft").expect("one")[0].heading.name, "fft");
    assert!(named("ftt").expect_err("no such").contains("ftt"));
    assert!(EXPERIMENTS.iter().all(|experiment| list().contains(experiment.heading.name)));
}
