//! The programs of `tests/c`, as `tests/c/testlist` lists them: once plain, and again in each other
//! pass in which they would take another path, as the plain run's counters show.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use mica_tests::netns::Namespaces;
use mica_tests::{
    Entry, Install, Job, Launcher, Outcome, TWO_NODES, Traffic, Verdict, core_count, parse_list,
    record_time, workspace,
};

fn list() -> Vec<Entry> {
    let path = workspace().join("tests/c/testlist");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    parse_list(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn family(entry: &Entry) -> &str {
    entry.program.split('_').next().expect("split yields one at least")
}

/// A pass over the list: how a run of a line differs from the plain one. The list's head says what
/// each is for.
#[derive(Clone, Copy, PartialEq)]
enum Pass {
    Plain,
    /// process_vm_readv and process_vm_writev refused by a seccomp filter.
    WithoutCma,
    /// The basic design, with FIFOs so small that many messages do not fit and are sent in chunks.
    Basic,
    /// Two virtual nodes on this machine: half of the ranks each, the network between them.
    Nodes,
    /// Two hosts made of network namespaces, each with its own address.
    Hosts,
    /// Compiled by MPICH, for its ABI, and run by Mica's library of that ABI.
    Mpich,
}

/// Families whose programs are about messages: those that the basic design could break.
const MESSAGES: [&str; 6] = ["pt2pt", "type", "coll", "inter", "thr", "nbc"];

impl Pass {
    const AFTER_PLAIN: [Pass; 5] =
        [Pass::WithoutCma, Pass::Basic, Pass::Nodes, Pass::Hosts, Pass::Mpich];

    fn name(self) -> &'static str {
        match self {
            Pass::Plain => "plain",
            Pass::WithoutCma => "without CMA",
            Pass::Basic => "basic design",
            Pass::Nodes => "two nodes",
            Pass::Hosts => "two hosts",
            Pass::Mpich => "MPICH's ABI",
        }
    }

    /// Whether a line belongs to the pass on these ranks, among which the plain pass has seen this
    /// traffic (`None`: it has not counted).
    fn has(self, entry: &Entry, ranks: u32, traffic: Option<&Traffic>) -> bool {
        let went_by = |paths: &[&str]| traffic.is_none_or(|seen| seen.by_any(paths) > 0);
        match self {
            Pass::Plain => true,
            Pass::WithoutCma => entry.nocma && went_by(&["direct", "kernel", "mapped"]),
            // Lines that set thresholds are variants of a line that does not.
            Pass::Basic => {
                let is_about_messages = MESSAGES.contains(&family(entry));
                is_about_messages
                    && entry.basic
                    && entry.env.is_empty()
                    && went_by(&["ring", "cells"])
            }
            Pass::Nodes => {
                let has_variant = entry.env.is_empty() || entry.forces_requests();
                entry.nodes && has_variant && largest_pair(&entry.ranks).contains(&ranks)
            }
            // Two ranks on each host, or as close to that as the line allows.
            Pass::Hosts => {
                let several = entry.ranks.iter().copied().filter(|n| *n > 1);
                entry.hosts && several.min_by_key(|n| n.abs_diff(4)) == Some(ranks)
            }
            // Three ranks, or as close to that as the line allows.
            Pass::Mpich => {
                let nearest = entry.ranks.iter().copied().min_by_key(|n| n.abs_diff(3));
                entry.mpich && entry.env.is_empty() && nearest == Some(ranks)
            }
        }
    }

    fn environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // The tables decide which other passes the line has.
            Pass::Plain => &[("MICA_STATS", "table")],
            Pass::Basic => &[("MICA_SHM", "basic"), ("MICA_BASIC_FIFO", "16K")],
            Pass::Nodes => &TWO_NODES,
            Pass::WithoutCma | Pass::Hosts | Pass::Mpich => &[],
        }
    }
}

/// The numbers of ranks on which a line runs on two nodes: the two largest of 2 to 5. One rank
/// cannot be on two nodes, and more than five test nothing new.
fn largest_pair(ranks: &[u32]) -> Vec<u32> {
    let mut several: Vec<u32> = ranks.iter().copied().filter(|n| (2..=5).contains(n)).collect();
    several.sort_unstable();
    several.split_off(several.len().saturating_sub(2))
}

