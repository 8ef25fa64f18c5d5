//! A cgroup for the ranks of a job and all they start, where this user may make one (version 2,
//! delegated; Linux 5.14 for `cgroup.kill`). By it the [keeper](super::Keeper) ends what no process
//! group reaches: a descendant of a rank that moved to another session.
//!
//! The keeper makes it, as `mica-job-PID` below the cgroup of the launcher, and moves every rank
//! into it as soon as that has announced itself; what the rank starts later is born there. Moving
//! takes the kernel some 20 ms the first time (a grace period of RCU), which the launcher and the
//! ranks do not wait for.
//!
//! The guard is for the case that launcher and keeper are killed together: a process that does
//! nothing but wait for the end of both, and then kills the cgroup. It is not called mpiexec, so
//! that who kills all that is called so does not kill it.
//!
//! Nothing here is needed by a job: without a cgroup the keeper ends process groups alone.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::keeper_socket::{FAREWELL, hear, send_message, socket_pair};
use super::{check, wait_id, wait_readable};
use crate::topology::unified_cgroup;

/// What the names of jobs' cgroups begin with; the keeper's process id follows.
const PREFIX: &str = "mica-job-";
/// Attempts to remove a cgroup whose processes were killed.
const REMOVE_ATTEMPTS: u32 = 200;
/// Time between two of them.
const PAUSE: Duration = Duration::from_millis(10);

/// The cgroup of a job.
#[derive(Debug)]
struct JobCgroup(PathBuf);

impl JobCgroup {
    /// Makes one below `parent`, and removes those that killed jobs have left empty. `None` if that
    /// is not possible.
    fn create(parent: &Path) -> Option<JobCgroup> {
        remove_abandoned(parent);
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let cgroup = JobCgroup(path);
        if cgroup.0.join("cgroup.kill").exists() {
            return Some(cgroup);
        }
        let _ = fs::remove_dir(&cgroup.0);
        None
    }

    /// Moves a process into it.
    fn take(&self, pid: u32) -> io::Result<()> {
        fs::write(self.0.join("cgroup.procs"), pid.to_string())
    }

    /// Kills all processes in it.
    fn kill(&self) -> io::Result<()> {
        fs::write(self.0.join("cgroup.kill"), "1")
    }

    /// Removes it. One that has processes stays.
    fn remove(&self) -> io::Result<()> {
        fs::remove_dir(&self.0)
    }

    /// Kills all processes in it and removes it when they are gone. One that takes seconds to die
    /// keeps it; then the next job here removes it.
    fn end(&self) {
        let _ = self.kill();
        for _ in 0..REMOVE_ATTEMPTS {
            if self.remove().is_ok() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Removes the cgroups of jobs whose keepers are gone. The kernel refuses it for one that has
/// processes.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let keeper = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let keeper = keeper.and_then(|pid| pid.parse::<u32>().ok());
        if keeper.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The cgroup of a job and its guard, as the keeper holds them.
#[derive(Debug)]
pub(super) struct GuardedCgroup {
    cgroup: JobCgroup,
    guard: libc::pid_t,
    /// The keeper's end of the connection to the guard.
    socket: OwnedFd,
}

impl GuardedCgroup {
    /// Makes the cgroup and starts the guard; `None` where that is not possible. To be called by
    /// the keeper, which has one thread; `uplink` is its connection to the launcher, which the
    /// guard must not hold.
    pub fn start(launcher: Option<OwnedFd>, uplink: i32) -> Option<GuardedCgroup> {
        let launcher = launcher?;
        let cgroup = JobCgroup::create(&unified_cgroup()?)?;
        let started = start_guard(&cgroup, launcher, uplink);
        let Ok((guard, socket)) = started else {
            let _ = cgroup.remove();
            return None;
        };
        Some(GuardedCgroup { cgroup, guard, socket })
    }

    /// Moves a rank into it. One that cannot be moved stays where it is.
    pub fn take(&self, pid: u32) {
        let _ = self.cgroup.take(pid);
    }

    /// The launcher has ended the job itself.
    pub fn dismiss(&self) {
        self.dismiss_guard();
        let _ = self.cgroup.remove();
    }

    /// Kills all that is in it: the launcher is gone.
    pub fn end(&self) {
        self.cgroup.end();
        self.dismiss_guard();
    }

    fn dismiss_guard(&self) {
        let _ = send_message(self.socket.as_raw_fd(), FAREWELL);
        let options = libc::WEXITED | libc::__WCLONE;
        let _ = wait_id(libc::P_PID, self.guard as libc::id_t, options);
    }
}

fn start_guard(
    cgroup: &JobCgroup,
    launcher: OwnedFd,
    uplink: i32,
) -> io::Result<(libc::pid_t, OwnedFd)> {
    let (ours, theirs) = socket_pair()?;
    // SAFETY: the keeper is the only thread of its process, so the child may run any code. Without
    // flags and addresses clone is a fork.
    let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } as libc::pid_t;
    check(pid)?;
    if pid == 0 {
        drop(ours);
        // SAFETY: this process does not use the descriptor, and nothing else in it does; the name
        // is a string that outlives the call.
        drop(unsafe { OwnedFd::from_raw_fd(uplink) });
        // SAFETY: as above.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"mica-guard".as_ptr()) };
        watch(&theirs, &launcher, cgroup);
        // SAFETY: _exit takes a number and does not return.
        unsafe { libc::_exit(0) };
    }
    Ok((pid, ours))
}

/// The main function of the guard: returns when there is nothing to guard any more.
fn watch(keeper: &OwnedFd, launcher: &OwnedFd, cgroup: &JobCgroup) {
    if hear(keeper.as_raw_fd()) == Some(FAREWELL) {
        return;
    }
    // The keeper was killed. The job goes on as long as the launcher does.
    while !wait_readable(&[launcher.as_fd()], None).is_ok_and(|ready| ready[0]) {}
    cgroup.end();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder in place of a cgroup: what is written to its files can be read.
    fn scripted(name: &str) -> PathBuf {
        let name = format!("mica-cgroup-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_folder_without_kill_is_no_cgroup_for_a_job() {
        let parent = scripted("plain");
        assert!(JobCgroup::create(&parent).is_none());
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0, "nothing is left");
        assert!(JobCgroup::create(&parent.join("missing")).is_none());
        fs::remove_dir(parent).unwrap();
    }

    #[test]
    fn ranks_are_written_to_procs_and_the_end_to_kill() {
        let parent = scripted("files");
        let cgroup = JobCgroup(parent.clone());
        cgroup.take(4321).unwrap();
        cgroup.kill().unwrap();
        let read = |file: &str| fs::read_to_string(parent.join(file)).unwrap();
        assert_eq!((read("cgroup.procs"), read("cgroup.kill")), ("4321".into(), "1".into()));
        assert!(cgroup.remove().is_err(), "it is not empty");
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn cgroups_of_keepers_that_are_gone_are_removed_if_they_are_empty() {
        let parent = scripted("abandoned");
        let own = std::process::id().to_string();
        // No process has a number above 4 million.
        let names = ["mica-job-4999999", "mica-job-4999998", &format!("mica-job-{own}"), "other"];
        for name in names {
            fs::create_dir(parent.join(name)).unwrap();
        }
        fs::write(parent.join("mica-job-4999998/busy"), "").unwrap();
        remove_abandoned(&parent);
        let left = names.map(|name| parent.join(name).exists());
        assert_eq!(left, [false, true, true, true]);
        fs::remove_dir_all(parent).unwrap();
    }
}
