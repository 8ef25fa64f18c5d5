//! The content of `mica info`, as plain data.

use std::path::PathBuf;

use mica_bootstrap::{COOKIE_VARIABLE, LAUNCH_VARIABLE};
use mica_node::identity::host_name;
use mica_node::segment::PREFIX_VARIABLE;
use mica_node::topology::{Machine, SYNTHETIC_VARIABLE, TopologyError};
use mica_node::tunables::TunableKind;
use mica_node::{topology, tunables};
use serde::Serialize;

use crate::channels::{ChannelInfo, on_one_node};
use crate::explain::prefix;
use crate::network::{FoundNetwork, launchers};

/// The whole report.
#[derive(Serialize)]
pub struct MachineReport {
    pub library: LibraryInfo,
    pub machine: MachineInfo,
    pub available: Available,
    pub channels: Vec<ChannelInfo>,
    pub network: FoundNetwork,
    /// The launchers that can start a program linked to Mica.
    pub launchers: Vec<ChannelInfo>,
    pub tunables: Vec<TunableInfo>,
    /// Errors in the environment's variables.
    pub complaints: Vec<String>,
    /// Variables of the environment with old names, and what to set in their place.
    pub old_names: Vec<String>,
}

/// The library that programs load.
#[derive(Serialize)]
pub struct LibraryInfo {
    pub version: &'static str,
    /// The version of the MPI standard whose ABI it has.
    pub abi: &'static str,
    /// `None` if it is not in the place where this command's installation has it.
    pub path: Option<PathBuf>,
}

/// The machine's topology.
#[derive(Serialize)]
pub struct MachineInfo {
    pub host: String,
    pub processor: Option<String>,
    /// True if `MICA_TOPOLOGY_SYNTHETIC` describes another machine.
    pub synthetic: bool,
    pub packages: usize,
    pub cores: usize,
    pub processing_units: usize,
    pub numa_nodes: Vec<NumaNodeInfo>,
    pub caches: Vec<CacheInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drawing: Option<String>,
}

#[derive(Serialize)]
pub struct NumaNodeInfo {
    pub index: u32,
    pub bytes: u64,
}

#[derive(Serialize)]
pub struct CacheInfo {
    pub name: String,
    pub bytes: u64,
    pub count: usize,
    pub shared_by: usize,
}

/// The part of the machine that a job may use.
#[derive(Serialize)]
pub struct Available {
    /// The number of ranks that can run at once.
    pub cores: usize,
    /// The affinity mask, as ranges of processors.
    pub affinity: Option<String>,
    /// The cgroup's CPU quota, in processors.
    pub cpu_quota: Option<f64>,
}

#[derive(Serialize)]
pub struct TunableInfo {
    pub name: &'static str,
    pub environment: &'static str,
    pub value: String,
    /// `environment` or `default`.
    pub source: &'static str,
    pub default: &'static str,
    pub accepts: String,
    pub description: &'static str,
}

/// Variables of Mica that are not tunables.
const OTHER_VARIABLES: [&str; 18] = [
    SYNTHETIC_VARIABLE,
    "MICA_EXCHANGE",
    COOKIE_VARIABLE,
    LAUNCH_VARIABLE,
    "MICA_PMI_ID",
    PREFIX_VARIABLE,
    "MICA_SEGMENT_FD",
    "MICA_SEGMENT_ID",
    "MICA_SEGMENT_SOCKET",
    "MICA_RANK",
    "MICA_SIZE",
    "MICA_VIRTUAL_NODES",
    "MICA_DEBUGGER",
    "MICA_TERMINAL",
    "MICA_CC",
    "MICA_CXX",
    "MICA_FC",
    "MICA_FORTRAN_CACHE",
];

impl MachineReport {
    /// Collects the report.
    pub fn gather(drawing: bool) -> Result<MachineReport, TopologyError> {
        let machine = Machine::load()?;
        let network = FoundNetwork::query();
        let mut channels = on_one_node();
        channels.insert(channels.len() - 1, network.channel());
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        Ok(MachineReport {
            library: library(),
            machine: machine_info(&machine, drawing.then(|| machine.draw())),
            available: Available {
                cores: topology::available_cores(),
                affinity: topology::affinity().ok().map(|set| set.to_string()),
                cpu_quota: topology::cpu_quota(),
            },
            channels,
            network,
            launchers: launchers(),
            tunables: tunables::all().iter().map(|t| tunable(t)).collect(),
            complaints: complaints(names),
            old_names: old_names(),
        })
    }
}

