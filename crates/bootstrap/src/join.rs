//! Joining a job, in one of four ways.
//!
//! - **Simulated**: this process is alone on its node, and its network adapter, which a model
//!   plays, says who it is (`mica_node::adapter`, docs/design/sim.md). Nothing is exchanged, no
//!   launcher is contacted, and the job ends when its processes end.
//! - **Inherited**: Mica's mpiexec has created the node's segment, and this process inherits it or
//!   gets it on request ([`crate::inherited`]). If the job spans nodes (or MICA_EXCHANGE asks for
//!   it), mpiexec's process manager (PMI-1) says which rank is on which node.
//! - **Launched by another**: through its process manager, or by themselves where variables alone
//!   describe the job ([`crate::env_job`]), the ranks exchange records, which say which of them
//!   share a node; the lowest rank of each node makes the segment and hands it to the others there.
//! - **Alone**: a job of one. That is also what a process is that a rank of the job started and
//!   that has the rank's environment ([`crate::descent`]).

use std::io;
use std::time::{Duration, Instant};

use mica_node::adapter::AdapterMemory;
use mica_node::handover::HandoverListener;
use mica_node::segment::{JobSegment, JobSpec, RANK_VARIABLE, SEGMENT_FD_VARIABLE};
use mica_node::topology::{CorePlace, CpuSet, available_cores, cpu_quota};
use mica_node::tunables::{self, spare_ranks};

use crate::choose;
use crate::descent;
use crate::endpoint_record::EndpointRecord;
use crate::environment;
use crate::exchange::{ExchangeError, JoiningProcess, fetch, hand_out, name};
use crate::inherited;
use crate::nodes::NodeMap;
use crate::pmi1::Pmi1;
use crate::published::exchange;
use crate::{BootstrapError, ProcessManager};

/// Environment variable: Mica's mpiexec sets it where ranks of one node shall exchange addresses
/// all the same.
pub const EXCHANGE_VARIABLE: &str = "MICA_EXCHANGE";

/// A process that has joined its job. The segment's rank is not claimed yet
/// ([`JobSegment::claim`]).
#[derive(Debug)]
pub struct Joined {
    /// What the ranks of this node share.
    pub segment: JobSegment,
    /// Rank of this process in the job.
    pub rank: u32,
    /// Number of processes of the job.
    pub size: u32,
    /// False for a process that was started alone.
    pub launched: bool,
    /// Where all ranks are.
    pub nodes: NodeMap,
    /// The launcher's process manager; `None` when the node's segment is all there is.
    pub manager: Option<Box<dyn ProcessManager>>,
    /// The adapter of a simulated node, which reaches all ranks.
    pub adapter: Option<AdapterMemory>,
}

/// Joins the job that the environment names, or makes a job of this process alone. Collective over
/// the job, except where Mica's mpiexec started it on one node: blocks until every rank of the job
/// has called it.
///
/// # Errors
/// When a launcher is there that cannot be spoken to, when it goes away, when the environment is
/// wrong, when a process of the node does not come in time after all have called this, or when
/// memory cannot be had.
pub fn join() -> Result<Joined, BootstrapError> {
    if let Some(adapter) = AdapterMemory::of_environment()? {
        return simulated(adapter);
    }
    match environment::number(SEGMENT_FD_VARIABLE)? {
        Some(descriptor) => inherited(descriptor),
        None => {
            let forced = tunables::PMI.choice()?;
            let launcher = choose::choose(&environment::text, forced)?;
            match choose::connect(launcher)? {
                Some(manager) => launched(manager, &LauncherSettings::in_force()?),
                None => alone(),
            }
        }
    }
}

fn simulated(adapter: AdapterMemory) -> Result<Joined, BootstrapError> {
    let (rank, size) = (adapter.rank(), adapter.size());
    let spec = JobSpec {
        places: &[CorePlace::UNKNOWN],
        available_cores: 1,
        appnum: &[0],
        job_size: size,
        members: &[rank],
        spare: 0,
    };
    Ok(Joined {
        segment: JobSegment::create(&spec)?,
        rank,
        size,
        launched: true,
        nodes: NodeMap {
            of: (0..size).collect(),
            names: (0..size).map(|node| format!("sim{node}")).collect(),
            all_on_one_machine: false,
        },
        manager: None,
        adapter: Some(adapter),
    })
}

