//! The machine as hwloc sees it. For the launcher and the `mica` command only.

use std::fmt::Write as _;

use hwlocality::Topology;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::ObjectType;

use super::{CorePlace, CpuSet, UNKNOWN, affinity};
use crate::tunables::set_variable;

/// Environment variable that replaces the machine by one described in hwloc's synthetic language,
/// for example `pack:2 l3:2 core:2 pu:1`. For tests: ranks are placed, but not bound.
pub const SYNTHETIC_VARIABLE: &str = "MICA_TOPOLOGY_SYNTHETIC";

/// The topology is not available.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// hwloc could not detect the topology of the machine.
    #[error("hwloc cannot load the topology of this machine: {0}")]
    Load(String),
    /// hwloc could not read the topology of another machine.
    #[error("hwloc cannot read the topology in {0}")]
    File(String),
    /// The synthetic description is not valid.
    #[error("synthetic topology {description:?} is not valid: {reason}")]
    Synthetic {
        /// The description.
        description: String,
        /// The error from hwloc.
        reason: String,
    },
}

/// One processing unit (hardware thread).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// Its place.
    pub place: CorePlace,
    /// Its number in the operating system.
    pub os_index: u32,
}

/// Caches of one level and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheLevel {
    /// hwloc's name, for example `L2`.
    pub name: String,
    /// Size of one, in bytes.
    pub bytes: u64,
    /// Number of such caches.
    pub count: usize,
    /// Number of processing units that share one.
    pub shared_by: usize,
}

/// One NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumaNode {
    /// hwloc's logical index.
    pub index: u32,
    /// Its memory, in bytes.
    pub bytes: u64,
}

