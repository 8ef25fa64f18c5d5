//! A job's cgroup, where this user may make one: what no process group reaches ends with the job,
//! whichever of its processes were killed.

use crate::common::*;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The directory of this process's cgroup (version 2), if a cgroup can be made below it.
fn delegated() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    let own = Path::new(mount.split(' ').nth(4)?).join(own);
    let probe = own.join(format!("probe-{}", std::process::id()));
    let made = fs::create_dir(&probe).is_ok() && probe.join("cgroup.kill").exists();
    let _ = fs::remove_dir(&probe);
    if !made {
        println!("skipped: no cgroup can be made in {}", own.display());
    }
    made.then_some(own)
}

/// A job of a rank that starts a process in a session of its own, which outlives every signal to
/// the rank's group.
struct Job {
    launcher: Child,
    keeper: String,
    rank: String,
    escaped: String,
    cgroup: PathBuf,
}

impl Job {
    fn start(parent: &Path) -> Job {
        // What is started before the rank is in the cgroup is not: the keeper moves it.
        let script = "until grep -q mica-job- /proc/self/cgroup; do :; done
            setsid sh -c 'echo $$; exec sleep 1000' &
            echo $$; wait";
        let mut launcher = Command::new(env!("CARGO_BIN_EXE_mpiexec"))
            .args(["-n", "1", "sh", "-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(launcher.stdout.as_mut().unwrap()).lines();
        let mut pids: Vec<String> = lines.take(2).map(Result::unwrap).collect();
        let is_rank = |pid: &String| parent_of(pid) == launcher.id().to_string();
        let rank = pids.remove(pids.iter().position(is_rank).unwrap());
        let groups = fs::read_to_string(format!("/proc/{rank}/cgroup")).unwrap();
        let name = groups.trim().rsplit('/').next().unwrap().to_owned();
        let keeper = name.strip_prefix("mica-job-").unwrap().to_owned();
        assert_eq!(comm(&keeper), "mpiexec-keeper");
        Job { launcher, keeper, rank, escaped: pids.remove(0), cgroup: parent.join(name) }
    }

    /// Waits until nothing of the job is left.
    fn expect_end(mut self) {
        self.launcher.wait().unwrap();
        for pid in [&self.rank, &self.escaped, &self.keeper] {
            wait_until_gone(pid);
        }
        wait_until(|| !self.cgroup.exists());
    }
}

fn parent_of(pid: &str) -> String {
    process_fields(pid).unwrap()[1].clone()
}

fn comm(pid: &str) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    name.trim().to_owned()
}

#[test]
fn a_killed_launcher_takes_what_escaped_its_process_group() {
    let Some(parent) = delegated() else { return };
    let job = Job::start(&parent);
    send("-KILL", job.launcher.id());
    job.expect_end();
}

#[test]
fn nothing_survives_launcher_and_keeper() {
    let Some(parent) = delegated() else { return };
    let job = Job::start(&parent);
    // Together, and neither has time to act for the other.
    send_to("-KILL", &[&job.keeper, &job.launcher.id().to_string()]);
    job.expect_end();
}

#[test]
fn a_job_without_keeper_goes_on_and_ends() {
    let Some(parent) = delegated() else { return };
    let job = Job::start(&parent);
    send_to("-KILL", &[&job.keeper]);
    wait_until_gone(&job.keeper);
    assert!(!is_gone(&job.rank) && !is_gone(&job.escaped));
    send("-INT", job.launcher.id());
    for pid in [&job.rank, &job.escaped] {
        wait_until_gone(pid);
    }
    let mut launcher = job.launcher;
    assert_eq!(launcher.wait().unwrap().code(), Some(130));
    // The next job removes what the killed keeper could not.
    Job::start(&parent).launcher.kill().unwrap();
    wait_until(|| !job.cgroup.exists());
}

#[test]
fn a_job_that_ends_leaves_no_cgroup() {
    let Some(parent) = delegated() else { return };
    let mut job = Job::start(&parent);
    send_to("-KILL", &[&job.rank]);
    assert_eq!(job.launcher.wait().unwrap().code(), Some(128 + 9));
    assert!(!job.cgroup.exists(), "the launcher waits for its keeper");
    job.expect_end();
}
