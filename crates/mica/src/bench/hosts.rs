//! Two hosts on one machine: network namespaces joined by a veth pair.
//!
//! A namespace has its own interfaces, addresses and ports, so ranks in two of them reach each
//! other only over TCP/IP through the pair, as ranks on two hosts do; nothing is visible on the
//! machine's own network. The name of a namespace is its address (`10.a.b.c`): launchers accept it
//! as a host name without a resolver, and `ip netns exec` accepts it too. The address contains this
//! process's number, so concurrent benchmarks do not collide, and the next benchmark recognizes and
//! removes pairs that a killed one has left.
//!
//! Each host has its own processors if there is one for each rank, and otherwise its share of them,
//! as a host of a cluster has: the remote shell (a script, since launchers call it like ssh)
//! confines what it starts.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mica_node::topology::CpuSet;

/// The interface of each host that leads to the other one. Providers take the name of the
/// interface, so it is the same on both.
pub const INTERFACE: &str = "mica0";
/// The number of hosts.
pub const HOSTS: usize = 2;
/// Process numbers are below this (the kernel's PID_MAX_LIMIT).
const PROCESSES: u32 = 1 << 22;

/// Two hosts that exist until this is dropped.
#[derive(Debug)]
pub struct Hosts {
    names: [String; HOSTS],
    /// The folder for remote shells.
    scratch: PathBuf,
}

impl Hosts {
    /// Makes the hosts. Needs root and iproute2; the error says what is missing.
    pub fn make(scratch: &Path) -> Result<Hosts, String> {
        let needs = |error: String| {
            format!("two hosts need network namespaces, that is root and iproute2's `ip`: {error}")
        };
        remove_left().map_err(needs)?;
        let [a, b] = names(std::process::id());
        // From here on, dropping `hosts` removes what was made.
        let hosts = Hosts { names: [a.clone(), b.clone()], scratch: scratch.to_owned() };
        for name in &hosts.names {
            ip(&["netns", "add", name]).map_err(needs)?;
        }
        let pair = ["type", "veth", "peer", "name", INTERFACE, "netns", &b];
        ip(&[&["link", "add", INTERFACE, "netns", &a], &pair[..]].concat()).map_err(needs)?;
        for name in &hosts.names {
            let address = format!("{name}/30");
            ip(&["-n", name, "address", "add", &address, "dev", INTERFACE]).map_err(needs)?;
            for interface in ["lo", INTERFACE] {
                ip(&["-n", name, "link", "set", interface, "up"]).map_err(needs)?;
            }
        }
        Ok(hosts)
    }

    /// Names without namespaces, for tests.
    #[cfg(test)]
    pub fn named(names: [&str; HOSTS]) -> Hosts {
        Hosts { names: names.map(str::to_owned), scratch: std::env::temp_dir() }
    }

    /// The names of the hosts, which are their addresses.
    pub fn names(&self) -> &[String; HOSTS] {
        &self.names
    }

    /// The command prefix that runs a command on the first host, confined to these processors.
    pub fn on_first(&self, cpus: &CpuSet) -> Vec<String> {
        let words = ["ip", "netns", "exec", &self.names[0], "taskset", "-c"];
        let mut words: Vec<String> = words.map(str::to_owned).into();
        words.push(cpus.to_string());
        words
    }

    /// A script that takes the same arguments as ssh, and runs the command on the named host.
    pub fn remote_shell(&self, cpus: &[CpuSet; HOSTS]) -> Result<PathBuf, String> {
        let [a, b] = &self.names;
        let text = format!(
            "#!/bin/sh\n\
             # ssh to the hosts of `mica bench`: [OPTIONS] HOST COMMAND...\n\
             while :; do\n    case ${{1-}} in\n        -o|-l|-p|-i|-F) shift 2 ;;\n        \
             -*) shift ;;\n        *) break ;;\n    esac\ndone\n\
             host=${{1-}}\n\
             case $host in\n    {a}) cpus={} ;;\n    {b}) cpus={} ;;\n    \
             *) echo \"mica bench: there is no host '$host'\" >&2; exit 255 ;;\nesac\n\
             shift\n\
             exec ip netns exec \"$host\" taskset -c \"$cpus\" sh -c \"$*\"\n",
            cpus[0], cpus[1]
        );
        let path = self.scratch.join(format!("remote-shell-{}-{}", cpus[0], cpus[1]));
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        if !path.exists() {
            fs::write(&path, text).map_err(failed)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        }
        Ok(path)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            remove(name);
        }
    }
}

/// The processors of each host: its share of `allowed`, at most one for each rank; all of them for
/// both hosts if there is only one.
pub fn processors(allowed: &CpuSet, ranks: &[u32]) -> [CpuSet; HOSTS] {
    let all: Vec<u32> = allowed.iter().collect();
    let share = all.len() / HOSTS;
    std::array::from_fn(|host| match share {
        0 => allowed.clone(),
        share => {
            let most = share.min(ranks.get(host).map_or(1, |&ranks| ranks as usize));
            CpuSet::from_cpus(all.iter().copied().skip(host * share).take(most))
        }
    })
}

