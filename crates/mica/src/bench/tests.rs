//! Tests the whole command with fake libraries: shell scripts for mpicc, mpiexec and the programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap::Parser;
use serde_json::Value;

use super::*;
use crate::scratch::ScratchFolder;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: BenchOptions,
}

fn options(words: &[&str]) -> BenchOptions {
    let words = [&["bench"], words].concat();
    Line::try_parse_from(words).unwrap().options
}

/// True in a process that runs this test alone. An executor ends every child of its process, so it
/// must not share a process with other tests: the first call, in the process of all tests, runs
/// such a process until it ends and returns false.
fn alone(test: &str) -> bool {
    const MARK: &str = "MICA_TEST_ALONE";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let done = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", test])
        .env(MARK, "1")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let passed = done.status.success() && said.contains("1 passed");
    assert!(passed, "{said}{}", String::from_utf8_lossy(&done.stderr));
    false
}

fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{text}")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Copies the source, which is a script, to the argument after -o.
const MPICC: &str = r#"
while [ $# -gt 0 ]; do
    case $1 in
        -o) shift; out=$1 ;;
        */version.c) version=1 ;;
        *.c) source=$1 ;;
    esac
    shift
done
if [ "${version:-}" ]; then
    printf '#!/bin/sh\necho Fake   1.0\n' >"$out"
else
    grep -q broken "$source" && { echo "no such thing" >&2; exit 1; }
    cp "$source" "$out"
fi
chmod 755 "$out"
"#;

/// Skips options up to -n, and announces to the program which library started it.
fn mpiexec(name: &str, before: &str) -> String {
    format!(
        "while [ \"$1\" != -n ]; do shift; done\nranks=$2; shift 2\n{before}\n\
         WHO={name} RANKS=$ranks exec \"$@\"\n"
    )
}

const SUITE: &str = r#"
[[program]]
name = "floor"
floor = true
[[program]]
name = "p"
ranks = [2]
args = ["8", "64", "512"]
quick_args = ["8"]
timeout = 1
[[program]]
name = "job"
ranks = [4]
is_job = true
[[program]]
name = "files"
ranks = [2]
scratch = true
[[program]]
name = "q"
source = "broken.c"
ranks = [2]
[[set]]
name = "one"
title = "A set of one"
programs = ["p"]
[guidelines]
tolerance = 0.1
sets = ["one"]
[[floor]]
measure = "time"
from = "flag"
from_bytes = 8
label = "a flag"
[[variant]]
name = "slow"
env = { MICA_SLOW = "1" }
programs = ["p"]
[[bar]]
text = "fast"
program = "p"
measure = "time"
bytes = [8]
against = "best-peer"
at_most = 0.65
[[bar]]
text = "not slow"
program = "p"
measure = "time"
bytes = [8]
variant = "slow"
against = "mica"
at_most = 1.5
"#;

/// Mica takes 1 microsecond, mpich 2, and Mica slowed down 5; mpich takes twice as long for 64
/// bytes as for more.
const PROGRAM: &str = r#"
case $WHO in mica) v=1 ;; *) v=2 ;; esac
[ "${MICA_SLOW:-}" ] && v=5
echo "a line of something else"
for bytes in "$@"; do
    [ $WHO$bytes = mpich64 ] && v=4
    [ $WHO$bytes = mpich512 ] && v=2
    echo "{\"measure\": \"time\", \"bytes\": $bytes, \"ranks\": $RANKS, \"value\": $v, \"unit\": \
        \"us\"}"
done
"#;

