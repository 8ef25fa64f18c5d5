//! The addresses of this machine that agents connect to: those that lead to their hosts, which no
//! one else needs to reach.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use mica_node::process::Interface;

use crate::error::LaunchError;
use crate::options::AgentLauncher;
use crate::placement::{JobNodes, is_this_machine};

/// The addresses of this machine that agents shall connect to: of the interface given, or else
/// those that lead to the hosts.
///
/// # Errors
/// When there is no such interface.
pub fn controller_addresses(
    nodes: &JobNodes,
    interface: Option<&str>,
    all: &[Interface],
) -> Result<Vec<IpAddr>, LaunchError> {
    addresses_towards(nodes, interface, all, &sources)
}

/// [`controller_addresses`], where `sources` gives the addresses that lead to some hosts.
fn addresses_towards(
    nodes: &JobNodes,
    interface: Option<&str>,
    all: &[Interface],
    sources: &dyn Fn(&BTreeSet<&str>) -> Option<Vec<IpAddr>>,
) -> Result<Vec<IpAddr>, LaunchError> {
    let loopback = IpAddr::from([127, 0, 0, 1]);
    let local = nodes.launcher == AgentLauncher::Fork
        || nodes.nodes.iter().all(|node| is_this_machine(&node.host));
    let wanted: Vec<IpAddr> = match interface {
        Some(wanted) => {
            let fits = |i: &&Interface| i.name == wanted || i.address.to_string() == wanted;
            let found: Vec<IpAddr> = all.iter().filter(fits).map(|i| i.address).collect();
            if found.is_empty() {
                let mut names: Vec<&str> = all.iter().map(|i| i.name.as_str()).collect();
                names.dedup();
                return Err(LaunchError::Interface(wanted.to_owned(), names.join(", ")));
            }
            found
        }
        None if local => vec![loopback],
        None => {
            let outside = all.iter().filter(|i| !i.is_loopback);
            let outside: Vec<IpAddr> = outside.map(|i| i.address).collect();
            let hosts = nodes.nodes.iter().map(|node| node.host.as_str());
            let hosts = hosts.filter(|host| !is_this_machine(host)).collect();
            // An address that leads to a host over loopback, or that is none of this machine's, is
            // not where that host's agent comes from.
            let leading = sources(&hosts)
                .filter(|leading| leading.iter().all(|address| outside.contains(address)));
            leading.unwrap_or(outside)
        }
    };
    Ok(if wanted.is_empty() { vec![loopback] } else { wanted })
}

/// Name servers asked at a time: a job on many hosts must not wait for them one by one.
const ASKED_AT_ONCE: usize = 32;

/// The addresses that the kernel would use to reach each of these hosts; `None` for a host whose
/// name is unknown here (ssh may have its own), or that cannot be reached from here directly.
fn sources(hosts: &BTreeSet<&str>) -> Option<Vec<IpAddr>> {
    let hosts: Vec<&str> = hosts.iter().copied().collect();
    let next = AtomicUsize::new(0);
    let found = Mutex::new(HashMap::new());
    std::thread::scope(|scope| {
        for _ in 0..hosts.len().min(ASKED_AT_ONCE) {
            scope.spawn(|| {
                while let Some(host) = hosts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let sources = sources_of(host);
                    let mut found = found.lock().expect("no thread panics");
                    found.insert(*host, sources);
                }
            });
        }
    });
    let found = found.into_inner().expect("no thread panics");
    let mut all = Vec::new();
    for host in hosts {
        for source in found.get(host).filter(|sources| !sources.is_empty())? {
            if !all.contains(source) {
                all.push(*source);
            }
        }
    }
    Some(all)
}

/// The addresses by which this machine reaches a host's addresses.
fn sources_of(host: &str) -> Vec<IpAddr> {
    // A socket for datagrams has a route as soon as it has a peer; nothing is sent. The port does
    // not matter.
    let addresses = (host, 9).to_socket_addrs().into_iter().flatten();
    let source = |to: std::net::SocketAddr| {
        let any: IpAddr = match to.is_ipv4() {
            true => std::net::Ipv4Addr::UNSPECIFIED.into(),
            false => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    addresses.filter_map(source).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::NodeRanks;

    #[test]
    fn loopback_is_reached_by_loopback() {
        let hosts = BTreeSet::from(["127.0.0.1"]);
        assert_eq!(sources(&hosts), Some(vec![IpAddr::from([127, 0, 0, 1])]));
        let many: Vec<String> = (1..100).map(|i| format!("127.0.0.{i}")).collect();
        let hosts = many.iter().map(String::as_str).collect();
        assert!(sources(&hosts).expect("all can be reached").iter().all(IpAddr::is_loopback));
    }

    #[test]
    fn an_unknown_host_leaves_the_question_open() {
        let hosts = BTreeSet::from(["127.0.0.1", "not a host name"]);
        assert_eq!(sources(&hosts), None);
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
        let nodes = |launcher, host: &str| JobNodes {
            launcher,
            nodes: vec![NodeRanks { host: host.to_owned(), members: vec![0] }],
        };
        // As the kernel's routes would say.
        let sources = |hosts: &BTreeSet<&str>| {
            let source = |host: &&str| match *host {
                "far" => Some(IpAddr::from([10, 1, 0, 1])),
                "strange" => Some(IpAddr::from([127, 0, 0, 1])),
                _ => None,
            };
            hosts.iter().map(source).collect()
        };
        let of = |launcher, host, wanted| {
            let addresses = addresses_towards(&nodes(launcher, host), wanted, &all, &sources);
            addresses.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(of(AgentLauncher::Fork, "a", None).unwrap(), "127.0.0.1");
        assert_eq!(of(AgentLauncher::Ssh, "localhost", None).unwrap(), "127.0.0.1");
        assert_eq!(of(AgentLauncher::Ssh, "a", None).unwrap(), "10.0.0.1 10.1.0.1");
        for launcher in [AgentLauncher::Ssh, AgentLauncher::Srun] {
            assert_eq!(of(launcher, "far", None).unwrap(), "10.1.0.1");
            assert_eq!(of(launcher, "strange", None).unwrap(), "10.0.0.1 10.1.0.1");
        }
        assert_eq!(of(AgentLauncher::Ssh, "a", Some("ib0")).unwrap(), "10.0.0.1");
        assert_eq!(of(AgentLauncher::Srun, "a", Some("10.1.0.1")).unwrap(), "10.1.0.1");
        let none = of(AgentLauncher::Ssh, "a", Some("ib1")).unwrap_err().to_string();
        assert!(none.contains("ib1") && none.contains("lo, ib0, eth0"), "{none}");
    }
}