/// The two addresses of a process: 10.0.0.0/8 in blocks of four, one block for each process number.
fn names(process: u32) -> [String; HOSTS] {
    let base = 10 << 24 | (process % PROCESSES) << 2;
    [1, 2].map(|host| Ipv4Addr::from_bits(base | host).to_string())
}

/// The number of the process that a namespace of this name belongs to, if it can be one of ours.
fn owner(name: &str) -> Option<u32> {
    let address: Ipv4Addr = name.parse().ok()?;
    let process = (address.to_bits() & 0x00ff_ffff) >> 2;
    names(process).contains(&address.to_string()).then_some(process)
}

/// Removes what processes that no longer exist have left: namespaces with names like ours and no
/// interfaces but ours.
fn remove_left() -> Result<(), String> {
    for line in ip(&["netns", "list"])?.lines() {
        let Some(name) = line.split_whitespace().next() else { continue };
        let gone = |process: u32| !Path::new("/proc").join(process.to_string()).exists();
        if owner(name).is_some_and(gone)
            && ip(&["-n", name, "-brief", "link"]).is_ok_and(|links| only_ours(&links))
        {
            remove(name);
        }
    }
    Ok(())
}

/// Whether the output of `ip -brief link` has no interface but loopback and the end of a pair.
fn only_ours(links: &str) -> bool {
    let mut names = links.lines().filter_map(|line| {
        let name = line.split_whitespace().next()?;
        name.split('@').next()
    });
    names.all(|name| name == "lo" || name == INTERFACE)
}

fn remove(name: &str) {
    // The pair first: a namespace exists as long as a process is in it, and so does its end of the
    // pair.
    let _ = ip(&["-n", name, "link", "delete", INTERFACE]);
    let _ = ip(&["netns", "delete", name]);
}

/// Runs `ip` and returns its output.
fn ip(words: &[&str]) -> Result<String, String> {
    let mut command = Command::new("ip");
    let output = command.args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("`ip {}`: {}", words.join(" "), said.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::ScratchFolder;

    #[test]
    fn addresses_are_of_one_process() {
        assert_eq!(names(1), ["10.0.0.5", "10.0.0.6"]);
        assert_eq!(names(PROCESSES - 1), ["10.255.255.253", "10.255.255.254"]);
        for process in [1, 77, PROCESSES - 1] {
            assert!(names(process).iter().all(|n| owner(n) == Some(process)));
        }
        for other in ["a", "10.0.0.7", "10.0.0.4", "11.0.0.5", "10.0.0.5x"] {
            assert_eq!(owner(other), None, "{other}");
        }
    }

    #[test]
    fn only_what_is_ours_is_removed() {
        assert!(only_ours("lo DOWN\nmica0@if2 UP 1a:2b\n") && only_ours("lo UP\n"));
        assert!(!only_ours("lo UP\neth0 UP\n"));
    }

    #[test]
    fn hosts_have_processors_of_their_own() {
        let all = |n| CpuSet::from_cpus(0..n);
        let of = |n, ranks: &[u32]| processors(&all(n), ranks).map(|cpus| cpus.to_string());
        assert_eq!(of(2, &[1, 1]), ["0", "1"]);
        assert_eq!(of(2, &[2, 2]), ["0", "1"]);
        assert_eq!(of(8, &[2, 1]), ["0-1", "4"]);
        assert_eq!(of(1, &[1, 1]), ["0", "0"]);
    }

    /// As root they reach only each other, and are removed afterwards; otherwise the error says
    /// what is missing.
    #[test]
    fn hosts_are_made_and_removed() {
        let scratch = ScratchFolder::new("hosts").unwrap();
        let there = |name: &String| Path::new("/run/netns").join(name).exists();
        match Hosts::make(scratch.path()) {
            Ok(hosts) => {
                let [a, b] = hosts.names().clone();
                assert!(there(&a) && there(&b));
                let cpus = processors(&CpuSet::from_cpus([0]), &[1, 1]);
                let shell = hosts.remote_shell(&cpus).unwrap();
                let run = |words: &[&str]| Command::new(&shell).args(words).output().unwrap();
                let out = run(&["-x", "-o", "Opt=1", &b, "ip", "-br", "-4", "address"]);
                let out = String::from_utf8(out.stdout).unwrap();
                assert!(
                    out.contains(&format!("{b}/30")) && !out.contains(&format!("{a}/")),
                    "{out}"
                );
                let out = run(&["moon", "true"]);
                assert_eq!(out.status.code(), Some(255));
                assert!(String::from_utf8_lossy(&out.stderr).contains("'moon'"));
                let route = run(&[&a, "ip route get", &b]);
                assert!(String::from_utf8_lossy(&route.stdout).contains(INTERFACE));
                drop(hosts);
                assert!(!there(&a) && !there(&b));
            }
            Err(error) => {
                assert!(error.contains("root and iproute2"), "{error}");
                let mut names = names(std::process::id()).into_iter();
                assert!(!names.any(|name| there(&name)), "something is left");
            }
        }
    }
}