/// Says that the ranks were there after 1 ms and that the job has nothing to do from 2 ms on, then
/// takes half a second to end.
const JOB: &str = r#"
[ "$1" = --launched ] && [ "$2" -gt 0 ] && [ $# = 2 ] || exit 1
figure() { echo "{\"measure\": \"job $1\", \"ranks\": $RANKS, \"value\": $2, \"unit\": \"ms\"}"; }
figure start 1
figure end 2
sleep 0.5
"#;

/// Leaves a file in its folder, which was empty; mpich's finds wrong data in it.
const FILES: &str = r#"
[ "$1" = --scratch ] && [ -d "$2" ] && [ -z "$(ls -A "$2")" ] && [ $# = 2 ] || exit 2
echo data >"$2/file"
[ $WHO = mpich ] && { echo "/src/files.c: wrong data: at offset 0" >&2; exit 1; }
echo "{\"measure\": \"write\", \"ranks\": $RANKS, \"value\": 1, \"unit\": \"ms\"}"
"#;

const FLOOR: &str = r#"#include <stdio.h>
int main(void) { puts("{\"measure\": \"flag\", \"bytes\": 8, \"ranks\": 2, \"value\": 0.5, \
    \"unit\": \"us\"}"); return 0; }
"#;

/// Makes the suite and two libraries; the second has `trouble` in its mpiexec.
fn stage(folder: &Path, trouble: &str) -> Places {
    let suite = folder.join("suite");
    script(&suite.join("src/p.c"), PROGRAM);
    script(&suite.join("src/job.c"), JOB);
    script(&suite.join("src/files.c"), FILES);
    script(&suite.join("src/broken.c"), "# broken");
    fs::write(suite.join("src/floor.c"), FLOOR).unwrap();
    fs::write(suite.join("suite.toml"), SUITE).unwrap();
    for (name, trouble) in [("mica", ""), ("mpich", trouble)] {
        let bin = folder.join(name).join("bin");
        script(&bin.join("mpicc"), MPICC);
        script(&bin.join("mpiexec"), &mpiexec(name, trouble));
    }
    Places {
        suite,
        work: folder.join("work"),
        peers: folder.join("peers"),
        results: folder.join("results"),
        tree: None,
    }
}

fn run_in(folder: &Path, trouble: &str, words: &[&str]) -> (ExitCode, Value, String) {
    let places = stage(folder, trouble);
    let with = format!("mica={0}/mica,mpich={0}/mpich", folder.display());
    let out = folder.join("out");
    let fixed = ["--with", &with, "--out", out.to_str().unwrap()];
    let options = options(&[words, &fixed].concat());
    let suite = Suite::read(&places.suite).unwrap();
    let executor = Executor::plain(&places.work).unwrap();
    let code = session::run(&options, &places, &suite, executor).unwrap();
    let raw = gzip::tests::decompressed(&fs::read(out.join("raw.json.gz")).unwrap());
    let summary = fs::read_to_string(out.join("summary.md")).unwrap();
    (code, serde_json::from_str(&raw).unwrap(), summary)
}

#[test]
fn libraries_are_run_in_turn_and_judged() {
    if !alone("bench::tests::libraries_are_run_in_turn_and_judged") {
        return;
    }
    let folder = ScratchFolder::new("sound").unwrap();
    let (code, raw, summary) = run_in(folder.path(), "", &["bars", "--rounds", "2"]);
    assert_eq!(code, ExitCode::SUCCESS);
    let runs = raw["runs"].as_array().unwrap();
    let names: Vec<&str> = runs.iter().map(|run| run["contestant"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["floor", "mica", "mica+slow", "mpich", "floor", "mica+slow", "mpich", "mica"]
    );
    assert_eq!(runs[2]["environment"]["MICA_SLOW"], "1");
    assert_eq!(runs[1]["figures"][2]["bytes"], 512);
    for part in [
        "| time | 8 B, 2 ranks | us | 1.00 [1.00, 1.00, 1.00, 1.00] | \
         5.00 [5.00, 5.00, 5.00, 5.00] | 2.00 [2.00, 2.00, 2.00, 2.00] | 0.500 (a flag) | 2.00 | \
         mpich | 0.500 [0.500, 0.500] |",
        "| fast | 8 B, 2 ranks | 1.00 us | 2.00 us | mpich | 0.500 | at most 0.650 | reached",
        "| not slow | 8 B, 2 ranks | 5.00 us | 1.00 us | mica | 5.00 | at most 1.50 | missed",
        "- mpich: Fake 1.0",
        "| no slower for less data than for more | holds (2) | holds (2) | violated 1 of 2 |",
        "| mpich | no slower for less data than for more | time, 64 B, 2 ranks | 4.00 us | time \
         512 B: 2.00 | 2.00 us | 2.00 |",
    ] {
        assert!(summary.contains(part), "{part}\n{summary}");
    }
    let out = folder.path().join("out");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("class=\"missed\""), "{page}");
    assert!(page.contains("<h2>Guidelines</h2>"), "{page}");
    assert!(page.contains("<td>violated 1 of 2</td>"), "{page}");
    let data = fs::read_to_string(out.join("summary.json")).unwrap();
    let data: Value = serde_json::from_str(&data).unwrap();
    let violation = &data["guidelines"]["violations"][0];
    assert_eq!(violation["contestant"], "mpich");
    assert_eq!(violation["terms"][0]["bytes"], 512);
    for file in ["command", "host.json", "summary.json", "p-time-2-ranks.svg"] {
        assert!(out.join(file).is_file(), "{file}");
    }
    let left: Vec<_> = fs::read_dir(folder.path().join("work")).unwrap().flatten().collect();
    assert!(left.iter().all(|e| !e.file_name().to_string_lossy().starts_with("run-")));
}

/// A launcher that hangs after starting a process in another session: the round fails, the run
/// continues, and no process is left.
#[test]
fn ends_and_names_a_hanging_contestant() {
    if !alone("bench::tests::ends_and_names_a_hanging_contestant") {
        return;
    }
    let folder = ScratchFolder::new("hangs").unwrap();
    let pids = folder.path().join("pids");
    let trouble = format!(
        "echo stuck here >&2\nsetsid sh -c 'echo $$ >{0}; sleep 600' &\nsleep 600",
        pids.display()
    );
    let (code, raw, summary) = run_in(folder.path(), &trouble, &["p", "--quick", "--no-plots"]);
    assert_eq!(code, ExitCode::FAILURE);
    let runs = raw["runs"].as_array().unwrap();
    let failed = runs.iter().find(|run| run["contestant"] == "mpich").unwrap();
    assert_eq!(failed["error"], "no end after 1 s; killed");
    assert!(failed["output"].as_str().unwrap().contains("stuck here"));
    assert!(summary.contains("mpich failed in p (2 ranks), round 1: no end after 1 s; killed"));
    assert!(summary.contains("| time | 8 B, 2 ranks | us | 1.00 | 5.00 | failed |"), "{summary}");
    let pid = fs::read_to_string(&pids).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "process {pid} is left");
}

/// The end of a job is what its launcher still takes when the ranks are done.
#[test]
fn times_of_a_job_begin_with_its_launch_and_end_with_its_launcher() {
    if !alone("bench::tests::times_of_a_job_begin_with_its_launch_and_end_with_its_launcher") {
        return;
    }
    let folder = ScratchFolder::new("job").unwrap();
    let (code, raw, summary) = run_in(folder.path(), "", &["job", "--quick", "--no-plots"]);
    assert_eq!(code, ExitCode::SUCCESS, "{summary}");
    let runs = raw["runs"].as_array().unwrap();
    let jobs: Vec<&Value> = runs.iter().filter(|run| run["program"] == "job").collect();
    assert_eq!(jobs.len(), 2);
    for run in jobs {
        let figures = run["figures"].as_array().unwrap();
        let of = |measure: &str| {
            let mut found = figures.iter().filter(|f| f["measure"] == measure);
            found.next().unwrap()["value"].as_f64().unwrap()
        };
        let total = run["seconds"].as_f64().unwrap() * 1e3;
        assert_eq!(of("job start"), 1.0);
        assert!(of("job end") >= 498.0, "{run}");
        assert!((of("job end") - (total - 2.0)).abs() < 1e-6, "{run}");
    }
}

/// Files of a program lie in a folder of its run, and a program that ends itself says why.
#[test]
fn folder_of_files_is_empty_before_each_run_and_gone_after_it() {
    if !alone("bench::tests::folder_of_files_is_empty_before_each_run_and_gone_after_it") {
        return;
    }
    let folder = ScratchFolder::new("files").unwrap();
    let (code, raw, summary) = run_in(folder.path(), "", &["files", "--rounds", "2"]);
    assert_eq!(code, ExitCode::FAILURE);
    let runs = raw["runs"].as_array().unwrap();
    let of = |name: &str| runs.iter().filter(|run| run["contestant"] == name).collect::<Vec<_>>();
    for run in of("mica") {
        assert_eq!(run["figures"][0]["measure"], "write", "{run}");
        let files = run["command"].as_array().unwrap().last().unwrap().as_str().unwrap();
        assert!(!Path::new(files).exists(), "{files}");
    }
    assert_eq!((of("mica").len(), of("mpich").len()), (2, 2));
    let reason =
        "mpich failed in files (2 ranks), round 1, 2: exit code 1: wrong data: at offset 0";
    assert!(summary.contains(reason), "{summary}");
}

#[test]
fn reports_what_is_left_out() {
    if !alone("bench::tests::reports_what_is_left_out") {
        return;
    }
    let folder = ScratchFolder::new("without").unwrap();
    let places = stage(folder.path(), "exit 3");
    let out = folder.path().join("out");
    let with = format!("mica={0}/mica,mpich={0}/nowhere", folder.path().display());
    let fixed = ["q", "p", "--quick", "--with", &with, "--out", out.to_str().unwrap()];
    let suite = Suite::read(&places.suite).unwrap();
    let executor = || Executor::plain(&places.work).unwrap();
    let code = session::run(&options(&fixed), &places, &suite, executor()).unwrap();
    assert_eq!(code, ExitCode::FAILURE);
    let summary = fs::read_to_string(out.join("summary.md")).unwrap();
    assert!(summary.contains("mpich is left out: no "), "{summary}");
    assert!(
        summary.contains("mica does not run q: ") && summary.contains("no such thing"),
        "{summary}"
    );
    assert!(summary.contains("| time | 8 B, 2 ranks | us | 1.00 |"), "{summary}");

    let error =
        session::run(&options(&["p", "--with", "lam"]), &places, &suite, executor()).unwrap_err();
    assert!(error.contains("'lam'") && error.contains("openmpi"), "{error}");
    let error = session::run(&options(&["nothing"]), &places, &suite, executor()).unwrap_err();
    assert!(error.contains("'nothing' is neither"), "{error}");
}
