//! A node's part of a job, as the controller sends it to the node's agent.

use std::ffi::OsString;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use mica_bootstrap::NodeTable;
use mica_bootstrap::endpoint_record::machine;
use mica_node::handover::nonce;
use mica_node::identity::host_name;
use serde::{Deserialize, Serialize};

use crate::options::values::binding::Binding;
use crate::options::values::inherit::Inherit;
use crate::options::values::output_rules::OutputRules;
use crate::options::values::pattern::PatternRank;
use crate::options::values::rank_set::RankSet;
use crate::options::values::tool::Tool;
use crate::options::{JobOptions, ProgramSection};
use crate::output::is_one_file;
use crate::placement::profiled::{self, NodeTraffic};
use crate::placement::widths::{CoreGrant, Widths};
use crate::signals::SignalRules;

/// The variable that makes ranks use the network among themselves.
const NET: &str = "MICA_NET";

/// A node's part of a job: everything that is needed to run its ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeJob {
    /// The name of this host in the job.
    pub host: String,
    /// Number of this node in the job.
    pub node: u32,
    /// Identifies this job among others that have ranks on the same hosts.
    pub name: String,
    /// Ranks on all nodes.
    pub size: u32,
    /// The ranks on this node, in ascending order.
    pub members: Vec<u32>,
    /// What the ranks run.
    pub programs: NodePrograms,
    /// Where their output goes and their input comes from.
    pub streams: NodeStreams,
    /// Which cores they run on.
    pub cores: NodeCores,
    /// What is reported about them.
    pub reports: NodeReports,
    /// How they find ranks on other nodes.
    pub network: NodeNetwork,
    /// Which signals to the launcher the ranks get.
    pub signals: SignalRules,
    /// Time between asking ranks to end and killing them.
    pub grace: Duration,
    /// The controller is lost when it is silent for this long.
    pub host_timeout: Duration,
    /// The same for a controller whose machine does not answer either, if that is longer: it may be
    /// suspended.
    pub head_timeout: Duration,
}

/// The programs of a node's ranks and their environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodePrograms {
    /// The programs of the job.
    pub sections: Vec<ProgramSection>,
    /// Number in `sections` of each of them.
    pub section_of: Vec<u32>,
    /// The environment of all ranks; that of the sections is applied after it.
    pub environment: Vec<(OsString, OsString)>,
    /// The controller's own environment, for ranks that inherit it.
    pub inherited: Vec<(OsString, OsString)>,
    /// Which variables of the launcher's environment ranks get, unless their section says
    /// otherwise.
    pub inherit: Inherit,
    /// The working directory of programs that name none; `None` for that of this process.
    pub directory: Option<OsString>,
    /// Commands that ranks' programs are started under.
    pub tools: Vec<Tool>,
    /// The hosts that the command line names.
    pub hosts: Option<String>,
}

/// Output and input of a node's ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeStreams {
    /// Labels and files for output.
    pub output: OutputRules,
    /// The ranks that get standard input.
    pub input: RankSet,
    /// Standard output and standard error lead to the same file, and remain one stream.
    pub one_stream: bool,
}

/// The cores of a node's ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeCores {
    /// Where ranks run.
    pub binding: Binding,
    /// Cores of each rank, by section.
    pub widths: Widths,
    /// The processors of this machine that the controller grants; `None`: this process finds out.
    pub grant: Option<CoreGrant>,
    /// All ranks of the job on this machine: several virtual nodes share its cores.
    pub machine_ranks: u32,
    /// The index, among these, of the first one on this node.
    pub machine_first: u32,
    /// The traffic among the node's ranks, by index in `members`, if they are placed by it.
    pub traffic: Vec<NodeTraffic>,
}

/// What mpiexec reports about a node's ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeReports {
    /// Say what is started.
    pub verbose: bool,
    /// Say what each rank is bound to.
    pub report_bindings: bool,
    /// Report what the ranks sent, after they have ended.
    pub traffic: bool,
    /// Report the late arrivals that they counted.
    pub late: bool,
}

/// How a node's ranks reach those of other nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeNetwork {
    /// Ranks need a process manager (PMI) to exchange addresses.
    pub pmi: bool,
    /// The ranks of all nodes, for the process manager.
    pub placement: NodePlacement,
    /// The interface that ranks shall use: its name, or "" for the one by which the controller is
    /// reached.
    pub interface: Option<String>,
    /// The job's UUID for fabrics that keep jobs apart by one; the same on all nodes.
    pub fabric_uuid: Option<String>,
}

/// Which rank is on which node ([`NodeTable`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodePlacement {
    /// What all nodes reach over loopback; empty if they differ.
    pub network: String,
    /// By node: the host's name, and its ranks as runs of a first one and a number of them.
    pub nodes: Vec<(String, Vec<(u32, u32)>)>,
}

impl NodePlacement {
    /// As ranks read it.
    pub fn table(&self) -> NodeTable {
        NodeTable { machine: self.network.clone(), nodes: self.nodes.clone() }
    }
}

impl NodeJob {
    /// Whether the cores of this node are all that the job's recorded traffic could choose among.
    pub fn is_placed_here_by_traffic(&self) -> bool {
        !self.cores.traffic.is_empty() && self.size as usize == self.members.len()
    }

    /// The whole job on this node.
    pub fn all_here(options: &JobOptions) -> NodeJob {
        let ranks = options.ranks();
        NodeJob::part(options, (0..ranks as u32).collect())
    }

