//! What the ranks of this node have to do with other worlds of the job segment: the rank that has
//! spawned them, those that they are connected with, those that they spawn.
//!
//! A check at intervals ([`Deadline::Worlds`]) finds what no descriptor reports: that a connected
//! rank of another world was lost, that the spawning rank waits no more, that the launcher which
//! has adopted this one was killed. Connected worlds end together; others are waited for, and end
//! only with the user's job.

use std::os::unix::process::parent_id;

use super::*;
use crate::local::spawner::{SpawnFailure, Spawner};
use crate::report::job_name;

/// Interval between checks of a job that has spawned others, or was spawned.
const INTERVAL: Duration = Duration::from_millis(100);
/// The same as long as nothing was ever spawned.
const INTERVAL_ALONE: Duration = Duration::from_millis(500);

/// Who has spawned a job.
pub struct SpawnOrigin<'a> {
    /// The rank.
    pub spawner: &'a mut Spawner,
    /// The launcher of its world, if it has adopted this process.
    pub above: Option<u32>,
}

impl LocalRanks<'_> {
    /// Sets the time of the next check, if there can be other worlds.
    pub(super) fn watch_worlds(&self, job: &mut JobLoop<'_>) {
        let world = self.processes.world;
        if world.can_grow() && self.stage == LocalStage::Running {
            let interval = if world.generation() == 0 { INTERVAL_ALONE } else { INTERVAL };
            job.deadlines.set(Deadline::Worlds, Instant::now() + interval);
        }
    }

    /// Ends the job if it cannot go on because of others.
    pub(super) fn check_worlds(&mut self, job: &mut JobLoop<'_>) {
        if !job.is_ending() && self.processes.alive_count() > 0 {
            self.check_origin(job);
        }
        if !job.is_ending()
            && self.processes.alive_count() > 0
            && let Some((name, code)) = self.processes.world.lost_peer()
        {
            let how = match code {
                Some(code) => format!("called MPI_Abort with code {code}"),
                None => "was lost".to_owned(),
            };
            let status = code.map_or(INTERNAL, |code| Cause::Aborted { code }.status());
            let this = self.own_name();
            let text = format!("{name}, which {this} is connected with, {how}: ending {this}");
            self.end_by_peer(job, status, text);
        }
        self.watch_worlds(job);
    }

    /// `the job`, `spawned job 2`.
    fn own_name(&self) -> String {
        job_name(self.processes.world.spawned())
    }

    fn end_by_peer(&mut self, job: &mut JobLoop<'_>, status: u8, text: String) {
        match &mut job.owner {
            JobOwner::User(user) => {
                user.writer.say(format_args!("mpiexec: {text}.\n"));
                job.end(self, Ending::PeerLost { status }, signal::SIGTERM);
            }
            // It names the host, and ends the job.
            JobOwner::Controller(uplink) => {
                uplink.link.send(&AgentMessage::Failed { status, text });
            }
        }
    }

    /// Looks after who has spawned this job.
    fn check_origin(&mut self, job: &mut JobLoop<'_>) {
        let Some(origin) = &mut self.origin else { return };
        if origin.above.is_some_and(|above| parent_id() != above) {
            let text = format!("the launcher above was killed: ending {}", self.own_name());
            return self.end_by_peer(job, INTERNAL, text);
        }
        // Once a process has come, the worlds are connected, and a loss is found like any other.
        self.is_connected |= self.processes.has_any_come();
        if !self.is_connected && !origin.spawner.waits() {
            let this = self.own_name();
            let text = format!("the rank that has spawned {this} was lost: ending {this}");
            self.end_by_peer(job, INTERNAL, text);
        }
    }

    /// Reports to the spawning rank that all processes are started.
    pub(super) fn announce_start(&mut self) {
        let world = self.processes.world;
        if let Some(origin) = &mut self.origin {
            origin.spawner.started(world.first(), self.plan.ranks.len() as u32);
        }
    }

    /// Ends the job if one of these ranks has ended before it has come to the rank that spawns it,
    /// which hears the reason when no process is left. Returns whether it is so.
    pub(super) fn fail_spawn(&mut self, job: &mut JobLoop<'_>, ends: &[RankEnd]) -> bool {
        let Some(origin) = &mut self.origin else { return false };
        if job.is_ending() || !origin.spawner.waits() {
            return false;
        }
        let Some(end) = ends.iter().find(|end| !self.processes.has_come(end.rank)) else {
            return false;
        };
        let plan = &self.plan.ranks[end.rank as usize];
        let how = end.cause.map_or("exited with code 0".to_owned(), |cause| cause.to_string());
        let program = command_line(&plan.section.command);
        origin.spawner.fail(SpawnFailure {
            section: Some(plan.section_number),
            why: format!("process {} ({program}) {how} before it had called MPI_Init", end.rank),
        });
        job.end(self, Ending::NotStarted { status: INTERNAL }, signal::SIGTERM);
        true
    }

    /// Whether launchers of worlds below this one run, for which it waits: if the user ends the
    /// job, until it is given up; if a rank has failed, as long as they take, for only connected
    /// worlds end then, by themselves.
    pub(super) fn waits_for_worlds(&self, job: &JobLoop<'_>) -> bool {
        let is_over = job.has_given_up() && self.ends_worlds;
        !is_over && !self.processes.world.launchers_below().is_empty()
    }

    /// Passes a request to end on to the launchers of worlds below, if it is the user's.
    pub(super) fn ask_worlds_to_end(&mut self, job: &JobLoop<'_>) {
        self.ends_worlds = matches!(job.ending(), Some(Ending::Signalled(_) | Ending::TimedOut));
        if self.ends_worlds {
            self.processes.world.signal_launchers(signal::SIGTERM);
            self.processes.world.signal_launchers(signal::SIGCONT);
        }
    }

    /// The user ends the job, which is ending because of a failure: worlds below end, too.
    pub(super) fn include_worlds(&mut self) {
        self.ends_worlds = true;
    }

    /// Makes launchers of worlds below kill their ranks, if the user ends the job: they take a
    /// second request so. They are not killed themselves, since they leave nothing behind.
    pub(super) fn kill_worlds(&self) {
        if self.ends_worlds {
            self.processes.world.signal_launchers(signal::SIGTERM);
        }
    }

    /// What has not ended, for people.
    pub(super) fn describe_rest(&self) -> Option<String> {
        let launchers = self.processes.world.launchers_below();
        let mut rest = vec![self.processes.describe_alive()];
        if self.ends_worlds {
            rest.extend(launchers.iter().map(|pid| format!("a spawned job (mpiexec, pid {pid})")));
        }
        rest.retain(|text| !text.is_empty());
        (!rest.is_empty()).then(|| rest.join(", "))
    }
}
