//! `mpiexec` over several hosts, with programs that know nothing of MPI. The hosts are virtual
//! nodes on this machine (`--launcher fork`), or reached by a made-up remote shell; all traffic is
//! on 127.0.0.1.

mod failures;
mod remote_shells;
mod tree;

use crate::common::*;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const MPIEXEC: &str = env!("CARGO_BIN_EXE_mpiexec");
const FORK: [&str; 4] = ["--launcher", "fork", "-hosts", "left,right"];

fn mpiexec(arguments: &[&str]) -> Command {
    let mut command = Command::new(MPIEXEC);
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs a script on two virtual nodes.
fn run(options: &[&str], script: &str) -> Output {
    let arguments = [&FORK[..], options, &["sh", "-c", script]].concat();
    mpiexec(&arguments).output().unwrap()
}

/// Starts `mpiexec` on two virtual nodes and reads as many lines of its output as asked.
fn start(options: &[&str], script: &str, lines: usize) -> (Child, Vec<String>) {
    let arguments = [&FORK[..], options, &["sh", "-c", script]].concat();
    start_and_read(mpiexec(&arguments), lines)
}

/// The agents of this mpiexec: its children whose command line says so, with the node's number.
fn agents(head: u32) -> Vec<(u32, String)> {
    let children = fs::read_to_string(format!("/proc/{head}/task/{head}/children")).unwrap();
    let mut agents = Vec::new();
    for pid in children.split_whitespace() {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&str> = line.trim_end_matches('\0').split('\0').collect();
        if let [.., "--agent", _, node] = words[..] {
            agents.push((pid.parse().unwrap(), node.to_owned()));
        }
    }
    agents.sort_by(|a, b| a.1.cmp(&b.1));
    agents
}

/// The children of a process with this word on their command line.
fn children(pid: u32, word: &str) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let has_word = |child: &&str| {
        let line = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        line.split('\0').any(|own| own == word)
    };
    let found = children.split_whitespace().filter(has_word);
    found.map(|child| child.parse().unwrap()).collect()
}

/// The parent of a process that must be there.
fn parent(pid: &str) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(") ").next().unwrap();
    after_name.split(' ').nth(1).unwrap().parse().unwrap()
}

fn stderr_of(child: &mut Child) -> String {
    let mut text = String::new();
    let mut pipe = child.stderr.take().unwrap();
    pipe.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn ranks_of_two_nodes_make_one_job() {
    let script = "echo $MICA_RANK/$MICA_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS \
                  $PMI_RANK/$PMI_SIZE; test -e /proc/self/fd/$MICA_SEGMENT_FD \
                  && test -e /proc/self/fd/$PMI_FD";
    let output = run(&["-n", "5"], script);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        sorted_lines(&output.stdout),
        ["0/5 0/3 0/5", "1/5 1/3 1/5", "2/5 2/3 2/5", "3/5 0/2 3/5", "4/5 1/2 4/5"]
    );
    assert_eq!(text(&output.stderr), "");
    let output = run(&["-ppn", "2"], "echo $MICA_RANK/$MICA_SIZE $MPI_LOCALRANKID");
    assert_eq!(sorted_lines(&output.stdout), ["0/4 0", "1/4 1", "2/4 0", "3/4 1"]);
}

/// A rank takes several descriptors here, and finds the limit that the user has.
#[test]
fn more_ranks_than_descriptors_by_default() {
    let script = format!(
        "ulimit -Sn 128; exec {MPIEXEC} {} -n 200 sh -c 'echo $(ulimit -Sn)'",
        FORK.join(" ")
    );
    let output = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = sorted_lines(&output.stdout);
    assert!(lines.len() == 200 && lines.iter().all(|line| line == "128"), "{lines:?}");
}

