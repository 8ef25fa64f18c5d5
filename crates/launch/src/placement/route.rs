//! Which addresses of this machine lead to a host: where the controller needs to listen for its
//! agent, and no one else needs to reach it.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Name servers asked at a time: a job on many hosts must not wait for them one by one.
const ASKED_AT_ONCE: usize = 32;

/// The addresses that the kernel would use to reach each of these hosts; `None` for a host whose
/// name is unknown here (ssh may have its own), or that cannot be reached from here directly.
pub fn sources(hosts: &BTreeSet<&str>) -> Option<Vec<IpAddr>> {
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
        let sources = found.get(host).filter(|sources| !sources.is_empty())?;
        for source in sources {
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

    #[test]
    fn loopback_is_reached_by_loopback() {
        let hosts = BTreeSet::from(["127.0.0.1"]);
        assert_eq!(sources(&hosts), Some(vec![IpAddr::from([127, 0, 0, 1])]));
        let many: Vec<String> = (1..100).map(|i| format!("127.0.0.{i}")).collect();
        let hosts = many.iter().map(String::as_str).collect();
        let found = sources(&hosts).expect("all can be reached");
        assert!(found.iter().all(IpAddr::is_loopback));
    }

    #[test]
    fn an_unknown_host_leaves_the_question_open() {
        let hosts = BTreeSet::from(["127.0.0.1", "not a host name"]);
        assert_eq!(sources(&hosts), None);
    }
}
