//! Simulates runs by the `mica sim run` of an installation.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mica_report::scratch::ScratchFolder;
use mica_sim::machine::SimulatedMachine;
use serde_json::Value;

use crate::driver::Runner;
use crate::store::SimulationOutcome;
use crate::table::{SimulationMode, SimulationRun};

/// The simulator.
#[derive(Debug)]
pub struct Simulator<'a> {
    /// The installation.
    prefix: &'a Path,
    programs: &'a Path,
    /// Processes that simulate a run together.
    hosts: u32,
    /// Has what programs of simulated nodes print, and the results.
    folder: ScratchFolder,
    plugin_hash: u64,
}

impl<'a> Simulator<'a> {
    /// The simulator of this installation, which takes programs from this folder.
    ///
    /// # Errors
    /// When the installation has no simulator.
    pub fn new(prefix: &'a Path, programs: &'a Path, hosts: u32) -> Result<Simulator<'a>, String> {
        let plugin_hash = hash_of_file(&prefix.join("lib/libmica_sim_plugin.so"))?;
        Ok(Simulator { prefix, programs, hosts, folder: ScratchFolder::new("sim")?, plugin_hash })
    }

    fn program(&self, run: &SimulationRun) -> PathBuf {
        self.programs.join(&run.program)
    }

    /// Where programs of simulated nodes print to.
    fn printed(&self) -> PathBuf {
        self.folder.path().join("printed")
    }

    /// Where the results of a run are written.
    fn summary(&self) -> PathBuf {
        self.folder.path().join("summary.json")
    }

    /// `mica sim run` of this run.
    fn command(&self, run: &SimulationRun) -> Command {
        let [mica, mpiexec] = ["mica", "mpiexec"].map(|name| self.prefix.join("bin").join(name));
        let mut command = match self.hosts {
            1 => Command::new(mica),
            hosts => {
                let mut command = Command::new(mpiexec);
                command.arg("-n").arg(hosts.to_string()).arg(mica);
                command
            }
        };
        command.args(["sim", "run", "--quiet", "--region", "pcontrol"]);
        command.args(["-n", &run.nodes.to_string(), "--machine", &run.machine]);
        command.args(["--policy", &run.policy]);
        command.args(run.settings.iter().flat_map(|setting| ["--set", setting]));
        command.args(run.quantum_ns.map(|ns| format!("--quantum={ns}")));
        if run.mode == SimulationMode::Loose {
            command.arg("--loose");
        }
        command.arg("--stdout").arg(self.printed()).arg("--json").arg(self.summary());
        command.arg("--").arg(self.program(run)).args(&run.arguments);
        command
    }
}

impl Runner for Simulator<'_> {
    fn fingerprint(&self, run: &SimulationRun) -> Result<String, String> {
        let machine = SimulatedMachine::with(&run.machine, &run.settings)
            .map_err(|error| error.to_string())?;
        let program = self.program(run);
        if !program.is_file() {
            return Err(format!(
                "{}: no such program; build the programs by `PATH={}/bin:$PATH sh \
                 bench/sim_programs.sh {}`",
                program.display(),
                self.prefix.display(),
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
        let mut command = self.command(run);
        let name = command.get_program().display().to_string();
        let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{name}: {e}"))?;
        let read = |file: PathBuf| {
            fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
        };
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let printed = read(self.printed()).unwrap_or_default();
            return Err(format!("{name}: {}\n{errors}{printed}", output.status));
        }
        let summary: SimulationOutcome = serde_json::from_str(&read(self.summary())?)
            .map_err(|error| format!("{}: {error}", self.summary().display()))?;
        Ok(SimulationOutcome { lines: json_lines(&read(self.printed())?), ..summary })
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
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// An installation whose `mica` is this script of the shell.
    fn installation(script: &str) -> ScratchFolder {
        let folder = ScratchFolder::new("experiments-test").expect("a folder");
        for name in ["bin", "lib"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        fs::write(folder.path().join("lib/libmica_sim_plugin.so"), "").expect("a file");
        let mica = folder.path().join("bin/mica");
        fs::write(&mica, format!("#!/bin/sh\n{script}\n")).expect("a file");
        fs::set_permissions(&mica, Permissions::from_mode(0o755)).expect("our own file");
        folder
    }

    #[test]
    fn a_run_is_what_the_installed_simulator_says_of_it() {
        // The arguments are written as a count, so that the test sees them.
        let installed = installation(
            r#"while [ "$1" != -- ]; do
                case $1 in --stdout) printed=$2 ;; --json) json=$2 ;; esac
                words="$words$1 "; shift
            done
            echo '{"account": "Wait", "calls": 2}' >"$printed"
            echo '{"region_ns": 0.1, "end_ns": 2.5, "host_seconds": 1.5, "figures": [],' \
                "\"counts\": {\"${words%% --stdout*}; $*\": 7}}" >"$json""#,
        );
        let mut simulator = Simulator::new(installed.path(), Path::new("/p"), 1).expect("one");
        let run = SimulationRun::of("fft", 4).arguments("1024").set("a.b", 2).quantum(500.0);
        let outcome = simulator.run(&run.mode(SimulationMode::Loose)).expect("a result");
        assert_eq!((outcome.region_ns, outcome.end_ns, outcome.host_seconds), (0.1, 2.5, 1.5));
        assert_eq!(outcome.account("Wait").expect("an account")[0], 2.0);
        let words = "sim run --quiet --region pcontrol -n 4 --machine power5-redstorm \
            --policy base --set a.b=2 --quantum=500 --loose; -- /p/fft 1024";
        assert_eq!(outcome.counts.keys().collect::<Vec<_>>(), [words]);
    }

    #[test]
    fn a_run_that_fails_says_why() {
        let installed = installation("echo mica sim: no machine >&2; exit 3");
        let mut simulator = Simulator::new(installed.path(), Path::new("/p"), 1).expect("one");
        let error = simulator.run(&SimulationRun::of("fft", 4)).expect_err("it fails");
        assert!(error.contains("status: 3") && error.contains("no machine"), "{error}");
    }

    #[test]
    fn several_host_ranks_are_a_job() {
        let installed = installation("");
        let simulator = Simulator::new(installed.path(), Path::new("/p"), 2).expect("one");
        let command = simulator.command(&SimulationRun::of("fft", 4));
        assert_eq!(command.get_program(), installed.path().join("bin/mpiexec"));
        let words: Vec<_> = command.get_args().take(4).collect();
        assert_eq!(words[..2], ["-n", "2"]);
        assert_eq!(words[2..], [installed.path().join("bin/mica").as_os_str(), "sim".as_ref()]);
    }

    #[test]
    fn takes_the_objects_among_what_a_program_prints() {
        let lines = json_lines("Iterations = 8\n{\"account\": \"Wait\", \"calls\": 2}\n7\n{x\n");
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["calls"], 2);
    }
}
