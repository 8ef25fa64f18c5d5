//! The launcher of a spawned job: `mpiexec` as a rank starts it for `MPI_Comm_spawn`.
//!
//! [`begin`] is the first process. It starts the second one, in a process group of its own, and
//! ends at once, so that the rank has a child for a moment only. The second one ([`run`]) is
//! adopted by the launcher of the rank's own world (a subreaper), or by init if the rank was
//! started by itself. It gets the job segment from the rank, starts an ordinary job on this node as
//! a new world in it, and runs it to its end as any other.
//!
//! Three things of the rank must not reach the job: the variables that say which rank it is
//! ([`is_of_a_rank`]), what its program has open, and its binding to processors; the launcher that
//! has adopted this one has the processors that the job may use.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, parent_id};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mica_bootstrap::spawned::{SpawnedBy, SpawningRank};
use mica_node::process::keep_descriptors;
use mica_node::segment::JobSegment;
use mica_node::topology::{affinity_of, bind_thread};

use crate::error::LaunchError;
use crate::local::spawner::{SpawnFailure, Spawner};
use crate::local::supervisor::{self, SpawnOrigin};
use crate::local::world::JobWorld;
use crate::options::values::rank_set::RankSet;
use crate::options::{self, CommandRequest, JobOptions, SpawnedJob};
use crate::placement::node_job::NodeJob;
use crate::placement::plan::NodePlan;
use crate::placement::{self, Placement, is_this_machine};
use crate::report::{INTERNAL, say};

/// Time for the first process to end, which it does at once.
const ADOPTION: Duration = Duration::from_secs(5);

/// Beginnings of the names of variables that say which rank a process is, or how it reaches the
/// launcher that has started it, whichever that is.
const OF_A_RANK: [&str; 18] = [
    "HYDI_",
    "MICA_EXCHANGE",
    "MICA_LAUNCH_INFO",
    "MICA_PMI_ID",
    "MICA_RANK",
    "MICA_SEGMENT_",
    "MICA_SIZE",
    "MPI_LOCAL",
    "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_SIZE",
    "PALS_",
    "PMIX_",
    "PMI_",
    "SLURM_GTIDS",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_PROCID",
    "SLURM_TASK_PID",
];

/// Whether a variable is one of these.
fn is_of_a_rank(name: &OsStr) -> bool {
    let begins = |prefix: &&str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
    OF_A_RANK.iter().any(begins)
}

/// The first process: starts the second one.
pub fn begin(by: &SpawnedBy, command_line: &[OsString]) -> u8 {
    keep_descriptors();
    let started = std::env::current_exe().and_then(|program| {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_a_rank(name)) {
            command.env_remove(name);
        }
        command
            .args(SpawnedJob::words(std::process::id(), by))
            .args(command_line)
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
    });
    match started {
        Ok(_) => 0,
        Err(error) => {
            say(format_args!("mpiexec: cannot start the launcher of spawned processes: {error}\n"));
            INTERNAL
        }
    }
}

/// The second process: runs the job.
pub fn run(job: &SpawnedJob) -> u8 {
    // A rank that is not there any more waits for nothing.
    let Ok((rank, segment)) = SpawningRank::connect(&job.by) else { return INTERNAL };
    let mut spawner = Spawner::new(rank);
    let mut world = None;
    let result = try_run(job, segment, &mut spawner, &mut world);
    let status = result.unwrap_or_else(|failure| {
        if !spawner.waits() {
            say(format_args!("mpiexec: {}\n", failure.why));
        }
        spawner.fail(failure);
        INTERNAL
    });
    // Before the rank hears of a failure, so that it can use the numbers again.
    if let Some(world) = world {
        world.end();
    }
    spawner.conclude();
    status
}

