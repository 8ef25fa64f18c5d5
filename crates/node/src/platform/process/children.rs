//! The processes that this process is responsible for: its own children, and the orphans that
//! became its children (`PR_SET_CHILD_SUBREAPER`).
//!
//! A process is signalled only after the kernel has confirmed that it is a child of this process:
//! `waitid` with `WNOWAIT` fails with `ECHILD` for any other. Only this process reaps its children,
//! so a confirmed pid cannot be reused for another process before the signal.
//!
//! Children are listed from `/proc` only if that is mounted for this process's own PID namespace:
//! in a container that sees the host's `/proc`, the numbers mean other processes. Without such a
//! `/proc`, and if there is a child at all, pids are tried with `waitid`: first those allocated
//! since this process started, which include all its descendants; if none of these is a child, all
//! possible pids, which takes seconds.
//!
//! The [keeper](super::Keeper) does not count as a child here: it is a clone that sends no signal
//! when it exits, and `waitid` ignores such children unless asked for them.

use std::collections::HashSet;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::{check, wait_id, wait_readable};
use crate::proc_mount::proc_is_ours;
use crate::process_stat::ProcessStat;

/// The kernel allocates no pid above this (`PID_MAX_LIMIT` on 64-bit machines).
const PID_LIMIT: u32 = 1 << 22;
/// Time between two attempts where there is nothing to wait for.
const PAUSE: Duration = Duration::from_millis(10);

/// The relation of a pid to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kinship {
    /// Not a child: must never be signalled.
    None,
    /// A child that runs.
    Running,
    /// A child that has ended and is not reaped yet.
    Ended,
}

/// Queries the kernel for the relation of `pid` to this process. Changes nothing.
fn kinship(pid: u32) -> Kinship {
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    match wait_id(libc::P_PID, pid, options) {
        Ok(None) => Kinship::Running,
        Ok(Some(_)) => Kinship::Ended,
        Err(_) => Kinship::None,
    }
}

/// Makes orphaned descendants children of this process instead of children of init.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes a number.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) })
}

/// Reaps children that have ended, until it finds one that is in `spare`: its owner reaps that one,
/// and then calls this again.
pub fn reap_orphans(spare: &dyn Fn(u32) -> bool) {
    while let Ok(Some(pid)) = ended_child() {
        if spare(pid) || reap(pid).is_err() {
            return;
        }
    }
}

/// Whether this process is a child of this one that runs.
pub fn is_running_child(pid: u32) -> bool {
    kinship(pid) == Kinship::Running
}

/// Sends a signal to a process if it is a child of this one that runs. Returns whether it is.
pub fn signal_child(pid: u32, number: i32) -> bool {
    let is_child = is_running_child(pid);
    if is_child {
        // SAFETY: kill takes plain numbers. No other process reaps the child, so the number is
        // still its own.
        unsafe { libc::kill(pid as libc::pid_t, number) };
    }
    is_child
}

/// A child that was started by another process, and lost it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Orphan {
    /// Its process id.
    pub pid: u32,
    /// Its process group.
    pub group: u32,
}

/// The children that run, but for those in `spare` and those in the process group of the `keeper`,
/// whose guard becomes a child if the keeper is killed: orphans, if `spare` has all that this
/// process started. None where the kernel does not list children.
pub fn orphans(spare: &dyn Fn(u32) -> bool, keeper: u32) -> Vec<Orphan> {
    let mut all = unreaped_orphans(spare, keeper);
    all.retain(|orphan| kinship(orphan.pid) == Kinship::Running);
    all
}

/// As [`orphans`], with those that have ended and are not reaped yet.
pub fn unreaped_orphans(spare: &dyn Fn(u32) -> bool, keeper: u32) -> Vec<Orphan> {
    if ended_child().is_err() {
        // ECHILD, by far the most frequent case.
        return Vec::new();
    }
    let listed = proc_is_ours().then(listed_children).flatten().unwrap_or_default();
    let children = listed.into_iter().filter(|&pid| !spare(pid) && kinship(pid) != Kinship::None);
    // SAFETY: getpgid takes a number.
    let group = |pid: u32| unsafe { libc::getpgid(pid as libc::pid_t) };
    let all = children.map(|pid| Orphan { pid, group: group(pid) as u32 });
    all.filter(|orphan| orphan.group != keeper).collect()
}

