//! Tests `mica tune` and `mica info --explain` as installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mica_tests::{Install, Job, target};

fn mica(args: &[&str]) -> Job {
    Job::new(Install::find().bin("mica")).args(args).limit(Duration::from_secs(240))
}

fn scratch(name: &str) -> PathBuf {
    let folder = target().join("tmp").join(format!("{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("target is writable");
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().expect("target's path is text")
}

#[test]
fn info_explains_the_choice_of_a_path() {
    let out =
        mica(&["info", "--explain", "1M", "--paths", "all", "--level", "node", "--peer-waiting"])
            .env("MICA_TUNING", "off")
            .run()
            .expect_success();
    for part in ["1048576 bytes", "shipped defaults", "mapped-cooperate", "chosen", "eager up to"] {
        assert!(out.stdout.contains(part), "{part}: {}", out.report());
    }
    mica(&["info", "--explain", "1M", "--level", "moon"]).run().expect_failure().says("moon");
}

#[test]
fn info_explains_the_choice_of_an_algorithm() {
    let explain = |words: &[&str]| {
        let words = [&["info", "--explain"], words].concat();
        mica(&words).env("MICA_TUNING", "off")
    };
    let out = explain(&["allreduce", "64K", "-n", "8", "--cores", "2"]).run().expect_success();
    for part in
        ["65536 bytes", "8 on 2 cores", "MICA_COLL=allreduce=halving", "(least time)", "By length"]
    {
        assert!(out.stdout.contains(part), "{part}: {}", out.report());
    }
    let out = explain(&["allreduce", "64K", "-n", "8"])
        .env("MICA_COLL", "allreduce=doubling")
        .run()
        .expect_success();
    let forced = "doubling (forced by MICA_COLL=allreduce=doubling)";
    assert!(out.stdout.contains(forced), "{}", out.report());
    let old = explain(&["allreduce", "64K", "-n", "8"]).env("MICA_COLL_ALLREDUCE", "doubling");
    let out = old.run().expect_success();
    assert!(out.stdout.contains(forced), "by its old name: {}", out.report());
    let out = mica(&["info"]).env("MICA_WAY", "pull").run().expect_success();
    let renamed = "MICA_WAY still holds; its new name: MICA_PATH=pull";
    assert!(out.stdout.contains(renamed), "{}", out.report());
    let out =
        explain(&["bcast", "64K", "-n", "8"]).env("MICA_COLL_AREA", "0").run().expect_success();
    assert!(out.stdout.contains("the communicator has no shared area"), "{}", out.report());
    explain(&["allreduce"]).run().expect_failure().says("64K");
    explain(&["allreduces", "64K"]).run().expect_failure().says("reduce_scatter");
    explain(&["bcast", "64K"])
        .env("MICA_COLL", "bcast=bruck")
        .run()
        .expect_failure()
        .says("MICA_COLL=bcast=bruck: expected one of auto, binomial");
}

/// Measures, writes a file, and checks that its figures are in force; on a machine with one core,
/// checks that the reason is printed.
#[test]
fn tune_writes_a_file_that_jobs_use() {
    let folder = scratch("tuning");
    let file = folder.join("here.toml");
    let out = mica(&["tune", "--quick", "--force", "--output", text(&file)])
        .env("MICA_TUNING", "off")
        .run();
    if out.stderr.contains("two cores") {
        out.expect_failure();
        assert!(!file.exists());
    } else {
        let out = out.expect_success();
        // The paths that exist on every machine.
        let rows = |way: &str| {
            let rows =
                out.stdout.lines().filter(|line| line.split_whitespace().nth(1) == Some(way));
            rows.map(str::to_owned).collect::<Vec<_>>()
        };
        for way in ["inline", "ring", "cells", "streamed"] {
            assert!(!rows(way).is_empty(), "{way}: {}", out.report());
            for row in rows(way) {
                assert!(!row.contains("not available"), "{row}\n{}", out.report());
            }
        }
        let written = fs::read_to_string(&file).expect("the file was written");
        assert!(written.contains("[machine]"), "{written}");
        // Only figures with a proven gain are written, and all of them are listed.
        let accepted = out.stdout.lines().find(|line| line.starts_with("Accepted: "));
        let accepted = accepted.unwrap_or_else(|| panic!("{}", out.report()));
        for section in written.lines().filter(|line| line.starts_with('[')) {
            let name = section.trim_matches(['[', ']']);
            let named = match name.starts_with("collective") {
                true => accepted.contains("steps of collectives"),
                false => name == "machine" || accepted.contains(name),
            };
            assert!(named, "{name} is written, but not accepted\n{}", out.report());
        }
        assert_eq!(
            accepted.contains("nothing"),
            !out.stdout.contains("faster: accepted"),
            "{}",
            out.report()
        );
        let explained = mica(&["info", "--explain", "64K"])
            .env("MICA_TUNING", text(&file))
            .run()
            .expect_success();
        assert!(explained.stdout.contains("here.toml"), "{}", explained.report());

        // The same figures from a machine with another kernel are refused.
        let other = folder.join("other.toml");
        let altered = written.replacen("kernel = \"", "kernel = \"not-", 1);
        fs::write(&other, altered).expect("target is writable");
        mica(&["info", "--explain", "64K"])
            .env("MICA_TUNING", text(&other))
            .run()
            .expect_failure()
            .says("other.toml is of another machine: its kernel");
    }
    fs::remove_dir_all(folder).expect("the folder is ours");
}

#[test]
fn names_a_missing_installation() {
    let folder = scratch("dry");
    let out = mica(&["tune", "--quick", "--prefix", "/no/such/place"])
        .env("XDG_CONFIG_HOME", text(&folder))
        .run()
        .expect_failure();
    let reasons = ["/no/such/place/bin/mpiexec", "two cores"];
    assert!(reasons.iter().any(|words| out.stderr.contains(words)), "{}", out.report());
    assert_eq!(fs::read_dir(&folder).expect("the folder is there").count(), 0);
    fs::remove_dir_all(folder).expect("the folder is ours");
}

#[test]
fn a_malformed_file_is_named_with_its_line() {
    let folder = scratch("malformed");
    let file = folder.join("bad.toml");
    fs::write(&file, "version = 1\n\n[node.pull]\nstart_ns = fast\n").expect("target is writable");
    mica(&["info", "--explain", "1K"])
        .env("MICA_TUNING", text(&file))
        .run()
        .expect_failure()
        .says("bad.toml, line 4: start_ns: \"fast\"");
    // The library reports the same error, and does not continue with other figures.
    let install = Install::find();
    let program = install.program("tools/job");
    for args in [&["-n", "2", text(&program), "hello"][..], &[text(&program), "hello"]] {
        install
            .mpiexec(args)
            .env("MICA_TUNING", text(&file))
            .run()
            .expect_failure()
            .says("bad.toml, line 4: start_ns: \"fast\"");
    }
    fs::remove_dir_all(folder).expect("the folder is ours");
}
