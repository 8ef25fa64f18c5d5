//! Where a job runs: here, or on hosts, and how these are reached.

use std::net::IpAddr;

use mica_node::process::{Interface, host_name};

use crate::hosts::{self, Host, HostError};
use crate::options::{Launcher, Options};

/// Where a job runs.
#[derive(Debug, PartialEq)]
pub enum Placement {
    /// On this node, without agents.
    Here,
    /// With an agent on each of these nodes.
    Nodes(Nodes),
}

/// The nodes of a job.
#[derive(Debug, PartialEq)]
pub struct Nodes {
    /// How agents are started.
    pub launcher: Launcher,
    /// The nodes that have ranks, in order.
    pub nodes: Vec<NodeRanks>,
}

/// One node and its ranks.
#[derive(Debug, PartialEq)]
pub struct NodeRanks {
    /// The host's name.
    pub host: String,
    /// Its ranks, rising; at least one.
    pub members: Vec<u32>,
}

/// It cannot be said where the job runs.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// The hosts are not right.
    #[error(transparent)]
    Hosts(#[from] HostError),
    /// The number of virtual nodes is not right.
    #[error("MICA_VIRTUAL_NODES={0:?} is not a number of nodes from 1 to 65536")]
    Virtual(String),
    /// The launcher is Slurm's, and this is no allocation.
    #[error(
        "--launcher srun: this is no Slurm allocation (SLURM_JOB_NODELIST is not set) and no hosts are given"
    )]
    NoAllocation,
    /// There is no such interface.
    #[error("--interface {0}: no network interface of this name or address is up (there are: {1})")]
    Interface(String, String),
}

