//! Where ranks run: which host has which ranks, and what each rank has on its node.
//!
//! This file decides whether a job runs on this machine or on hosts ([`place`]). [`node_job`] is a
//! node's part of the job, which the controller sends to its agent; [`plan`] gives each of its
//! ranks a program and processors, [`environment`] its variables. `profiled` exchanges the places
//! of ranks by recorded traffic.

pub mod addresses;
pub mod environment;
pub mod node_job;
pub mod plan;
mod profiled;
pub mod widths;

use std::path::PathBuf;

use mica_node::identity::host_name;
use mica_profile::recorded::{RecordedTraffic, TrafficError};

use crate::hosts::{self, Host, HostError};
use crate::options::{AgentLauncher, JobOptions};

/// Where a job runs.
#[derive(Debug, PartialEq)]
pub enum Placement {
    /// On this node, without agents.
    Here,
    /// With an agent on each of these nodes.
    Nodes(JobNodes),
}

/// The nodes of a job.
#[derive(Debug, PartialEq)]
pub struct JobNodes {
    /// How agents are started.
    pub launcher: AgentLauncher,
    /// The nodes that have ranks, in order.
    pub nodes: Vec<NodeRanks>,
}

/// One node and its ranks.
#[derive(Debug, PartialEq)]
pub struct NodeRanks {
    pub host: String,
    /// Its ranks, in ascending order; at least one.
    pub members: Vec<u32>,
}

/// The job cannot be placed.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// The list of hosts cannot be used.
    #[error(transparent)]
    Hosts(#[from] HostError),
    /// The number of virtual nodes is invalid.
    #[error("MICA_VIRTUAL_NODES={0:?} is not a number of nodes from 1 to 65536")]
    Virtual(String),
    /// The launcher is Slurm's, and there is no allocation.
    #[error(
        "--launcher srun: this is no Slurm allocation (SLURM_JOB_NODELIST is not set) and no \
        hosts are given"
    )]
    NoAllocation,
    /// An option names a rank that the job does not have.
    #[error("{option}: there is no rank {rank}: the job has {size} ranks (0 to {})", size - 1)]
    Rank { option: &'static str, rank: u32, size: usize },
    /// One file for ranks on several nodes.
    #[error(
        "-outfile-pattern or -errfile-pattern names one file for ranks on {0} nodes: put %r \
        (rank) or %h (host) into its name"
    )]
    SharedFile(usize),
    /// The profile cannot be read.
    #[error("--map-by profile: {0}")]
    Profile(#[from] TrafficError),
    /// The profile is of a job of another size.
    #[error(
        "--map-by profile: {} is of a job of {recorded} ranks, and this job has {size}; record one \
        with mica profile at {size} ranks", file.display()
    )]
    ProfileSize { file: PathBuf, recorded: usize, size: usize },
}

