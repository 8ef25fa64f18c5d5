//! Hosts whose agents are started from other hosts of the job (`--fanout`).

use super::remote_shells::remote_shell;
use super::*;

/// Options for hosts that a made-up remote shell reaches, each of which starts at most two others.
fn options<'a>(hosts: &'a str, shell: &'a Path) -> Vec<&'a str> {
    let shell = shell.to_str().unwrap();
    let fixed = ["-iface", "lo", "--fanout", "2", "--launcher-exec", shell];
    [&fixed[..], &["-hosts", hosts]].concat()
}

/// `h0,h1,...`
fn hosts(count: usize) -> String {
    let names: Vec<String> = (0..count).map(|host| format!("h{host}")).collect();
    names.join(",")
}

/// An empty folder of this test.
fn own_folder(name: &str) -> PathBuf {
    empty_folder(&format!("tree-{name}-{}", std::process::id()))
}

/// The files of a folder that are whole, with what is in them, once there are `count`.
fn files(folder: &Path, count: usize) -> Vec<(String, String)> {
    let whole = || -> Vec<(String, String)> {
        let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
        let read = entries.map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        });
        read.filter(|(_, text)| text.ends_with('\n')).collect()
    };
    wait_until(|| whole().len() >= count);
    whole()
}

#[test]
fn hosts_start_hosts() {
    let folder = own_folder("whole");
    // Says on which host it runs.
    let script =
        format!("echo ${{ON:-head}} > {}/$1; export ON=$1; shift; exec \"$@\"", folder.display());
    let shell = remote_shell("branching", &script);
    let hosts = hosts(15);
    let script = "echo $MICA_RANK $ON; cat >&2";
    let arguments = [&options(&hosts, &shell)[..], &["sh", "-c", script]].concat();
    let output = mpiexec(&arguments).output().unwrap();
    assert_eq!(text(&output.stderr), "");
    assert!(output.status.success());
    let mut expected: Vec<String> = (0..15).map(|rank| format!("{rank} h{rank}")).collect();
    expected.sort();
    assert_eq!(sorted_lines(&output.stdout), expected);
    let mut started = std::collections::BTreeMap::new();
    for (_, by) in files(&folder, 15) {
        *started.entry(by.trim().to_owned()).or_insert(0) += 1;
    }
    assert_eq!(started.get("head"), Some(&2));
    assert!(started.values().all(|&hosts| hosts <= 2), "{started:?}");
    assert!(started.len() > 3, "{started:?}");
}

/// The host is three steps away: what its shell said comes all the way, and no other host is named.
#[test]
fn a_host_far_down_that_refuses_is_named() {
    let script = "test $1 = h14 && echo $1 says no >&2 && exit 255; shift; exec \"$@\"";
    let shell = remote_shell("refusing-below", script);
    let hosts = hosts(15);
    let arguments = [&options(&hosts, &shell)[..], &["echo", "started"]].concat();
    let output = mpiexec(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    let report = text(&output.stderr);
    let named = "cannot start an agent on host h14 (rank 14):";
    assert!(report.contains(named), "{report}");
    assert_eq!(report.matches("cannot start").count(), 1, "{report}");
    assert!(report.contains("h14 says no"), "{report}");
    assert!(report.contains("exited with code 255"), "{report}");
    assert!(report.contains("--fanout 0"), "{report}");
}

#[test]
fn a_host_that_is_lost_while_it_starts_others_is_named_with_them() {
    let folder = own_folder("lost");
    // h4 and h5 are started by h3, and never come.
    let script = format!(
        "case $1 in h[45]) echo $$ > {}/$1; exec sleep 1000;; esac; shift; exec \"$@\"",
        folder.display()
    );
    let shell = remote_shell("lost-below", &script);
    let hosts = hosts(6);
    let arguments = [&options(&hosts, &shell)[..], &["true"]].concat();
    let mut child = mpiexec(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    let hanging = files(&folder, 2);
    let starters = children(child.id(), "--starter");
    let is_above = |pid: &u32| hanging.iter().any(|(_, shell)| parent(shell.trim()) == *pid);
    let above: Vec<u32> = starters.into_iter().filter(is_above).collect();
    assert_eq!(above.len(), 1);
    send("-KILL", above[0]);
    let report = stderr_of(&mut child);
    assert_eq!(child.wait().unwrap().code(), Some(1), "{report}");
    assert!(report.contains("cannot start an agent on"), "{report}");
    for host in ["host h4 (rank 4)", "host h5 (rank 5)"] {
        assert!(report.contains(host), "{report}");
    }
    assert!(report.contains("was killed by signal 9"), "{report}");
    for (_, pid) in hanging {
        wait_until_gone(pid.trim());
    }
}

/// Agents are connected to the controller alone: a host below one that is lost ends
/// with the job as every other does.
#[test]
fn a_host_that_started_others_is_lost() {
    let shell = remote_shell("through", "export ON=$1; shift; exec \"$@\"");
    let hosts = hosts(6);
    let script = "trap '' HUP; echo $$ $PPID $ON; exec sleep 1000";
    let arguments = [&options(&hosts, &shell)[..], &["sh", "-c", script]].concat();
    let mut command = mpiexec(&arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let reader = BufReader::new(child.stdout.as_mut().unwrap());
    let lines: Vec<String> = reader.lines().take(6).map(Result::unwrap).collect();
    let words = |line: &String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let ranks: Vec<Vec<String>> = lines.iter().map(words).collect();
    // The agent of h3 and the starter there.
    let agent: u32 = ranks.iter().find(|rank| rank[2] == "h3").unwrap()[1].parse().unwrap();
    let starter = parent(&agent.to_string());
    send("-KILL", starter);
    send("-KILL", agent);
    let report = stderr_of(&mut child);
    assert_eq!(child.wait().unwrap().code(), Some(1), "{report}");
    assert!(report.contains("host h3 (rank 3) was lost"), "{report}");
    assert!(!report.contains("h4") && !report.contains("h5"), "{report}");
    assert!(report.contains("ending the 5 other ranks"), "{report}");
    for rank in ranks {
        wait_until_gone(&rank[0]);
    }
}

/// With the controller gone, nothing is left of the start: no starter, and no remote shell whose
/// agent has not come. As with ssh, the starter is not a child of the shell that the kernel kills.
#[test]
fn starters_end_with_a_killed_controller() {
    let folder = own_folder("killed");
    let script = format!(
        "host=$1; shift; exec 3<&0; test $host = h5 && set -- sleep 1000\n\
         \"$@\" <&3 & echo $! > {}/$host; wait $!",
        folder.display()
    );
    let shell = remote_shell("orphaned", &script);
    let hosts = hosts(6);
    let arguments = [&options(&hosts, &shell)[..], &["true"]].concat();
    let mut child = mpiexec(&arguments).spawn().unwrap();
    let started = files(&folder, 6);
    child.kill().unwrap();
    child.wait().unwrap();
    for (_, pid) in started.iter().filter(|(host, _)| host != "h5") {
        wait_until_gone(pid.trim());
    }
    // The stand-in for ssh leaves it behind.
    let (_, pid) = started.iter().find(|(host, _)| host == "h5").unwrap();
    send("-KILL", pid.trim().parse().unwrap());
}
