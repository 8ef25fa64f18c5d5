//! `mpiexec` in environments that lack something: PID namespaces with another's /proc, no /proc, no
//! /dev, limits, system calls refused, processes of other users, programs that closed what they
//! inherited. mpiexec must not harm other processes, must end, and must report what is wrong if it
//! cannot work.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use mica_tests::{Install, Job, Outcome, TWO_NODES, processes_with_mark, target};
use rustix::process::{Pid, Signal, kill_process};

fn install() -> Install {
    Install::find()
}

/// The paths of `mpiexec` and of the helper program, for a shell script.
fn words() -> (String, String) {
    let install = install();
    let mpiexec = install.bin("mpiexec").display().to_string();
    (mpiexec, install.job().display().to_string())
}

fn shell(script: &str) -> Job {
    Job::new("/bin/bash").args(["-c", script])
}

/// Whether this command works here; if not, prints that a test is skipped and why.
pub fn works(command: &[&str]) -> bool {
    let done = Command::new(command[0]).args(&command[1..]).stdin(Stdio::null()).output();
    let why = match done {
        Ok(done) if done.status.success() => return true,
        Ok(done) => String::from_utf8_lossy(&done.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    eprintln!("skipped: `{}` does not work here: {why}", command.join(" "));
    false
}

/// Runs mpiexec beside 60 processes that it has not started, in a new PID namespace that sees the
/// old one's /proc. mpiexec is the second process of the namespace: the outer process of that
/// number has many children, and their numbers are those of the 60 processes in here.
fn among_strangers(unshare: &[&str]) {
    let (mpiexec, _) = words();
    let script = format!(
        "{mpiexec} -n 2 sh -c 'setsid sleep 1000 >/dev/null 2>&1 & sleep 1' & first=$!
         for i in $(seq 60); do sleep 1000 & done
         wait $first; echo ended $?
         {mpiexec} --timeout 1 -n 1 sleep 1000; echo ended $?
         echo alive $(jobs -r | wc -l)
         kill -KILL $(jobs -p)"
    );
    let [program, options @ ..] = unshare else {
        panic!("no command");
    };
    let out = Job::new(program).args(options).args(["bash", "-c", &script]).run();
    assert!(!out.hung(), "{}", out.report());
    let lines: Vec<&str> = out.stdout.lines().take(3).collect();
    assert_eq!(lines, ["ended 0", "ended 124", "alive 60"], "{}", out.report());
}

#[test]
fn strangers_of_a_pid_namespace_live_on() {
    if works(&["unshare", "--kill-child", "-pf", "true"]) {
        among_strangers(&["unshare", "--kill-child", "-pf"]);
    }
}

#[test]
fn strangers_of_a_user_namespace_live_on() {
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let unshare = ["unshare", "--kill-child", "-Urpf"];
    let words = if is_root() { [&nobody[..], &unshare].concat() } else { unshare.to_vec() };
    let mpiexec = install().bin("mpiexec").display().to_string();
    if works(&[&words[..], &[&mpiexec, "--version"]].concat()) {
        among_strangers(&words);
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A program that has become another user cannot be killed by the user who started it: mpiexec
/// names it and ends.
#[test]
fn names_processes_that_cannot_be_killed() {
    if !is_root() {
        return eprintln!("skipped: a setuid program can be made by root only");
    }
    let folder = target().join("tests-c").join("setuid");
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("unkillable");
    // The copy must be made by another process: see crates/launch/tests/wrappers.rs.
    let copy = Command::new("cp").args([&install().program("tools/unkillable"), &program]).status();
    assert!(copy.unwrap().success());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let program = program.display().to_string();
    let (mpiexec, _) = words();
    let test = format!("test -x {program} -a -x {mpiexec}");
    if !works(&[&nobody[..], &["sh", "-c", &test]].concat()) {
        return;
    }
    for script in [
        format!("{mpiexec} --timeout 1 --grace 0.1 -n 2 {program}"),
        format!("{mpiexec} -n 1 sh -c '{program} & sleep 1'"),
    ] {
        let job = Job::new(nobody[0]).args(&nobody[1..]).args(["sh", "-c", &script]);
        let job = job.patience(Duration::from_secs(1)).start();
        let mark = job.mark().to_owned();
        let out = job.finish();
        for (pid, _) in processes_with_mark(&mark) {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
        assert!(out.stdout.contains("up"), "{}", out.report());
        assert!(!out.hung() && out.stderr.contains("(unkillable)"), "{}", out.report());
        assert!(out.stderr.contains("could not end process"), "{}", out.report());
        assert!(!out.survivors.is_empty());
    }
}

/// Runs the script in its own mount namespace; `None` where that is refused.
pub fn with_mounts(mounts: &str, script: &str) -> Option<Outcome> {
    let options: &[&str] = if is_root() { &["-m"] } else { &["-Urm"] };
    let unshare = [&["unshare"], options, &["sh", "-c"]].concat();
    if !works(&[&unshare[..], &[mounts]].concat()) {
        return None;
    }
    let script = format!("{mounts}; {script}");
    Some(Job::new("unshare").args(&unshare[1..]).args([&script]).run())
}

#[test]
fn without_proc() {
    let (mpiexec, job) = words();
    for rest in ["hello", "cat"] {
        let script = format!("exec {mpiexec} -n 2 {job} {rest}");
        let Some(out) = with_mounts("mount -t tmpfs none /proc", &script) else {
            return;
        };
        let out = out.expect_success();
        assert_eq!(out.stdout.lines().count(), if rest == "cat" { 1 } else { 2 });
    }
    // Processes that a rank leaves behind are found without /proc, too.
    let script = format!("exec {mpiexec} -n 1 sh -c '(setsid sleep 1000 &) ; sleep 0.2'");
    let out = with_mounts("mount -t tmpfs none /proc", &script);
    out.expect("worked before").expect_success();
}

#[test]
fn with_an_empty_dev() {
    let (mpiexec, job) = words();
    let script = format!("exec {mpiexec} -n 3 {job} hello");
    if let Some(out) = with_mounts("mount -t tmpfs none /dev", &script) {
        let lines = ["hello from 0 of 3", "hello from 1 of 3", "hello from 2 of 3"];
        assert_eq!(out.expect_success().sorted(), lines);
    }
}

#[test]
fn file_size_limit_is_named() {
    let (mpiexec, job) = words();
    let hard = shell(&format!("ulimit -f 0; exec {mpiexec} -n 2 {job} hello"));
    let refused = hard.run().expect_code(1).says("RLIMIT_FSIZE").says("ulimit -f");
    assert!(!refused.stdout.contains("hello"));
    // A soft limit applies to the ranks' files only.
    let soft = shell(&format!("ulimit -Sf 0; exec {mpiexec} -n 2 {job} hello"));
    let lines = ["hello from 0 of 2", "hello from 1 of 2"];
    assert_eq!(soft.run().expect_success().sorted(), lines);
    // mpiexec's own output: the write fails, and mpiexec reports that.
    let file = target().join("tests-c").join("limited.txt").display().to_string();
    let full = shell(&format!("ulimit -Sf 1; exec {mpiexec} -n 2 {job} lines 500 > {file}"));
    full.run().expect_code(1).says("File too large");
    fs::remove_file(file).unwrap();
}

#[test]
fn system_calls_for_binding_refused() {
    let deny = install().program("tools/deny");
    let (mpiexec, job) = words();
    for (call, bind) in [
        ("sched_setaffinity", "core"),
        ("sched_getaffinity", "core"),
        ("sched_getaffinity", "none"),
        ("sched_getaffinity,sched_setaffinity", "core"),
    ] {
        let words =
            [call, &mpiexec, "--timeout", "60", "--bind-to", bind, "-n", "2", &job, "hello"];
        let out = Job::new(&deny).args(words).run().expect_success();
        assert_eq!(out.stdout.lines().count(), 2, "{}", out.report());
        out.says("ranks are not bound");
    }
    // With nothing to bind there must be no message.
    let words = ["sched_setaffinity", &mpiexec, "--bind-to", "none", "-n", "2", &job, "silent"];
    let out = Job::new(&deny).args(words).run().expect_success();
    assert_eq!(out.stderr, "");
}

/// Python's `subprocess` closes all descriptors but the first three in the child.
const SUBPROCESS: &str = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))";
/// Opens something else under the number of an inherited descriptor.
const REUSED: &str = "import os, sys
for name in ('MICA_SEGMENT_FD', 'PMI_FD'):
    os.dup2(os.open(sys.argv[1], os.O_RDONLY), int(os.environ[name]), inheritable=True)
os.execv(sys.argv[1], sys.argv[1:])";

#[test]
fn programs_that_lost_what_they_inherited_join() {
    let (_, job) = words();
    let lines: Vec<String> = (0..4).map(|r| format!("hello from {r} of 4")).collect();
    for script in [SUBPROCESS, REUSED] {
        let start = || install().mpiexec(["-n", "4", "python3", "-c", script, &job, "hello"]);
        assert_eq!(start().run().expect_success().sorted(), lines);
        let nodes = TWO_NODES.iter().fold(start(), |job, (name, value)| job.env(name, value));
        assert_eq!(nodes.run().expect_success().sorted(), lines);
    }
}

/// Calls MPI_Init, starts the program given in several ways, and calls MPI_Finalize.
const PARENT: &str = "import ctypes, subprocess, sys
mpi = ctypes.CDLL(sys.argv[1])
assert mpi.MPI_Init(None, None) == 0
for start in ([], ['sh', '-c', '\"$@\"; exit $?', 'sh']):
    for close in (True, False):
        subprocess.run(start + sys.argv[2:], close_fds=close, check=True)
assert mpi.MPI_Finalize() == 0";

/// Programs that a rank starts, as Python's multiprocessing does, are jobs of their own, which one
/// of them says.
#[test]
fn programs_that_a_rank_starts_are_jobs_of_their_own() {
    let (_, job) = words();
    let library = install().prefix().join("lib/libmpi_abi.so.1");
    let library = library.to_str().expect("a path in UTF-8");
    let start = || {
        let parent = ["-n", "2", "python3", "-c", PARENT, library];
        install().mpiexec(parent).args([&job, "hello"])
    };
    let on_nodes = || TWO_NODES.iter().fold(start(), |job, (name, value)| job.env(name, value));
    for (job, nodes) in [(start(), 1), (on_nodes(), 2)] {
        let out = job.run().expect_success();
        assert_eq!(out.stdout, "hello from 0 of 1\n".repeat(8), "{}", out.report());
        let said = out.stderr.lines().filter(|line| line.contains("is a job of its own")).count();
        let all = out.stderr.lines().count();
        assert_eq!((said, all), (nodes, nodes), "{}", out.report());
    }
}

/// A process that is no descendant of the rank, and is the same rank, is refused: the message
/// begins with what the user needs.
#[test]
fn a_second_program_of_a_rank_is_refused() {
    let (mpiexec, job) = words();
    let script = format!("{job} hello; {job} hello");
    let out = Job::new(&mpiexec).args(["-n", "1", "sh", "-c", &script]).run().expect_failure();
    assert!(out.stdout.starts_with("hello from 0 of 1"), "{}", out.report());
    let lines: Vec<&str> = out.stderr.lines().collect();
    assert!(lines[0].ends_with("MPI_Init failed"), "{}", out.report());
    assert!(lines[1].starts_with("mica:   rank 0 of this job is, or was"), "{}", out.report());
    assert_eq!(lines[2], "mica:   (MPI_ERR_OTHER)", "{}", out.report());
    // Try the remedy that the message gives.
    let start = lines[1].find("env -u").expect("a remedy");
    let remedy = lines[1][start..].split(" PROGRAM").next().unwrap();
    let script = format!("{job} hello; exec {remedy} {job} hello");
    let out = Job::new(&mpiexec).args(["-n", "1", "sh", "-c", &script]).run().expect_success();
    assert_eq!(out.stdout, "hello from 0 of 1\n".repeat(2), "{}", out.report());
}

/// Asks the process manager for the job's name.
const NAME: &str = "import os, socket
s = socket.socket(fileno=int(os.environ['PMI_FD']))
s.sendall(b'cmd=init pmi_version=1 pmi_subversion=1\\n')
s.recv(999)
s.sendall(b'cmd=get_my_kvsname\\n')
name = s.recv(999).decode().split('kvsname=')[1].strip()
s.sendall(b'cmd=finalize\\n')
s.recv(999)
print(os.getppid(), name)";

/// Other libraries name files after the job: two jobs with the same host name and process number,
/// in two containers, must differ.
#[test]
fn jobs_have_names_of_their_own() {
    let unshare = ["--kill-child", "-pf"];
    if !works(&[&["unshare"], &unshare[..], &["true"]].concat()) {
        return;
    }
    let (mpiexec, _) = words();
    let name = || {
        let job = Job::new("unshare").args(unshare).args([&mpiexec, "-n", "1"]);
        let out = job.args(["python3", "-c", NAME]).run().expect_success();
        assert!(out.stdout.starts_with("1 kvs_"), "{}", out.report());
        out.stdout
    };
    assert_ne!(name(), name());
}

/// The descriptor number is not the segment, and there is no launcher to ask for it.
#[test]
fn a_lost_segment_without_a_launcher_is_an_error() {
    let (_, job) = words();
    let out = Job::new(&job)
        .args(["hello"])
        .env("MICA_SEGMENT_FD", "77")
        .env("MICA_RANK", "0")
        .env("MICA_SEGMENT_SOCKET", "00112233445566778899aabbccddeeff")
        .run();
    let out = out.expect_failure().says("descriptor 77").says("closes descriptors");
    out.says("mpiexec cannot be reached").says("close_fds=False");
}

#[test]
fn a_job_within_a_rank() {
    let (mpiexec, job) = words();
    let inner = [&mpiexec, "-n", "2", &job, "hello"];
    let out = install().mpiexec(["-n", "2", &job, "run"]).args(inner).run().expect_success();
    let lines =
        ["hello from 0 of 2", "hello from 0 of 2", "hello from 1 of 2", "hello from 1 of 2"];
    assert_eq!(out.sorted(), lines);
    assert_eq!(out.stderr, "", "{}", out.report());
}

/// A rank may exit without calling MPI_Init only if no other rank calls it.
#[test]
fn a_rank_that_leaves_without_init() {
    let (mpiexec, job) = words();
    install().mpiexec(["-n", "1", "true", ":", "-n", "1", "sleep", "1"]).run().expect_success();
    let nodes =
        format!("MICA_VIRTUAL_NODES=2 MICA_NET_PROVIDER=tcp MICA_NET_INTERFACE=lo {mpiexec}");
    for mpiexec in [&mpiexec, &nodes] {
        for other in [format!("{job} hello"), format!("sh -c 'sleep 1; exec {job} silent'")] {
            let out = shell(&format!("{mpiexec} -n 1 true : -n 1 {other}")).run();
            let out = out.expect_code(1).says("rank 0 (pid ");
            out.says("exited with code 0 without calling MPI_Init, while rank 1 waits for it");
        }
    }
    // A session of one rank does not wait for others.
    let alone = install().program("session_self").display().to_string();
    let out = shell(&format!("{mpiexec} -n 1 true : -n 1 {alone}")).run();
    assert_eq!(out.expect_success().stdout, "No Errors\n");
}