#[test]
fn virtual_nodes_by_the_environment() {
    let output = mpiexec(&["-n", "3", "sh", "-c", "echo $MICA_RANK $MPI_LOCALNRANKS"])
        .env("MICA_VIRTUAL_NODES", "2")
        .output()
        .unwrap();
    assert_eq!(sorted_lines(&output.stdout), ["0 2", "1 2", "2 1"]);
    let output = mpiexec(&["true"]).env("MICA_VIRTUAL_NODES", "two").output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("MICA_VIRTUAL_NODES=\"two\""));
}

#[test]
fn a_single_host_that_is_this_machine_needs_no_agent() {
    let output = mpiexec(&["-hosts", "localhost", "-n", "2", "sh", "-c", "echo $MICA_EXCHANGE"])
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "\n\n");
    let output = mpiexec(&["-n", "1", "sh", "-c", "echo $MICA_EXCHANGE"])
        .env("MICA_NET", "loopback")
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "pmi\n", "over the network ranks must meet");
}

/// Ranks of both nodes put, meet in a barrier and get what the others put (PMI-1); an abort gives
/// its code.
#[test]
fn ranks_meet_by_pmi() {
    let script = r#"
        ask() { echo "$1" >&$PMI_FD; read -r -u $PMI_FD line; }
        ask "cmd=init pmi_version=1 pmi_subversion=1"
        ask "cmd=get_my_kvsname"; name=${line##*=}
        ask "cmd=put kvsname=$name key=k$PMI_RANK value=v$PMI_RANK"
        ask "cmd=barrier_in"
        all=
        for rank in 0 1 2; do ask "cmd=get kvsname=$name key=k$rank"; all="$all ${line##*=}"; done
        ask "cmd=barrier_in"
        echo "$name$all"
        test -z "$ABORT" || test $PMI_RANK != 2 || echo "cmd=abort exitcode=55" >&$PMI_FD
        test -z "$ABORT" || sleep 1000
        ask "cmd=finalize"; test "$line" = "cmd=finalize_ack rc=0""#;
    let arguments = [&FORK[..], &["-n", "3", "bash", "-c", script]].concat();
    let output = mpiexec(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = sorted_lines(&output.stdout);
    assert!(lines[0].ends_with(" v0 v1 v2"), "{lines:?}");
    assert!(lines.len() == 3 && lines.iter().all(|line| *line == lines[0]), "{lines:?}");
    let output = mpiexec(&arguments).env("ABORT", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(55));
    let report = text(&output.stderr);
    assert!(report.contains(" on right) called MPI_Abort with code 55"), "{report}");
}

#[test]
fn a_job_has_a_uuid_for_fabrics_of_its_own() {
    let uuids = |options: &[&str]| {
        let options = [&["-ppn", "1"], options].concat();
        let output = run(&options, "echo $FI_PSM3_UUID $FI_PSM2_UUID $FI_OPX_UUID");
        let lines = sorted_lines(&output.stdout);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(lines[0], lines[1], "the same on all nodes");
        lines[0].clone()
    };
    let (first, second) = (uuids(&[]), uuids(&[]));
    let one = first.split(' ').next().unwrap();
    let lengths: Vec<usize> = one.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12], "{first}");
    assert_eq!(first, [one; 3].join(" "));
    assert_ne!(first, second, "another job");
    let own = uuids(&["-genv", "FI_PSM3_UUID", "mine"]);
    assert!(own.starts_with("mine ") && !own.ends_with("mine"), "{own}");
}

#[test]
fn environment_and_directory() {
    let arguments = [
        &FORK[..],
        &[
            "-x",
            "ALL=a",
            "-n",
            "1",
            "-env",
            "ONE",
            "1",
            "sh",
            "-c",
            "echo 0 $ALL $ONE $OWN $(pwd)",
            ":",
            "-n",
            "1",
            "-wdir",
            "/usr",
            "sh",
            "-c",
            "echo 1 $ALL $ONE $OWN $(pwd) $PWD $MICA_NET_INTERFACE",
        ],
    ];
    let output = mpiexec(&arguments.concat())
        .env("OWN", "o")
        .env_remove("ONE")
        .current_dir("/etc")
        .output()
        .unwrap();
    assert_eq!(
        sorted_lines(&output.stdout),
        ["0 a 1 o /etc", "1 a o /usr /usr 127.0.0.1"],
        "{}",
        text(&output.stderr)
    );
    let output = run(&["-wdir", "/no/such", "-n", "2"], "true");
    assert_eq!(output.status.code(), Some(127));
    let report = text(&output.stderr);
    assert!(report.contains(": cannot start \"sh\" for rank "), "{report}");
    assert!(report.contains("no directory /no/such"), "{report}");
}