fn inherited(descriptor: u32) -> Result<Joined, BootstrapError> {
    let rank: u32 = environment::number(RANK_VARIABLE)?.ok_or(BootstrapError::BadEnvironment {
        variable: RANK_VARIABLE,
        value: String::new(),
        reason: "is not set, but the job segment is",
    })?;
    let segment = inherited::segment(descriptor, rank)?;
    if descent::descends_from_rank(&segment, rank) {
        if segment.begin_descendants() {
            descent::note(rank);
        }
        return alone();
    }
    let size = segment.job_size();
    let spans = size > segment.ranks();
    let announced = [environment::text("PMI_RANK"), environment::text("PMI_SIZE")];
    // A launcher of another MPI around mpiexec leaves its own variables in the environment.
    let is_ours = announced == [rank, size].map(|n| Some(n.to_string()));
    // mpiexec serves PMI-1 to programs of other libraries in any job.
    let is_served = is_ours && environment::text(EXCHANGE_VARIABLE).is_some();
    if !spans && !is_served {
        inherited::close_manager();
        let record = EndpointRecord::own("", None, 0)?;
        return Ok(Joined {
            segment,
            rank,
            size,
            launched: true,
            nodes: NodeMap::one(size, record.host),
            manager: None,
            adapter: None,
        });
    }
    if !is_ours {
        let [pmi_rank, pmi_size] = announced.map(Option::unwrap_or_default);
        return Err(BootstrapError::BadEnvironment {
            variable: "PMI_RANK",
            value: format!("{pmi_rank} (PMI_SIZE={pmi_size})"),
            reason: "is not what the job segment says, which spans nodes",
        });
    }
    let socket = inherited::manager(rank)?;
    let mut manager: Box<dyn ProcessManager> =
        Box::new(Pmi1::connect(socket, rank, size)?.with_tables());
    // Nodes are what mpiexec made, and it knows them all.
    let nodes = NodeMap::of_launcher(manager.as_mut())?;
    Ok(Joined { segment, rank, size, launched: true, nodes, manager: Some(manager), adapter: None })
}

fn alone() -> Result<Joined, BootstrapError> {
    let cores = available_cores() as u32;
    let spec = JobSpec {
        spare: spare_ranks(1),
        ..JobSpec::on_one_node(&[CorePlace::UNKNOWN], cores, &[0])
    };
    Ok(Joined {
        segment: JobSegment::create(&spec)?,
        rank: 0,
        size: 1,
        launched: false,
        nodes: NodeMap::one(1, EndpointRecord::own("", None, 0)?.host),
        manager: None,
        adapter: None,
    })
}

fn exchange_records(
    manager: &mut dyn ProcessManager,
    record: &EndpointRecord,
) -> Result<Vec<EndpointRecord>, BootstrapError> {
    let records = exchange(manager, "card", &record.encode())?;
    let records = records.iter().zip(0..);
    records.map(|(bytes, rank)| EndpointRecord::decode(bytes, rank)).collect()
}

/// Settings of a job under a launcher of another MPI.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LauncherSettings {
    /// Nodes to make out of one machine; 0: none.
    pub virtual_nodes: u64,
    /// How long the processes of a node wait for each other. All of them are known to run by then.
    pub timeout: Duration,
}

impl LauncherSettings {
    fn in_force() -> Result<LauncherSettings, BootstrapError> {
        Ok(LauncherSettings {
            virtual_nodes: tunables::VIRTUAL_NODES.number()?,
            timeout: Duration::from_secs(tunables::JOIN_TIMEOUT.number()?),
        })
    }

    /// The name of a rank's virtual node: blocks of ranks, as equal as can be.
    pub fn part(&self, rank: u32, size: u32) -> String {
        if self.virtual_nodes == 0 {
            return String::new();
        }
        let nodes = self.virtual_nodes.min(u64::from(size));
        format!("virtual {}", u64::from(rank) * nodes / u64::from(size))
    }
}

/// Joins under a launcher of another MPI.
///
/// # Errors
/// As [`join`].
pub(crate) fn launched(
    mut manager: Box<dyn ProcessManager>,
    settings: &LauncherSettings,
) -> Result<Joined, BootstrapError> {
    let (rank, size) = (manager.rank(), manager.size());
    let part = settings.part(rank, size);
    let record = EndpointRecord::own(&part, None, manager.identity().appnum.unwrap_or(0))?;
    let listener = HandoverListener::bind(&name(&record.nonce))
        .map_err(|source| BootstrapError::System { call: "bind", source })?;
    let records = exchange_records(manager.as_mut(), &record)?;
    let nodes = NodeMap::from_records(&records);
    let segment = obtain_segment(listener, &records, &nodes, rank, settings.timeout)?;
    Ok(Joined { segment, rank, size, launched: true, nodes, manager: Some(manager), adapter: None })
}

