//! The rounds: the order of runs.
//!
//! A round runs the floors once and then each program under each contestant, one after the other;
//! the first contestant moves on by one from round to round (A B C D, B C D A, ...). So
//! disturbances of the machine affect all contestants alike, and no contestant always runs after
//! the same other one.

use std::collections::BTreeMap;
use std::time::Duration;

use mica_node::segment::monotonic_ns;
use mica_node::topology::CpuSet;

use super::contestant::{Contestant, Cores, LaunchCommand, confine};
use super::execute::{BenchCommand, CommandEnd, CommandOutcome, Executor, tail};
use super::figure::{self, Figure, reason};
use super::hosts::{Hosts, processors};
use super::others::OthersLoad;
use super::progress::BenchProgress;
use super::run::{BenchRun, FLOOR};
use super::suite::{JOB_END, Program, parse_cpus};
use crate::scratch::ScratchFolder;

/// An entry that runs in every round, compiled.
pub struct RoundEntry<'a> {
    pub program: &'a Program,
    pub ranks: u32,
    /// The value of the program's sweep.
    pub swept: Option<i64>,
    /// The compiled program of each contestant that runs it, by the contestant's index.
    pub binaries: BTreeMap<usize, String>,
}

/// Everything that the rounds need.
pub struct Rounds<'a> {
    /// Present if programs run on two hosts.
    pub hosts: Option<Hosts>,
    pub floors: Vec<(&'a Program, String)>,
    pub entries: Vec<RoundEntry<'a>>,
    pub contestants: &'a [Contestant],
    pub allowed: CpuSet,
    /// The number of ranks that can run at once.
    pub cores: usize,
    pub rounds: usize,
    pub quick: bool,
}

/// What the rounds came to.
#[derive(Default)]
pub struct MeasuredRounds {
    pub runs: Vec<BenchRun>,
    /// The user stopped them.
    pub interrupted: bool,
    /// What other programs used meanwhile.
    pub others: OthersLoad,
}

/// The contestants' indices in the order of a round.
pub fn order(round: usize, contestants: usize) -> impl Iterator<Item = usize> {
    (0..contestants).map(move |i| (i + round) % contestants)
}

impl Rounds<'_> {
    /// The number of runs in all rounds.
    pub fn steps(&self) -> usize {
        let entries: usize = self.entries.iter().map(|entry| entry.binaries.len()).sum();
        self.rounds * (self.floors.len() + entries)
    }

    /// Runs all rounds.
    pub fn run(&self, executor: &mut Executor, progress: &mut BenchProgress) -> MeasuredRounds {
        let mut measured = MeasuredRounds::default();
        for round in 0..self.rounds {
            progress.round(round, self.rounds);
            measured.others.probe();
            for start in self.starts(round) {
                progress.step(&format!("{} {}", start.program.name, start.name));
                let Some(run) = start.run(round, executor) else {
                    measured.interrupted = true;
                    return measured;
                };
                progress.done(&run);
                measured.runs.push(run);
            }
        }
        measured.others.probe();
        measured
    }

    /// All runs of a round, in order.
    fn starts(&self, round: usize) -> Vec<RunStart<'_>> {
        let floors = self.floors.iter().map(|(program, binary)| RunStart {
            program,
            ranks: 1,
            swept: None,
            command: self.floor_words(program, binary),
            environment: program.env.clone(),
            binding: "the program itself".to_owned(),
            cpus: None,
            name: FLOOR,
        });
        let mut starts: Vec<RunStart<'_>> = floors.collect();
        for entry in &self.entries {
            for index in order(round, self.contestants.len()) {
                if let Some(binary) = entry.binaries.get(&index) {
                    starts.push(self.start(entry, &self.contestants[index], binary));
                }
            }
        }
        starts
    }

    /// The command of a floor; on two hosts it gets their names.
    fn floor_words(&self, program: &Program, binary: &str) -> Vec<String> {
        let mut words = [&[binary.to_owned()], program.arguments(self.quick)].concat();
        if let Some(hosts) = self.hosts.as_ref().filter(|_| program.on_hosts()) {
            words.push("--hosts".to_owned());
            words.extend(hosts.names().iter().cloned());
        }
        words
    }

    /// How a program starts, and the processors that its job is confined to; on two hosts if the
    /// program declares them.
    fn launch(
        &self,
        entry: &RoundEntry<'_>,
        contestant: &Contestant,
        words: Vec<String>,
    ) -> (LaunchCommand, Option<Result<CpuSet, String>>) {
        let program = entry.program;
        if let Some(hosts) = self.hosts.as_ref().filter(|_| program.on_hosts()) {
            let cpus = match program.share_cores {
                true => std::array::from_fn(|_| self.allowed.clone()),
                false => processors(&self.allowed, &program.nodes),
            };
            return match hosts.remote_shell(&cpus) {
                Ok(shell) => {
                    let launch = contestant.launch_on(hosts, &shell, &program.nodes, &cpus, words);
                    (launch, None)
                }
                Err(error) => {
                    let launch = contestant.launch(entry.ranks, &Cores::Any(self.cores), words);
                    (launch, Some(Err(error)))
                }
            };
        }
        let confined = |text: &String| confine(&parse_cpus(text)?, &self.allowed);
        let cpus = program.cpus.as_ref().map(confined);
        let cores = match (&program.ranks_on, &cpus) {
            (Some(text), _) => confined(text).map(Cores::Only),
            _ if program.places_by_default => Ok(Cores::Default),
            (None, Some(Ok(cpus))) => Ok(Cores::Any(self.cores.min(cpus.len()))),
            (None, _) => Ok(Cores::Any(self.cores)),
        };
        // A machine without these processors cannot run it: the run fails with that error.
        let (cores, cpus) = match cores {
            Ok(cores) => (cores, cpus),
            Err(error) => (Cores::Any(self.cores), Some(Err(error))),
        };
        let mut launch = contestant.launch(entry.ranks, &cores, words);
        if let Some(Ok(cpus)) = &cpus {
            launch.binding += &format!(", the job confined to processors {cpus}");
        }
        (launch, cpus)
    }

    fn start<'a>(
        &'a self,
        entry: &'a RoundEntry<'_>,
        contestant: &'a Contestant,
        binary: &str,
    ) -> RunStart<'a> {
        let program = entry.program;
        let words = [&[binary.to_owned()], program.arguments(self.quick)].concat();
        let (launch, cpus) = self.launch(entry, contestant, words);
        let LaunchCommand { command, env, binding } = launch;
        let mut environment = contestant.environment();
        environment.extend(env);
        environment.extend(program.env.clone());
        if contestant.is_mica() {
            environment.extend(program.mica_env.clone());
            environment.extend(contestant.settings.clone());
        }
        if let (Some(sweep), Some(value)) = (&program.sweep, entry.swept) {
            environment.insert(sweep.variable.clone(), value.to_string());
        }
        RunStart {
            program,
            ranks: entry.ranks,
            swept: entry.swept,
            command,
            environment,
            binding,
            cpus,
            name: &contestant.name,
        }
    }
}

