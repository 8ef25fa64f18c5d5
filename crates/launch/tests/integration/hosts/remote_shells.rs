//! Hosts that are reached by a made-up remote shell, or by strangers at the port.

use super::*;

/// A remote shell in a file, with the name that it shall have.
pub fn remote_shell(name: &str, script: &str) -> PathBuf {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("shells-{}", std::process::id()));
    fs::create_dir_all(folder.join(name)).unwrap();
    let path = folder.join(name).join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_remote_shell_that_fails_is_quoted() {
    let shell = remote_shell("failing", "echo \"cannot resolve $1\" >&2; exit 255");
    let output = mpiexec(&["-hosts", "far1", "--launcher-exec", shell.to_str().unwrap(), "true"]);
    let mut output = output;
    let output = output.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let report = text(&output.stderr);
    assert!(report.contains("cannot start an agent on host far1 (rank 0)"), "{report}");
    assert!(report.contains("exited with code 255"), "{report}");
    assert!(report.contains("cannot resolve far1"), "{report}");
    let output = mpiexec(&["-hosts", "far1", "--launcher-exec", "/no/shell", "true"]).output();
    assert!(text(&output.unwrap().stderr).contains("\"/no/shell\""));
}

/// Nothing is started on the host that could be reached.
#[test]
fn one_host_of_two_that_cannot_be_reached() {
    let shell =
        remote_shell("partial", "test $1 = far2 && sleep 0.5 && exit 7; shift; exec \"$@\"");
    let shell = shell.to_str().unwrap();
    let arguments =
        ["-iface", "lo", "-hosts", "far1,far2", "--launcher-exec", shell, "echo", "started"];
    let output = mpiexec(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    let report = text(&output.stderr);
    assert!(report.contains("cannot start an agent on host far2 (rank 1)"), "{report}");
    assert!(!report.contains("far1"), "{report}");
}

#[test]
fn every_host_that_refuses_is_named() {
    let shell = remote_shell("refusing", "echo $1 says no >&2; exit 255");
    let shell = shell.to_str().unwrap();
    let arguments = ["-hosts", "far1,far2,far3", "--launcher-exec", shell, "true"];
    let output = mpiexec(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let report = text(&output.stderr);
    for host in ["far1", "far2", "far3"] {
        let refused = format!("cannot start an agent on host {host} ");
        assert!(report.contains(&refused), "{report}");
        assert!(report.contains(&format!("{host} says no")), "{report}");
    }
}

/// An agent that never connects keeps its place among those that are started at the same time.
#[test]
fn remote_shells_are_started_a_few_at_a_time() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("throttled");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let script = format!("touch {}/$1; exec sleep 1000", folder.display());
    let shell = remote_shell("throttled", &script);
    let hosts: Vec<String> = (0..50).map(|number| format!("far{number}")).collect();
    let hosts = hosts.join(",");
    let shell = shell.to_str().unwrap();
    let arguments = ["-hosts", &hosts, "--launcher-exec", shell, "true"];
    let mut child = mpiexec(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    let started = || fs::read_dir(&folder).unwrap().count();
    wait_until(|| started() >= 32);
    send("-INT", child.id());
    let report = stderr_of(&mut child);
    assert_eq!(child.wait().unwrap().code(), Some(130), "{report}");
    assert_eq!(started(), 32);
}

#[test]
fn an_agent_that_never_comes_is_named() {
    let shell = remote_shell("hanging", "echo thinking; exec sleep 1000");
    let shell = shell.to_str().unwrap();
    let began = Instant::now();
    let hosts: Vec<String> = (1..=40).map(|number| format!("far{number}")).collect();
    let hosts = hosts.join(",");
    let arguments = ["-hosts", &hosts, "--host-timeout", "2", "--launcher-exec", shell, "true"];
    let output = mpiexec(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(began.elapsed() >= Duration::from_secs(12));
    let report = text(&output.stderr);
    assert!(
        report.contains("host far1 (rank 0): its agent did not connect within 12 s"),
        "{report}"
    );
    assert!(report.contains("host far2 (rank 1): its agent did not connect"), "{report}");
    assert!(report.contains("8 more hosts were not tried"), "{report}");
    assert!(report.contains("thinking"), "{report}");
}

/// What ssh does: one line, taken apart by a shell on the host. Only the name is ssh's.
#[test]
fn ssh_is_given_a_line_for_a_shell() {
    let shell = remote_shell("ssh", "host=$1; shift; HOST_NAME=$host exec sh -c \"$*\"");
    let shell = format!("{} ", shell.display());
    let script = "echo $HOST_NAME $MICA_RANK";
    let arguments = [
        "-iface",
        "127.0.0.1",
        "-hosts",
        "far1,far2",
        "--launcher-exec",
        &shell,
        "sh",
        "-c",
        script,
    ];
    let output = mpiexec(&arguments).output().unwrap();
    assert_eq!(sorted_lines(&output.stdout), ["far1 0", "far2 1"], "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

/// A stand-in for srun: one command for all, each with its host in its environment; numbered in
/// another order than asked for.
#[test]
fn slurm_starts_an_agent_on_each_host() {
    let srun = remote_shell(
        "srun",
        "test \"$*\" = \"${*#*--nodes=2 --ntasks=2 --ntasks-per-node=1 --nodelist=n1,n2}\" \
         && exit 9\n\
         while [ \"${1#--}\" != \"$1\" ]; do shift; done\n\
         read secret\n\
         for node in 0 1; do\n\
           echo $secret | SLURM_NODEID=$node SLURMD_NODENAME=n$((2 - node)) \"$@\" &\n\
         done\n\
         wait",
    );
    let path = format!("{}:{}", srun.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = mpiexec(&[
        "-iface",
        "lo",
        "-v",
        "sh",
        "-c",
        "echo $MICA_RANK $SLURMD_NODENAME $MICA_NET_INTERFACE",
    ])
    .env("PATH", path)
    .env("SLURM_JOB_NODELIST", "n[1-2]")
    .env("SLURM_TASKS_PER_NODE", "2,1")
    .output()
    .unwrap();
    assert_eq!(
        sorted_lines(&output.stdout),
        ["0 n1 lo", "1 n1 lo", "2 n2 lo"],
        "{}",
        text(&output.stderr)
    );
}

/// Bytes of strangers on the head's port do not get in, do not end the job and do not delay it.
#[test]
fn strangers_at_the_port() {
    let shell = remote_shell("slow", "shift; sleep 1; exec \"$@\"");
    let shell = shell.to_str().unwrap();
    let arguments = [
        "-iface",
        "127.0.0.1",
        "-hosts",
        "far1,far2",
        "-v",
        "--launcher-exec",
        shell,
        "echo",
        "done",
    ];
    let mut child =
        mpiexec(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = said.next().unwrap().unwrap();
    let address = line.split(" --agent ").nth(1).unwrap().split(' ').next().unwrap();
    let mut held = Vec::new();
    for number in 0..200 {
        let Ok(mut stream) = TcpStream::connect(address) else {
            break;
        };
        let bytes: &[u8] = [&b"MICA-AG1"[..], &[0xff; 300], b"", b"\0\0\0\0"][number % 4];
        let _ = stream.write_all(bytes);
        held.push(stream);
    }
    assert!(held.len() > 100);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), "done\ndone\n");
}
