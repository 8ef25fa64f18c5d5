//! `mica profile --scaling 1,2,4,8 -- mpiexec -n N PROGRAM`: the program at several numbers of
//! ranks, on one node and on two virtual nodes (chai-2009, chapter 2): times normalized to one node
//! (Figure 2.5), speed-ups (Figure 2.7), and the share of each level of the machine in the
//! messages.
//!
//! Each run is a `mica profile` of its own, whose profile.json is read back. A round makes each run
//! once, every other round in reverse order ([`turns`]), and a figure is the median of the rounds.
//! Where `perf` may count this user's processes, it counts cache misses around each run. The work
//! is taken to be the same at every number of ranks: then the time that all ranks compute together
//! is constant unless they contend for something, or repeat work. Ranks that share processors wait
//! for these between two calls of MPI, which looks like computing: where a run has more ranks than
//! processors, that is the finding.

mod page;

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use mica_profile::{PairLevel, Profile, RankProfile, summary};
use serde::Serialize;

use super::rounds::{Spread, spread, turns};
use crate::scratch::ScratchFolder;

/// Levels in the order of the columns.
const LEVELS: [PairLevel; 4] =
    [PairLevel::SharedCache, PairLevel::Package, PairLevel::Node, PairLevel::Network];

/// Growth of the computing time that is reported.
const GROWTH: f64 = 1.15;
/// Growth of cache misses that explains it.
const MISS_GROWTH: f64 = 1.5;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScalingRun {
    /// Number of ranks.
    pub ranks: usize,
    /// Number of nodes; more than one are virtual.
    pub nodes: usize,
    /// Application time of the slowest rank, in seconds.
    pub app_s: Spread,
    /// Time that all ranks computed, together, in nanoseconds.
    pub computing_ns: u64,
    /// Time in MPI calls of all ranks, in percent of their application time.
    pub mpi_percent: f64,
    /// Percent of the messages and one-sided operations between ranks at each level: shared cache,
    /// package, node, network.
    pub level_percent: [f64; LEVELS.len()],
    /// Cache misses of all processes, if they can be counted.
    pub cache_misses: Option<u64>,
    /// Ranks on the host of this command.
    pub ranks_here: usize,
    /// Processors of this host that the command may use.
    pub processors: usize,
    /// The base's time divided by this one's, times the base's ranks.
    pub speed_up: f64,
}

/// What one round of a run has shown.
struct ScalingRound {
    app_s: f64,
    computing_ns: u64,
    mpi_percent: f64,
    level_percent: [f64; LEVELS.len()],
    cache_misses: Option<u64>,
    ranks: usize,
    ranks_here: usize,
}

/// The runs of a program.
#[derive(Debug, Serialize)]
pub struct ScalingRuns {
    command: Vec<String>,
    host: String,
    rounds: usize,
    /// Ranks of the run that speed-ups are relative to: the least number, on one node.
    base_ranks: usize,
    runs: Vec<ScalingRun>,
    findings: Vec<String>,
}