fn try_run(
    job: &SpawnedJob,
    segment: OwnedFd,
    spawner: &mut Spawner,
    entered: &mut Option<JobWorld>,
) -> Result<u8, SpawnFailure> {
    let segment = JobSegment::attach(segment).map_err(|error| failure(None, &error))?;
    let above = await_adoption(job.starter, &segment, job.by.parent.rank);
    if let Some(Ok(processors)) = above.map(affinity_of) {
        // Where the kernel refuses it, the plan reports that ranks cannot be bound.
        let _ = bind_thread(&processors);
    }
    let options = options(job)?;
    let node = NodeJob::all_here(&options);
    let plan = NodePlan::new(&node).map_err(|error| failure(None, &error))?;
    if options.verbose {
        say(plan.describe());
    }
    say(plan.notice(&node));
    let world = JobWorld::enter(segment, &plan, job.by.parent);
    let world = entered.insert(world.map_err(|error| failure(None, &error))?);
    let origin = SpawnOrigin { spawner, above };
    supervisor::run_spawned(&options, &node, &plan, world, origin).map_err(|error| {
        let section = match &error {
            LaunchError::Exec { rank, .. } => Some(node.programs.section_of[*rank as usize]),
            _ => None,
        };
        failure(section, &error)
    })
}

fn failure(section: Option<u32>, error: &dyn std::error::Error) -> SpawnFailure {
    SpawnFailure { section, why: error.to_string() }
}

/// Waits until the first process has ended. Returns the launcher of the spawning rank's world, if
/// it has adopted this process: not where the rank was started by itself, or something between
/// the two adopts orphans.
fn await_adoption(starter: u32, segment: &JobSegment, parent: u32) -> Option<u32> {
    let deadline = Instant::now() + ADOPTION;
    while parent_id() == starter && Instant::now() < deadline {
        // No descriptor reports a new parent, and it takes about a millisecond.
        std::thread::sleep(Duration::from_millis(1));
    }
    let launcher = segment.world_of(parent)?.launcher;
    (parent_id() == launcher).then_some(launcher)
}

/// What the command line asks for: a job on this node. Variables that say how and where the user's
/// own job runs do not count.
fn options(job: &SpawnedJob) -> Result<JobOptions, SpawnFailure> {
    let elsewhere = |host: &str| SpawnFailure {
        section: None,
        why: format!(
            "{host} is another node than the job's: processes can be spawned by a job on one node, \
             on that node"
        ),
    };
    let request = options::parse(&job.command_line, &|_| None);
    let request = request.map_err(|error| failure(error.section(), &error))?;
    let CommandRequest::Run(mut options) = request else {
        let why = "this command line starts no processes".to_owned();
        return Err(SpawnFailure { section: None, why });
    };
    options.input = RankSet::none();
    let placement = placement::place(&mut options, &|_| None);
    match placement.map_err(|error| failure(None, &error))? {
        Placement::Here => Ok(*options),
        Placement::Nodes(nodes) => {
            let mut hosts = nodes.nodes.iter().map(|node| node.host.as_str());
            Err(match hosts.find(|host| !is_this_machine(host)) {
                Some(host) => elsewhere(&format!("host {host}")),
                None => elsewhere("a virtual node"),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(line: &str) -> SpawnFailure {
        let by = "0123456789abcdef0123456789abcdef:0:0";
        let by = SpawnedBy::parse(by).expect("sound");
        let command_line = line.split(' ').map(Into::into).collect();
        options(&SpawnedJob { starter: 1, by, command_line }).expect_err(line)
    }

    #[test]
    fn jobs_that_are_not_of_this_node_or_not_sound_are_refused() {
        let failure = refusal("-hosts far p");
        assert!(failure.why.starts_with("host far is another node"), "{}", failure.why);
        assert!(refusal("--launcher fork p").why.contains("another node"));
        let failure = refusal("-n 1 a : -n 1 -wdir /no/such b");
        assert_eq!(failure.section, Some(1));
        assert!(failure.why.contains("/no/such"), "{}", failure.why);
        assert!(refusal("--no-such p").why.contains("--no-such"));
        assert!(refusal("--help").why.contains("no processes"));
    }

    #[test]
    fn variables_of_a_rank_are_known() {
        let is_known = |name: &str| is_of_a_rank(OsStr::new(name));
        for name in ["PMI_FD", "MICA_RANK", "MICA_SEGMENT_ID", "HYDI_CONTROL_FD", "SLURM_PROCID"] {
            assert!(is_known(name), "{name}");
        }
        for name in ["PATH", "MICA_NET", "MICA_STATS", "SLURM_JOB_ID", "RANK", "HYDRA_BINDING"] {
            assert!(!is_known(name), "{name}");
        }
    }
}
