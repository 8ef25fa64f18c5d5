//! `mpiexec` with programs that know nothing of MPI: starting, ending, and leaving nothing behind.

use crate::common::*;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

fn mpiexec(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpiexec"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs `mpiexec` to its end; the script, if any, follows the options as `sh -c SCRIPT`.
fn run(options: &[&str], script: &str) -> Output {
    let arguments = [options, &["sh", "-c", script]].concat();
    mpiexec(&arguments).output().unwrap()
}

/// Starts `mpiexec` and reads as many lines of its output as asked.
fn start(arguments: &[&str], lines: usize) -> (Child, Vec<String>) {
    start_and_read(mpiexec(arguments), lines)
}

#[test]
fn ranks_know_their_rank_and_size() {
    let script = "echo $MICA_RANK/$MICA_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS; \
                  test -e /proc/self/fd/$MICA_SEGMENT_FD";
    let output = run(&["-n", "3"], script);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(sorted_lines(&output.stdout), ["0/3 0/3", "1/3 1/3", "2/3 2/3"]);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn sections_with_environment_and_directory() {
    let output = mpiexec(&[
        "-x",
        "ALL=a",
        "-genv",
        "MORE",
        "m",
        "-n",
        "1",
        "-env",
        "ONE",
        "1",
        "sh",
        "-c",
        "echo 0 $ALL $MORE $ONE",
        ":",
        "-n",
        "2",
        "-wdir",
        "/usr",
        "sh",
        "-c",
        "echo $MICA_RANK $ALL $MORE $ONE $PWD $(pwd)",
    ])
    .env_remove("ONE")
    .output()
    .unwrap();
    let lines = sorted_lines(&output.stdout);
    assert_eq!(lines, ["0 a m 1", "1 a m /usr /usr", "2 a m /usr /usr"]);
}

#[test]
fn standard_input_goes_to_rank_0() {
    let mut command = mpiexec(&["-n", "3", "sh", "-c", "echo $MICA_RANK:$(cat)"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hello").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(sorted_lines(&output.stdout), ["0:hello", "1:", "2:"]);
}

#[test]
fn labelled_lines_are_whole() {
    let script = "for i in 1 2 3; do printf 'out '; echo $i; echo err >&2; done; printf end";
    let output = run(&["-n", "2", "--label"], script);
    let lines = ["[0] end", "[0] out 1", "[0] out 2", "[0] out 3"];
    let both: Vec<String> =
        lines.iter().flat_map(|line| [line.to_string(), line.replace("[0]", "[1]")]).collect();
    let mut both = both;
    both.sort();
    assert_eq!(sorted_lines(&output.stdout), both);
    assert_eq!(sorted_lines(&output.stderr)[0], "[0] err");
    assert_eq!(sorted_lines(&output.stderr).len(), 6);
}

#[test]
fn the_first_failing_rank_ends_the_job() {
    let output = run(&["-n", "4"], "test $MICA_RANK = 2 && exit 7; sleep 1000");
    assert_eq!(output.status.code(), Some(7));
    let report = text(&output.stderr);
    assert!(report.contains("rank 2 (pid "), "{report}");
    assert!(report.contains("exited with code 7"), "{report}");
    assert!(report.contains("ending the 3 other ranks"), "{report}");
    assert!(report.contains("program: sh -c test"), "{report}");
    assert_eq!(report.matches("exited").count(), 1, "one block only: {report}");
}

#[test]
fn a_killed_rank_is_named_with_its_signal() {
    let output = run(&["-n", "3"], "test $MICA_RANK = 1 && kill -9 $$; sleep 1000");
    assert_eq!(output.status.code(), Some(128 + 9));
    let report = text(&output.stderr);
    assert!(report.contains("rank 1 (pid "), "{report}");
    assert!(report.contains("killed by signal 9 (SIGKILL)"), "{report}");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(report.contains(host.trim()), "{report}");
}

#[test]
fn ranks_that_ignore_the_request_are_killed() {
    let script = "trap '' TERM; test $MICA_RANK = 0 && exit 3; while :; do sleep 1; done";
    let output = run(&["-n", "2", "--grace", "0.1"], script);
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn descendants_in_other_sessions_are_ended_too() {
    // The background process leaves the group and the session, and its parent dies. It lets go of
    // the rank's output, or it would be waited for.
    let script = "(setsid sh -c 'echo $$; exec sleep 1000' 2>/dev/null &) | head -n 1";
    let output = run(&["-n", "2"], script);
    assert!(output.status.success());
    let said = text(&output.stderr);
    assert_eq!(said.matches("(sleep)").count(), 2, "{said}");
    let pids = sorted_lines(&output.stdout);
    assert_eq!(pids.len(), 2);
    for pid in pids {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid} is left behind");
    }
}

#[test]
fn nothing_is_left_when_the_launcher_is_killed() {
    let script = "sleep 1000 & echo $$ $!; wait";
    let (mut child, lines) = start(&["-n", "3", "sh", "-c", script], 3);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(lines.len(), 3);
    for pid in lines.iter().flat_map(|line| line.split(' ')) {
        wait_until_gone(pid);
    }
    // The keeper as well.
    for pid in children.unwrap_or_default().split_whitespace() {
        wait_until_gone(pid);
    }
}

#[test]
fn signals_are_forwarded() {
    for (signal, number) in [("INT", 2), ("TERM", 15)] {
        let script =
            format!("trap 'echo got; exit 0' {signal}; echo $$; while :; do sleep 0.05; done");
        let (mut child, lines) = start(&["-n", "2", "--grace", "1000", "sh", "-c", &script], 2);
        assert_eq!(lines.len(), 2);
        send(&format!("-{signal}"), child.id());
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(128 + number));
        let mut rest = String::new();
        child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "got\ngot\n", "each rank got SIG{signal} and ended by itself");
    }
}

/// A script's background job starts with SIGINT ignored; what mpiexec forwards must still reach the
/// ranks.
#[test]
fn ranks_see_a_forwarded_signal_that_the_launcher_was_started_to_ignore() {
    let launcher = env!("CARGO_BIN_EXE_mpiexec");
    let rank = "trap 'exit 7' INT; echo $$; while :; do sleep 0.05; done";
    let script = format!("trap '' INT; exec {launcher} -n 1 --grace 1000 sh -c \"$0\"");
    let mut child = Command::new("sh")
        .args(["-c", &script, rank])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    send("-INT", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn the_second_signal_kills() {
    let script = "trap '' INT; echo $$; while :; do sleep 1; done";
    let (mut child, _) = start(&["-n", "2", "--grace", "100000", "sh", "-c", script], 2);
    let mut report = BufReader::new(child.stderr.take().unwrap()).lines();
    send("-INT", child.id());
    assert!(report.next().unwrap().unwrap().contains("ending the job"));
    send("-INT", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn time_over() {
    let output = run(&["-n", "2", "--timeout", "0.3"], "sleep 1000");
    assert_eq!(output.status.code(), Some(124));
    let report = text(&output.stderr);
    assert!(report.contains("time of 0.3 s is over"), "{report}");
    assert!(report.contains("rank 1 (pid "), "{report}");
}

#[test]
fn what_ranks_wait_for_on_request() {
    let (mut child, _) = start(&["-n", "2", "sh", "-c", "echo $$; sleep 1000"], 2);
    let mut report = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    send("-USR1", child.id());
    assert_eq!(report.next().unwrap(), "mpiexec: 2 of 2 ranks are running:");
    assert!(report.next().unwrap().ends_with("has not called MPI_Init"));
    send("-TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));

    let hang_report = ["--hang-report", "0.1", "sleep", "1000"];
    let (mut child, _) = start(&hang_report, 0);
    let mut report = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = report.next().unwrap().unwrap();
    assert_eq!(first, "mpiexec: 1 of 1 ranks are running:");
    send("-TERM", child.id());
    child.wait().unwrap();
}

#[test]
fn programs_that_cannot_be_started() {
    let output = mpiexec(&["-n", "2", "mica-no-such-program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    let report = text(&output.stderr);
    assert!(report.contains("cannot start \"mica-no-such-program\" for rank 0"), "{report}");

    let output = mpiexec(&["/etc/passwd"]).output().unwrap();
    assert_eq!(output.status.code(), Some(126));
    assert!(text(&output.stderr).contains("/etc/passwd"));

    // The ranks started before are ended.
    let output = mpiexec(&["sleep", "1000", ":", "/no/such"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output.stderr).contains("for rank 1"));
}

#[test]
fn wrong_command_lines() {
    let output = mpiexec(&["--frobnicate", "a"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("unknown option --frobnicate"));
    assert_eq!(mpiexec(&[]).output().unwrap().status.code(), Some(2));
}

#[test]
fn binding_follows_the_plan() {
    // Bound: each rank may use exactly the processors that the plan says.
    let script = "echo $MICA_RANK $(grep Cpus_allowed_list /proc/self/status | cut -f2)";
    let output = run(&["-n", "1", "-v", "--bind-to", "core"], script);
    let plan = text(&output.stderr);
    let bound = plan.split("bound to processors ").nth(1).unwrap().split(", core").next().unwrap();
    assert_eq!(text(&output.stdout), format!("0 {bound}\n"));

    // Not bound: what mpiexec itself may use.
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t")).unwrap();
    let output = run(&["-n", "1", "--bind-to", "none"], script);
    assert_eq!(text(&output.stdout), format!("0 {own}\n"));
}

#[test]
fn a_synthetic_machine_is_planned_but_not_bound() {
    let output = mpiexec(&["-n", "3", "-v", "--map-by", "package", "true"])
        .env("MICA_TOPOLOGY_SYNTHETIC", "pack:2 l3:2 core:2 pu:1")
        .output()
        .unwrap();
    assert!(output.status.success());
    let plan = text(&output.stderr);
    assert!(plan.contains("rank 1: not bound, core 4, shared cache 2, package 1"), "{plan}");

    let output = mpiexec(&["true"]).env("MICA_TOPOLOGY_SYNTHETIC", "nonsense").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("nonsense"));
}

#[test]
fn many_more_ranks_than_cores() {
    let output = run(&["-n", "128"], "echo $MICA_RANK");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(sorted_lines(&output.stdout).len(), 128);
}

/// The first rank kills the keeper while others are being started.
#[test]
fn a_killed_keeper_costs_no_rank() {
    // The keeper has its name once it runs.
    let script = "test $MICA_RANK = 0 || exit 0; \
        while :; do for p in $(cat /proc/$PPID/task/$PPID/children); do \
            grep -q mpiexec-keeper /proc/$p/comm && kill -9 $p && echo killed && exit 0; \
        done; done 2>/dev/null";
    let output = run(&["-n", "100"], script);
    assert_eq!(text(&output.stdout), "killed\n");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

/// A launcher that was started with SIGCHLD ignored still learns how its ranks end; the ranks get
/// it as usual.
#[test]
fn an_ignored_sigchld_is_no_obstacle() {
    let mpiexec = env!("CARGO_BIN_EXE_mpiexec");
    // Bit 16 of the mask is SIGCHLD, number 17.
    let rank = "grep SigIgn /proc/self/status | grep -q '[02468ace]....$'; exit $((7 + $?))";
    let output = Command::new("env")
        .args(["--ignore-signal=CHLD", mpiexec, "-n", "2", "sh", "-c", rank])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
}

/// `nohup mpiexec`: the job outlives the terminal.
#[test]
fn an_ignored_sighup_does_not_end_the_job() {
    let rank = "echo up; while test ! -e $STOP; do sleep 0.02; done; echo done";
    let script = format!("trap '' HUP; exec {} -n 1 sh -c \"$0\"", env!("CARGO_BIN_EXE_mpiexec"));
    let stop = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stop-{}", std::process::id()));
    let mut child = Command::new("sh")
        .args(["-c", &script, rank])
        .env("STOP", &stop)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    send("-HUP", child.id());
    // Time to end by mistake. If it is too short, the test only shows less.
    std::thread::sleep(Duration::from_millis(100));
    fs::write(&stop, "").unwrap();
    let last = lines.next();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(last.unwrap().unwrap(), "done");
    fs::remove_file(&stop).unwrap();
}

/// What has ended is part of the report.
#[test]
fn the_report_names_ranks_that_have_ended() {
    let script = "test $MICA_RANK = 1 || { echo up; sleep 1000; }";
    let (mut child, _) = start(&["-n", "2", "sh", "-c", script], 1);
    let mut report = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    // Rank 1 may not have ended yet.
    let line = loop {
        send("-USR1", child.id());
        let head = report.next().unwrap();
        let lines = [report.next().unwrap(), report.next().unwrap()];
        if head == "mpiexec: 1 of 2 ranks are running:" {
            break lines[1].clone();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(
        line,
        "mpiexec:   rank 1 has ended: exited with code 0 without having called MPI_Init"
    );
    send("-TERM", child.id());
    child.wait().unwrap();
}
