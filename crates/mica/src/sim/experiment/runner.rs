//! Simulates runs by `mica sim run`'s own function, in this process.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use mica_sim::machine::SimulatedMachine;
use mica_sim::port::DetailedRegion;
use serde_json::Value;

use super::driver::Runner;
use super::store::SimulationOutcome;
use super::table::{SimulationMode, SimulationRun};
use crate::explain::prefix;
use crate::scratch::ScratchFolder;
use crate::sim::run::host_ranks::HostRanks;
use crate::sim::run::{SimRunOptions, simulate};

/// The simulator.
#[derive(Debug)]
pub struct Simulator<'a> {
    hosts: &'a mut HostRanks,
    programs: &'a Path,
    /// Where programs of simulated nodes print to.
    printed: PathBuf,
    /// Has that file.
    _folder: ScratchFolder,
    plugin_hash: u64,
}

impl<'a> Simulator<'a> {
    /// A simulator that takes programs from this folder.
    ///
    /// # Errors
    /// When this installation has no simulator.
    pub fn new(hosts: &'a mut HostRanks, programs: &'a Path) -> Result<Simulator<'a>, String> {
        let plugin = prefix().map(|prefix| prefix.join("lib/libmica_sim_plugin.so"));
        let plugin = plugin.ok_or("cannot find the installation of this command")?;
        let folder = ScratchFolder::new("sim")?;
        Ok(Simulator {
            hosts,
            programs,
            printed: folder.path().join("printed"),
            _folder: folder,
            plugin_hash: hash_of_file(&plugin)?,
        })
    }

    fn program(&self, run: &SimulationRun) -> PathBuf {
        self.programs.join(&run.program)
    }

    fn options(&self, run: &SimulationRun) -> SimRunOptions {
        let mut program = vec![self.program(run).display().to_string()];
        program.extend(run.arguments.iter().cloned());
        SimRunOptions {
            n: run.nodes,
            machine: run.machine.clone(),
            set: run.settings.clone(),
            policy: run.policy.clone(),
            loose: run.mode == SimulationMode::Loose,
            region: Some(DetailedRegion::Pcontrol),
            quantum: run.quantum_ns,
            growth: 1,
            seed: 1,
            json: None,
            stdout: Some(self.printed.clone()),
            quiet: true,
            program,
        }
    }
}

impl Runner for Simulator<'_> {
    fn fingerprint(&self, run: &SimulationRun) -> Result<String, String> {
        let machine = SimulatedMachine::with(&run.machine, &run.settings)
            .map_err(|error| error.to_string())?;
        let program = self.program(run);
        if !program.is_file() {
            let installed = prefix().unwrap_or_else(|| PathBuf::from("PREFIX"));
            let installed = installed.display();
            return Err(format!(
                "{}: no such program; build the programs by `PATH={installed}/bin:$PATH sh \
                 {installed}/share/mica/bench/sim_programs.sh {}`",
                program.display(),
                self.programs.display()
            ));
        }
        let mut hasher = DefaultHasher::new();
        format!("{machine:?}").hash(&mut hasher);
        hash_of_file(&program)?.hash(&mut hasher);
        self.plugin_hash.hash(&mut hasher);
        Ok(format!("{:016x}", hasher.finish()))
    }

    fn run(&mut self, run: &SimulationRun) -> Result<SimulationOutcome, String> {
        let options = self.options(run);
        let summary = simulate(&options, self.hosts).map_err(|error| error.to_string())?;
        let printed = fs::read_to_string(&self.printed)
            .map_err(|error| format!("{}: {error}", self.printed.display()))?;
        if summary.exit_code() != 0 {
            let code = summary.exit_code();
            return Err(format!("the program ended with {code}\n{printed}"));
        }
        Ok(SimulationOutcome {
            region_ns: summary.region_ns,
            end_ns: summary.end_ns,
            host_seconds: summary.host_seconds,
            counts: summary.counts,
            lines: json_lines(&printed),
        })
    }

    fn is_first(&self) -> bool {
        self.hosts.rank() == 0
    }

    fn agree(&self, missing: Vec<usize>) -> Result<Vec<usize>, String> {
        let encode = || serde_json::to_vec(&missing).map_err(|error| error.to_string());
        let messages = (0..self.hosts.size()).map(|_| encode());
        let messages = messages.collect::<Result<Vec<_>, String>>()?;
        let all = self.hosts.exchange(messages).map_err(|error| error.to_string())?;
        serde_json::from_slice(&all[0]).map_err(|error| error.to_string())
    }
}

fn hash_of_file(file: &Path) -> Result<u64, String> {
    let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Ok(hasher.finish())
}

/// The lines that are JSON objects; programs may print others.
fn json_lines(text: &str) -> Vec<Value> {
    let parsed = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    parsed.filter(Value::is_object).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_objects_among_what_a_program_prints() {
        let lines = json_lines("Iterations = 8\n{\"account\": \"Wait\", \"calls\": 2}\n7\n{x\n");
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["calls"], 2);
    }
}