/// Whether this child has ended or is about to. It has closed its files before, and what it has
/// started becomes a child of this process only then: whoever looked at the children meanwhile has
/// seen neither.
pub fn is_ending(child: u32) -> bool {
    let is_exiting = |stat: ProcessStat| stat.flags & EXITING != 0;
    kinship(child) != Kinship::Running || ProcessStat::of(child).is_none_or(is_exiting)
}

/// In a process's flags: it is ending (`PF_EXITING`).
const EXITING: u64 = 1 << 2;

/// Sends a signal to the process groups of these [`orphans`]. No child may have been reaped since
/// they were listed: their numbers, and those of their groups, are still theirs.
pub fn signal_orphans(orphans: &[Orphan], number: i32) {
    // SAFETY: getpgrp has no preconditions.
    let own = unsafe { libc::getpgrp() } as u32;
    let mut groups: Vec<u32> = orphans.iter().map(|orphan| orphan.group).collect();
    groups.sort_unstable();
    groups.dedup();
    for group in groups.into_iter().filter(|&group| group != own && group > 1) {
        // SAFETY: kill takes plain numbers. One that may not be signalled is reported by name when
        // the job is over.
        unsafe { libc::kill(-(group as libc::pid_t), number) };
    }
}

/// Waits until no [orphan](orphans) runs, at most for `time`, and reaps those that end. Returns
/// those that still run.
pub fn await_orphans(time: Duration, spare: &dyn Fn(u32) -> bool, keeper: u32) -> Vec<Orphan> {
    let deadline = Instant::now() + time;
    loop {
        reap_orphans(spare);
        let left = orphans(spare, keeper);
        if left.is_empty() || Instant::now() >= deadline {
            return left;
        }
        wait_for_any(&left.iter().map(|orphan| orphan.pid).collect::<Vec<_>>(), deadline);
    }
}

/// Kills and reaps every child, and then the children that it leaves to this process, until there
/// is none. Call [`adopt_orphans`] before.
///
/// Returns the remaining ones: processes that this one may not signal (they changed their user),
/// and those that have not ended within `limit` (in an uninterruptible system call).
pub fn end_children(limit: Duration) -> Vec<u32> {
    let deadline = Instant::now() + limit;
    loop {
        let mut progress = false;
        while let Ok(Some(pid)) = ended_child() {
            if reap(pid).is_err() {
                break;
            }
            progress = true;
        }
        if ended_child().is_err() {
            // ECHILD: there is no child left.
            return Vec::new();
        }
        let all = children();
        let mut dying = Vec::new();
        for &pid in &all {
            match kinship(pid) {
                Kinship::None => {}
                Kinship::Ended => progress = true,
                Kinship::Running if kill_child(pid).is_ok() => dying.push(pid),
                // It changed its user, and this process may not signal it.
                Kinship::Running => {}
            }
        }
        let stuck = dying.is_empty() && !progress && !all.is_empty();
        if stuck || Instant::now() >= deadline {
            let running = |pid: &u32| kinship(*pid) == Kinship::Running;
            return all.into_iter().filter(running).collect();
        }
        wait_for_any(&dying, deadline);
    }
}

/// Kills a child that [`kinship`] has just confirmed: no other process reaps it, so its pid is
/// still valid.
fn kill_child(pid: u32) -> io::Result<()> {
    // SAFETY: kill takes plain numbers.
    check(unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) })
}

/// Waits until one of these children has ended, or until the deadline.
fn wait_for_any(pids: &[u32], deadline: Instant) {
    let held: Vec<OwnedFd> = pids.iter().filter_map(|&pid| hold(pid).ok()).collect();
    let left = deadline.saturating_duration_since(Instant::now());
    if held.is_empty() {
        return std::thread::sleep(left.min(PAUSE));
    }
    let fds: Vec<BorrowedFd<'_>> = held.iter().map(AsFd::as_fd).collect();
    if wait_readable(&fds, Some(left)).is_err() {
        std::thread::sleep(left.min(PAUSE));
    }
}

/// A pidfd of a process.
pub(super) fn hold(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes plain numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    check(fd as i32)?;
    // SAFETY: pidfd_open returned a new descriptor that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Sends a signal to the process group that the held process leads or led. The descriptor pins the
/// group's number: it cannot be reused for another group, even if the leader is gone.
///
/// # Errors
/// `EINVAL` from a kernel before Linux 6.9, which cannot do this.
pub(super) fn signal_group_of(leader: BorrowedFd<'_>, number: i32) -> io::Result<()> {
    const PIDFD_SIGNAL_PROCESS_GROUP: u32 = 1 << 2;
    let no_info = std::ptr::null_mut::<libc::siginfo_t>();
    // SAFETY: plain numbers, and no siginfo.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            leader.as_raw_fd(),
            number,
            no_info,
            PIDFD_SIGNAL_PROCESS_GROUP,
        )
    };
    check(sent as i32)
}

