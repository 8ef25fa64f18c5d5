//! The place of this launcher's ranks in the job segment.
//!
//! People, options and the ranks' programs know a rank by its number in its MPI_COMM_WORLD; the
//! segment numbers the ranks of all worlds in one row ([`mica_node::segment::World`]). For the
//! ranks that a job starts with the two are the same. [`JobWorld::number`] is the one place where
//! they are converted.
//!
//! What the ranks spawn has launchers of its own. Since this process adopts orphans, the launcher
//! of a world that one of its ranks has spawned is a child of it, and so is that of any world
//! below whose own launcher was killed. A process is taken for such a launcher if a world that
//! lives names it and the kernel confirms that it is a child that runs.

use std::ops::Deref;

use mica_node::process::{is_running_child, signal_child};
use mica_node::segment::{
    JobSegment, JobSpec, ParentPort, RankState, SegmentError, World, WorldSpec,
};
use mica_node::topology::CorePlace;
use mica_node::tunables::spare_ranks;

use crate::placement::node_job::NodeJob;
use crate::placement::plan::NodePlan;
use crate::report::{job_name, rank_name};

/// The job segment, and the ranks in it that this launcher runs.
#[derive(Debug)]
pub struct JobWorld {
    segment: JobSegment,
    /// `None`: the world that the job started with.
    spawned: Option<World>,
}

impl JobWorld {
    /// Creates the segment of a new job. Where all its ranks are on this node, it has room for
    /// those that they may spawn.
    pub fn create(job: &NodeJob, plan: &NodePlan<'_>) -> Result<JobWorld, SegmentError> {
        let is_whole = job.members.len() == job.size as usize;
        let segment = JobSegment::create(&JobSpec {
            places: &places(plan),
            available_cores: plan.available_cores as u32,
            appnum: &sections(plan),
            job_size: job.size,
            members: &job.members,
            spare: if is_whole { spare_ranks(job.size) } else { 0 },
        })?;
        Ok(JobWorld { segment, spawned: None })
    }

    /// Enters the ranks of a spawned job in the segment of those that spawn it.
    pub fn enter(
        segment: JobSegment,
        plan: &NodePlan<'_>,
        parent: ParentPort,
    ) -> Result<JobWorld, SegmentError> {
        let (places, appnum) = (places(plan), sections(plan));
        let spec = WorldSpec { places: &places, appnum: &appnum, parent };
        let world = segment.begin_world(&spec)?;
        Ok(JobWorld { segment, spawned: Some(world) })
    }

    /// The number in the segment of a rank.
    pub fn number(&self, rank: u32) -> u32 {
        self.first() + rank
    }

    /// The number in the segment of the first rank.
    pub fn first(&self) -> u32 {
        self.spawned.map_or(0, |world| world.first)
    }

    /// Which of the spawned jobs it is, for people: they are counted as they start.
    pub fn spawned(&self) -> Option<u32> {
        self.spawned.map(|world| world.generation)
    }

    /// The line above a report on a spawned job's ranks; empty for others.
    pub fn heading(&self) -> String {
        let line = |_| format!("mpiexec: {}:\n", job_name(self.spawned()));
        self.spawned().map(line).unwrap_or_default()
    }

    /// Whether its ranks can spawn others, or were spawned.
    pub fn can_grow(&self) -> bool {
        self.segment.capacity() > self.segment.job_size()
    }

    /// A rank of another world, connected with this one, that was killed or has aborted: its name
    /// for people, and the code of the abort.
    pub fn lost_peer(&self) -> Option<(String, Option<i32>)> {
        if self.segment.generation() == 0 {
            return None;
        }
        let number = self.segment.lost_peer_of(self.spawned.map_or(0, |world| world.index))?;
        let world = self.segment.world_of(number)?;
        // Others of its world may have been ended because of the one that aborted.
        let aborted =
            |&rank: &u32| matches!(self.segment.rank_state(rank), RankState::Aborted { .. });
        let number = world.ranks().find(aborted).unwrap_or(number);
        let name = rank_name(number - world.first, (world.index > 0).then_some(world.generation));
        let code = match self.segment.rank_state(number) {
            RankState::Aborted { code } => Some(code),
            _ => None,
        };
        Some((name, code))
    }

    /// The launchers of worlds that were spawned below this one, as far as they are children of
    /// this process and run.
    pub fn launchers_below(&self) -> Vec<u32> {
        if self.segment.generation() == 0 {
            return Vec::new();
        }
        let own = std::process::id();
        let others = self.segment.worlds().filter(|world| world.index > 0);
        let launchers = others.map(|world| world.launcher).filter(|&pid| pid != own);
        launchers.filter(|&pid| is_running_child(pid)).collect()
    }

    /// Sends a signal to these launchers.
    pub fn signal_launchers(&self, number: i32) {
        for pid in self.launchers_below() {
            signal_child(pid, number);
        }
    }

    /// Gives the numbers of a spawned job back, all of whose processes have ended. The last that
    /// its launcher does: who has adopted the launcher waits for it only until then.
    pub fn end(&self) {
        if let Some(world) = self.spawned {
            // Without the lock the numbers are lost until the job ends. There is no report: the job
            // has ended well for its user.
            let _ = self.segment.end_world(world.index);
        }
    }
}

impl Deref for JobWorld {
    type Target = JobSegment;

    fn deref(&self) -> &JobSegment {
        &self.segment
    }
}

fn places(plan: &NodePlan<'_>) -> Vec<CorePlace> {
    plan.ranks.iter().map(|rank| rank.slot.place).collect()
}

fn sections(plan: &NodePlan<'_>) -> Vec<u32> {
    plan.ranks.iter().map(|rank| rank.section_number).collect()
}