/// What the runs of a family came to.
#[derive(Default)]
pub struct FamilyRun {
    passed: usize,
    skipped: Vec<String>,
    failures: Vec<String>,
}

impl FamilyRun {
    /// Adds a run of a program in a pass.
    pub fn add(&mut self, program: &str, pass: &str, verdict: Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Skipped(why) => self.skipped.push(format!("{program}: {why}")),
            Verdict::Failed(report) => self.failures.push(format!("{pass} pass: {report}")),
        }
    }
}

/// Runs lines, several at a time, as the budget of cores permits; all failures are reported
/// together.
pub fn run_lines<L: Send>(
    name: &str,
    lines: VecDeque<L>,
    run_line: impl Fn(&L, &Mutex<FamilyRun>) + Sync,
) {
    let (lines, sum) = (Mutex::new(lines), Mutex::new(FamilyRun::default()));
    thread::scope(|scope| {
        for _ in 0..=core_count() {
            scope.spawn(|| {
                loop {
                    let next = lines.lock().unwrap().pop_front();
                    let Some(line) = next else { return };
                    run_line(&line, &sum);
                }
            });
        }
    });
    let FamilyRun { passed, skipped, failures } = sum.into_inner().unwrap();
    println!("{name}: {passed} runs passed, {} skipped {skipped:?}", skipped.len());
    assert!(
        failures.is_empty(),
        "{name}: {} of {} runs failed\n\n{}",
        failures.len(),
        failures.len() + passed + skipped.len(),
        failures.join("\n")
    );
    assert!(passed > 0, "no line of the test list belongs to '{name}'");
}

/// Runs every line of a family on every number of ranks, and again in the other passes that it has.
fn run(name: &str) {
    let install = Install::find();
    let hosts = match list().iter().any(|entry| entry.hosts && family(entry) == name) {
        true => Namespaces::new(),
        false => None,
    };
    let wanted = std::env::var("MICA_TEST_LINES").unwrap_or_default();
    let mut lines: VecDeque<(Entry, u32)> = list()
        .into_iter()
        .filter(|entry| family(entry) == name && entry.program.contains(&wanted))
        .flat_map(|entry| entry.ranks.clone().into_iter().map(move |n| (entry.clone(), n)))
        .collect();
    // Rounds of as many ranks as possible first: they take longest.
    lines.make_contiguous().sort_by_key(|(_, ranks)| std::cmp::Reverse(*ranks));
    run_lines(name, lines, |(entry, ranks), sum| {
        run_line(&install, hosts.as_ref(), entry, *ranks, sum);
    });
}

/// Runs a line on these ranks in the plain pass, and in each other that it belongs to.
fn run_line(
    install: &Install,
    hosts: Option<&Namespaces>,
    entry: &Entry,
    ranks: u32,
    sum: &Mutex<FamilyRun>,
) {
    let one = |pass: Pass| {
        let mut entry = entry.clone();
        for &(key, value) in pass.environment() {
            entry.env.push((key.to_owned(), value.to_owned()));
        }
        let wrapper = (pass == Pass::WithoutCma).then(|| install.program("tools/nocma"));
        let mpiexec = match hosts.filter(|_| pass == Pass::Hosts) {
            Some(hosts) => install.mpiexec_on(hosts, [""; 0]),
            None => install.mpiexec([""; 0]),
        };
        let (program, mpiexec) = match pass {
            Pass::Mpich => (
                Launcher::Mpich.program(&entry.program),
                mpiexec.env("LD_LIBRARY_PATH", &install.libraries()),
            ),
            _ => (install.program(&entry.program), mpiexec),
        };
        let run = entry.run(&program, mpiexec, ranks, wrapper.as_ref());
        let what = [&[entry.program.clone()], &entry.args[..]].concat().join(" ");
        let group = format!("programs, {}", pass.name());
        record_time(&group, &format!("{what}, {ranks} ranks"), run.wall, run.core);
        sum.lock().unwrap().add(&entry.program, pass.name(), run.verdict);
        run.traffic
    };
    let traffic = one(Pass::Plain);
    for pass in Pass::AFTER_PLAIN {
        let is_possible = pass != Pass::Hosts || hosts.is_some();
        if is_possible && pass.has(entry, ranks, traffic.as_ref()) {
            one(pass);
        }
    }
}