/// The library beside this command.
pub fn library() -> LibraryInfo {
    let path = prefix().map(|prefix| prefix.join("lib/libmpi_abi.so.1"));
    let path = path.filter(|path| path.is_file());
    LibraryInfo { version: env!("CARGO_PKG_VERSION"), abi: "MPI 5.0", path }
}

fn machine_info(machine: &Machine, drawing: Option<String>) -> MachineInfo {
    let numa_nodes = machine
        .numa_nodes()
        .into_iter()
        .map(|node| NumaNodeInfo { index: node.index, bytes: node.bytes });
    let caches = machine.caches().into_iter().map(|cache| CacheInfo {
        name: cache.name,
        bytes: cache.bytes,
        count: cache.count,
        shared_by: cache.shared_by,
    });
    MachineInfo {
        host: host_name(),
        processor: machine.model(),
        synthetic: machine.is_synthetic(),
        packages: machine.packages(),
        cores: machine.all_cores(),
        processing_units: machine.all_units(),
        numa_nodes: numa_nodes.collect(),
        caches: caches.collect(),
        drawing,
    }
}

fn tunable(tunable: &tunables::Tunable) -> TunableInfo {
    TunableInfo {
        name: tunable.name,
        environment: tunable.env,
        value: tunable.text(),
        source: if tunable.is_set() { "environment" } else { "default" },
        default: tunable.default,
        accepts: match tunable.kind {
            TunableKind::Bytes => "bytes (K, M, G)".to_owned(),
            TunableKind::Threshold => "bytes (K, M, G), auto".to_owned(),
            TunableKind::Count => "number".to_owned(),
            TunableKind::Choice(words) => words.join(", "),
            TunableKind::Path(words) => format!("{}, a file", words.join(", ")),
            TunableKind::List(words) => {
                let own = words.entries.iter();
                let own = own.map(|entry| format!(", {}={}", entry.name, entry.words.join("|")));
                words.all.join("|") + &own.collect::<String>()
            }
        },
        description: tunable.description,
    }
}

/// Values that do not fit, and variables that look like Mica's but are not.
pub fn complaints(names: impl Iterator<Item = String>) -> Vec<String> {
    let all = || OTHER_VARIABLES.into_iter().chain(tunables::all().iter().map(|t| t.env));
    let is_tunable = |name: &str| tunables::all().iter().any(|t| t.variables().any(|v| v == name));
    let mut unknown: Vec<String> = names
        .filter(|name| name.starts_with("MICA_") && !is_tunable(name))
        .filter(|name| !OTHER_VARIABLES.contains(&name.as_str()))
        .map(|name| {
            let near = all().min_by_key(|known| distance(known, &name));
            let near = near.filter(|known| distance(known, &name) <= 2);
            let hint = near.map(|near| format!("; is {near} meant?")).unwrap_or_default();
            format!("{name}: Mica has no variable of this name{hint}")
        })
        .collect();
    unknown.sort();
    let wrong = tunables::all().iter().filter_map(|t| t.check().err());
    wrong.map(|error| error.to_string()).chain(unknown).collect()
}

fn old_names() -> Vec<String> {
    let renamed = tunables::all().iter().flat_map(|tunable| tunable.renamed());
    renamed.map(|(old, new)| format!("{old} still holds; its new name: {new}")).collect()
}

/// The edit distance: how many letters must be inserted, removed or changed to turn one word into
/// the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tunable_is_listed_with_its_source() {
        let info = MachineReport::gather(false).unwrap();
        assert_eq!(info.tunables.len(), tunables::all().len());
        let sources = ["environment", "default"];
        assert!(info.tunables.iter().all(|t| sources.contains(&t.source)));
        assert!(info.machine.cores >= 1 && info.available.cores >= 1);
    }

    #[test]
    fn variables_that_are_not_ours_are_named() {
        let names = ["MICA_EAGERMAX", "MICA_RANK", "MICA_EAGER_MAX", "PATH"];
        let found = complaints(names.iter().map(|name| name.to_string()));
        assert!(
            found.iter().any(|line| line
                == "MICA_EAGERMAX: Mica has no variable of this name; is MICA_EAGER_MAX meant?"),
            "{found:?}"
        );
        assert!(!found.iter().any(|line| line.contains("MICA_RANK")), "{found:?}");
    }
}