/// How a run is started.
struct RunStart<'a> {
    program: &'a Program,
    ranks: u32,
    swept: Option<i64>,
    command: Vec<String>,
    environment: BTreeMap<String, String>,
    binding: String,
    /// The processors that the job is confined to, or why that is not possible.
    cpus: Option<Result<CpuSet, String>>,
    name: &'a str,
}

impl RunStart<'_> {
    /// Runs once; `None` if the user wants to stop.
    fn run(mut self, round: usize, executor: &mut Executor) -> Option<BenchRun> {
        if self.program.is_job {
            let launched = monotonic_ns().to_string();
            self.command.extend(["--launched".to_owned(), launched]);
        }
        let done = self.execute(executor);
        let mut run = BenchRun {
            round,
            program: self.program.name.clone(),
            ranks: self.ranks,
            contestant: self.name.to_owned(),
            command: self.command,
            environment: self.environment,
            binding: self.binding,
            ..BenchRun::default()
        };
        // PATH is long, and the same for all contestants.
        run.environment.remove("PATH");
        match done {
            Err(error) => run.error = Some(error),
            Ok(done) if done.end == CommandEnd::Interrupted => return None,
            Ok(done) => {
                run.seconds = done.seconds;
                let figures = figure::parse(&done.stdout);
                run.error = complaint(&done, &self.program.source()).or_else(|| match &figures {
                    Err(error) => Some(error.clone()),
                    Ok(figures) if figures.is_empty() => Some("it printed no figure".to_owned()),
                    Ok(_) => None,
                });
                match run.error {
                    Some(_) => run.output = Some(tail(&done, 15)),
                    None => run.figures = figures.unwrap_or_default(),
                }
                if self.program.is_job {
                    complete_job(&mut run.figures, done.seconds);
                }
                if let (Some(sweep), Some(value)) = (&self.program.sweep, self.swept) {
                    for figure in &mut run.figures {
                        figure.more.insert(sweep.key.clone(), value.into());
                    }
                }
            }
        }
        Some(run)
    }

    /// Runs the command, with a folder for its files if the program uses any.
    fn execute(&mut self, executor: &mut Executor) -> Result<CommandOutcome, String> {
        let cpus = self.cpus.as_ref().map(|cpus| cpus.as_ref().map_err(String::clone));
        let cpus = cpus.transpose()?;
        let folder = match self.program.scratch {
            true => Some(ScratchFolder::within(executor.scratch(), "files")?),
            false => None,
        };
        if let Some(folder) = &folder {
            let path = folder.path().display().to_string();
            self.command.extend(["--scratch".to_owned(), path]);
        }
        Ok(executor.run(&BenchCommand {
            command: &self.command,
            env: &self.environment,
            cpus,
            limit: Duration::from_secs(self.program.timeout),
        }))
    }
}

/// The error of a run, with the program's own reason.
fn complaint(done: &CommandOutcome, source: &str) -> Option<String> {
    let complaint = done.end.complaint()?;
    let reason = [&done.stderr, &done.stdout].into_iter().find_map(|text| reason(text, source));
    Some(reason.map_or(complaint.clone(), |reason| format!("{complaint}: {reason}")))
}

/// Turns the end of a job, printed as a time from the launch, into the time that was left until
/// mpiexec had ended, `seconds` after its launch.
fn complete_job(figures: &mut [Figure], seconds: f64) {
    for figure in figures.iter_mut().filter(|f| f.measure == JOB_END) {
        figure.value = seconds * 1e3 - figure.value;
        (figure.min, figure.max) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contestants_rotate_by_one_each_round() {
        let rounds: Vec<Vec<usize>> = (0..5).map(|round| order(round, 4).collect()).collect();
        assert_eq!(rounds[0], [0, 1, 2, 3]);
        assert_eq!(rounds[1], [1, 2, 3, 0]);
        assert_eq!(rounds[3], [3, 0, 1, 2]);
        assert_eq!(rounds[4], rounds[0]);
        assert_eq!(order(3, 0).count(), 0);
    }
}
