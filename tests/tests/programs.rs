//! The programs of `tests/c`, as `tests/c/testlist` lists them: once plain, once with
//! process_vm_readv and process_vm_writev refused by a seccomp filter, once on two virtual nodes
//! that talk over libfabric's tcp, once on two hosts made of network namespaces, and those that
//! move messages once under the basic design of the shared-memory channel.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use mica_tests::netns::Namespaces;
use mica_tests::{
    Entry, Install, Job, Outcome, TWO_NODES, Verdict, one_at_a_time, parse_list, workspace,
};

fn list() -> Vec<Entry> {
    let path = workspace().join("tests/c/testlist");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    parse_list(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The families: a program's name begins with one of these words.
const FAMILIES: [&str; 19] = [
    "pt2pt", "type", "coll", "comm", "err", "thr", "init", "info", "pmpi", "inter", "nbc", "pers",
    "req", "rma", "session", "tool", "topo", "abi", "mem",
];

fn family(entry: &Entry) -> &str {
    entry.program.split('_').next().expect("split yields one at least")
}

/// How a run of a line differs from the plain one.
#[derive(Clone, Copy, PartialEq)]
enum Pass {
    Plain,
    WithoutCma,
    /// The basic design, with FIFOs so small that many messages do not fit and are sent in chunks.
    Basic,
    /// Two virtual nodes on this machine: half of the ranks each, the network between them.
    Nodes,
    /// Two hosts made of network namespaces, each with its own address. Each line runs on one
    /// number of ranks.
    Hosts,
}

impl Pass {
    fn has(self, entry: &Entry) -> bool {
        match self {
            Pass::Plain => true,
            Pass::WithoutCma => entry.nocma,
            // Lines that set thresholds are variants of a line that does not.
            Pass::Basic => entry.basic && entry.env.is_empty(),
            Pass::Nodes => entry.nodes && (entry.env.is_empty() || entry.forces_requests()),
            Pass::Hosts => entry.nodes && entry.env.is_empty(),
        }
    }

    /// The numbers of ranks on which a line runs.
    fn ranks(self, entry: &Entry) -> Vec<u32> {
        let several = || entry.ranks.iter().copied().filter(|n| *n > 1);
        match self {
            // One rank cannot be on two nodes, and more than five test nothing new.
            Pass::Nodes => several().filter(|n| *n <= 5).collect(),
            // Two ranks on each host, or as close to that as the line allows.
            Pass::Hosts => several().min_by_key(|n| n.abs_diff(4)).into_iter().collect(),
            _ => entry.ranks.clone(),
        }
    }

    fn environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Pass::Basic => &[("MICA_SHM", "basic"), ("MICA_BASIC_FIFO", "16K")],
            Pass::Nodes => &TWO_NODES,
            Pass::Plain | Pass::WithoutCma | Pass::Hosts => &[],
        }
    }
}

/// How many lines of a family are shown with their times: those that take longest.
const SHOWN: usize = 12;

/// Runs every line of a family on every number of ranks; all failures are reported together.
fn run(name: &str, pass: Pass) {
    let install = Install::find();
    let wrapper: Option<PathBuf> =
        (pass == Pass::WithoutCma).then(|| install.program("tools/nocma"));
    let hosts = match pass {
        Pass::Hosts => match Namespaces::new() {
            None => return,
            hosts => hosts,
        },
        _ => None,
    };
    let mpiexec = || match &hosts {
        Some(hosts) => install.mpiexec_on(hosts, [""; 0]),
        None => install.mpiexec([""; 0]),
    };
    let (mut passed, mut skipped, mut failures) = (0, Vec::new(), Vec::new());
    let mut times = Vec::new();
    for mut entry in list() {
        if family(&entry) != name || !pass.has(&entry) {
            continue;
        }
        for &(key, value) in pass.environment() {
            entry.env.push((key.to_owned(), value.to_owned()));
        }
        for ranks in pass.ranks(&entry) {
            let _turn = one_at_a_time();
            let start = Instant::now();
            match entry.run(&install, mpiexec(), ranks, wrapper.as_ref()) {
                Verdict::Passed => passed += 1,
                Verdict::Skipped(why) => skipped.push(format!("{}: {why}", entry.program)),
                Verdict::Failed(report) => failures.push(report),
            }
            let what = [&[entry.program.clone()], &entry.args[..]].concat().join(" ");
            times.push((start.elapsed(), format!("{what}, {ranks} ranks")));
        }
    }
    println!("{name}: {passed} runs passed, {} skipped {skipped:?}", skipped.len());
    times.sort_by(|a, b| b.cmp(a));
    for (time, what) in times.iter().take(SHOWN) {
        println!("{name}: {what}: {time:.1?}");
    }
    assert!(
        failures.is_empty(),
        "{name}: {} of {} runs failed\n\n{}",
        failures.len(),
        failures.len() + passed + skipped.len(),
        failures.join("\n")
    );
    assert!(passed > 0, "no line of the test list belongs to '{name}'");
}

