//! Ranks that die: mpiexec names them and ends the others, and nothing is left: no process, no file
//! in /dev/shm or the temporary directory, no socket.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mica_tests::{Cores, Install, Outcome, processes_with_mark};
use rustix::process::{Pid, Signal, kill_process};

/// Everything outside its processes that a job could leave behind.
#[derive(Debug, PartialEq, Eq)]
pub struct Traces {
    files: BTreeSet<String>,
    sockets: BTreeSet<String>,
    sysv: BTreeSet<String>,
}

impl Traces {
    pub fn now() -> Self {
        let mut files = BTreeSet::new();
        for dir in ["/dev/shm", "/dev/hugepages", "/tmp", "/var/tmp", "/run/user"] {
            collect(Path::new(dir), 2, &mut files);
        }
        // Named Unix sockets: the seventh column is the inode, the eighth the name. An abstract one
        // (@...) is there as long as a process holds it, which may be one of another's job.
        let unix = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let held = held_sockets(Install::find().prefix());
        let sockets = unix.lines().filter_map(|line| {
            let mut columns = line.split_whitespace().skip(6);
            let (inode, name) = (columns.next()?, columns.next()?);
            (!name.starts_with('@') || held.contains(inode)).then(|| name.to_owned())
        });
        let sysv = ["shm", "sem", "msg"].iter().flat_map(|kind| {
            let text = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
            text.lines()
                .skip(1)
                .filter_map(|l| l.split_whitespace().nth(1))
                .map(|id| format!("{kind} {id}"))
                .collect::<Vec<_>>()
        });
        Self { files, sockets: sockets.collect(), sysv: sysv.collect() }
    }

    /// What is new since `before`. Other programs may make files in /tmp meanwhile: only files that
    /// are named like ours or are in /dev/shm count.
    pub fn new_since(&self, before: &Self) -> Vec<String> {
        let ours = |f: &&String| f.starts_with("/dev/") || f.to_lowercase().contains("mica");
        let files = self.files.difference(&before.files).filter(ours).cloned();
        let named = |s: &&String| s.to_lowercase().contains("mica");
        let sockets = self.sockets.difference(&before.sockets).filter(named).cloned();
        files.chain(sockets).chain(self.sysv.difference(&before.sysv).cloned()).collect()
    }
}

/// The inodes of the sockets that processes hold which run a program or a library of this
/// installation.
fn held_sockets(prefix: &Path) -> BTreeSet<String> {
    let prefix = prefix.to_string_lossy();
    let is_ours = |process: &PathBuf| {
        fs::read_to_string(process.join("maps")).is_ok_and(|maps| maps.contains(&*prefix))
    };
    let entries = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    let processes = entries(Path::new("/proc")).map(|entry| entry.path()).filter(is_ours);
    let files = processes.flat_map(|process| entries(&process.join("fd")));
    let links = files.filter_map(|file| fs::read_link(file.path()).ok());
    let inode = |link: PathBuf| {
        let link = link.to_str()?;
        Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    };
    links.filter_map(inode).collect()
}

fn collect(dir: &Path, depth: u32, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        into.insert(path.to_string_lossy().into_owned());
        let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
        if depth > 1 && is_dir && entry.metadata().is_ok_and(|m| m.uid() == uid()) {
            collect(&path, depth - 1, into);
        }
    }
}

fn uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Kills rank `victim` of a job from outside, in the middle of its exchange (`pids`) or its
/// `collectives`.
fn kill_one(
    install: &Install,
    n: u32,
    victim: u32,
    [verb, bytes]: [&str; 2],
    env: &[(&str, &str)],
) -> Outcome {
    kill_one_timed(install, n, victim, [verb, bytes], env).0
}

