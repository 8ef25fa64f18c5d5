//! Ranks of one node with different abilities or settings: collectives and messages are still
//! correct, and settings that must not differ are refused by name.
//!
//! One rank of two or four, the first or the last, loses an ability (`tests/c/refusals.h`): by a
//! wrapper before its program starts, or by the program itself after half of its work.

use std::time::Duration;

use mica_tests::{Install, Job, Outcome};
use rustix::process::Signal;

/// The number of ranks, and which of them differs from the others.
const WHO: [(u32, u32); 4] = [(2, 0), (2, 1), (4, 0), (4, 3)];

/// The same for another setting of what all of [`WHO`] have been tried with: the first of two, the
/// last of four.
const FEWER: [(u32, u32); 2] = [(2, 0), (4, 3)];

/// The exit code of `refuse` if it is not permitted to refuse something.
const NOT_PERMITTED: i32 = 77;

/// `mpiexec` with `ranks` ranks of `program`; rank `odd` has the words `before` in front of it.
fn but_one(install: &Install, (ranks, odd): (u32, u32), before: &[&str], program: &[&str]) -> Job {
    let mut args: Vec<String> = Vec::new();
    let mut section = |number: u32, before: &[&str]| {
        if number == 0 {
            return;
        }
        if !args.is_empty() {
            args.push(":".to_owned());
        }
        args.extend(["-n".to_owned(), number.to_string()]);
        args.extend(before.iter().chain(program).map(|word| word.to_string()));
    };
    section(odd, &[]);
    section(1, before);
    section(ranks - 1 - odd, &[]);
    install.mpiexec(args).limit(Duration::from_secs(240))
}

/// Runs a job that must give right results, unless it cannot be tried here.
fn must_be_right(what: &str, job: Job) {
    let outcome = job.run();
    if outcome.code() == NOT_PERMITTED {
        eprintln!("skipped: {what}: {}", outcome.stderr.trim());
        return;
    }
    if let Some(reason) = outcome.stdout.lines().find_map(|l| l.strip_prefix("SKIP: ")) {
        eprintln!("skipped: {what}: {reason}");
        return;
    }
    let outcome = outcome.expect_code(0);
    assert!(outcome.stdout.contains("No Errors"), "{}", outcome.report());
}

fn text(path: &std::path::Path) -> &str {
    path.to_str().expect("target's path is text")
}

/// Runs with one rank lacking `what` from its start, under these settings.
fn taken_away_before(what: &str, env: &[(&str, &str)], whom: &[(u32, u32)]) {
    let install = Install::find();
    let (refuse, ability) = (install.program("tools/refuse"), install.program("coll_ability"));
    for &who in whom {
        let before = [text(&refuse), what];
        let job = but_one(&install, who, &before, &[text(&ability)]);
        let job = env.iter().fold(job, |job, (name, value)| job.env(name, value));
        must_be_right(&format!("{what} of {who:?}"), job);
    }
}

/// Runs with this variable set on one rank only.
fn set_on_one(variable: &str, value: &str, whom: &[(u32, u32)]) {
    let install = Install::find();
    let ability = install.program("coll_ability");
    for &who in whom {
        let before = ["-env", variable, value];
        let job = but_one(&install, who, &before, &[text(&ability)]);
        let job = match variable == SOON.0 {
            true => job,
            false => job.env(SOON.0, SOON.1),
        };
        must_be_right(&format!("{variable}={value} of {who:?}"), job);
    }
}

/// Runs with one rank losing `what` after half of the program, under these settings.
fn taken_away_later(what: &str, env: &[(&str, &str)]) {
    let install = Install::find();
    let ability = install.program("coll_ability");
    for (ranks, odd) in [(2, 1), (4, 0)] {
        let job = install
            .mpiexec(["-n", &ranks.to_string()])
            .args([text(&ability), what, &odd.to_string()])
            .limit(Duration::from_secs(240));
        let job = env.iter().fold(job, |job, (name, value)| job.env(name, value));
        must_be_right(&format!("{what} of {odd} in {ranks}, later"), job);
    }
}

/// Makes buffers reachable by load and store after few uses.
const SOON: (&str, &str) = ("MICA_MAPPED_AFTER", "3");

#[test]
fn one_rank_without_proc() {
    taken_away_before("proc", &[SOON], &FEWER);
}

#[test]
fn one_rank_without_procmap_query() {
    taken_away_before("procmap", &[SOON], &WHO);
    taken_away_before("procmap", &[("MICA_COLL", "direct"), SOON], &FEWER);
}

#[test]
fn one_rank_without_copies_by_the_kernel() {
    taken_away_before("cma", &[SOON], &WHO);
    taken_away_before("cma", &[("MICA_COLL", "direct"), ("MICA_DIRECT", "cma")], &FEWER);
    taken_away_before("writev", &[("MICA_COLL", "direct"), SOON], &FEWER);
}