/// Gets the node's segment: makes it and hands it out, or fetches it.
fn obtain_segment(
    listener: HandoverListener,
    records: &[EndpointRecord],
    nodes: &NodeMap,
    rank: u32,
    timeout: Duration,
) -> Result<JobSegment, BootstrapError> {
    let deadline = Instant::now() + timeout;
    let own = &records[rank as usize];
    let node = nodes.of[rank as usize];
    let members = nodes.members(node);
    let failed =
        |what: String| BootstrapError::Handover { node: nodes.names[node as usize].clone(), what };
    let process = |rank: u32| JoiningProcess { rank, nonce: records[rank as usize].nonce };
    let leader = members[0];
    if leader != rank {
        drop(listener);
        let nonce = &records[leader as usize].nonce;
        let descriptor = fetch(nonce, process(rank), own.uid, deadline).map_err(|error| {
            failed(format!(
                "rank {rank} got no job segment from rank {leader}, which makes it: {}",
                timeout_text(&error, timeout)
            ))
        })?;
        let segment = JobSegment::attach(descriptor)?;
        if segment.job_size() as usize != records.len() || segment.members() != members {
            let received = (segment.members(), segment.job_size());
            return Err(failed(format!(
                "rank {leader} made a job segment for ranks {:?} of {}, not for {members:?} of {}",
                received.0,
                received.1,
                records.len()
            )));
        }
        return Ok(segment);
    }
    let of_members = || members.iter().map(|&rank| &records[rank as usize]);
    let places: Vec<CorePlace> = of_members().map(|record| record.place).collect();
    let appnum: Vec<u32> = of_members().map(|record| record.appnum).collect();
    let cpus = CpuSet::from_cpus(of_members().flat_map(|record| record.cpus.iter()));
    let spec = JobSpec {
        places: &places,
        available_cores: cores(&cpus, cpu_quota()),
        appnum: &appnum,
        job_size: records.len() as u32,
        members: &members,
        spare: if members.len() == records.len() { spare_ranks(members.len() as u32) } else { 0 },
    };
    // What the ranks of a node descend from, as a rule: its descendants may read each other's
    // memory under Yama.
    let segment = JobSegment::create_under(&spec, std::os::unix::process::parent_id())?;
    let joining: Vec<JoiningProcess> = members[1..].iter().map(|&rank| process(rank)).collect();
    match hand_out(&listener, segment.as_fd(), &joining, own.uid, deadline) {
        Ok(()) => Ok(segment),
        Err(ExchangeError::Missing(ranks)) => Err(failed(format!(
            "of ranks {members:?}, {ranks:?} did not come for the job segment within {} s",
            timeout.as_secs_f64()
        ))),
        Err(ExchangeError::Failed(error)) => {
            Err(failed(format!("rank {rank} could not hand out the job segment: {error}")))
        }
    }
}

/// Cores that ranks with these processors between them may use.
fn cores(cpus: &CpuSet, quota: Option<f64>) -> u32 {
    let quota = quota.map_or(u32::MAX, |quota| quota.ceil() as u32);
    (cpus.len() as u32).min(quota).max(1)
}

fn timeout_text(error: &io::Error, timeout: Duration) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => format!("no answer within {} s", timeout.as_secs_f64()),
        io::ErrorKind::ConnectionRefused => "it no longer waits for the others".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_nodes_are_blocks() {
        let of = |size: u32, virtual_nodes: u64| -> Vec<String> {
            let settings = LauncherSettings { virtual_nodes, timeout: Duration::from_secs(60) };
            (0..size).map(|rank| settings.part(rank, size)).collect()
        };
        let blocks = |numbers: &[u32]| -> Vec<String> {
            numbers.iter().map(|n| format!("virtual {n}")).collect()
        };
        assert_eq!(of(4, 2), blocks(&[0, 0, 1, 1]));
        assert_eq!(of(5, 2), blocks(&[0, 0, 0, 1, 1]));
        assert_eq!(of(3, 8), blocks(&[0, 1, 2]));
        assert_eq!(of(2, 0), ["", ""]);
    }

    #[test]
    fn a_simulated_rank_is_alone_on_its_node() {
        let (_fd, adapter) = AdapterMemory::create(2, 5).expect("memory");
        let joined = simulated(adapter).expect("memory");
        assert_eq!((joined.rank, joined.size), (2, 5));
        let segment = &joined.segment;
        assert_eq!((segment.members(), segment.job_size()), (&[2][..], 5));
        assert_eq!(joined.nodes.of, [0, 1, 2, 3, 4]);
        assert_eq!(joined.nodes.names[2], "sim2");
        assert!(joined.manager.is_none() && joined.adapter.is_some());
        assert!(!segment.is_oversubscribed());
    }

    #[test]
    fn cores_are_those_of_all_ranks_within_the_quota() {
        let cpus = CpuSet::from_cpus([0, 1, 5]);
        assert_eq!(cores(&cpus, None), 3);
        assert_eq!(cores(&cpus, Some(1.5)), 2);
        assert_eq!(cores(&CpuSet::default(), None), 1);
    }
}
