//! Facts about the machine, which every report of figures needs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use mica_node::topology::{self, Machine, readable_bytes};
use serde::Serialize;

use super::others::OthersLoad;
use crate::origin::date_of_now;

/// Facts about this machine.
#[derive(Debug, Clone, Serialize)]
pub struct HostFacts {
    pub date: String,
    pub host: String,
    pub processor: String,
    pub machine: &'static str,
    /// The number of cores that the job may use.
    pub cores: usize,
    /// The number in the whole machine.
    pub packages: usize,
    pub all_cores: usize,
    pub processing_units: usize,
    pub caches: Vec<String>,
    pub numa_nodes: Vec<String>,
    pub memory: String,
    pub kernel: String,
    pub governor: String,
    pub transparent_huge_pages: String,
    pub virtualised: String,
    pub cpu_quota: Option<f64>,
    pub load_before: String,
    pub load_after: String,
    /// Processors that other programs used between the rounds.
    #[serde(skip_serializing_if = "OthersLoad::is_empty")]
    pub others: OthersLoad,
    pub compiler: String,
    pub commit: String,
    pub mica_environment: BTreeMap<String, String>,
    pub versions: BTreeMap<String, String>,
}

impl HostFacts {
    /// Collects the facts.
    pub fn gather(tree: Option<&Path>) -> HostFacts {
        let machine = Machine::load().ok();
        let of = |count: fn(&Machine) -> usize| machine.as_ref().map_or(0, count);
        let caches = machine.iter().flat_map(Machine::caches);
        let nodes = machine.iter().flat_map(Machine::numa_nodes);
        let ours = |name: &String| name.starts_with("MICA_");
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        HostFacts {
            date: date_of_now(),
            host: mica_node::identity::host_name(),
            processor: cpuinfo("model name").unwrap_or_else(|| "unknown".to_owned()),
            machine: std::env::consts::ARCH,
            cores: topology::available_cores(),
            packages: of(Machine::packages),
            all_cores: of(Machine::all_cores),
            processing_units: of(Machine::all_units),
            caches: caches
                .map(|c| {
                    let size = readable_bytes(c.bytes);
                    format!("{}: {} x {size}, each shared by {}", c.name, c.count, c.shared_by)
                })
                .collect(),
            numa_nodes: nodes
                .map(|node| format!("{}: {}", node.index, readable_bytes(node.bytes)))
                .collect(),
            memory: meminfo(),
            kernel: fact("/proc/sys/kernel/osrelease"),
            governor: fact("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            transparent_huge_pages: fact("/sys/kernel/mm/transparent_hugepage/enabled"),
            virtualised: virtualised(),
            cpu_quota: topology::cpu_quota(),
            load_before: fact("/proc/loadavg"),
            load_after: String::new(),
            others: OthersLoad::default(),
            compiler: said("cc", &["--version"]),
            commit: tree.map_or(format!("mica {} as installed", env!("CARGO_PKG_VERSION")), commit),
            mica_environment: variables.filter(|(name, _)| ours(name)).collect(),
            versions: BTreeMap::new(),
        }
    }

    /// That the machine was loaded, if it was.
    pub fn loaded_text(&self) -> Option<String> {
        let used = self.others.loaded()?;
        Some(format!("Other programs used {used:.1} of {} cores", self.processing_units))
    }

    /// One line for a report.
    pub fn line(&self) -> String {
        let others = match (self.loaded_text(), self.others.mean()) {
            (Some(loaded), _) => {
                format!("; {loaded}, so this is no measurement of an idle machine")
            }
            (None, Some(used)) => format!("; other programs used {used:.2} cores"),
            (None, None) => String::new(),
        };
        let HostFacts { date, processor, virtualised, cores, kernel, commit, .. } = self;
        let [before, after] = [&self.load_before, &self.load_after].map(|load| first_word(load));
        format!(
            "{date}, {processor} ({virtualised}), {cores} cores, Linux {kernel}, commit {commit}; \
             load {before} before, {after} after{others}"
        )
    }

    /// The day of the measurement.
    pub fn day(&self) -> &str {
        self.date.split('T').next().unwrap_or_default()
    }
}

/// The load average as the kernel prints it.
pub fn load() -> String {
    fact("/proc/loadavg")
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or("?")
}

fn fact(path: &str) -> String {
    match fs::read_to_string(path) {
        Ok(text) => text.trim().to_owned(),
        Err(_) => "not known".to_owned(),
    }
}

/// The commit of a source tree.
fn commit(tree: &Path) -> String {
    let describe = ["describe", "--always", "--dirty", "--abbrev=12"];
    said("git", &[&["-C", &tree.display().to_string()], &describe[..]].concat())
}

fn cpuinfo(key: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn meminfo() -> String {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let lines = text.lines().filter(|l| l.starts_with("MemTotal") || l.starts_with("MemAvailable"));
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    words.collect::<Vec<_>>().join(", ")
}

fn virtualised() -> String {
    let flags = cpuinfo("flags").unwrap_or_default();
    if !flags.split_whitespace().any(|flag| flag == "hypervisor") {
        return "no hypervisor seen".to_owned();
    }
    match fs::read_to_string("/sys/class/dmi/id/sys_vendor") {
        Ok(vendor) => format!("virtual machine, {}", vendor.trim()),
        Err(_) => "virtual machine".to_owned(),
    }
}

/// The first line that a command prints.
fn said(command: &str, arguments: &[&str]) -> String {
    let output = Command::new(command).args(arguments).output();
    match output {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            text.lines().next().unwrap_or_default().to_owned()
        }
        _ => "not known".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described() {
        let host = HostFacts::gather(None);
        assert!(host.cores >= 1 && host.processing_units >= 1);
        assert!(!host.kernel.is_empty() && host.line().contains(&host.kernel));
    }
}
