//! The jobs that a job has spawned (`MPI_Comm_spawn`), which are shown with it, and what ranks are
//! called among them.

use std::fmt;

use mica_node::segment::World;

/// A rank as `mpiexec` and people call it: its number, and that of the spawned job it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankName {
    /// The number of its spawned job; 0: the job that was started by hand.
    pub spawned_job: u32,
    /// Its number there.
    pub rank: u32,
}

impl RankName {
    /// The name of the rank with this number in the job segment, where these worlds run.
    pub fn of(number: u32, worlds: &[World]) -> RankName {
        match worlds.iter().find(|world| world.contains(number)) {
            Some(world) => RankName { spawned_job: world.index, rank: number - world.first },
            None => RankName { spawned_job: 0, rank: number },
        }
    }
}

impl fmt::Display for RankName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.spawned_job {
            0 => write!(f, "{}", self.rank),
            job => write!(f, "{job}:{}", self.rank),
        }
    }
}

/// A spawned job as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnedJobView {
    /// Its number.
    pub number: u32,
    /// Number of its ranks.
    pub size: u32,
    /// Its launcher.
    pub pid: u32,
    /// The rank that has spawned it.
    pub parent: Option<RankName>,
    /// The command of its first rank; empty as long as that is not known.
    pub command: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_spawned_jobs_are_numbered_there() {
        let world =
            World { index: 3, first: 4, count: 2, generation: 9, launcher: 1, parent: None };
        let name = |number: u32| RankName::of(number, &[world]).to_string();
        assert_eq!([3, 4, 5, 6].map(name), ["3", "3:0", "3:1", "6"]);
    }
}