macro_rules! families {
    ($($test:ident $name:literal;)*) => {
        /// The families: a program's name begins with one of these words.
        const FAMILIES: &[&str] = &[$($name),*];

        $(
            #[test]
            fn $test() {
                run($name);
            }
        )*
    };
}

families! {
    point_to_point "pt2pt";
    datatypes "type";
    collectives "coll";
    communicators "comm";
    errors "err";
    threads "thr";
    starting_and_finishing "init";
    info_objects "info";
    profiling_interface "pmpi";
    intercommunicators "inter";
    nonblocking_collectives "nbc";
    persistent_collectives "pers";
    generalized_requests "req";
    one_sided "rma";
    files "io";
    sessions "session";
    tools_interface "tool";
    topologies "topo";
    abi_queries "abi";
    migrated_memory "mem";
    dynamic_processes "dyn";
}

/// A line has the passes in which it would take another path than in the plain one, and no others.
#[test]
fn a_pass_runs_what_takes_another_path() {
    let line = |text: &str| parse_list(text).unwrap().remove(0);
    let passes = |entry: &Entry, ranks: u32, table: &str| {
        let head = "mpiexec: what 2 ranks sent\n";
        let traffic = Traffic::read(&format!("{head}mpiexec:   {table}"));
        let has = |pass: &&Pass| pass.has(entry, ranks, traffic.as_ref());
        let names = Pass::AFTER_PLAIN.iter().filter(has).map(|pass| pass.name());
        names.collect::<Vec<_>>().join(", ")
    };
    let plain = line("pt2pt_modes ranks=1,2,3,5,8");
    assert_eq!(passes(&plain, 1, "own 3 8"), "");
    assert_eq!(passes(&plain, 2, "inline 3 8"), "");
    assert_eq!(passes(&plain, 2, "direct 3 8"), "without CMA");
    assert_eq!(passes(&plain, 3, "ring 3 8"), "basic design, two nodes, MPICH's ABI");
    assert_eq!(passes(&plain, 8, "cells 3 8"), "basic design");
    let types = "rma_types ranks=2 mpich=no";
    assert_eq!(passes(&line(types), 2, "kernel 3 8"), "without CMA, two nodes");
    assert_eq!(passes(&line(&format!("{types} nocma=no nodes=no")), 2, "kernel 3 8"), "");
    assert_eq!(passes(&line("rma_types ranks=8,2"), 2, "inline 3 8"), "two nodes, MPICH's ABI");
    let hosts = line("coll_data ranks=3 hosts=yes mpich=no");
    assert_eq!(passes(&hosts, 3, "area 3 8"), "two nodes, two hosts");
    assert_eq!(passes(&line("coll_data ranks=3 MICA_COLL=shared"), 3, "cells 3 8"), "");
    // A program that failed, as it should, has counted nothing that is known.
    let unknown = Pass::AFTER_PLAIN.iter().filter(|pass| pass.has(&plain, 2, None)).count();
    assert_eq!(unknown, 2);
}

/// A program that is not in the list would never run; a line without a program is a mistake.
#[test]
fn every_program_is_listed() {
    let dir = workspace().join("tests/c");
    let programs: BTreeSet<String> = fs::read_dir(&dir)
        .expect("tests/c")
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.strip_suffix(".c").map(str::to_owned))
        .collect();
    let listed: BTreeSet<String> = list().into_iter().map(|e| e.program).collect();
    assert_eq!(programs, listed);
    for entry in list() {
        assert!(FAMILIES.contains(&family(&entry)), "{}: no family runs it", entry.program);
    }
}

/// The pass without CMA would prove nothing if the filter did not work.
#[test]
fn the_filter_refuses_cma() {
    let install = Install::find();
    let (nocma, probe) = (install.program("tools/nocma"), install.program("tools/cma_probe"));
    let refused = Job::new(&nocma).args([&probe]).run().expect_code(1);
    assert_eq!(refused.stdout, "Operation not permitted\n");
}

