//! The settings of the system that the behaviour of a job depends on, for the report of a bug.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use mica_node::topology;
use serde::Serialize;

use crate::compiled::output_of;

/// Files of which each has one setting.
const SETTINGS: [&str; 10] = [
    "/proc/loadavg",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/version",
    "/proc/sys/kernel/yama/ptrace_scope",
    "/proc/sys/vm/max_map_count",
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
];

/// Lines of `/proc/self/status`: what filters, capabilities and cpusets leave to a process.
const STATUS: [&str; 5] =
    ["CapEff", "Cpus_allowed_list", "Mems_allowed_list", "NoNewPrivs", "Seccomp"];

/// Files that container runtimes leave for who asks where it is.
const CONTAINERS: [(&str, &str); 4] = [
    ("/.dockerenv", "Docker"),
    ("/.singularity.d", "Apptainer"),
    ("/run/.containerenv", "Podman"),
    ("/var/run/secrets/kubernetes.io", "Kubernetes"),
];

/// Settings of the system.
#[derive(Debug, Serialize)]
pub struct SystemSettings {
    /// The distribution.
    distribution: Option<String>,
    libc: String,
    machine: &'static str,
    /// What the processor says of itself.
    processor: Option<String>,
    /// What runs the container that this is, if that shows.
    containers: Vec<&'static str>,
    /// The cgroup's limit of processors' time, in processors.
    cpu_quota: Option<f64>,
    /// The cgroup's limit of memory, in bytes.
    memory_limit: Option<u64>,
    /// The machine's memory, and what is free of it, in bytes.
    memory: Option<u64>,
    memory_available: Option<u64>,
    /// The limits of this process: name, soft limit, hard limit, unit.
    limits: Vec<String>,
    /// Lines of the process's status.
    status: BTreeMap<String, String>,
    /// Settings of the kernel by the files that have them, as far as these are there.
    kernel: BTreeMap<&'static str, String>,
}

impl SystemSettings {
    /// Of this machine and process.
    pub fn gather() -> SystemSettings {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let settings = SETTINGS
            .iter()
            .filter_map(|path| Some((*path, fs::read_to_string(path).ok()?.trim().to_owned())));
        let containers = CONTAINERS.iter().filter(|(path, _)| Path::new(path).exists());
        let mut libc = Command::new("getconf");
        libc.arg("GNU_LIBC_VERSION");
        SystemSettings {
            distribution: member(&read("/etc/os-release"), "PRETTY_NAME", '='),
            libc: output_of(libc).map_or_else(|error| error, |text| text.trim().to_owned()),
            machine: std::env::consts::ARCH,
            processor: member(&read("/proc/cpuinfo"), "model name", ':'),
            containers: containers.map(|(_, name)| *name).collect(),
            cpu_quota: topology::cpu_quota(),
            memory_limit: topology::memory_limit(),
            memory: topology::system_memory("MemTotal"),
            memory_available: topology::system_memory("MemAvailable"),
            limits: limits(&read("/proc/self/limits")),
            status: STATUS
                .iter()
                .filter_map(|name| {
                    Some(((*name).to_owned(), member(&read("/proc/self/status"), name, ':')?))
                })
                .collect(),
            kernel: settings.collect(),
        }
    }
}

/// The value of the first line `NAME SEPARATOR VALUE`.
fn member(text: &str, name: &str, separator: char) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(separator));
    let (_, value) = pairs.find(|(found, _)| found.trim() == name)?;
    Some(value.trim().trim_matches('"').to_owned())
}

/// The lines below the head, each with its columns apart by one space.
fn limits(text: &str) -> Vec<String> {
    let words = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    words.map(|words| words.join(" ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_machine() {
        let system = SystemSettings::gather();
        assert!(system.limits.iter().any(|line| line.starts_with("Max open files ")));
        assert!(system.status.contains_key("Seccomp"), "{:?}", system.status);
        assert!(system.kernel.contains_key("/proc/sys/kernel/osrelease"));
        assert!(!system.libc.is_empty());
    }

    #[test]
    fn members_stand_at_the_beginning_of_a_line() {
        let text = "OTHER_NAME=no\nNAME=\"yes, it is\"\nNAME=later\n";
        assert_eq!(member(text, "NAME", '=').as_deref(), Some("yes, it is"));
        assert_eq!(member("model name\t: AMD 7\n", "model name", ':').as_deref(), Some("AMD 7"));
        assert_eq!(member("", "NAME", '='), None);
    }
}