/// As [`kill_one`], with the time from the kill to the end of mpiexec.
fn kill_one_timed(
    install: &Install,
    n: u32,
    victim: u32,
    [verb, bytes]: [&str; 2],
    env: &[(&str, &str)],
) -> (Outcome, Duration) {
    let program = install.job();
    let args = ["--label", "-n", &n.to_string(), &program.to_string_lossy(), verb, bytes];
    let job = install.mpiexec(args);
    let mut job = env.iter().fold(job, |job, (name, value)| job.env(name, value)).start();
    // mpiexec may reorder lines of different ranks: "ready" may come before the pid.
    let pid = (0..500).find_map(|_| {
        let text = job.wait_for("ready");
        let mut lines = text.lines().filter_map(|l| l.split_once("pid "));
        let pid = lines.find(|(label, _)| {
            label.chars().filter(char::is_ascii_digit).collect::<String>() == victim.to_string()
        });
        pid.map(|(_, pid)| pid.trim().parse::<i32>().expect("a process id"))
    });
    let pid = pid.unwrap_or_else(|| panic!("no pid of rank {victim} after \"ready\""));
    let living = processes_with_mark(job.mark()).len();
    assert!(living as u32 > n, "mpiexec and its ranks: {living} processes");
    let traces = Traces::now();
    assert!(traces.sockets.iter().any(|name| name.starts_with("@mica-")), "{traces:?}");
    // Let the exchange run for a moment; where exactly the kill hits does not matter.
    std::thread::sleep(Duration::from_millis(200));
    let killed = Instant::now();
    kill_process(Pid::from_raw(pid).expect("positive"), Signal::KILL).expect("the victim lives");
    (job.finish(), killed.elapsed())
}

/// Other lines may name the rank as well, such as those of ranks that were copying from its memory.
fn names_rank_and_signal(out: &Outcome, rank: u32, name: &str, number: i32) {
    let said = out.stderr.lines().any(|line| {
        line.contains(&format!("rank {rank}"))
            && (line.contains(name) || line.contains(&format!("signal {number}")))
    });
    assert!(said, "rank {rank} and the signal are not named:\n{}", out.report());
}

