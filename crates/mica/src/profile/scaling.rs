//! `mica profile --scaling 1,2,4,8 -- mpiexec -n N PROGRAM`: the program at several numbers of
//! ranks, on one node and on two virtual nodes (chai-2009, chapter 2): times normalized to one node
//! (Figure 2.5), speed-ups (Figure 2.7), and the share of each level of the machine in the
//! messages.
//!
//! Each run is a `mica profile` of its own, whose profile.json is read back. Where `perf` may count
//! this user's processes, it counts cache misses around each run. The work is taken to be the same
//! at every number of ranks: then the time that all ranks compute together is constant unless they
//! contend for something, or repeat work.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use mica_profile::{PairLevel, Profile, summary};
use serde::Serialize;

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
    /// Application time of the slowest rank, in nanoseconds.
    pub app_ns: u64,
    /// Time that all ranks computed, together.
    pub computing_ns: u64,
    /// Time in MPI calls of all ranks, in percent of their application time.
    pub mpi_percent: f64,
    /// Percent of the messages and one-sided operations between ranks at each level: shared cache,
    /// package, node, network.
    pub level_percent: [f64; LEVELS.len()],
    /// Cache misses of all processes, if they can be counted.
    pub cache_misses: Option<u64>,
}

/// The runs of a program.
#[derive(Debug, Serialize)]
pub struct ScalingRuns {
    command: Vec<String>,
    runs: Vec<ScalingRun>,
    findings: Vec<String>,
}

/// Runs the command at each number of ranks, on one node and, with more than one rank, on two.
///
/// # Errors
/// If the command names no number of ranks, or a run fails.
pub fn scaling(command: &[String], counts: &[usize]) -> Result<ScalingRuns, Box<dyn Error>> {
    let can_count =
        perf(&[], Path::new("/dev/null")).arg("true").status().is_ok_and(|status| status.success());
    let folder = ScratchFolder::new("scaling")?;
    let counts_file = folder.path().join("perf");
    let counts_file = can_count.then_some(counts_file.as_path());
    let mut runs = Vec::new();
    for &ranks in counts {
        let command = with_ranks(command, ranks)?;
        for nodes in [1, 2].into_iter().filter(|&nodes| nodes <= ranks) {
            runs.push(run(&command, nodes, folder.path(), counts_file)?);
            folder.empty()?;
        }
    }
    Ok(ScalingRuns { command: command.to_vec(), findings: findings(&runs), runs })
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
) -> Result<ScalingRun, Box<dyn Error>> {
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
    let profile = fs::read_to_string(folder.join("profile.json"))?;
    let misses = counts.and_then(|counts| counted(&fs::read_to_string(counts).ok()?));
    Ok(summarize(&serde_json::from_str(&profile)?, nodes, misses))
}

/// The number in the first line of perf's that has one.
fn counted(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.split(',').next()?.parse().ok())
}

fn summarize(profile: &Profile, nodes: usize, cache_misses: Option<u64>) -> ScalingRun {
    let sum = |of: &dyn Fn(&mica_profile::RankProfile) -> u64| profile.ranks.iter().map(of).sum();
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
    ScalingRun {
        ranks: profile.ranks.len(),
        nodes,
        app_ns: profile.ranks.iter().map(|rank| rank.app_ns).max().unwrap_or(0),
        computing_ns: computing,
        mpi_percent: 100.0 * (app - computing) as f64 / app.max(1) as f64,
        level_percent: LEVELS.map(share),
        cache_misses,
    }
}

/// What the runs say about contention.
fn findings(runs: &[ScalingRun]) -> Vec<String> {
    let Some(first) = runs.first() else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for run in runs.iter().filter(|run| run.ranks > first.ranks) {
        let growth = run.computing_ns as f64 / first.computing_ns.max(1) as f64;
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
                 it is memory bandwidth, more ranks than cores, or work that ranks repeat"
            ),
        };
        findings.push(format!(
            "{} ranks on {} node(s) compute {growth:.2} times as long together as {}, {why}",
            run.ranks, run.nodes, first.ranks
        ));
    }
    findings
}

impl ScalingRuns {
    /// The tables.
    pub fn render(&self) -> String {
        let mut text = format!("Scaling of {}\n\n", self.command.join(" "));
        let _ = writeln!(
            text,
            "ranks nodes   time (ms)  normalized  speed-up  MPI %   messages by level (%): shared \
             cache, package, node, network"
        );
        for run in &self.runs {
            let one_node = self.runs.iter();
            let one_node = one_node.filter(|one| one.ranks == run.ranks && one.nodes == 1);
            let base = one_node.map(|one| one.app_ns).next().unwrap_or(run.app_ns);
            let first = &self.runs[0];
            let ratio = |a: u64, b: u64| a as f64 / b.max(1) as f64;
            let _ = write!(
                text,
                "{:5} {:5} {:11.3} {:11.3} {:9.2} {:6.1}  ",
                run.ranks,
                run.nodes,
                run.app_ns as f64 / 1e6,
                ratio(run.app_ns, base),
                ratio(first.app_ns, run.app_ns) * first.ranks as f64,
                run.mpi_percent
            );
            for share in run.level_percent {
                let _ = write!(text, "{share:6.1}");
            }
            text.push('\n');
        }
        text.push_str(
            "\nnormalized: to the time on one node. speed-up: from the first run. More than one \
             node: virtual, over the loopback network.\n",
        );
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

    fn run_of(ranks: usize, nodes: usize, ms: u64, computing: u64, misses: u64) -> ScalingRun {
        ScalingRun {
            ranks,
            nodes,
            app_ns: ms * 1_000_000,
            computing_ns: computing,
            mpi_percent: 10.0,
            level_percent: [100.0, 0.0, 0.0, 0.0],
            cache_misses: (misses > 0).then_some(misses),
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
        let run = summarize(&profile, 2, Some(5));
        assert_eq!(run.ranks, profile.ranks.len());
        assert!(run.app_ns > 0 && run.mpi_percent > 0.0 && run.mpi_percent < 100.0);
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
        let scaling = ScalingRuns { command: words("mpiexec -n 1 a"), findings: Vec::new(), runs };
        let text = scaling.render();
        let row = |at: usize| -> Vec<&str> {
            let line = text.lines().nth(3 + at).unwrap();
            line.split_whitespace().take(5).collect()
        };
        assert_eq!(row(0), ["1", "1", "100.000", "1.000", "1.00"]);
        assert_eq!(row(1), ["2", "1", "50.000", "1.000", "2.00"]);
        assert_eq!(row(2), ["2", "2", "75.000", "1.500", "1.33"]);
    }
}