/// Decides where the job runs, and how many ranks a program without `-n` has.
pub fn place(
    options: &mut JobOptions,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Placement, PlacementError> {
    let mut placement = place_ranks(options, variable)?;
    let size = options.ranks();
    if let Some(file) = &options.profile {
        let traffic = RecordedTraffic::read(file)?;
        if traffic.ranks != size {
            return Err(PlacementError::ProfileSize {
                file: file.clone(),
                recorded: traffic.ranks,
                size,
            });
        }
        options.traffic = traffic;
        if let Placement::Nodes(nodes) = &mut placement {
            let members = nodes.nodes.iter_mut().map(|node| &mut node.members);
            profiled::assign(&options.traffic, &mut members.collect::<Vec<_>>());
        }
    }
    let tools = options.tools.iter().map(|tool| ("--debug or --tool", &tool.ranks));
    let sets = [("-s", &options.input), ("-output-from", &options.output.only)];
    for (option, set) in sets.into_iter().chain(tools) {
        if let Some(rank) = set.highest().filter(|&rank| rank as usize >= size) {
            return Err(PlacementError::Rank { option, rank, size });
        }
    }
    match &placement {
        Placement::Nodes(nodes)
            if nodes.nodes.len() > 1 && options.output.shared_file().is_some() =>
        {
            Err(PlacementError::SharedFile(nodes.nodes.len()))
        }
        _ => Ok(placement),
    }
}

fn place_ranks(
    options: &mut JobOptions,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Placement, PlacementError> {
    let mut named = options.hosts.named.clone();
    if let (true, Some(path)) = (named.is_empty(), &options.hosts.file) {
        named = hosts::read_file(path)?;
    }
    if named.is_empty() {
        return place_unnamed(options, variable);
    }
    if named.iter().all(|host| is_this_machine(&host.name))
        && options.hosts.launcher != Some(AgentLauncher::Fork)
        && options.hosts.launcher_exec.is_none()
    {
        count_ranks(options, &hosts::merge(named));
        return Ok(Placement::Here);
    }
    let launcher = options.hosts.launcher.unwrap_or(AgentLauncher::Ssh);
    Ok(on_hosts(options, named, launcher))
}

/// Places a job without named hosts: on virtual nodes, a Slurm allocation, or this machine.
fn place_unnamed(
    options: &mut JobOptions,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Placement, PlacementError> {
    let launcher = options.hosts.launcher;
    let count = variable("MICA_VIRTUAL_NODES").filter(|text| !matches!(text.as_str(), "" | "0"));
    if let (Some(text), None | Some(AgentLauncher::Fork)) = (count, launcher) {
        let count = text.parse().ok().filter(|count| (1..=65536).contains(count));
        let count: usize = count.ok_or(PlacementError::Virtual(text))?;
        if let Some(per_host) = options.hosts.per_host {
            count_by(options, count * per_host);
        }
        let (hosts, members) = hosts::virtual_nodes(count, options.ranks(), options.hosts.per_host);
        return Ok(nodes(AgentLauncher::Fork, hosts, members));
    }
    match (launcher, variable("SLURM_JOB_NODELIST")) {
        (None | Some(AgentLauncher::Srun), Some(list)) => {
            let hosts = hosts::of_slurm(&list, variable("SLURM_TASKS_PER_NODE").as_deref())?;
            let alone = hosts.len() == 1 && is_this_machine(&hosts[0].name);
            if alone && launcher.is_none() {
                count_ranks(options, &hosts);
                return Ok(Placement::Here);
            }
            Ok(on_hosts(options, hosts, AgentLauncher::Srun))
        }
        (Some(AgentLauncher::Srun), None) => Err(PlacementError::NoAllocation),
        (Some(AgentLauncher::Fork), _) => {
            let this = Host { name: host_name(), slots: None };
            Ok(on_hosts(options, vec![this], AgentLauncher::Fork))
        }
        (None | Some(AgentLauncher::Ssh), _) => {
            count_by(options, options.hosts.per_host.unwrap_or(1));
            Ok(Placement::Here)
        }
    }
}

/// A job of one program without `-n` has as many ranks as its hosts have slots.
fn count_ranks(options: &mut JobOptions, hosts: &[Host]) {
    count_by(options, hosts::default_ranks(hosts, options.hosts.per_host));
}

fn count_by(options: &mut JobOptions, ranks: usize) {
    if let [only] = &mut options.sections[..]
        && !only.counted
    {
        only.ranks = ranks;
    }
}

fn on_hosts(options: &mut JobOptions, named: Vec<Host>, launcher: AgentLauncher) -> Placement {
    let hosts = hosts::merge(named);
    count_ranks(options, &hosts);
    let members = hosts::assign(&hosts, options.ranks(), options.hosts.per_host);
    nodes(launcher, hosts, members)
}

fn nodes(launcher: AgentLauncher, hosts: Vec<Host>, members: Vec<Vec<u32>>) -> Placement {
    let nodes = hosts.into_iter().zip(members);
    let nodes = nodes
        .filter(|(_, members)| !members.is_empty())
        .map(|(host, members)| NodeRanks { host: host.name, members });
    Placement::Nodes(JobNodes { launcher, nodes: nodes.collect() })
}

/// Whether a host's name means this machine, without asking a name server.
pub fn is_this_machine(name: &str) -> bool {
    let this = host_name();
    let short = this.split('.').next().unwrap_or(&this);
    [this.as_str(), short, "localhost", "127.0.0.1", "::1"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::job;

    /// Host names and ranks, as `a:0-1 b:2`.
    fn placed(line: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let mut options = job(line);
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        };
        match place(&mut options, &variable).map_err(|error| error.to_string())? {
            Placement::Here => Ok(format!("here {}", options.ranks())),
            Placement::Nodes(nodes) => {
                let words = nodes.nodes.iter().map(|node| {
                    let ranks: Vec<String> = node.members.iter().map(u32::to_string).collect();
                    format!(" {}:{}", node.host, ranks.join("+"))
                });
                Ok(format!("{:?}{}", nodes.launcher, words.collect::<String>()))
            }
        }
    }

    #[test]
    fn one_host_that_is_this_machine() {
        for line in ["p", "-hosts localhost p", "--launcher ssh p"] {
            assert_eq!(placed(line, &[]).unwrap(), "here 1", "{line}");
        }
        assert_eq!(placed("--launcher fork -hosts localhost p", &[]).unwrap(), "Fork localhost:0");
        let own = format!("Fork {}:0+1", host_name());
        assert_eq!(placed("--launcher fork -n 2 p", &[]).unwrap(), own);
    }

    /// Without -n: the slots of the hosts, or -ppn of each, as with MPICH and Open MPI.
    #[test]
    fn slots_and_ranks_per_host_say_how_many_ranks_there_are() {
        for (line, wanted) in [
            ("-hosts localhost:4 p", "here 4"),
            ("-H localhost:4,127.0.0.1 p", "here 5"),
            ("-host localhost,localhost p", "here 2"),
            ("-hosts localhost -ppn 2 p", "here 2"),
            ("-hosts localhost:4 -ppn 2 p", "here 2"),
            ("-ppn 2 p", "here 2"),
            ("--npernode 2 p", "here 2"),
            ("-N 3 p", "here 3"),
            ("--pernode p", "here 1"),
            ("-map-by ppr:2:node p", "here 2"),
            ("-n 3 -ppn 2 p", "here 3"),
            ("-n 3 -hosts localhost:4 p", "here 3"),
            ("-hosts localhost:4 p : q", "here 2"),
            ("-hosts a,b -N 2 p", "Ssh a:0+1 b:2+3"),
            ("-hosts a,b -n 4 -map-by node p", "Ssh a:0+2 b:1+3"),
        ] {
            assert_eq!(placed(line, &[]).unwrap(), wanted, "{line}");
        }
        let own = format!("Fork {}:0+1", host_name());
        assert_eq!(placed("--launcher fork -ppn 2 p", &[]).unwrap(), own);
        assert_eq!(placed("p", &[("MICA_VIRTUAL_NODES", "0")]), placed("p", &[]));
        let two = [("MICA_VIRTUAL_NODES", "2")];
        assert_eq!(placed("-ppn 2 p", &two).unwrap(), "Fork node0:0+1 node1:2+3");
        let here = host_name();
        let slurm = [("SLURM_JOB_NODELIST", here.as_str()), ("SLURM_TASKS_PER_NODE", "4")];
        assert_eq!(placed("p", &slurm).unwrap(), "here 4");
        assert_eq!(placed("-n 2 p", &slurm).unwrap(), "here 2");
    }

    #[test]
    fn ranks_that_are_not_there_are_named() {
        let error = |line: &str| placed(line, &[]).unwrap_err();
        assert!(
            error("-n 2 -s 2 p").contains("-s: there is no rank 2: the job has 2 ranks (0 to 1)")
        );
        assert!(error("-n 2 --debug 5 p").contains("no rank 5"));
        assert!(error("-n 2 -output-from 0-2 p").contains("-output-from"));
        assert_eq!(placed("-n 3 -s 2 p", &[]).unwrap(), "here 3");
        assert!(error("-hosts a,b -outfile-pattern out p").contains("%r (rank)"));
        assert_eq!(placed("-hosts a,b -outfile-pattern out.%h p", &[]).unwrap(), "Ssh a:0 b:1");
    }

    #[test]
    fn hosts_of_the_command_line() {
        assert_eq!(placed("-hosts a,b -n 3 p", &[]).unwrap(), "Ssh a:0+1 b:2");
        assert_eq!(placed("-hosts a,b -ppn 2 p", &[]).unwrap(), "Ssh a:0+1 b:2+3");
        assert_eq!(placed("-hosts a:1,b:3 p", &[]).unwrap(), "Ssh a:0 b:1+2+3");
        assert_eq!(placed("-hosts a,b -n 1 p", &[]).unwrap(), "Ssh a:0");
        let two = placed("-hosts a,b p : q", &[]);
        assert_eq!(two.unwrap(), "Ssh a:0 b:1", "programs without -n have one rank each");
        let slurm = [("SLURM_JOB_NODELIST", "n1"), ("MICA_VIRTUAL_NODES", "3")];
        assert_eq!(placed("-hosts a p", &slurm).unwrap(), "Ssh a:0");
    }

    #[test]
    fn virtual_nodes() {
        let two = [("MICA_VIRTUAL_NODES", "2")];
        assert_eq!(placed("-n 4 p", &two).unwrap(), "Fork node0:0+1 node1:2+3");
        let in_turn = "Fork node0:0+2 node1:1+3";
        for line in ["-n 4 -map-by node p", "-n 4 -ppn 1 p", "-n 4 --pernode p"] {
            assert_eq!(placed(line, &two).unwrap(), in_turn, "{line}");
        }
        assert_eq!(placed("-n 3 -ppn 2 p", &two).unwrap(), "Fork node0:0+1 node1:2");
        assert_eq!(placed("-n 2 -ppn 2 p", &two).unwrap(), "Fork node0:0+1");
        let bad = placed("p", &[("MICA_VIRTUAL_NODES", "x")]).unwrap_err();
        assert!(bad.contains("\"x\""), "{bad}");
    }

    #[test]
    fn slurm_allocations() {
        let two = [("SLURM_JOB_NODELIST", "n[1-2]"), ("SLURM_TASKS_PER_NODE", "2,1")];
        assert_eq!(placed("p", &two).unwrap(), "Srun n1:0+1 n2:2");
        assert_eq!(placed("-n 2 p", &two).unwrap(), "Srun n1:0+1");
        assert_eq!(placed("--launcher ssh p", &two).unwrap(), "here 1");
        let here = host_name();
        let one = [("SLURM_JOB_NODELIST", here.as_str())];
        assert_eq!(placed("p", &one).unwrap(), "here 1");
        assert_eq!(placed("--launcher srun p", &one).unwrap(), format!("Srun {here}:0"));
        assert!(placed("--launcher srun p", &[]).unwrap_err().contains("no Slurm allocation"));
    }
}