macro_rules! families {
    ($($test:ident $refused:ident $name:literal;)*) => {$(
        #[test]
        fn $test() {
            run($name, Pass::Plain);
        }

        #[test]
        fn $refused() {
            run($name, Pass::WithoutCma);
        }
    )*};
}

families! {
    point_to_point point_to_point_without_cma "pt2pt";
    datatypes datatypes_without_cma "type";
    collectives collectives_without_cma "coll";
    communicators communicators_without_cma "comm";
    errors errors_without_cma "err";
    threads threads_without_cma "thr";
    starting_and_finishing starting_and_finishing_without_cma "init";
    profiling_interface profiling_interface_without_cma "pmpi";
    intercommunicators intercommunicators_without_cma "inter";
    nonblocking_collectives nonblocking_collectives_without_cma "nbc";
    persistent_collectives persistent_collectives_without_cma "pers";
    sessions sessions_without_cma "session";
    tools_interface tools_interface_without_cma "tool";
    topologies topologies_without_cma "topo";
    migrated_memory migrated_memory_without_cma "mem";
    one_sided one_sided_without_cma "rma";
}

macro_rules! basic_design {
    ($($test:ident $name:literal;)*) => {$(
        #[test]
        fn $test() {
            run($name, Pass::Basic);
        }
    )*};
}

basic_design! {
    point_to_point_by_the_basic_design "pt2pt";
    datatypes_by_the_basic_design "type";
    collectives_by_the_basic_design "coll";
    intercommunicators_by_the_basic_design "inter";
    threads_by_the_basic_design "thr";
    nonblocking_collectives_by_the_basic_design "nbc";
}

macro_rules! on_two_nodes {
    ($($test:ident $name:literal;)*) => {$(
        #[test]
        fn $test() {
            run($name, Pass::Nodes);
        }
    )*};
}

on_two_nodes! {
    point_to_point_on_two_nodes "pt2pt";
    datatypes_on_two_nodes "type";
    collectives_on_two_nodes "coll";
    communicators_on_two_nodes "comm";
    errors_on_two_nodes "err";
    threads_on_two_nodes "thr";
    starting_and_finishing_on_two_nodes "init";
    profiling_interface_on_two_nodes "pmpi";
    intercommunicators_on_two_nodes "inter";
    nonblocking_collectives_on_two_nodes "nbc";
    persistent_collectives_on_two_nodes "pers";
    sessions_on_two_nodes "session";
    tools_interface_on_two_nodes "tool";
    topologies_on_two_nodes "topo";
    one_sided_on_two_nodes "rma";
}

macro_rules! on_two_hosts {
    ($($test:ident $name:literal;)*) => {$(
        #[test]
        fn $test() {
            run($name, Pass::Hosts);
        }
    )*};
}

on_two_hosts! {
    point_to_point_on_two_hosts "pt2pt";
    datatypes_on_two_hosts "type";
    collectives_on_two_hosts "coll";
    communicators_on_two_hosts "comm";
    errors_on_two_hosts "err";
    threads_on_two_hosts "thr";
    starting_and_finishing_on_two_hosts "init";
    profiling_interface_on_two_hosts "pmpi";
    intercommunicators_on_two_hosts "inter";
    nonblocking_collectives_on_two_hosts "nbc";
    persistent_collectives_on_two_hosts "pers";
    sessions_on_two_hosts "session";
    topologies_on_two_hosts "topo";
}

#[test]
fn info_objects() {
    run("info", Pass::Plain);
}

#[test]
fn generalized_requests() {
    run("req", Pass::Plain);
}

#[test]
fn abi_queries() {
    run("abi", Pass::Plain);
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
    let _turn = one_at_a_time();
    let job = install.mpiexec(["-n", "4"]).args([&install.program("coll_data")]);
    let job = TWO_NODES.iter().fold(job, |job, (name, value)| job.env(name, value));
    let outcome = job.env("MICA_STATS", "table").run().expect_code(0);
    assert!(messages(&outcome, "net") > 0, "{}", outcome.report());
    assert!(messages(&outcome, "inline") > 0, "{}", outcome.report());
}

/// The number of messages that went by path `way`, according to the traffic table.
fn messages(outcome: &Outcome, way: &str) -> u64 {
    let line = outcome.stderr.lines().find_map(|line| {
        let mut words = line.strip_prefix("mpiexec:")?.split_whitespace();
        (words.next() == Some(way)).then(|| words.next())?
    });
    let count = line.and_then(|n| n.parse::<u64>().ok());
    count.unwrap_or_else(|| panic!("no '{way}' in\n{}", outcome.report()))
}

/// Programs that pass under every setting of `MICA_WINDOW_ACCESS` would prove nothing if all of
/// them took the same way.
#[test]
fn one_sided_operations_go_the_way_that_was_chosen() {
    let install = Install::find();
    let _turn = one_at_a_time();
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
        let _turn = one_at_a_time();
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