/// Runs the command at each number of ranks, on one node and, with more than one rank, on two.
///
/// # Errors
/// If the command names no number of ranks, or a run fails.
pub fn scaling(
    command: &[String],
    counts: &[usize],
    rounds: usize,
) -> Result<ScalingRuns, Box<dyn Error>> {
    let can_count =
        perf(&[], Path::new("/dev/null")).arg("true").status().is_ok_and(|status| status.success());
    let folder = ScratchFolder::new("scaling")?;
    let counts_file = folder.path().join("perf");
    let counts_file = can_count.then_some(counts_file.as_path());
    let on_nodes = |&ranks: &usize| [(ranks, 1), (ranks, 2)];
    let places: Vec<(usize, usize)> =
        counts.iter().flat_map(on_nodes).filter(|(ranks, nodes)| nodes <= ranks).collect();
    let mut measured: Vec<Vec<ScalingRound>> = places.iter().map(|_| Vec::new()).collect();
    for (_, turn) in turns(rounds, places.len()) {
        let (ranks, nodes) = places[turn];
        let command = with_ranks(command, ranks)?;
        measured[turn].push(run(&command, nodes, folder.path(), counts_file)?);
        folder.empty()?;
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let run = |((_, nodes), rounds): (&(usize, usize), &Vec<ScalingRound>)| {
        ScalingRun::of(rounds, *nodes, processors)
    };
    let runs = places.iter().zip(&measured).map(run).collect();
    Ok(ScalingRuns::of(command.to_vec(), rounds, runs))
}

/// The command with another number after its `-n`.
///
/// # Errors
/// If it has none.
pub fn with_ranks(command: &[String], ranks: usize) -> Result<Vec<String>, String> {
    let mut command = command.to_vec();
    let at = command
        .iter()
        .position(|word| matches!(word.trim_start_matches('-'), "n" | "np") && word.len() > 1);
    let value = at.and_then(|at| command.get_mut(at + 1));
    let value = value.filter(|value| value.parse::<usize>().is_ok());
    *value.ok_or("the command has no -n with a number of ranks to replace")? = ranks.to_string();
    Ok(command)
}

/// `perf stat` that writes to a file.
fn perf(more: &[&str], file: &Path) -> Command {
    let mut command = Command::new("perf");
    command.args(["stat", "-x", ",", "-e", "cache-misses:u", "-o"]);
    command.arg(file).args(more).arg("--");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs the command on `nodes` nodes, with results in `folder`; cache misses are counted to the
/// file `counts`, if there is one.
fn run(
    command: &[String],
    nodes: usize,
    folder: &Path,
    counts: Option<&Path>,
) -> Result<ScalingRound, Box<dyn Error>> {
    let this = std::env::current_exe()?;
    let mut profiler = match counts {
        Some(counts) => {
            let mut perf = perf(&[], counts);
            perf.arg(this);
            perf
        }
        None => Command::new(this),
    };
    profiler.args(["profile", "--no-timeline", "-o"]).arg(folder);
    profiler.arg("--").args(command);
    profiler.stdout(Stdio::null()).stderr(Stdio::inherit());
    let nodes_wanted = if nodes > 1 { nodes } else { 0 };
    profiler.env("MICA_VIRTUAL_NODES", nodes_wanted.to_string());
    let status = profiler.status()?;
    if !status.success() {
        return Err(format!("{} on {nodes} nodes: {status}", command.join(" ")).into());
    }
    let profile = Profile::read(folder)?;
    let misses = counts.and_then(|counts| counted(&fs::read_to_string(counts).ok()?));
    Ok(ScalingRound::of(&profile, misses))
}

/// The number in the first line of perf's that has one.
fn counted(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.split(',').next()?.parse().ok())
}

impl ScalingRound {
    fn of(profile: &Profile, cache_misses: Option<u64>) -> ScalingRound {
        let sum = |of: &dyn Fn(&RankProfile) -> u64| profile.ranks.iter().map(of).sum();
        let app: u64 = sum(&|rank| rank.app_ns);
        let computing: u64 = sum(&|rank| rank.app_ns.saturating_sub(rank.mpi_ns));
        let messages = summary::distribution(profile);
        let to_others = messages.iter().filter(|((_, level), _)| *level != PairLevel::Own);
        let all: u64 = to_others.map(|(_, amount)| amount.messages).sum();
        let share = |wanted: PairLevel| {
            let at = messages.iter().filter(|((_, level), _)| *level == wanted);
            let messages: u64 = at.map(|(_, amount)| amount.messages).sum();
            100.0 * messages as f64 / all.max(1) as f64
        };
        let slowest = profile.ranks.iter().map(|rank| rank.app_ns).max().unwrap_or(0);
        ScalingRound {
            app_s: slowest as f64 / 1e9,
            computing_ns: computing,
            mpi_percent: 100.0 * (app - computing) as f64 / app.max(1) as f64,
            level_percent: LEVELS.map(share),
            cache_misses,
            ranks: profile.ranks.len(),
            ranks_here: profile.ranks.iter().filter(|rank| rank.host == profile.job.host).count(),
        }
    }
}

impl ScalingRun {
    /// The medians of at least one round.
    fn of(rounds: &[ScalingRound], nodes: usize, processors: usize) -> ScalingRun {
        let of =
            |figure: &dyn Fn(&ScalingRound) -> f64| spread(rounds.iter().map(figure).collect());
        let misses: Option<Vec<f64>> =
            rounds.iter().map(|round| Some(round.cache_misses? as f64)).collect();
        ScalingRun {
            ranks: rounds[0].ranks,
            nodes,
            app_s: of(&|round| round.app_s),
            computing_ns: of(&|round| round.computing_ns as f64).median as u64,
            mpi_percent: of(&|round| round.mpi_percent).median,
            level_percent: std::array::from_fn(|at| of(&|round| round.level_percent[at]).median),
            cache_misses: misses.map(|misses| spread(misses).median as u64),
            ranks_here: rounds[0].ranks_here,
            processors,
            speed_up: 0.0,
        }
    }

    /// Whether ranks share processors.
    fn is_oversubscribed(&self) -> bool {
        self.ranks_here > self.processors
    }
}

/// What the runs say about contention.
fn findings(runs: &[ScalingRun]) -> Vec<String> {
    let Some(first) = base(runs) else { return Vec::new() };
    let mut findings = Vec::new();
    for run in runs.iter().filter(|run| run.ranks > first.ranks) {
        let growth = run.computing_ns as f64 / first.computing_ns.max(1) as f64;
        if run.is_oversubscribed() {
            findings.push(format!(
                "{} ranks on {} node(s) share {} processor(s): oversubscription. They wait for \
                 processors, also where they would compute ({growth:.2} times as long together as \
                 {}), so the run says nothing of caches or memory",
                run.ranks, run.nodes, run.processors, first.ranks
            ));
            continue;
        }
        if growth < GROWTH {
            continue;
        }
        let misses = run.cache_misses.zip(first.cache_misses);
        let misses = misses.map(|(now, before)| now as f64 / before.max(1) as f64);
        let why = match misses {
            None => "whether for caches or memory cannot be told: perf counts no cache misses here"
                .to_owned(),
            Some(by) if by >= MISS_GROWTH => format!(
                "with {by:.1} times the cache misses: ranks \
                 contend for caches and memory"
            ),
            Some(by) => format!(
                "with {by:.1} times the cache misses: caches are not the reason; \
                 it is memory bandwidth, or work that ranks repeat"
            ),
        };
        findings.push(format!(
            "{} ranks on {} node(s) compute {growth:.2} times as long together as {}, {why}",
            run.ranks, run.nodes, first.ranks
        ));
    }
    findings
}

/// The run that speed-ups are relative to: the least number of ranks, on one node.
fn base(runs: &[ScalingRun]) -> Option<&ScalingRun> {
    runs.iter().min_by_key(|run| (run.ranks, run.nodes))
}

impl ScalingRuns {
    fn of(command: Vec<String>, rounds: usize, mut runs: Vec<ScalingRun>) -> ScalingRuns {
        let base = base(&runs).map(|run| (run.ranks, run.app_s.median));
        let (base_ranks, base_s) = base.unwrap_or_default();
        for run in &mut runs {
            run.speed_up = base_s / run.app_s.median.max(1e-9) * base_ranks as f64;
        }
        let host = mica_node::identity::host_name();
        ScalingRuns { command, host, rounds, base_ranks, findings: findings(&runs), runs }
    }

    /// What speed-ups are relative to.
    pub(super) fn base_text(&self) -> String {
        match self.base_ranks {
            1 => "relative to 1 rank".to_owned(),
            ranks => format!("relative to {ranks} ranks, which count as {ranks}.00"),
        }
    }

    /// The time of a run in that of the same number of ranks on one node.
    pub(super) fn normalized(&self, run: &ScalingRun) -> f64 {
        let mut same = self.runs.iter().filter(|one| one.ranks == run.ranks);
        let base = same.find(|one| one.nodes == 1).unwrap_or(run);
        run.app_s.median / base.app_s.median.max(1e-9)
    }

    /// The tables.
    pub fn render(&self) -> String {
        let mut text = format!("Scaling of {}\n", self.command.join(" "));
        if self.rounds > 1 {
            let _ = writeln!(text, "medians of {} rounds", self.rounds);
        }
        text.push('\n');
        let _ = writeln!(
            text,
            "ranks nodes   time (ms)         min - max  normalized  speed-up  MPI %   messages by \
             level (%): shared cache, package, node, network"
        );
        for run in &self.runs {
            let ms = |seconds: f64| format!("{:.3}", seconds * 1e3);
            let range = format!("{} - {}", ms(run.app_s.min), ms(run.app_s.max));
            let _ = write!(
                text,
                "{:>5} {:5} {:>11} {range:>17} {:11.3} {:9.2} {:6.1}  ",
                format!("{}{}", run.ranks, if run.is_oversubscribed() { "*" } else { "" }),
                run.nodes,
                ms(run.app_s.median),
                self.normalized(run),
                run.speed_up,
                run.mpi_percent
            );
            for share in run.level_percent {
                let _ = write!(text, "{share:6.1}");
            }
            text.push('\n');
        }
        let _ = writeln!(
            text,
            "\nnormalized: to the time on one node. speed-up: {}. More than one node: virtual, \
             over the loopback network.",
            self.base_text()
        );
        if self.runs.iter().any(ScalingRun::is_oversubscribed) {
            text.push_str("*: more ranks than processors.\n");
        }
        for finding in &self.findings {
            let _ = writeln!(text, "{finding}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    pub(super) fn run_of(
        ranks: usize,
        nodes: usize,
        ms: u64,
        computing: u64,
        misses: u64,
    ) -> ScalingRun {
        ScalingRun {
            ranks,
            nodes,
            app_s: spread(vec![ms as f64 / 1e3]),
            computing_ns: computing,
            mpi_percent: 10.0,
            level_percent: [100.0, 0.0, 0.0, 0.0],
            cache_misses: (misses > 0).then_some(misses),
            ranks_here: ranks,
            processors: 2,
            speed_up: 0.0,
        }
    }

    #[test]
    fn replaces_the_number_of_ranks() {
        let of = |line: &str| with_ranks(&words(line), 8).map(|words| words.join(" "));
        assert_eq!(of("mpiexec -n 4 a -n 3").unwrap(), "mpiexec -n 8 a -n 3");
        assert_eq!(of("mpirun --np 2 a").unwrap(), "mpirun --np 8 a");
        for bad in ["mpiexec a", "mpiexec -n", "mpiexec -n x a"] {
            assert!(of(bad).unwrap_err().contains("-n"), "{bad}");
        }
    }

    #[test]
    fn summarizes_a_profile() {
        let profile = Profile::example();
        let run = ScalingRound::of(&profile, Some(5));
        assert_eq!(run.ranks, profile.ranks.len());
        assert!(run.app_s > 0.0 && run.mpi_percent > 0.0 && run.mpi_percent < 100.0);
        assert!((run.level_percent.iter().sum::<f64>() - 100.0).abs() < 1e-9);
        assert_eq!(counted("# started\n\n1234,,cache-misses:u,1,100\n"), Some(1234));
        assert_eq!(counted("<not counted>,,cache-misses:u\n"), None);
    }

    #[test]
    fn names_contention_only_where_counters_show_it() {
        let said = |computing, misses| {
            let runs = [run_of(1, 1, 100, 1000, 10), run_of(2, 1, 60, computing, misses)];
            findings(&runs).join("\n")
        };
        assert_eq!(said(1100, 100), "");
        assert!(said(1300, 20).contains("contend for caches"));
        assert!(said(1300, 11).contains("caches are not the reason"));
        assert!(said(1300, 0).contains("cannot be told"));
    }

    #[test]
    fn prints_normalized_times_and_speed_ups() {
        let runs = vec![run_of(1, 1, 100, 1, 0), run_of(2, 1, 50, 1, 0), run_of(2, 2, 75, 1, 0)];
        let scaling = ScalingRuns::of(words("mpiexec -n 1 a"), 1, runs);
        let text = scaling.render();
        let row = |at: usize| -> Vec<&str> {
            let line = text.lines().nth(3 + at).unwrap();
            line.split_whitespace().collect()
        };
        let columns = |at: usize| [0, 1, 2, 6, 7].map(|column| row(at)[column]);
        assert_eq!(columns(0), ["1", "1", "100.000", "1.000", "1.00"]);
        assert_eq!(columns(1), ["2", "1", "50.000", "1.000", "2.00"]);
        assert_eq!(columns(2), ["2", "2", "75.000", "1.500", "1.33"]);
        assert!(text.contains("speed-up: relative to 1 rank."), "{text}");
    }

    #[test]
    fn speed_ups_are_relative_to_the_least_number_of_ranks() {
        let runs = vec![run_of(4, 1, 25, 1, 0), run_of(2, 2, 75, 1, 0), run_of(2, 1, 50, 1, 0)];
        let scaling = ScalingRuns::of(words("mpiexec -n 1 a"), 1, runs);
        let found: Vec<String> =
            scaling.runs.iter().map(|run| format!("{:.2}", run.speed_up)).collect();
        assert_eq!(found, ["4.00", "1.33", "2.00"]);
        assert!(scaling.render().contains("relative to 2 ranks, which count as 2.00"));
    }

    #[test]
    fn more_ranks_than_processors_are_oversubscription() {
        // Twice the misses, but four ranks share two processors.
        let runs = vec![run_of(1, 1, 100, 1000, 10), run_of(4, 1, 90, 3000, 20)];
        let text = ScalingRuns::of(words("mpiexec -n 1 a"), 1, runs).render();
        assert!(text.contains("4 ranks on 1 node(s) share 2 processor(s): oversubscription"));
        assert!(text.contains("   4*") && !text.contains("contend for caches"), "{text}");
        // Ranks on other hosts share none of this one's.
        let elsewhere = ScalingRun { ranks_here: 0, ..run_of(4, 1, 90, 3000, 20) };
        let said = findings(&[run_of(1, 1, 100, 1000, 10), elsewhere]);
        assert!(said[0].contains("contend for caches"), "{said:?}");
    }

    #[test]
    fn figures_are_medians_of_the_rounds() {
        let round = |app_s, misses| ScalingRound {
            app_s,
            cache_misses: misses,
            ..ScalingRound::of(&Profile::example(), None)
        };
        let run =
            ScalingRun::of(&[round(3.0, Some(7)), round(1.0, Some(9)), round(2.0, None)], 1, 2);
        assert_eq!(run.app_s, Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(run.cache_misses, None);
    }
}