/// Each function of chapter 15 (those of MPI_T, and MPI_Pcontrol) is called by a program of the
/// family `tool`, which checks what it returns.
#[test]
fn each_function_of_the_tools_interface_is_called_and_checked() {
    let install = Install::find();
    let functions = workspace().join("bindings/data/mpi5-abi-functions.txt");
    let functions = fs::read_to_string(functions).expect("the ABI's functions");
    let names: BTreeSet<&str> = functions
        .split_whitespace()
        .filter(|name| name.starts_with("MPI_T_") || *name == "MPI_Pcontrol")
        .collect();
    assert_eq!(names.len(), 52);
    let (mut symbols, mut source) = (String::new(), String::new());
    for entry in list().iter().filter(|entry| family(entry) == "tool") {
        let listing = Command::new("nm")
            .args(["-D", "--undefined-only"])
            .arg(install.program(&entry.program))
            .output()
            .expect("nm");
        symbols += &String::from_utf8_lossy(&listing.stdout);
        let path = workspace().join("tests/c").join(&entry.program);
        let text = fs::read_to_string(path.with_extension("c")).expect("a source");
        source.extend(text.split_whitespace());
    }
    let called: BTreeSet<&str> = symbols.split_whitespace().collect();
    let not_called: Vec<_> = names.difference(&called).collect();
    assert!(not_called.is_empty(), "not called: {not_called:?}");
    let is_checked = |name: &&&str| source.contains(&format!("CHECK_INT({name}("));
    let not_checked: Vec<_> = names.iter().filter(|name| !is_checked(name)).collect();
    assert!(not_checked.is_empty(), "not checked: {not_checked:?}");
}

/// The pass on two nodes would prove nothing if all ranks shared memory, or none.
#[test]
fn virtual_nodes_talk_over_the_network() {
    let install = Install::find();
    let job = install.mpiexec(["-n", "4"]).args([&install.program("coll_data")]);
    let job = TWO_NODES.iter().fold(job, |job, (name, value)| job.env(name, value));
    let outcome = job.env("MICA_STATS", "table").run().expect_code(0);
    assert!(messages(&outcome, "net") > 0, "{}", outcome.report());
    assert!(messages(&outcome, "inline") > 0, "{}", outcome.report());
}

/// The number of messages that went by path `path`, according to the traffic table.
fn messages(outcome: &Outcome, path: &str) -> u64 {
    Traffic::of(outcome).by(path)
}

/// Programs that pass under every setting of `MICA_WINDOW_ACCESS` would prove nothing if all of
/// them took the same way.
#[test]
fn one_sided_operations_go_the_way_that_was_chosen() {
    let install = Install::find();
    let run = |access: &str, nodes: &[(&str, &str)]| {
        let job = install.mpiexec(["-n", "4"]);
        let job = job.args([&install.program("rma_random")]);
        let job = job.args(["8", "7", "0", "3", "nocheck"]);
        let job = nodes.iter().fold(job, |job, (name, value)| job.env(name, value));
        let job = job.env("MICA_WINDOW_ACCESS", access);
        job.env("MICA_STATS", "table").run().expect_code(0)
    };
    let outcome = run("auto", &TWO_NODES);
    assert!(messages(&outcome, "rma") > 0, "{}", outcome.report());
    assert!(messages(&outcome, "requests") > 0, "{}", outcome.report());
    let always = run("rma", &TWO_NODES);
    assert!(messages(&always, "rma") > messages(&outcome, "rma"));
    let outcome = run("messages", &TWO_NODES);
    assert_eq!(messages(&outcome, "rma"), 0, "{}", outcome.report());
    let outcome = run("auto", &[]);
    assert!(messages(&outcome, "memory") > 0, "{}", outcome.report());
    assert_eq!(messages(&outcome, "requests"), 0, "{}", outcome.report());
    let outcome = run("accumulate_messages", &[]);
    assert!(messages(&outcome, "requests") > 0, "{}", outcome.report());
}

/// The passes under other designs would prove nothing if the advanced one carried them.
#[test]
fn the_launcher_sets_the_design_for_all_ranks() {
    let install = Install::find();
    let program = install.program("pt2pt_sendrecv");
    let cells = ["advanced", "mixed", "basic"].map(|design| {
        let job = install.mpiexec(["-n", "3"]).args([&program]);
        let outcome = job
            .env("MICA_SHM", design)
            .env("MICA_RING_MAX", "1K")
            .env("MICA_STATS", "table")
            .run()
            .expect_code(0);
        assert!(messages(&outcome, "ring") > 0, "{design}");
        messages(&outcome, "cells")
    });
    let [advanced, mixed, basic] = cells;
    assert!(advanced > mixed && mixed > basic && basic == 0, "{cells:?}");
}
