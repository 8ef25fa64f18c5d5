//! Results of runs: one JSON file a run, so that a run that is there is not run again, whichever
//! experiment asks for it.
//!
//! A result counts as long as the run and its fingerprint are the same. The fingerprint is a hash
//! of what the result depends on besides the run: the program, the machine's description, and the
//! simulator itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use mica_report::origin::ResultOrigin;
use mica_report::scratch::write_new;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::table::SimulationRun;

/// What a simulation came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SimulationOutcome {
    /// The longest time of a node in the region of interest, in simulated ns.
    pub region_ns: f64,
    /// When the last program ended, in simulated ns.
    pub end_ns: f64,
    /// Seconds that the simulation took.
    pub host_seconds: f64,
    /// Sums of the nodes' counts.
    pub counts: BTreeMap<String, u64>,
    /// What the program printed as lines of JSON.
    #[serde(default)]
    pub lines: Vec<Value>,
}

impl SimulationOutcome {
    /// A count; 0 if there is none of the name.
    pub fn count(&self, name: &str) -> f64 {
        self.counts.get(name).copied().unwrap_or(0) as f64
    }

    /// Lines that the memory controllers have read for the cores and their prefetchers. The
    /// adapters' reads are those of what is sent, which no policy changes; they are counted outside
    /// of the region, too.
    pub fn memory_reads(&self) -> f64 {
        self.count("memory_reads_demand") + self.count("memory_reads_prefetch")
    }

    /// What the program accounts for under this name (bench/sim/account.c): calls, seconds, bytes.
    pub fn account(&self, name: &str) -> Option<[f64; 3]> {
        let line = self.lines.iter().find(|line| line["account"] == name)?;
        Some(["calls", "seconds", "bytes"].map(|key| line[key].as_f64().unwrap_or(0.0)))
    }
}

/// A run with its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredRun {
    /// The run.
    pub run: SimulationRun,
    /// Hash of what the result depends on besides.
    pub fingerprint: String,
    /// The result.
    pub outcome: SimulationOutcome,
}

/// The folder of results.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The results below `output`. Makes the folder.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(output: &Path) -> Result<Store, String> {
        let folder = output.join("runs");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Store { folder })
    }

    /// The result of a run, if it is there and still counts. A file that cannot be read does not.
    pub fn load(&self, run: &SimulationRun, fingerprint: &str) -> Option<SimulationOutcome> {
        let text = fs::read_to_string(self.folder.join(run.file_name())).ok()?;
        let record: StoredRun = serde_json::from_str(&text).ok()?;
        (record.run == *run && record.fingerprint == fingerprint).then_some(record.outcome)
    }

    /// Keeps the result of a run.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn save(&self, record: &StoredRun) -> Result<(), String> {
        let file = self.folder.join(record.run.file_name());
        let new = file.with_extension("new");
        let text = ResultOrigin::simulated(&record.run.machine).json(record);
        write_new(&new, text.map_err(|error| error.to_string())?)
            .and_then(|()| fs::rename(&new, &file))
            .map_err(|error| format!("{}: {error}", file.display()))
    }
}

/// The results of an experiment's runs.
#[derive(Debug, Default)]
pub struct Results {
    all: Vec<(SimulationRun, SimulationOutcome)>,
}

impl Results {
    /// Adds one.
    pub fn add(&mut self, run: SimulationRun, outcome: SimulationOutcome) {
        self.all.push((run, outcome));
    }

    /// The result of a run.
    ///
    /// # Panics
    /// If the run is not in the experiment's table.
    pub fn of(&self, run: &SimulationRun) -> &SimulationOutcome {
        let found = self.all.iter().find(|(other, _)| other == run);
        let found = found.unwrap_or_else(|| panic!("{} is not in the table", run.name()));
        &found.1
    }

    /// All, in the table's order.
    pub fn all(&self) -> &[(SimulationRun, SimulationOutcome)] {
        &self.all
    }

    /// Simulated and real seconds of all runs together.
    pub fn seconds(&self) -> (f64, f64) {
        self.all.iter().fold((0.0, 0.0), |(simulated, real), run| {
            (simulated + run.1.end_ns * 1e-9, real + run.1.host_seconds)
        })
    }

    /// All results as CSV: the runs' parameters, times, and every count. Times of the host are left
    /// out, so that equal results are equal files.
    pub fn csv(&self) -> String {
        let names: BTreeSet<&String> = self.all.iter().flat_map(|r| r.1.counts.keys()).collect();
        let mut csv = String::from("program,arguments,nodes,machine,settings,policy,mode,");
        csv += "quantum_ns,region_ns,end_ns";
        for name in &names {
            let _ = write!(csv, ",{name}");
        }
        csv.push('\n');
        for (run, outcome) in &self.all {
            let quantum = run.quantum_ns.map_or_else(String::new, |ns| ns.to_string());
            let _ = write!(
                csv,
                "{},{},{},{},{},{},{},{quantum},{},{}",
                run.program,
                run.arguments.join(" "),
                run.nodes,
                run.machine,
                run.settings.join(" "),
                run.policy,
                format!("{:?}", run.mode).to_lowercase(),
                outcome.region_ns,
                outcome.end_ns,
            );
            for name in &names {
                let _ = write!(csv, ",{}", outcome.counts.get(*name).unwrap_or(&0));
            }
            csv.push('\n');
        }
        csv
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_counts_for_the_same_run_and_fingerprint_only() {
        let output = std::env::temp_dir().join(format!("mica-store-{}", std::process::id()));
        let store = Store::open(&output).expect("a folder");
        let run = SimulationRun::of("fft", 4);
        assert_eq!(store.load(&run, "a"), None);
        let mut outcome = SimulationOutcome { region_ns: 0.1, ..SimulationOutcome::default() };
        outcome.counts.insert("memory_reads_demand".into(), 7);
        let record = StoredRun { run: run.clone(), fingerprint: "a".into(), outcome };
        store.save(&record).expect("a file");
        assert_eq!(store.load(&run, "a"), Some(record.outcome.clone()));
        assert_eq!(store.load(&run, "b"), None);
        assert_eq!(store.load(&run.clone().policy("payload"), "a"), None);
        fs::write(store.folder.join(run.file_name()), "{").expect("a file");
        assert_eq!(store.load(&run, "a"), None);
        fs::remove_dir_all(&output).expect("ours");
    }

    #[test]
    fn csv_has_a_row_for_each_run_and_a_column_for_each_count() {
        let mut results = Results::default();
        for (nodes, name) in [(2, "a"), (4, "b")] {
            let mut outcome = SimulationOutcome::default();
            outcome.counts.insert(name.into(), 3);
            results.add(SimulationRun::of("fft", nodes), outcome);
        }
        let csv = results.csv();
        let rows: Vec<&str> = csv.lines().collect();
        assert_eq!(rows.len(), 3);
        assert!(rows[0].ends_with("end_ns,a,b") && rows[2].ends_with(",0,0,0,3"));
        let columns = |row: &str| row.split(',').count();
        assert!(rows.iter().all(|row| columns(row) == columns(rows[0])));
    }
}