#[test]
fn standard_input_goes_to_rank_0_whole() {
    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    let script = "if [ $MICA_RANK = 0 ]; then cat; else test -z \"$(cat)\"; fi";
    let arguments = [&FORK[..], &["-n", "2", "sh", "-c", script]].concat();
    let mut child =
        mpiexec(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    assert!(output.stdout == bytes, "{} bytes came back", output.stdout.len());
}

/// Starting this many takes longer than a batch; the first ranks read before the last are started.
#[test]
fn ranks_of_all_batches_get_the_input_from_its_beginning() {
    let script = "head -c 2 >/dev/null; read rest; echo $rest";
    for hosts in [&[][..], &FORK[..]] {
        let options = ["--stdin", "all", "-n", "600", "sh", "-c", script];
        let arguments = [hosts, &options[..]].concat();
        let mut child =
            mpiexec(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"x hello\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        assert_eq!(text(&output.stdout), "hello\n".repeat(600));
    }
}

#[test]
fn a_rank_that_does_not_read_its_input_does_not_matter() {
    let mut command =
        mpiexec(&[&FORK[..], &["-n", "2", "sh", "-c", "exec <&-; echo $MICA_RANK"]].concat());
    let zero = fs::File::open("/dev/zero").unwrap();
    let output = command.stdin(zero).output().unwrap();
    assert_eq!(sorted_lines(&output.stdout), ["0", "1"]);
}

#[test]
fn output_keeps_its_order_and_lines_their_label() {
    let script = "i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i + 1)); done; printf end";
    let output = run(&["-n", "2", "--label"], script);
    assert!(output.status.success());
    for rank in 0..2 {
        let label = format!("[{rank}] ");
        let all = text(&output.stdout);
        let own: Vec<&str> = all.lines().filter_map(|l| l.strip_prefix(&label)).collect();
        let mut wanted: Vec<String> = (0..3000).map(|i| i.to_string()).collect();
        wanted.push("end".to_owned());
        assert_eq!(own, wanted);
    }
}

/// More output than fits anywhere, which is not read for longer than a silent host is given.
#[test]
fn a_reader_that_waits_costs_no_host() {
    let script = "head -c 4000000 /dev/zero";
    let arguments = [&FORK[..], &["-n", "2", "--host-timeout", "2", "sh", "-c", script]].concat();
    let mut child =
        mpiexec(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Twice the time that a silent host is given.
    std::thread::sleep(Duration::from_secs(4));
    let mut output = child.stdout.take().unwrap();
    let bytes = std::io::copy(&mut output, &mut std::io::sink()).unwrap();
    assert_eq!(stderr_of(&mut child), "");
    assert!(child.wait().unwrap().success());
    assert_eq!(bytes, 8_000_000);
}

#[test]
fn the_first_failing_rank_is_named_with_its_host() {
    let output = run(&["-n", "4"], "test $MICA_RANK = 2 && exit 7; sleep 1000");
    assert_eq!(output.status.code(), Some(7));
    let report = text(&output.stderr);
    assert!(report.contains("rank 2 (pid "), "{report}");
    assert!(report.contains(" on right) exited with code 7"), "{report}");
    assert!(report.contains("program: sh -c test"), "{report}");
    assert!(report.contains("ending the 3 other ranks"), "{report}");
    let output = run(&["-n", "2"], "test $MICA_RANK = 0 && kill -9 $$; sleep 1000");
    assert_eq!(output.status.code(), Some(128 + 9));
    assert!(text(&output.stderr).contains(" on left) was killed by signal 9 (SIGKILL)"));
}

#[test]
fn what_a_rank_wrote_comes_before_its_end() {
    for _ in 0..5 {
        let output =
            run(&["-n", "2"], "test $MICA_RANK = 1 && echo last words && exit 3; sleep 1000");
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(3), &b"last words\n"[..]));
    }
}

#[test]
fn signals_reach_all_nodes() {
    for (signal, number) in [("INT", 2), ("TERM", 15)] {
        let script =
            format!("trap 'echo got; exit 0' {signal}; echo $$; while :; do sleep 0.05; done");
        let (mut child, lines) = start(&["-n", "2", "--grace", "1000"], &script, 2);
        assert_eq!(lines.len(), 2);
        send(&format!("-{signal}"), child.id());
        assert_eq!(child.wait().unwrap().code(), Some(128 + number));
        let mut rest = String::new();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "got\ngot\n");
    }
}