/// A child that has ended and is not reaped yet. An error means that there is no child at all.
fn ended_child() -> io::Result<Option<u32>> {
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    let info = wait_id(libc::P_ALL, 0, options)?;
    // SAFETY: waitid reported a child, so the fields of SIGCHLD are set.
    Ok(info.map(|info| unsafe { info.si_pid() } as u32))
}

fn reap(pid: u32) -> io::Result<()> {
    wait_id(libc::P_PID, pid, libc::WEXITED | libc::WNOHANG).map(drop)
}

/// Pids that include all children of this process.
fn children() -> Vec<u32> {
    let listed = proc_is_ours().then(listed_children).flatten();
    listed.unwrap_or_else(|| {
        let recent = search(std::process::id()..=newest_pid().unwrap_or(0));
        match recent.is_empty() {
            true => search(1..=PID_LIMIT),
            false => recent,
        }
    })
}

/// The pids in this range that are children of this process.
fn search(pids: RangeInclusive<u32>) -> Vec<u32> {
    pids.filter(|&pid| kinship(pid) != Kinship::None).collect()
}

/// The pid that a new process gets: the kernel allocates rising numbers, and wraps around at the
/// limit.
fn newest_pid() -> Option<u32> {
    // SAFETY: without flags and addresses clone is a fork; the child makes one system call, which
    // ends it. Without an exit signal no other code is notified of its end.
    let pid = unsafe {
        let pid = libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) as libc::pid_t;
        if pid == 0 {
            libc::_exit(0);
        }
        pid
    };
    check(pid).ok()?;
    let options = libc::WEXITED | libc::__WCLONE;
    let _ = wait_id(libc::P_PID, pid as libc::id_t, options);
    Some(pid as u32)
}

/// The children of all threads, as `/proc` lists them, which must be [ours](proc_is_ours). `None`
/// if the kernel has no such list.
fn listed_children() -> Option<Vec<u32>> {
    let mut pids = HashSet::new();
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let list = std::fs::read_to_string(task.ok()?.path().join("children")).ok()?;
        pids.extend(list.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    Some(pids.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn only_children_are_kin() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert_eq!(kinship(child.id()), Kinship::Running);
        assert!(signal_child(child.id(), 0) && !signal_child(1, 0));
        assert_eq!(kinship(1), Kinship::None);
        assert_eq!(kinship(std::process::id()), Kinship::None);
        drop(child.stdin.take());
        let held = hold(child.id()).unwrap();
        wait_readable(&[held.as_fd()], None).unwrap();
        assert_eq!(kinship(child.id()), Kinship::Ended);
        child.wait().unwrap();
        assert_eq!(kinship(child.id()), Kinship::None);
    }

    #[test]
    fn a_running_child_is_an_orphan_unless_it_is_spared() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).process_group(0).spawn().unwrap();
        let is_there = |all: Vec<Orphan>| all.iter().any(|orphan| orphan.pid == child.id());
        assert!(!is_there(orphans(&|pid| pid == child.id(), 0)));
        assert!(is_there(orphans(&|_| false, 0)) || listed_children().is_none());
        assert!(!is_there(orphans(&|_| false, child.id())), "it is in the keeper's group");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!orphans(&|_| false, 0).iter().any(|orphan| orphan.pid == child.id()));
    }

    #[test]
    fn a_child_that_ends_is_still_listed() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).process_group(0).spawn().unwrap();
        assert!(!is_ending(child.id()));
        drop(child.stdin.take());
        let held = hold(child.id()).unwrap();
        wait_readable(&[held.as_fd()], None).unwrap();
        assert!(is_ending(child.id()));
        let is_there = |all: Vec<Orphan>| all.iter().any(|orphan| orphan.pid == child.id());
        assert!(is_there(unreaped_orphans(&|_| false, 0)) || listed_children().is_none());
        assert!(!is_there(orphans(&|_| false, 0)));
        child.wait().unwrap();
        assert!(is_ending(child.id()));
    }

    #[test]
    fn both_lists_have_the_child() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(proc_is_ours());
        assert!(listed_children().is_none_or(|all| all.contains(&child.id())));
        let around = child.id().saturating_sub(100)..=child.id() + 100;
        assert!(search(around).contains(&child.id()));
        assert!(newest_pid().is_some_and(|pid| pid != child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
