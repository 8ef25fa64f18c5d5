//! Ranks that linger: their first process has exited with status zero, and what it started works
//! on, as behind a shell (`PROGRAM & exit 0`), `setsid` or a wrapper that goes into the background.
//!
//! Such a rank has not ended. As under Hydra, what counts is the rank's output: processes that have
//! it open are waited for. Where output passes through this process, that is a pipe that has a
//! writer. Where ranks inherit a file or a terminal, it is an orphan that has the same file as its
//! standard output or error; with `/dev/null`, which every daemon has, one in the rank's process
//! group. A process that is the rank for MPI is waited for whatever its output.
//!
//! What else is left when the last rank has ended is ended too, and named: a daemon that let go of
//! the output could run for ever.

use mica_node::process::{
    Orphan, await_orphans, has_writer, is_ending, orphans, signal_orphans, unreaped_orphans,
};

use super::*;
use crate::output::output_file;

/// Time for processes that are about to end by themselves, such as helpers of the language's
/// runtime that see the end of the process that they served.
const LEFT_TIME: Duration = Duration::from_millis(500);

/// The files that a process has as standard output and error, but for `/dev/null`.
fn outputs_of(pid: u32) -> Vec<FileIdentity> {
    let file = |fd: u32| rustix::fs::stat(format!("/proc/{pid}/fd/{fd}")).ok();
    [1, 2].into_iter().filter_map(file).filter_map(|file| output_file(&file)).collect()
}

impl RankProcesses<'_> {
    /// The ranks that linger, by number on the node.
    pub fn lingering(&self) -> impl Iterator<Item = usize> {
        (0..self.ranks.len()).filter(|&index| self.ranks[index].lingers)
    }

    /// Ends the lingering of ranks whose processes have all ended or let go of the output, and
    /// returns how these ranks ended.
    pub fn end_lingering(&mut self) -> Vec<RankEnd> {
        let over: Vec<usize> =
            self.lingering().filter(|&index| !self.is_still_working(index)).collect();
        let end = |index: usize| {
            self.ranks[index].lingers = false;
            Some(self.end_of(index, self.ranks[index].exit?))
        };
        over.into_iter().filter_map(end).collect()
    }

    /// Whether what the rank's ended process has started works on.
    pub(super) fn is_still_working(&self, index: usize) -> bool {
        let rank = &self.ranks[index];
        let mut streams = rank.streams.iter().filter_map(|id| self.streams.get(id));
        if streams.any(|stream| has_writer(stream.as_fd())) {
            return true;
        }
        let for_mpi = match self.world.rank_state(self.number(index)) {
            RankState::Running { pid } if pid != rank.process.pid() => Some(pid),
            _ => None,
        };
        if !rank.streams.is_empty() && for_mpi.is_none() {
            return false;
        }
        let works = |orphan: &Orphan| {
            let has_output = match rank.outputs.is_empty() {
                true => orphan.group == rank.process.pid(),
                false => outputs_of(orphan.pid).iter().any(|file| rank.outputs.contains(file)),
            };
            for_mpi == Some(orphan.pid) || (rank.streams.is_empty() && has_output)
        };
        let launchers = self.world.launchers_below();
        let spare = |pid| self.alive.contains(&pid) || launchers.contains(&pid);
        let orphans = unreaped_orphans(&spare, self.keeper.pid());
        // Of one that was ending meanwhile, nothing is known yet, nor of what it has started.
        orphans.iter().any(|orphan| works(orphan) || is_ending(orphan.pid))
    }

    /// Sends a signal to what ranks that linger have started.
    pub(super) fn signal_lingering(&self, number: i32) {
        if self.lingering().next().is_none() {
            return;
        }
        // Those in the groups of other ranks get it there.
        let mut orphans = self.orphans();
        orphans.retain(|orphan| !self.alive.contains(&orphan.group));
        signal_orphans(&orphans, number);
    }

    /// Whom the job waits for when ranks linger, in a line; `None` if there are none, or if it may
    /// be the launcher of a spawned job that has their output open.
    pub fn describe_lingering(&self) -> Option<String> {
        if !self.world.launchers_below().is_empty() {
            return None;
        }
        let rank = self.plan.ranks[self.lingering().next()?].rank;
        let what = match names(&self.orphans()) {
            what if what.is_empty() => "a process that has its output open".to_owned(),
            what => what,
        };
        Some(format!(
            "mpiexec: the first process of rank {rank} has exited; what it started is waited for, \
             since it has the rank's output open: {what}\n"
        ))
    }

    /// What the ranks have left running, now that all have ended; empty if there is nothing.
    pub fn describe_left(&self) -> String {
        let spare = |pid| self.alive.contains(&pid);
        match names(&await_orphans(LEFT_TIME, &spare, self.keeper.pid())) {
            what if what.is_empty() => what,
            what => format!(
                "mpiexec: all ranks have ended; ending what they left running, which has none of \
                 their output open: {what}\n"
            ),
        }
    }

    /// But for the launchers of spawned jobs, which end what they have started themselves.
    fn orphans(&self) -> Vec<Orphan> {
        let launchers = self.world.launchers_below();
        let spare = |pid| self.alive.contains(&pid) || launchers.contains(&pid);
        orphans(&spare, self.keeper.pid())
    }
}

/// `process 4711 (sleep), process 4712 (top)`.
fn names(orphans: &[Orphan]) -> String {
    orphans.iter().map(|orphan| process_name(orphan.pid)).collect::<Vec<_>>().join(", ")
}