    /// The part of these ranks. Fields that only the controller knows have the values of a job on
    /// one node.
    pub fn part(options: &JobOptions, members: Vec<u32>) -> NodeJob {
        let sections = options.sections.iter().zip(0..);
        let section_of: Vec<u32> = sections
            .flat_map(|(section, number)| std::iter::repeat_n(number, section.ranks))
            .collect();
        NodeJob {
            host: host_name(),
            node: 0,
            name: job_name().to_owned(),
            size: section_of.len() as u32,
            programs: NodePrograms {
                section_of: members.iter().map(|&rank| section_of[rank as usize]).collect(),
                sections: options.sections.clone(),
                environment: environment(options),
                inherited: Vec::new(),
                inherit: options.inherit.clone(),
                directory: None,
                tools: options.tools.clone(),
                hosts: host_list(options),
            },
            streams: NodeStreams {
                output: options.output.clone(),
                input: options.input.clone(),
                one_stream: is_one_file(),
            },
            cores: NodeCores {
                binding: options.binding.clone(),
                widths: Widths::of(options),
                grant: None,
                machine_ranks: members.len() as u32,
                machine_first: 0,
                traffic: profiled::within(&options.traffic, &members),
            },
            reports: NodeReports {
                verbose: options.verbose,
                report_bindings: options.report_bindings,
                traffic: false,
                late: false,
            },
            network: NodeNetwork {
                // Over a network, even on one node, ranks must exchange addresses.
                pmi: options.sets(NET, "loopback"),
                placement: NodePlacement {
                    network: machine(),
                    nodes: vec![(host_name(), NodeTable::runs(&members))],
                },
                interface: None,
                fabric_uuid: None,
            },
            signals: options.signals.clone(),
            grace: options.grace,
            host_timeout: options.hosts.timeout,
            head_timeout: options.hosts.head_timeout.unwrap_or_default(),
            members,
        }
    }

    /// Whether a rank gets standard input.
    pub fn takes_input(&self, rank: u32) -> bool {
        self.streams.input.contains(rank)
    }

    /// The rank that output patterns are filled in for.
    pub fn pattern_rank(&self, rank: u32) -> PatternRank {
        PatternRank { rank, size: self.size, node: self.node, host: self.host.clone() }
    }

    /// Whether the fields are consistent, so that no index into them is out of range.
    pub fn is_sound(&self) -> bool {
        let sections = self.programs.sections.len() as u32;
        self.members.len() == self.programs.section_of.len()
            && !self.members.is_empty()
            && self.members.is_sorted_by(|a, b| a < b)
            && self.members.iter().all(|&rank| rank < self.size)
            && self.programs.section_of.iter().all(|&number| number < sections)
            && self.programs.sections.iter().all(|s| !s.command.is_empty())
            && self.cores.widths.are_for(self.programs.sections.len())
            && self.cores.machine_first as usize + self.members.len()
                <= self.cores.machine_ranks as usize
    }
}

/// The hosts that the command line names, as there.
fn host_list(options: &JobOptions) -> Option<String> {
    let hosts = options.hosts.named.iter().map(|host| match host.slots {
        Some(slots) => format!("{}:{slots}", host.name),
        None => host.name.clone(),
    });
    let hosts: Vec<String> = hosts.collect();
    (!hosts.is_empty()).then(|| hosts.join(","))
}

/// The environment that the command line gives to all ranks, and what its other options add to it.
fn environment(options: &JobOptions) -> Vec<(OsString, OsString)> {
    let mut all = Vec::new();
    if let Some((low, high)) = options.hosts.ports {
        // Variables of libfabric; what the user sets comes after them and wins.
        let names = [("FI_TCP_PORT_LOW_RANGE", low), ("FI_TCP_PORT_HIGH_RANGE", high)];
        let unset = names.into_iter().filter(|(name, _)| std::env::var_os(name).is_none());
        all.extend(unset.map(|(name, port)| (name.into(), port.to_string().into())));
    }
    all.extend(options.environment.iter().cloned());
    all
}

/// The name of this mpiexec's job. Other libraries derive the names of shared objects from it
/// (MPICH that of a file in /dev/shm, which a killed job leaves behind), so host and process id are
/// not enough: containers may share that folder and reuse process ids.
fn job_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let nonce = nonce().map_or(0, |bytes| u128::from_le_bytes(bytes) as u64);
        format!("kvs_{}_{}_{nonce:016x}", host_name(), std::process::id())
    })
}

/// A random UUID in text.
///
/// # Errors
/// When the kernel gives no random bytes.
pub fn new_uuid() -> io::Result<String> {
    let hex = format!("{:032x}", u128::from_be_bytes(nonce()?));
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &hex[part]);
    Ok(parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::job;

    impl NodeJob {
        /// The part of two ranks, one of each of two programs with many options.
        pub fn example() -> NodeJob {
            let line = "-n 2 --bind-to user:0+2,1 --map-by l3 -x A=1 -genvlist P,Q -l -s 1 \
                        -env B 2 a b : -n 3 -wdir / -envnone c";
            NodeJob::part(&job(line), vec![1, 4])
        }
    }

    #[test]
    fn a_part_knows_its_programs() {
        let job = NodeJob::example();
        assert_eq!((job.size, &job.programs.section_of[..]), (5, &[0, 1][..]));
        assert_eq!(job.programs.sections[1].command, ["c"]);
        assert!(job.takes_input(1) && !job.takes_input(4) && job.is_sound());
    }
}