/// The version of hwloc's interface that the loaded library has.
pub fn hwloc_version() -> String {
    let version = hwlocality::hwloc_api_version();
    format!("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff)
}

/// The machine, or the part of it that this job may use.
#[derive(Debug)]
pub struct Machine {
    topology: Topology,
    units: Vec<Unit>,
    synthetic: bool,
    /// Why the processors that this job may use are not known.
    unknown: Option<std::io::Error>,
}

impl Machine {
    /// This machine, restricted to the affinity mask; or the machine that
    /// [`MICA_TOPOLOGY_SYNTHETIC`](SYNTHETIC_VARIABLE) describes.
    pub fn load() -> Result<Machine, TopologyError> {
        if let Some(description) = set_variable(SYNTHETIC_VARIABLE) {
            return Machine::synthetic(&description.to_string_lossy());
        }
        // Called before hwloc, which repeats the call until it succeeds (hwloc 2.12,
        // hwloc_linux_find_kernel_nr_cpus): under a filter that refuses the call, hwloc would spin
        // for ever.
        let allowed = match affinity() {
            Ok(allowed) => allowed,
            Err(refusal) => return Machine::unknown(refusal),
        };
        let load = |error: &dyn std::fmt::Display| TopologyError::Load(error.to_string());
        let topology = Topology::new().map_err(|e| load(&e))?;
        let units = units(&topology, Some(&allowed));
        Ok(Machine { topology, units, synthetic: false, unknown: None })
    }

    /// A machine without processing units that ranks could be bound to.
    fn unknown(refusal: std::io::Error) -> Result<Machine, TopologyError> {
        let machine = Machine::synthetic("pu:1")?;
        Ok(Machine { units: Vec::new(), synthetic: false, unknown: Some(refusal), ..machine })
    }

    /// Why the processors that this job may use are not known: the kernel's refusal
    /// (`sched_getaffinity`). Then there are no [units](Machine::units), and nothing can be bound.
    pub fn refusal(&self) -> Option<&std::io::Error> {
        self.unknown.as_ref()
    }

    /// A machine described in hwloc's synthetic language.
    pub fn synthetic(description: &str) -> Result<Machine, TopologyError> {
        let wrong = |error: &dyn std::fmt::Display| TopologyError::Synthetic {
            description: description.to_owned(),
            reason: error.to_string(),
        };
        let builder = Topology::builder().from_synthetic(description).map_err(|e| wrong(&e))?;
        Ok(Machine::described(builder.build().map_err(|e| wrong(&e))?))
    }

    /// A machine described in a file that `lstopo FILE.xml` wrote.
    pub fn from_xml(file: &std::path::Path) -> Result<Machine, TopologyError> {
        let wrong = |error: &dyn std::fmt::Display| {
            TopologyError::File(format!("{}: {error}", file.display()))
        };
        let builder = Topology::builder().from_xml_file(file);
        let topology = builder.map_err(|e| wrong(&e))?.build().map_err(|e| wrong(&e))?;
        Ok(Machine::described(topology))
    }

    /// A machine that is not this one.
    fn described(topology: Topology) -> Machine {
        Machine { units: units(&topology, None), topology, synthetic: true, unknown: None }
    }

    /// Whether this is a synthetic machine instead of the real one.
    pub fn is_synthetic(&self) -> bool {
        self.synthetic
    }

    /// The processing units that this job may use, in the machine's order.
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// Number of cores that this job may use.
    pub fn cores(&self) -> usize {
        let same_core = |a: &Unit, b: &Unit| a.place.core == b.place.core;
        self.units.chunk_by(same_core).count()
    }

    /// Number of cores of the whole machine.
    pub fn all_cores(&self) -> usize {
        self.topology.objects_with_type(ObjectType::Core).count()
    }

    /// Number of processing units of the whole machine.
    pub fn all_units(&self) -> usize {
        self.topology.objects_with_type(ObjectType::PU).count()
    }

    /// Number of packages (sockets) of the whole machine.
    pub fn packages(&self) -> usize {
        self.topology.objects_with_type(ObjectType::Package).count()
    }

    /// The processor's model name, where available.
    pub fn model(&self) -> Option<String> {
        let mut packages = self.topology.objects_with_type(ObjectType::Package);
        let package = packages.next()?;
        Some(package.info("CPUModel")?.to_string_lossy().into_owned())
    }

    /// The NUMA nodes.
    pub fn numa_nodes(&self) -> Vec<NumaNode> {
        let nodes = self.topology.objects_with_type(ObjectType::NUMANode);
        nodes
            .map(|node| NumaNode { index: node.logical_index() as u32, bytes: node.total_memory() })
            .collect()
    }

    /// The data caches, innermost first; identical ones are counted together.
    pub fn caches(&self) -> Vec<CacheLevel> {
        const LEVELS: [ObjectType; 5] = [
            ObjectType::L1Cache,
            ObjectType::L2Cache,
            ObjectType::L3Cache,
            ObjectType::L4Cache,
            ObjectType::L5Cache,
        ];
        let mut caches: Vec<CacheLevel> = Vec::new();
        for level in LEVELS {
            for object in self.topology.objects_with_type(level) {
                let name = short_name(level);
                let bytes = cache_bytes(object);
                let shared_by = object.cpuset().and_then(|set| set.weight()).unwrap_or(0);
                let alike = |c: &&mut CacheLevel| {
                    c.name == name && c.bytes == bytes && c.shared_by == shared_by
                };
                match caches.iter_mut().find(alike) {
                    Some(cache) => cache.count += 1,
                    None => caches.push(CacheLevel { name, bytes, count: 1, shared_by }),
                }
            }
        }
        caches
    }

    /// The machine drawn as an indented tree, one object a line.
    pub fn draw(&self) -> String {
        let mut text = String::new();
        draw(self.topology.root_object(), 0, &mut text);
        text
    }
}

/// The processing units of `allowed` (of all, if `None`) with their places.
fn units(topology: &Topology, allowed: Option<&CpuSet>) -> Vec<Unit> {
    let index = |object: Option<&TopologyObject>| {
        object.map_or(UNKNOWN, |object| object.logical_index() as u32)
    };
    let units = topology.objects_with_type(ObjectType::PU).map(|unit| {
        let os_index = unit.os_index().map_or(UNKNOWN, |i| i as u32);
        let outermost_cache =
            unit.ancestors().filter(|ancestor| ancestor.object_type().is_cpu_data_cache()).last();
        let numa = topology.objects_with_type(ObjectType::NUMANode).find(|node| {
            match (node.cpuset(), unit.cpuset()) {
                (Some(node), Some(unit)) => node.includes(unit),
                _ => false,
            }
        });
        Unit {
            place: CorePlace {
                core: index(unit.first_ancestor_with_type(ObjectType::Core).or(Some(unit))),
                shared_cache: index(outermost_cache),
                package: index(unit.first_ancestor_with_type(ObjectType::Package)),
                numa: index(numa),
                processing_unit: index(Some(unit)),
            },
            os_index,
        }
    });
    units.filter(|unit| allowed.is_none_or(|allowed| allowed.contains(unit.os_index))).collect()
}

fn cache_bytes(object: &TopologyObject) -> u64 {
    match object.attributes() {
        Some(ObjectAttributes::Cache(cache)) => cache.size().map_or(0, |size| size.get()),
        _ => 0,
    }
}

fn short_name(kind: ObjectType) -> String {
    kind.to_string().replace("Cache", "")
}

fn draw(object: &TopologyObject, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    let _ = write!(text, "{indent}{}", short_name(object.object_type()));
    if object.object_type() != ObjectType::Machine {
        let _ = write!(text, " {}", object.logical_index());
    }
    if let Some(os_index) = object.os_index().filter(|_| object.object_type() == ObjectType::PU) {
        let _ = write!(text, " (processor {os_index})");
    }
    let bytes = match object.object_type() {
        ObjectType::NUMANode | ObjectType::Machine => object.total_memory(),
        _ => cache_bytes(object),
    };
    if bytes > 0 {
        let _ = write!(text, " ({})", readable_bytes(bytes));
    }
    text.push('\n');
    for child in object.memory_children().chain(object.normal_children()) {
        draw(child, depth + 1, text);
    }
}

/// `32 KiB`, `1.5 GiB`.
pub fn readable_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() < 0.05 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_described_machine() {
        let machine = Machine::synthetic("pack:8 l3:1 core:6 pu:2").unwrap();
        assert_eq!(machine.packages(), 8);
        assert_eq!((machine.cores(), machine.all_cores()), (48, 48));
        assert_eq!((machine.units().len(), machine.all_units()), (96, 96));
        let l3: Vec<CacheLevel> = machine.caches();
        assert_eq!((l3[0].name.as_str(), l3[0].count, l3[0].shared_by), ("L3", 8, 12));
        assert!(machine.is_synthetic());
    }

    #[test]
    fn places_of_a_described_machine() {
        let machine = Machine::synthetic("pack:2 l3:2 core:2 pu:1").unwrap();
        let last = machine.units().last().unwrap();
        assert_eq!(last.place.package, 1);
        assert_eq!(last.place.shared_cache, 3);
        assert_eq!(last.place.core, 7);
    }

    #[test]
    fn a_machine_without_caches_says_unknown() {
        let machine = Machine::synthetic("pack:1 core:2 pu:1").unwrap();
        assert!(machine.units().iter().all(|u| u.place.shared_cache == UNKNOWN));
    }

    #[test]
    fn a_wrong_description_is_named() {
        let error = Machine::synthetic("pack:two").unwrap_err().to_string();
        assert!(error.contains("pack:two"), "{error}");
    }

    #[test]
    fn this_machine_has_the_units_of_the_mask() {
        let topology = Topology::new().unwrap();
        let allowed = affinity().unwrap();
        let units = units(&topology, Some(&allowed));
        assert_eq!(units.len(), allowed.len());
        assert!(units.iter().all(|unit| allowed.contains(unit.os_index)));
    }

    #[test]
    fn drawing_has_a_line_per_object() {
        let machine = Machine::synthetic("pack:2 core:2 pu:1").unwrap();
        let drawing = machine.draw();
        assert_eq!(drawing.lines().filter(|l| l.contains("PU")).count(), 4);
        assert_eq!(drawing.lines().filter(|l| l.contains("Package")).count(), 2);
    }

    #[test]
    fn sizes_for_people() {
        assert_eq!(readable_bytes(32 << 10), "32 KiB");
        assert_eq!(readable_bytes(3 << 29), "1.5 GiB");
        assert_eq!(readable_bytes(5), "5 B");
    }
}
