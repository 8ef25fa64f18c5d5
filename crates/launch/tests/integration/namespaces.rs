//! `mpiexec` over two hosts with addresses of their own: network namespaces joined by a cable,
//! reached by `ip netns exec` in place of ssh. Losing the cable or a host's agent ends the job and
//! names the host.

#[path = "../../../../tests/src/netns.rs"]
mod netns;

use crate::common::{send, wait_until_gone, wait_until_stopped};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use netns::Namespaces;

/// `mpiexec` on the first host, for a job on both.
fn mpiexec(hosts: &Namespaces, options: &[&str], script: &str) -> Command {
    let [program, words @ ..] = hosts.on_first();
    let mut command = Command::new(program);
    command
        .args(words)
        .arg(env!("CARGO_BIN_EXE_mpiexec"))
        .args(["-hosts", &hosts.hosts(), "--launcher-exec", Namespaces::SHELL])
        .args(options)
        .args(["sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Starts a job of four ranks that sleep; answers their processes by rank.
fn sleepers(hosts: &Namespaces) -> (Child, Vec<u32>) {
    let script = "echo $MICA_RANK $$; exec sleep 1000";
    let mut child = mpiexec(hosts, &["-ppn", "2", "--host-timeout", "2"], script).spawn().unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let mut lines: Vec<String> = lines.take(4).map(Result::unwrap).collect();
    lines.sort();
    let pid = |line: &String| line.split(' ').nth(1).unwrap().parse().unwrap();
    let pids: Vec<u32> = lines.iter().map(pid).collect();
    (child, pids)
}

fn parent(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(") ").next().unwrap();
    after_name.split(' ').nth(1).unwrap().to_owned()
}

/// What mpiexec said of the loss, when nothing is left of the job.
fn report(mut child: Child, pids: &[u32]) -> String {
    let mut report = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut report).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{report}");
    pids.iter().for_each(|&pid| wait_until_gone(&pid.to_string()));
    report
}

#[test]
fn ranks_are_where_their_host_is() {
    let Some(hosts) = Namespaces::new() else {
        return;
    };
    let script = "echo $MICA_RANK $(ip -4 -o address show scope global | grep -o '10[.][.0-9]*' \
                  | head -n 1)";
    let output = mpiexec(&hosts, &["-n", "3"], script).output().unwrap();
    let mut lines: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 10.77.0.1", "1 10.77.0.1", "2 10.77.0.2"], "{output:?}");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn the_interface_can_be_named() {
    let Some(hosts) = Namespaces::new() else {
        return;
    };
    let script = "echo $MICA_RANK $MICA_NET_INTERFACE";
    let options = ["-n", "2", "-iface", "10.77.0.1"];
    let output = mpiexec(&hosts, &options, script).output().unwrap();
    let mut lines: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 10.77.0.1", "1 10.77.0.2"], "{output:?}");
    let output = mpiexec(&hosts, &["-iface", "mica9"], "true").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let report = String::from_utf8(output.stderr).unwrap();
    assert!(report.contains("--interface mica9: no network interface"), "{report}");
}

#[test]
fn a_cut_cable_is_a_lost_host() {
    let Some(hosts) = Namespaces::new() else {
        return;
    };
    let (child, pids) = sleepers(&hosts);
    hosts.cut();
    let report = report(child, &pids);
    let lost = format!("host {} (ranks 2-3) was lost: ", hosts.names[1]);
    assert!(report.contains(&lost), "{report}");
    assert!(report.contains("ending the 2 other ranks"), "{report}");
}

#[test]
fn a_killed_agent_is_a_lost_host() {
    let Some(hosts) = Namespaces::new() else {
        return;
    };
    let (child, pids) = sleepers(&hosts);
    let status = Command::new("kill").args(["-KILL", &parent(pids[3])]).status();
    assert!(status.unwrap().success());
    let report = report(child, &pids);
    let lost = format!("host {} (ranks 2-3) was lost: ", hosts.names[1]);
    assert!(report.contains(&lost), "{report}");
    assert!(report.contains("killed by signal 9"), "{report}");
}

/// A suspended laptop: `mpiexec` does not run, and its machine answers nothing.
#[test]
fn a_suspended_head_costs_no_job() {
    let Some(hosts) = Namespaces::new() else {
        return;
    };
    // The rank stops itself when it has run three times as long as a host may be silent.
    let script = "echo $$; sleep 6; exec sh -c 'kill -STOP $$; exit 0'";
    let timeouts = ["--host-timeout", "2", "--head-timeout", "100000"];
    let options = [&["-hosts", &hosts.names[1], "-n", "1"], &timeouts[..]].concat();
    let [program, words @ ..] = hosts.on_first();
    let mut child = Command::new(program)
        .args(words)
        .arg(env!("CARGO_BIN_EXE_mpiexec"))
        .args(["--launcher-exec", Namespaces::SHELL])
        .args(options)
        .args(["sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let rank = lines.next().unwrap().unwrap();
    send("-STOP", child.id());
    hosts.cut();
    wait_until_stopped(&rank.to_string());
    hosts.mend();
    // mpiexec passes SIGCONT on to the rank.
    send("-CONT", child.id());
    let mut report = String::new();
    child.stderr.take().unwrap().read_to_string(&mut report).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{report}");
    assert_eq!(report, "");
}