#[test]
fn the_second_signal_kills() {
    let script = "trap '' INT; echo $$; while :; do sleep 1; done";
    let (mut child, _) = start(&["-n", "2", "--grace", "100000"], script, 2);
    let mut report = BufReader::new(child.stderr.take().unwrap()).lines();
    send("-INT", child.id());
    assert!(report.next().unwrap().unwrap().contains("ending the job"));
    send("-INT", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn stopping_and_going_on() {
    // In the background: a shell that has just begun a command (vfork), which is stopped before it
    // is there, waits for that and does not stop itself.
    let script = "sleep 0.3 & echo $$; wait; read line; echo $line";
    let (mut child, pids) = start(&["-n", "2", "--host-timeout", "2"], script, 2);
    send("-TSTP", child.id());
    for pid in pids.iter().chain([&child.id().to_string()]) {
        wait_until_stopped(pid);
    }
    // Longer than a host may be silent.
    std::thread::sleep(Duration::from_secs(4));
    send("-CONT", child.id());
    assert_eq!(stderr_of(&mut child), "");
    // `read` finds no input: status 0 of the last echo.
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A debugger or SIGSTOP, unlike Ctrl-Z, gives the head no time to announce that it will be silent.
#[test]
fn a_head_that_is_stopped_for_long_costs_no_job() {
    let script = "echo $$; sleep 6; exec sh -c 'kill -STOP $$; exit 0'";
    let (mut child, pids) = start(&["-n", "2", "--host-timeout", "2"], script, 2);
    send("-STOP", child.id());
    // The ranks stop themselves when they have run three times as long as a host may be silent.
    for pid in &pids {
        wait_until_stopped(pid);
    }
    send("-CONT", child.id());
    // mpiexec passes SIGCONT on to the ranks.
    assert_eq!(stderr_of(&mut child), "");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn time_over_and_reports() {
    let output = run(&["-n", "3", "--timeout", "0.3"], "sleep 1000");
    assert_eq!(output.status.code(), Some(124));
    let report = text(&output.stderr);
    assert!(report.contains("time of 0.3 s is over"), "{report}");
    let lines: Vec<&str> = report.lines().collect();
    assert_eq!(lines[1], "mpiexec: 3 of 3 ranks are running:");
    assert!(lines[2].contains("rank 0 (pid ") && lines[2].contains(" on left): "), "{report}");
    assert!(lines[4].contains("rank 2 (pid ") && lines[4].contains(" on right): "), "{report}");

    let (mut child, _) = start(&["-n", "2"], "echo $$; sleep 1000", 2);
    let mut report = BufReader::new(child.stderr.take().unwrap()).lines();
    send("-USR1", child.id());
    let first = report.next().unwrap().unwrap();
    assert_eq!(first, "mpiexec: 2 of 2 ranks are running:");
    send("-TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}