#[test]
fn one_rank_with_another_direct_channel() {
    set_on_one("MICA_DIRECT", "cma", &WHO);
    set_on_one("MICA_DIRECT", "off", &FEWER);
    set_on_one("MICA_DIRECT", "mapped", &FEWER);
}

/// Settings that may differ between ranks.
#[test]
fn one_rank_with_settings_of_its_own() {
    for (variable, value) in [
        ("MICA_LATE", "on"),
        ("MICA_EAGER_MAX", "2K"),
        ("MICA_RING_MAX", "256"),
        ("MICA_PATH", "cooperate"),
        ("MICA_MAPPED_AFTER", "1"),
        ("MICA_COPY_ENGINE", "thread"),
    ] {
        set_on_one(variable, value, &WHO[1..3]);
    }
}

#[test]
fn copies_by_the_kernel_are_refused_later() {
    for what in ["cma", "readv", "writev", "dumpable"] {
        taken_away_later(what, &[("MICA_COLL", "direct"), ("MICA_DIRECT", "cma")]);
    }
    taken_away_later("cma", &[("MICA_COLL", "direct"), SOON]);
}

#[test]
fn loads_and_stores_are_refused_later() {
    for what in ["procmap", "proc"] {
        taken_away_later(what, &[("MICA_COLL", "direct"), SOON]);
    }
}

/// Checks that the error names the variable, the ranks that differ and both values.
fn expect_difference(outcome: Outcome, variable: &str, values: [&str; 2]) {
    let outcome = outcome.expect_failure().says("all ranks must have the same value");
    let line = outcome.stderr.lines().find(|line| line.contains(variable));
    let line = line.unwrap_or_else(|| panic!("no {variable}:\n{}", outcome.report()));
    for word in values.into_iter().chain(["rank 0", "rank 1"]) {
        assert!(line.contains(word), "no '{word}' in: {line}");
    }
}

#[test]
fn refuses_differing_settings_by_name() {
    let install = Install::find();
    let program = install.program("init_basic");
    for (variable, value, default) in [
        ("MICA_COLL", "messages", "auto"),
        ("MICA_COLL", "bcast=binomial", "auto"),
        ("MICA_COLL_FAN", "3", "8"),
        ("MICA_COLL_SHAPE", "tree", "auto"),
        ("MICA_COLL_TWO_LEVEL", "off", "auto"),
        ("MICA_NET", "loopback", "auto"),
    ] {
        let before = ["-env", variable, value];
        let job = but_one(&install, (2, 1), &before, &[text(&program)]);
        expect_difference(job.run(), variable, [value, default]);
    }
}

#[test]
fn settings_are_compared_across_nodes() {
    let install = Install::find();
    let program = install.program("init_basic");
    let before = ["-env", "MICA_COLL_TWO_LEVEL", "leaders"];
    let job = but_one(&install, (2, 1), &before, &[text(&program)]);
    let outcome = job.env("MICA_VIRTUAL_NODES", "2").run();
    expect_difference(outcome, "MICA_COLL_TWO_LEVEL", ["leaders", "auto"]);
}

#[test]
fn the_hang_report_says_what_a_rank_does_without() {
    let install = Install::find();
    let refuse = install.program("tools/refuse");
    let ability = install.program("coll_ability");
    let before = [text(&refuse), "procmap"];
    let program = [text(&ability), "hang"];
    let mut job = but_one(&install, (2, 1), &before, &program).start();
    job.wait_for("ready");
    // The ranks are about to wait; a report that comes once they do has the line.
    for _ in 0..20 {
        job.signal(Signal::USR1);
        std::thread::sleep(Duration::from_millis(200));
    }
    job.signal(Signal::TERM);
    let outcome = job.finish();
    let line = outcome.stderr.lines().find(|line| line.contains("do without"));
    let line = line.unwrap_or_else(|| panic!("{}", outcome.report()));
    for word in ["rank 1", "PROCMAP_QUERY", "Operation not permitted"] {
        assert!(line.contains(word), "no '{word}' in: {line}");
    }
}

#[test]
fn the_table_of_traffic_says_what_a_rank_does_without() {
    let install = Install::find();
    let (refuse, ability) = (install.program("tools/refuse"), install.program("coll_ability"));
    let before = [text(&refuse), "procmap"];
    let job = but_one(&install, (2, 1), &before, &[text(&ability), "part=bcast"]);
    let outcome = job.env("MICA_STATS", "table").run().expect_code(0);
    let outcome = outcome.says("rank 1 does without mapped: PROCMAP_QUERY");
    assert!(!outcome.stderr.contains("rank 0 does without"), "{}", outcome.report());
}