/// Decides where the job runs, and how many ranks a program without `-n` has.
pub fn place(
    options: &mut Options,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Placement, PlacementError> {
    let mut named = options.hosts.clone();
    if let (true, Some(path)) = (named.is_empty(), &options.host_file) {
        named = hosts::read_file(path)?;
    }
    if named.is_empty() {
        return place_unnamed(options, variable);
    }
    let all_here = named.iter().all(|host| is_this_machine(&host.name));
    if all_here && options.launcher != Some(Launcher::Fork) && options.launcher_exec.is_none() {
        return Ok(Placement::Here);
    }
    let launcher = options.launcher.unwrap_or(Launcher::Ssh);
    Ok(on_hosts(options, named, launcher))
}

/// Nobody named hosts: virtual nodes, a Slurm allocation, or this machine.
fn place_unnamed(
    options: &mut Options,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Placement, PlacementError> {
    let launcher = options.launcher;
    let count = variable("MICA_VIRTUAL_NODES").filter(|text| !text.is_empty());
    if let (Some(text), None | Some(Launcher::Fork)) = (count, launcher) {
        let count = text
            .parse()
            .ok()
            .filter(|count| (1..=65536).contains(count));
        let count: usize = count.ok_or(PlacementError::Virtual(text))?;
        let (hosts, members) = hosts::virtual_nodes(count, options.ranks());
        return Ok(nodes(Launcher::Fork, hosts, members));
    }
    match (launcher, variable("SLURM_JOB_NODELIST")) {
        (None | Some(Launcher::Srun), Some(list)) => {
            let hosts = hosts::of_slurm(&list, variable("SLURM_TASKS_PER_NODE").as_deref())?;
            let alone = hosts.len() == 1 && is_this_machine(&hosts[0].name);
            if alone && launcher.is_none() {
                return Ok(Placement::Here);
            }
            Ok(on_hosts(options, hosts, Launcher::Srun))
        }
        (Some(Launcher::Srun), None) => Err(PlacementError::NoAllocation),
        (Some(Launcher::Fork), _) => {
            let this = Host {
                name: host_name(),
                slots: None,
            };
            Ok(on_hosts(options, vec![this], Launcher::Fork))
        }
        (None | Some(Launcher::Ssh), _) => Ok(Placement::Here),
    }
}

fn on_hosts(options: &mut Options, named: Vec<Host>, launcher: Launcher) -> Placement {
    let hosts = hosts::merge(named);
    if let [only] = &mut options.sections[..]
        && !only.counted
    {
        only.ranks = hosts::default_ranks(&hosts, options.per_host);
    }
    let members = hosts::assign(&hosts, options.ranks(), options.per_host);
    nodes(launcher, hosts, members)
}

fn nodes(launcher: Launcher, hosts: Vec<Host>, members: Vec<Vec<u32>>) -> Placement {
    let nodes = hosts.into_iter().zip(members);
    let nodes = nodes
        .filter(|(_, members)| !members.is_empty())
        .map(|(host, members)| NodeRanks {
            host: host.name,
            members,
        });
    Placement::Nodes(Nodes {
        launcher,
        nodes: nodes.collect(),
    })
}

/// Whether a host's name means this machine, as far as that can be seen without asking a name server.
pub fn is_this_machine(name: &str) -> bool {
    let this = host_name();
    let short = this.split('.').next().unwrap_or(&this);
    [this.as_str(), short, "localhost", "127.0.0.1", "::1"].contains(&name)
}

/// The addresses of this machine that agents shall connect to.
pub fn head_addresses(
    nodes: &Nodes,
    interface: Option<&str>,
    all: &[Interface],
) -> Result<Vec<IpAddr>, PlacementError> {
    let loopback = IpAddr::from([127, 0, 0, 1]);
    let local = nodes.launcher == Launcher::Fork
        || nodes.nodes.iter().all(|node| is_this_machine(&node.host));
    let wanted: Vec<IpAddr> = match interface {
        Some(wanted) => {
            let fits = |i: &&Interface| i.name == wanted || i.address.to_string() == wanted;
            let found: Vec<IpAddr> = all.iter().filter(fits).map(|i| i.address).collect();
            if found.is_empty() {
                let mut names: Vec<&str> = all.iter().map(|i| i.name.as_str()).collect();
                names.dedup();
                return Err(PlacementError::Interface(
                    wanted.to_owned(),
                    names.join(", "),
                ));
            }
            found
        }
        None if local => vec![loopback],
        None => {
            let outside = all.iter().filter(|i| !i.is_loopback);
            outside.map(|i| i.address).collect()
        }
    };
    Ok(if wanted.is_empty() {
        vec![loopback]
    } else {
        wanted
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Request, parse};
    use std::ffi::OsString;

    /// Host names and ranks, as `a:0-1 b:2`.
    fn placed(line: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let Ok(Request::Run(mut options)) = parse(&words) else {
            panic!("{line}");
        };
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.to_string())
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
        for line in [
            "p",
            "-hosts localhost p",
            "-H localhost:4,127.0.0.1 p",
            "--launcher ssh p",
        ] {
            assert_eq!(placed(line, &[]).unwrap(), "here 1", "{line}");
        }
        let forked = placed("--launcher fork -hosts localhost p", &[]);
        assert_eq!(forked.unwrap(), "Fork localhost:0");
        let own = format!("Fork {}:0+1", host_name());
        assert_eq!(placed("--launcher fork -n 2 p", &[]).unwrap(), own);
    }

    #[test]
    fn hosts_of_the_command_line() {
        assert_eq!(placed("-hosts a,b -n 3 p", &[]).unwrap(), "Ssh a:0+1 b:2");
        assert_eq!(
            placed("-hosts a,b -ppn 2 p", &[]).unwrap(),
            "Ssh a:0+1 b:2+3"
        );
        assert_eq!(placed("-hosts a:1,b:3 p", &[]).unwrap(), "Ssh a:0 b:1+2+3");
        assert_eq!(placed("-hosts a,b -n 1 p", &[]).unwrap(), "Ssh a:0");
        let two = placed("-hosts a,b p : q", &[]);
        assert_eq!(
            two.unwrap(),
            "Ssh a:0 b:1",
            "programs without -n have one rank each"
        );
        let slurm = [("SLURM_JOB_NODELIST", "n1"), ("MICA_VIRTUAL_NODES", "3")];
        assert_eq!(placed("-hosts a p", &slurm).unwrap(), "Ssh a:0");
    }

    #[test]
    fn virtual_nodes() {
        let two = [("MICA_VIRTUAL_NODES", "2")];
        assert_eq!(placed("-n 4 p", &two).unwrap(), "Fork node0:0+1 node1:2+3");
        let bad = placed("p", &[("MICA_VIRTUAL_NODES", "x")]).unwrap_err();
        assert!(bad.contains("\"x\""), "{bad}");
    }

    #[test]
    fn slurm_allocations() {
        let two = [
            ("SLURM_JOB_NODELIST", "n[1-2]"),
            ("SLURM_TASKS_PER_NODE", "2,1"),
        ];
        assert_eq!(placed("p", &two).unwrap(), "Srun n1:0+1 n2:2");
        assert_eq!(placed("-n 2 p", &two).unwrap(), "Srun n1:0+1");
        assert_eq!(placed("--launcher ssh p", &two).unwrap(), "here 1");
        let here = host_name();
        let one = [("SLURM_JOB_NODELIST", here.as_str())];
        assert_eq!(placed("p", &one).unwrap(), "here 1");
        assert_eq!(
            placed("--launcher srun p", &one).unwrap(),
            format!("Srun {here}:0")
        );
        assert!(
            placed("--launcher srun p", &[])
                .unwrap_err()
                .contains("no Slurm allocation")
        );
    }

    #[test]
    fn addresses_for_agents() {
        let interface = |name: &str, address: &str| Interface {
            name: name.to_owned(),
            address: address.parse().unwrap(),
            is_loopback: name == "lo",
        };
        let all = [
            interface("lo", "127.0.0.1"),
            interface("ib0", "10.0.0.1"),
            interface("eth0", "10.1.0.1"),
        ];
        let nodes = |launcher, host: &str| Nodes {
            launcher,
            nodes: vec![NodeRanks {
                host: host.to_owned(),
                members: vec![0],
            }],
        };
        let of = |launcher, host, wanted| {
            let addresses = head_addresses(&nodes(launcher, host), wanted, &all);
            addresses.map(|all| {
                all.iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(" ")
            })
        };
        assert_eq!(of(Launcher::Fork, "a", None).unwrap(), "127.0.0.1");
        assert_eq!(of(Launcher::Ssh, "localhost", None).unwrap(), "127.0.0.1");
        assert_eq!(of(Launcher::Ssh, "a", None).unwrap(), "10.0.0.1 10.1.0.1");
        assert_eq!(of(Launcher::Ssh, "a", Some("ib0")).unwrap(), "10.0.0.1");
        assert_eq!(
            of(Launcher::Srun, "a", Some("10.1.0.1")).unwrap(),
            "10.1.0.1"
        );
        let none = of(Launcher::Ssh, "a", Some("ib1")).unwrap_err().to_string();
        assert!(
            none.contains("ib1") && none.contains("lo, ib0, eth0"),
            "{none}"
        );
    }
}
