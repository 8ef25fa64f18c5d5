//! The content of `mica info`, as plain data.

use std::path::PathBuf;

use mica_node::procmap::ProcMap;
use mica_node::segment::PREFIX_VARIABLE;
use mica_node::topology::{Machine, SYNTHETIC_VARIABLE, TopologyError, readable_bytes};
use mica_node::tunables::{SegmentShape, TunableKind};
use mica_node::{park, process, topology, tunables};
use mica_policy::PollPolicy;
use serde::Serialize;

use crate::network::{Network, launchers};

/// The whole report.
#[derive(Serialize)]
pub struct MachineReport {
    pub library: LibraryInfo,
    pub machine: MachineInfo,
    pub available: Available,
    pub channels: Vec<ChannelInfo>,
    pub network: Network,
    /// The launchers that can start a program linked to Mica.
    pub launchers: Vec<ChannelInfo>,
    pub tunables: Vec<TunableInfo>,
    /// Errors in the environment's variables.
    pub complaints: Vec<String>,
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

/// A channel to a peer, or a part of one.
#[derive(Serialize)]
pub struct ChannelInfo {
    pub name: &'static str,
    pub purpose: &'static str,
    /// The design in force, if the channel has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub design: Option<String>,
    pub usable: bool,
    /// Why it is not usable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How to make it usable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
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
const OTHER_VARIABLES: [&str; 14] = [
    SYNTHETIC_VARIABLE,
    "MICA_EXCHANGE",
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
];

impl MachineReport {
    /// Collects the report.
    pub fn gather(drawing: bool) -> Result<MachineReport, TopologyError> {
        let machine = Machine::load()?;
        let network = Network::look();
        let mut channels = channels();
        channels.insert(channels.len() - 1, network.channel());
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        Ok(MachineReport {
            library: library(),
            machine: machine_info(&machine, drawing),
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
        })
    }
}

/// The library beside this command.
pub fn library() -> LibraryInfo {
    let path = std::env::current_exe().ok().and_then(|exe| {
        let path = exe.parent()?.parent()?.join("lib/libmpi_abi.so.1");
        path.is_file().then_some(path)
    });
    LibraryInfo {
        version: env!("CARGO_PKG_VERSION"),
        abi: "MPI 5.0",
        path,
    }
}

fn machine_info(machine: &Machine, drawing: bool) -> MachineInfo {
    let numa_nodes = machine.numa_nodes().into_iter().map(|node| NumaNodeInfo {
        index: node.index,
        bytes: node.bytes,
    });
    let caches = machine.caches().into_iter().map(|cache| CacheInfo {
        name: cache.name,
        bytes: cache.bytes,
        count: cache.count,
        shared_by: cache.shared_by,
    });
    MachineInfo {
        host: process::host_name(),
        processor: machine.model(),
        synthetic: machine.is_synthetic(),
        packages: machine.packages(),
        cores: machine.all_cores(),
        processing_units: machine.all_units(),
        numa_nodes: numa_nodes.collect(),
        caches: caches.collect(),
        drawing: drawing.then(|| machine.draw()),
    }
}

fn channels() -> Vec<ChannelInfo> {
    vec![shared_memory(), direct(), mapped(), xpmem(), parking()]
}

fn shared_memory() -> ChannelInfo {
    let refusal = process::memfd().err();
    ChannelInfo {
        name: "shm",
        purpose: "messages through shared memory",
        design: Some(shared_memory_design(tunables::segment_shape())),
        usable: refusal.is_none(),
        remedy: refusal
            .as_ref()
            .map(|_| "allow memfd_create (a seccomp filter or an old kernel refuses it)".into()),
        reason: refusal.map(|error| format!("memfd_create: {error}")),
    }
}

fn shared_memory_design(shape: SegmentShape) -> String {
    match shape {
        SegmentShape {
            fifo_bytes: Some(bytes),
            mixed: true,
            ..
        } => format!(
            "mixed: a FIFO of {} for each pair of ranks of the same parity, rings and cells for the others ({}=mixed); {}",
            readable_bytes(u64::from(bytes)),
            tunables::SHM.env,
            polling()
        ),
        SegmentShape {
            fifo_bytes: Some(bytes),
            ..
        } => format!(
            "basic: a FIFO of {} for each pair of ranks, allocated at MPI_Init ({}=basic)",
            readable_bytes(u64::from(bytes)),
            tunables::SHM.env
        ),
        SegmentShape {
            cells, cell_bytes, ..
        } => format!(
            "advanced: a ring for each pair that talks, {cells} cells of {} for each rank",
            readable_bytes(u64::from(cell_bytes))
        ),
    }
}

/// The policy for polling the second channel, the FIFOs; without one it has no effect.
fn polling() -> String {
    match PollPolicy::from_environment() {
        Ok(PollPolicy::Static { ratio }) => format!(
            "a look at the FIFOs for every {} at the rings ({}=static)",
            ratio.max(1),
            tunables::POLL.env
        ),
        Ok(PollPolicy::Dynamic { history }) => format!(
            "looks at the FIFOs by the last {} messages ({}=dynamic)",
            history.max(1),
            tunables::POLL.env
        ),
        Err(error) => error.to_string(),
    }
}

fn direct() -> ChannelInfo {
    let channel = |usable, reason, remedy| ChannelInfo {
        name: "direct",
        purpose: "long messages copied once, from process to process (CMA)",
        design: None,
        usable,
        reason,
        remedy,
    };
    if tunables::DIRECT.text() == "off" {
        let reason = format!("switched off by {}=off", tunables::DIRECT.env);
        let remedy = format!("unset {}", tunables::DIRECT.env);
        return channel(false, Some(reason), Some(remedy));
    }
    match process::cma_between_ranks() {
        Ok(()) => channel(true, None, None),
        Err(refusal) => channel(false, Some(refusal.reason), Some(refusal.remedy)),
    }
}

/// Migrated buffers: the conditions that this process itself can check (docs/design/mapped.md).
fn mapped() -> ChannelInfo {
    let channel = |refusal: Option<(String, String)>| {
        let (reason, remedy) = refusal.unzip();
        ChannelInfo {
            name: "mapped",
            purpose: "long messages from and to buffers in reuse, by load and store",
            design: None,
            usable: reason.is_none(),
            reason,
            remedy,
        }
    };
    let choice = tunables::DIRECT.text();
    if !matches!(choice.as_str(), "auto" | "mapped") {
        let reason = format!("switched off by {}={choice}", tunables::DIRECT.env);
        return channel(Some((reason, format!("unset {}", tunables::DIRECT.env))));
    }
    if tunables::MAPPED.text() == "off" {
        let reason = format!("switched off by {}=off", tunables::MAPPED.env);
        return channel(Some((reason, format!("unset {}", tunables::MAPPED.env))));
    }
    channel(ProcMap::open().err().map(|error| {
        let reason = format!("PROCMAP_QUERY on /proc/self/maps: {error}");
        (reason, "Linux 6.11 or newer, with /proc mounted".to_owned())
    }))
}

fn xpmem() -> ChannelInfo {
    let there = std::path::Path::new("/dev/xpmem").exists();
    ChannelInfo {
        name: "xpmem",
        purpose: "long messages by load and store in any memory of a peer",
        design: None,
        usable: there,
        reason: (!there).then(|| "there is no /dev/xpmem".into()),
        remedy: (!there).then(|| {
            "load the XPMEM kernel module, if the machine has it; nothing is lost without".into()
        }),
    }
}

fn parking() -> ChannelInfo {
    let usable = park::membarrier_available();
    ChannelInfo {
        name: "membarrier",
        purpose: "lets a waiting rank park at no cost to its senders",
        design: None,
        usable,
        reason: (!usable)
            .then(|| "the kernel offers no global expedited membarrier to this process".into()),
        remedy: (!usable).then(|| {
            "allow the membarrier system call; until then every send pays for a memory fence".into()
        }),
    }
}

fn tunable(tunable: &tunables::Tunable) -> TunableInfo {
    TunableInfo {
        name: tunable.name,
        environment: tunable.env,
        value: tunable.text(),
        source: if tunable.is_set() {
            "environment"
        } else {
            "default"
        },
        default: tunable.default,
        accepts: match tunable.kind {
            TunableKind::Bytes => "bytes (K, M, G)".to_owned(),
            TunableKind::Threshold => "bytes (K, M, G), auto".to_owned(),
            TunableKind::Count => "number".to_owned(),
            TunableKind::Choice(words) => words.join(", "),
            TunableKind::Path(words) => format!("{}, a file", words.join(", ")),
        },
        description: tunable.description,
    }
}

/// Values that do not fit, and variables that look like Mica's but are not.
pub fn complaints(names: impl Iterator<Item = String>) -> Vec<String> {
    let all = || {
        OTHER_VARIABLES
            .into_iter()
            .chain(tunables::all().iter().map(|t| t.env))
    };
    let mut unknown: Vec<String> = names
        .filter(|name| name.starts_with("MICA_") && !all().any(|known| known == name))
        .map(|name| {
            let near = all().min_by_key(|known| distance(known, &name));
            let near = near.filter(|known| distance(known, &name) <= 2);
            let hint = near
                .map(|near| format!("; is {near} meant?"))
                .unwrap_or_default();
            format!("{name}: Mica has no variable of this name{hint}")
        })
        .collect();
    unknown.sort();
    let wrong = tunables::all().iter().filter_map(|t| t.check().err());
    wrong
        .map(|error| error.to_string())
        .chain(unknown)
        .collect()
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
    fn the_design_says_who_has_what_and_when_it_is_looked_at() {
        let advanced = SegmentShape {
            cells: 128,
            cell_bytes: 8192,
            fifo_bytes: None,
            mixed: false,
            area_bytes: 0,
            areas_bytes: 0,
        };
        let basic = SegmentShape {
            fifo_bytes: Some(1 << 20),
            ..advanced
        };
        let mixed = SegmentShape {
            mixed: true,
            ..basic
        };
        assert!(shared_memory_design(advanced).starts_with("advanced: a ring"));
        assert!(shared_memory_design(basic).starts_with("basic: a FIFO"));
        let text = shared_memory_design(mixed);
        assert!(
            text.starts_with("mixed: ") && text.ends_with(&polling()),
            "{text}"
        );
    }

    #[test]
    fn a_refused_channel_says_why_and_what_to_change() {
        for channel in channels() {
            assert_eq!(channel.usable, channel.reason.is_none(), "{}", channel.name);
            assert_eq!(channel.usable, channel.remedy.is_none(), "{}", channel.name);
        }
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
        assert!(
            !found.iter().any(|line| line.contains("MICA_RANK")),
            "{found:?}"
        );
    }
}
