//! What ranks are bound to on this machine, alone and beside other jobs. In a network namespace
//! of their own, where no other job of this machine is seen.

use crate::common::empty_folder;
use std::process::{Command, Stdio};

/// Prints the processors that a rank may use.
const SHOW: &str = "grep Cpus_allowed_list /proc/self/status | cut -f2";

/// Runs a shell script in a network namespace of its own, with the launcher as `$M` and an empty
/// folder as `$D`. `None`, with a printed reason, where there can be none, or where jobs are
/// never bound.
fn alone(name: &str, script: &str) -> Option<Vec<String>> {
    let folder = empty_folder(name);
    let user = Command::new("unshare").args(["-n", "true"]).status();
    let own: &[&str] = match user.is_ok_and(|status| status.success()) {
        true => &["-n"],
        false => &["-rn"],
    };
    let output = Command::new("unshare")
        .args(own)
        .args(["bash", "-c", script])
        .env("M", env!("CARGO_BIN_EXE_mpiexec"))
        .env("D", &folder)
        .env("SHOW", SHOW)
        .env_remove("OMP_NUM_THREADS")
        .env_remove("SLURM_CPUS_PER_TASK")
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Ok(output) if output.status.success() => output,
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("unshare") => {
            println!("skipped: no network namespace can be made here");
            return None;
        }
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            println!("skipped: unshare: {error}");
            return None;
        }
    };
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(str::to_owned).collect())
}

/// How many processors a list names: `0-3,8`.
fn count(list: &str) -> usize {
    let size = |run: &str| {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        last.parse::<usize>().unwrap() - first.parse::<usize>().unwrap() + 1
    };
    list.split(',').map(size).sum()
}

/// The processors that this process may use, if there are two or more cores and a job alone is
/// bound to one.
fn all() -> Option<String> {
    let lines = alone(
        "all",
        r#"grep Cpus_allowed_list /proc/self/status | cut -f2; $M -n 1 sh -c "$SHOW""#,
    )?;
    if count(&lines[0]) < 2 || lines[1] == lines[0] {
        println!("skipped: one core, or a CPU quota: a rank alone is not bound here ({lines:?})");
        return None;
    }
    Some(lines[0].clone())
}

/// Starts jobs that wait: `start NAME OPTIONS...` writes the processors of its ranks to $D/NAME.
/// At the end all are ended.
const JOBS: &str = r#"
    start() {
        name=$1; shift
        $M "$@" sh -c "$SHOW; exec sleep 1000" >$D/$name 2>/dev/null &
        until [ -s $D/$name ]; do sleep 0.05; done
    }
    stop() { kill $1; wait $1 || true; }
"#;

#[test]
fn jobs_at_the_same_time_have_different_cores() {
    let Some(all) = all() else { return };
    // As many jobs of one rank as there are processors, and one more.
    let script = format!(
        r#"{JOBS}
        for i in $(seq {0}); do start $i -n 1; last=$!; done
        start more -n 1
        for i in $(seq {0}); do cat $D/$i; done; cat $D/more
        stop $last
        start next -n 1; cat $D/next
        kill $(jobs -p); wait || true"#,
        count(&all)
    );
    let Some(lines) = alone("jobs", &script) else {
        return;
    };
    let (own, rest) = lines.split_at(count(&all));
    let bound: Vec<&String> = own.iter().filter(|list| **list != all).collect();
    let mut different = bound.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), bound.len(), "two jobs on one core: {lines:?}");
    assert!(bound.len() >= 2 || count(&all) > 2, "{lines:?}");
    assert_eq!(rest[0], all, "no core is left: not bound");
    // A job that is not bound runs on all of them, so the next has no core to itself either.
    assert_eq!(rest[1], all, "{lines:?}");
}

#[test]
fn a_core_is_free_again_when_its_job_has_ended() {
    if all().is_none() {
        return;
    }
    let script = format!(
        r#"{JOBS}
        start a -n 1; a=$!; start b -n 1; stop $a; start c -n 1
        cat $D/a $D/b $D/c; kill $(jobs -p); wait || true"#
    );
    let Some(lines) = alone("again", &script) else {
        return;
    };
    assert_eq!(lines[0], lines[2]);
    assert_ne!(lines[0], lines[1]);
}

#[test]
fn threads_of_a_rank_have_a_core_each() {
    let Some(all) = all() else { return };
    let script = r#"
        OMP_NUM_THREADS=2 $M -n 1 sh -c "$SHOW"
        $M -n 1 -genv OMP_NUM_THREADS 2 sh -c "$SHOW"
        SLURM_CPUS_PER_TASK=2 $M -n 1 sh -c "$SHOW"
        $M -n 1 --cpus-per-rank 2 sh -c "$SHOW"
        $M -n 1 --map-by slot:PE=2 sh -c "$SHOW"
        $M -n 1 -bind-to core:2 sh -c "$SHOW"
        $M -n 1 --bind-to hwthread sh -c "$SHOW"
        $M -n 1 --bind-to none sh -c "$SHOW""#;
    let Some(lines) = alone("threads", script) else {
        return;
    };
    for list in &lines[..6] {
        assert!(count(list) >= 2, "{lines:?}");
    }
    assert_eq!(count(&lines[6]), 1, "{lines:?}");
    assert_eq!(lines[7], all);
}

#[test]
fn nodes_of_one_machine_have_different_cores() {
    let Some(all) = all() else { return };
    let script = r#"
        ip link set lo up
        export MICA_VIRTUAL_NODES=2
        $M -n 2 --report-bindings sh -c "$SHOW" 2>$D/report
        $M -n 2 --cpus-per-rank 1000 sh -c "$SHOW" 2>>$D/report
        cat $D/report"#;
    let Some(lines) = alone("nodes", script) else {
        return;
    };
    assert_ne!(lines[0], lines[1], "{lines:?}");
    assert!(count(&lines[0]) < count(&all), "{lines:?}");
    assert_eq!(lines[2..4], [all.clone(), all], "{lines:?}");
    let report = lines[4..].join("\n");
    assert!(report.contains("rank 1: bound to processors"), "{report}");
    assert!(report.contains("2 ranks want 2000 cores together"), "{report}");
}

#[test]
fn processors_that_are_not_there_are_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_mpiexec"))
        .args(["-n", "1", "-bind-to", "user:100000", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("may not use processor 100000"), "{error}");
}
