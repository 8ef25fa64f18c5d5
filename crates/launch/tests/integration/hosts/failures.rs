//! What is said and left when agents, hosts or the head are lost, and when programs cannot start.

use super::*;

#[test]
fn a_killed_agent_is_a_lost_host() {
    let script = "sleep 1000 & echo $$ $!; wait";
    let (mut child, lines) = start(&["-n", "4"], script, 4);
    let agents = agents(child.id());
    assert_eq!(agents.len(), 2);
    let began = Instant::now();
    send("-KILL", agents[1].0);
    let report = stderr_of(&mut child);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(began.elapsed() < Duration::from_secs(60), "a watchdog");
    assert!(report.contains("host right (ranks 2-3) was lost"), "{report}");
    assert!(report.contains("killed by signal 9"), "{report}");
    assert!(report.contains("ending the 2 other ranks"), "{report}");
    for pid in lines.iter().flat_map(|line| line.split(' ')) {
        wait_until_gone(pid);
    }
}

#[test]
fn an_agent_that_is_told_to_end_says_so() {
    let (mut child, lines) = start(&["-n", "2"], "echo $$; exec sleep 1000", 2);
    send("-TERM", agents(child.id())[1].0);
    let report = stderr_of(&mut child);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    assert!(report.contains("host right: its agent got signal 15 (SIGTERM)"), "{report}");
    for pid in &lines {
        wait_until_gone(pid);
    }
}

#[test]
fn a_stopped_agent_is_a_lost_host() {
    let (mut child, lines) =
        start(&["-n", "2", "--host-timeout", "2"], "echo $$; exec sleep 1000", 2);
    let began = Instant::now();
    send("-STOP", agents(child.id())[0].0);
    let report = stderr_of(&mut child);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(began.elapsed() >= Duration::from_secs(10), "not before its time");
    assert!(
        report.contains("host left (rank 0) was lost: nothing was heard of it for 12 s"),
        "{report}"
    );
    for pid in &lines {
        wait_until_gone(pid);
    }
}

#[test]
fn nothing_is_left_when_the_head_is_killed() {
    // The first of each pair leaves the rank's group and session.
    let script = "setsid sh -c 'echo $$; exec sleep 1000' & sleep 1000 & echo $!; wait";
    let (mut child, lines) = start(&["-n", "2"], script, 4);
    let agents = agents(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((lines.len(), agents.len()), (4, 2));
    for pid in &lines {
        wait_until_gone(pid);
    }
    for (pid, _) in agents {
        wait_until_gone(&pid.to_string());
    }
}

#[test]
fn daemons_of_ranks_are_ended_too() {
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
fn programs_that_cannot_be_started() {
    let output = mpiexec(&[&FORK[..], &["-n", "2", "mica-no-such"]].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    let report = text(&output.stderr);
    assert!(report.contains("cannot start \"mica-no-such\""), "{report}");
    assert!(report.contains("host left") || report.contains("host right"), "{report}");
}