#[test]
fn kill_9_in_the_middle_of_a_large_exchange() {
    let install = Install::find();
    let _alone = Cores::alone();
    let before = Traces::now();
    for (n, victim, bytes) in [(8, 5, "1000000"), (8, 0, "4000000"), (2, 1, "30000"), (3, 2, "100")]
    {
        let out = kill_one(&install, n, victim, ["pids", bytes], &[]).expect_failure();
        names_rank_and_signal(&out, victim, "SIGKILL", 9);
        assert_eq!(out.code(), 128 + 9, "{}", out.report());
    }
    let left = Traces::now().new_since(&before);
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// Others wait for the dead rank in a shared area, or copy from its memory.
#[test]
fn kill_9_in_the_middle_of_collectives() {
    let install = Install::find();
    let _alone = Cores::alone();
    let before = Traces::now();
    let mapped = [("MICA_COLL", "direct"), ("MICA_MAPPED_AFTER", "2"), ("MICA_MAPPED_MIN", "4K")];
    for (n, victim, bytes, env) in [
        (8, 5, "100", &[("MICA_COLL", "messages")] as &[_]),
        (8, 0, "100", &[("MICA_COLL", "shared")]),
        (5, 3, "50000", &[("MICA_COLL", "shared")]),
        (2, 1, "300000", &[("MICA_COLL", "direct")]),
        (8, 4, "100000", &[("MICA_COLL", "direct")]),
        (4, 2, "100000", &mapped),
        (3, 0, "20000", &[]),
    ] {
        let out = kill_one(&install, n, victim, ["collectives", bytes], env).expect_failure();
        names_rank_and_signal(&out, victim, "SIGKILL", 9);
        assert_eq!(out.code(), 128 + 9, "{env:?}: {}", out.report());
    }
    let left = Traces::now().new_since(&before);
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// The others wait for a lock that the dead rank keeps. `MICA_LOCK_KILLS=100` kills that many
/// holders, of all settings in turn; it prints the longest time from a kill to the end of its job.
#[test]
fn kill_9_of_a_rank_that_holds_a_lock() {
    let install = Install::find();
    let _alone = Cores::alone();
    let before = Traces::now();
    let settings = [
        (8, 5, &[("MICA_WINDOW_LOCK", "mcs")] as &[_]),
        (3, 0, &[("MICA_WINDOW_LOCK", "barging")]),
        (8, 2, &[("MICA_WINDOW_LOCK", "test_and_set")]),
        (4, 3, &[("MICA_WINDOW_LOCK", "thread")]),
        (4, 2, &[("MICA_WINDOW_LOCK", "event")]),
        (4, 3, &[("MICA_WINDOW_ACCESS", "messages")]),
        (4, 3, &[("MICA_VIRTUAL_NODES", "2")]),
    ];
    let kills = std::env::var("MICA_LOCK_KILLS")
        .map_or(settings.len(), |kills| kills.parse().expect("MICA_LOCK_KILLS is a number"));
    let mut longest = Duration::ZERO;
    for kill in 0..kills {
        let (n, victim, env) = settings[kill % settings.len()];
        let (verb, holder) = ("lock", victim.to_string());
        let (out, time) = kill_one_timed(&install, n, victim, [verb, &holder], env);
        let out = out.expect_failure();
        names_rank_and_signal(&out, victim, "SIGKILL", 9);
        assert_eq!(out.code(), 128 + 9, "{env:?}: {}", out.report());
        longest = longest.max(time);
    }
    println!("{kills} holders of a lock killed; the slowest job ended after {longest:?}");
    let left = Traces::now().new_since(&before);
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// The target helps to copy what others put (docs/design/house.md, section 4), and dies meanwhile:
/// an origin that waits for the target's last piece learns of it.
#[test]
fn kill_9_of_a_target_that_helps() {
    let install = Install::find();
    let _alone = Cores::alone();
    let before = Traces::now();
    let helps = [("MICA_WINDOW_HELP_MIN", "8K"), ("MICA_MAPPED_AFTER", "1")];
    for (n, victim) in [(2, 1), (2, 0), (3, 2)] {
        let verb = ["puts", &victim.to_string()];
        let out = kill_one(&install, n, victim, verb, &helps).expect_failure();
        names_rank_and_signal(&out, victim, "SIGKILL", 9);
        assert_eq!(out.code(), 128 + 9, "{}", out.report());
    }
    let left = Traces::now().new_since(&before);
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn a_rank_that_kills_itself() {
    let install = Install::find();
    let job = install.job();
    let _alone = Cores::alone();
    let before = Traces::now();
    for (signal, name) in
        [(Signal::KILL, "SIGKILL"), (Signal::SEGV, "SIGSEGV"), (Signal::ABORT, "SIGABRT")]
    {
        let number = signal.as_raw();
        for victim in [0, 3, 7] {
            let args = [
                "-n",
                "8",
                &job.to_string_lossy(),
                "kill",
                &number.to_string(),
                &victim.to_string(),
                "500000",
            ];
            let out = install.mpiexec(args).run().expect_failure();
            names_rank_and_signal(&out, victim, name, number);
            assert_eq!(out.code(), 128 + number, "{}", out.report());
        }
    }
    let left = Traces::now().new_since(&before);
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// The same without direct copy: the dead rank may own cells and ring slots.
#[test]
fn a_rank_that_dies_in_the_cell_path() {
    let install = Install::find();
    let program = install.job();
    let args = ["-n", "8", &program.to_string_lossy(), "kill", "9", "4", "2000000"];
    let out = install.mpiexec(args).env("MICA_DIRECT", "off").run().expect_failure();
    names_rank_and_signal(&out, 4, "SIGKILL", 9);
}

#[test]
fn a_normal_run_leaves_nothing() {
    let install = Install::find();
    let _alone = Cores::alone();
    let before = Traces::now();
    let job = install.job();
    for _ in 0..3 {
        install.mpiexec(["-n", "8", &job.to_string_lossy(), "silent"]).run().expect_success();
        install
            .mpiexec(["-n", "4", &job.to_string_lossy(), "abort", "3", "1"])
            .run()
            .expect_code(3);
        mica_tests::Job::new(&job).args(["silent"]).run().expect_success();
    }
    let left = Traces::now().new_since(&before);
    assert!(left.is_empty(), "left behind: {left:?}");
}
