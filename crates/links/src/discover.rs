//! Which counters of links and memory the machine has, and what the kernel says about NUMA.
//!
//! The kernel lists the counting units of the processors as event sources in sysfs
//! (`/sys/bus/event_source/devices`, see perf_event_open(2)): `uncore_upi_N` is a UPI link of each
//! Intel processor, `amd_df` the data fabric of AMD's, with the xGMI links among its events, and
//! `uncore_imc_N` and `amd_umc_N` are memory controllers. A unit's `cpumask` has one processor of
//! each package: an event is opened there, once for each package. Such units count for the whole
//! machine, so the kernel lets users open them only if `perf_event_paranoid` is 0 or less.
//!
//! `/sys/devices/system/node` has the memory domains, their distances and `numastat`, and
//! `/proc/self/numa_maps` where a process's pages are: these need no root. All functions take the
//! root of the tree, so that trees of other machines are read like this one's ([`LinkUnits::find`],
//! [`Domains::find`]). Nothing is invented: what is absent is reported as absent.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// The counting units of a machine that say something about its links.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkUnits {
    /// The units, by name.
    pub units: Vec<CounterUnit>,
    /// `perf_event_paranoid`; `None` if the kernel has no performance events.
    pub paranoid: Option<i32>,
    /// The first processor of `/proc/cpuinfo`, where it says family and model (x86).
    pub processor: Option<ProcessorModel>,
}

/// A processor's generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessorModel {
    /// `cpu family`.
    pub family: u32,
    /// `model`.
    pub model: u32,
}

/// One event source of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterUnit {
    /// Its name: `uncore_upi_0`.
    pub name: String,
    /// What it counts.
    pub kind: UnitKind,
    /// The `type` for perf_event_open.
    pub event_type: u32,
    /// A processor of each package, on which events are opened.
    pub cpus: Vec<u32>,
    /// The package of each of `cpus`; their places in the list if the kernel does not say.
    pub packages: Vec<u32>,
    /// For dies (places in `cpus`) whose link of this unit the kernel locates (`dieN`, of UPI
    /// units): the die at its other end.
    pub peers: BTreeMap<u32, u32>,
    /// The events that the kernel names: name and description, as `event=0x2,umask=0xf`.
    pub events: BTreeMap<String, String>,
    /// The fields of an event's configuration: name and bits, as `config:0-7`.
    pub format: BTreeMap<String, String>,
}

/// What a unit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnitKind {
    /// A UPI or QPI link of Intel's processors.
    IntelLink,
    /// The data fabric of AMD's processors, and with it the xGMI links.
    AmdFabric,
    /// A memory controller.
    Memory,
    /// Anything else; [`LinkUnits::find`] does not list it.
    Other,
}

/// Whether link counters can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkCounters {
    /// There are some, and the kernel lets any user read them.
    Usable,
    /// There are some, for root or CAP_PERFMON: `perf_event_paranoid` is this.
    NeedPrivilege(i32),
    /// The machine, or the virtual machine, has none.
    Absent,
}

/// The memory domains of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Domains {
    /// By number.
    pub domains: Vec<Domain>,
}

/// A memory domain (NUMA node).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// Its number.
    pub number: u32,
    /// Its processors.
    pub cpus: Vec<u32>,
    /// The distance to each domain, in the order of the list; 10 to itself.
    pub distances: Vec<u32>,
    /// Its `numastat`: pages by reason, since the start of the machine.
    pub numastat: BTreeMap<String, u64>,
}

/// A file of the kernel cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// It cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// Its text has another form.
    #[error("{path} is {text:?}; expected {expected}")]
    Form {
        /// The file.
        path: String,
        /// Its text.
        text: String,
        /// What would fit.
        expected: &'static str,
    },
}

impl LinkUnits {
    /// The counters of the machine whose file system is at `root` (`/` for this one).
    ///
    /// # Errors
    /// If a file of an event source cannot be understood.
    pub fn find(root: &Path) -> Result<LinkUnits, DiscoverError> {
        let devices = root.join("sys/bus/event_source/devices");
        let mut units = Vec::new();
        for name in names_in(&devices) {
            if let Some(kind) = UnitKind::of(&name) {
                units.push(CounterUnit::read(root, &devices.join(&name), name, kind)?);
            }
        }
        let paranoid = root.join("proc/sys/kernel/perf_event_paranoid");
        let paranoid = if paranoid.exists() { Some(parsed(&paranoid, "a number")?) } else { None };
        let information = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
        Ok(LinkUnits { units, paranoid, processor: parse_processor(&information) })
    }

    /// Whether link counters can be used without privileges.
    pub fn links(&self) -> LinkCounters {
        let counts_links =
            |unit: &CounterUnit| matches!(unit.kind, UnitKind::IntelLink | UnitKind::AmdFabric);
        match (self.units.iter().any(counts_links), self.paranoid) {
            (false, _) | (true, None) => LinkCounters::Absent,
            (true, Some(level)) if level <= 0 => LinkCounters::Usable,
            (true, Some(level)) => LinkCounters::NeedPrivilege(level),
        }
    }
}

impl UnitKind {
    /// What the event source of this name counts; `None` if it does not matter here.
    fn of(name: &str) -> Option<UnitKind> {
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        // `_m3upi` units count the mesh's side of the same links.
        if starts(&["uncore_upi", "uncore_qpi"]) {
            Some(UnitKind::IntelLink)
        } else if name == "amd_df" {
            Some(UnitKind::AmdFabric)
        } else if starts(&["uncore_imc", "amd_umc"]) {
            Some(UnitKind::Memory)
        } else {
            None
        }
    }
}

impl CounterUnit {
    /// The event source of this name of the machine whose file system is at `root`, whatever it
    /// counts. Without a `cpumask`, as for software events, it has no processors.
    ///
    /// # Errors
    /// If there is none, or a file of it cannot be understood.
    pub fn named(root: &Path, name: &str) -> Result<CounterUnit, DiscoverError> {
        let path = root.join("sys/bus/event_source/devices").join(name);
        let kind = UnitKind::of(name).unwrap_or(UnitKind::Other);
        CounterUnit::read(root, &path, name.to_owned(), kind)
    }

    fn read(
        root: &Path,
        path: &Path,
        name: String,
        kind: UnitKind,
    ) -> Result<CounterUnit, DiscoverError> {
        let table = |folder: &str| -> Result<BTreeMap<String, String>, DiscoverError> {
            let folder = path.join(folder);
            let is_event = |file: &String| !file.ends_with(".scale") && !file.ends_with(".unit");
            let files = names_in(&folder).into_iter().filter(is_event);
            files.map(|file| Ok((file.clone(), text(&folder.join(file))?))).collect()
        };
        let mask = path.join("cpumask");
        let cpus = match mask.exists() || kind != UnitKind::Other {
            true => cpu_list(&mask)?,
            false => Vec::new(),
        };
        let package = |(place, cpu): (usize, &u32)| {
            let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
            let file = root.join(topology).join("physical_package_id");
            if file.exists() { parsed(&file, "a number") } else { Ok(place as u32) }
        };
        Ok(CounterUnit {
            name,
            kind,
            event_type: parsed(&path.join("type"), "a number")?,
            packages: cpus.iter().enumerate().map(package).collect::<Result<_, _>>()?,
            cpus,
            peers: peers(path)?,
            events: table("events")?,
            format: table("format")?,
        })
    }
}

/// The ends of a UPI unit's links: file `dieN` holds `upi_Z,die_W`.
fn peers(unit: &Path) -> Result<BTreeMap<u32, u32>, DiscoverError> {
    let mut peers = BTreeMap::new();
    for name in names_in(unit) {
        let Some(Ok(die)) = name.strip_prefix("die").map(str::parse::<u32>) else { continue };
        let file = unit.join(&name);
        let text = text(&file)?;
        // Units of I/O (`uncore_iio_N`) have addresses of buses in such files.
        let end = text.split_once(",die_").map(|(_, end)| end.parse::<u32>());
        match end {
            Some(Ok(end)) => peers.insert(die, end),
            _ => return Err(form(&file, &text, "upi_Z,die_W")),
        };
    }
    Ok(peers)
}

/// Family and model in the text of `/proc/cpuinfo`.
fn parse_processor(text: &str) -> Option<ProcessorModel> {
    let value = |wanted: &str| {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        let mut found = fields.filter(|(name, _)| name.trim() == wanted);
        found.next()?.1.trim().parse::<u32>().ok()
    };
    Some(ProcessorModel { family: value("cpu family")?, model: value("model")? })
}

impl Domains {
    /// The memory domains of the machine whose file system is at `root`. A kernel without NUMA has
    /// none to show: then the list is empty, and the machine has one domain.
    ///
    /// # Errors
    /// If a file cannot be understood.
    pub fn find(root: &Path) -> Result<Domains, DiscoverError> {
        let folder = root.join("sys/devices/system/node");
        let number = |name: String| name.strip_prefix("node")?.parse::<u32>().ok();
        let mut numbers: Vec<u32> = names_in(&folder).into_iter().filter_map(number).collect();
        numbers.sort_unstable();
        let domain = |number: u32| -> Result<Domain, DiscoverError> {
            let path = folder.join(format!("node{number}"));
            let distance = path.join("distance");
            let distances = text(&distance)?;
            let each = distances.split_whitespace().map(str::parse::<u32>);
            let each: Result<Vec<_>, _> = each.collect();
            let distances = each.map_err(|_| form(&distance, &distances, "distances"))?;
            let numastat = path.join("numastat");
            let pages = text(&numastat)?;
            Ok(Domain {
                number,
                cpus: cpu_list(&path.join("cpulist"))?,
                distances,
                numastat: parse_numastat(&pages)
                    .ok_or_else(|| form(&numastat, &pages, "names and numbers of pages"))?,
            })
        };
        Ok(Domains { domains: numbers.into_iter().map(domain).collect::<Result<_, _>>()? })
    }

    /// One sentence for a report.
    pub fn summary(&self) -> String {
        match self.domains.len() {
            0 | 1 => "This machine has one memory domain: no link between chips carries data, and \
                nothing here can be explained by such links."
                .to_owned(),
            count => format!("This machine has {count} memory domains."),
        }
    }
}

/// The pages of a domain by reason, from its `numastat`: lines of a name and a number.
pub fn parse_numastat(text: &str) -> Option<BTreeMap<String, u64>> {
    let entry = |line: &str| {
        let (name, pages) = line.split_once(' ')?;
        Some((name.to_owned(), pages.trim().parse().ok()?))
    };
    text.lines().map(entry).collect()
}

/// Bytes of a process in each domain, from the text of `/proc/PID/numa_maps`. Each line is a
/// mapping with words such as `N1=20` (20 pages in domain 1) and `kernelpagesize_kB=4` (their
/// size). `None` if a word of this form has no number.
pub fn parse_numa_maps(text: &str) -> Option<BTreeMap<u32, u64>> {
    let mut bytes = BTreeMap::new();
    for line in text.lines() {
        let words = || line.split(' ').filter_map(|word| word.split_once('='));
        let size = words().find(|(name, _)| *name == "kernelpagesize_kB");
        let size = match size {
            Some((_, size)) => size.parse::<u64>().ok()?.checked_mul(1024)?,
            // Kernels before 2.6.38 do not say it.
            None => 4096,
        };
        for (name, pages) in words() {
            let domain = name.strip_prefix('N').map(str::parse::<u32>);
            if let Some(Ok(domain)) = domain {
                let more = pages.parse::<u64>().ok()?.checked_mul(size)?;
                let sum: &mut u64 = bytes.entry(domain).or_default();
                *sum = sum.checked_add(more)?;
            }
        }
    }
    Some(bytes)
}

/// The names in a folder, in order; none if there is no such folder.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

fn text(path: &Path) -> Result<String, DiscoverError> {
    let read = fs::read_to_string(path)
        .map_err(|error| DiscoverError::Read { path: path.display().to_string(), error })?;
    Ok(read.trim().to_owned())
}

fn form(path: &Path, text: &str, expected: &'static str) -> DiscoverError {
    DiscoverError::Form { path: path.display().to_string(), text: text.to_owned(), expected }
}

fn parsed<T: std::str::FromStr>(path: &Path, expected: &'static str) -> Result<T, DiscoverError> {
    let text = text(path)?;
    text.parse().map_err(|_| form(path, &text, expected))
}

/// A list of processors: `0-3,8`. Empty if the file is.
fn cpu_list(path: &Path) -> Result<Vec<u32>, DiscoverError> {
    let text = text(path)?;
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(first), Ok(last)) if first <= last && last - first < 1 << 16 => {
                cpus.extend(first..=last);
            }
            _ => return Err(form(path, &text, "a list of processors")),
        }
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sysfs").join(name)
    }

    #[test]
    fn finds_upi_links_of_a_two_socket_intel_machine() {
        let found = LinkUnits::find(&tree("intel-2")).expect("a tree");
        let of = |kind| found.units.iter().filter(move |unit| unit.kind == kind);
        assert_eq!(of(UnitKind::IntelLink).count(), 3);
        assert_eq!(of(UnitKind::Memory).count(), 1);
        let upi = of(UnitKind::IntelLink).next().expect("three");
        assert_eq!((upi.name.as_str(), upi.event_type), ("uncore_upi_0", 31));
        assert_eq!((&upi.cpus[..], &upi.packages[..]), (&[0, 32][..], &[0, 1][..]));
        assert_eq!(upi.peers, BTreeMap::from([(0, 1), (1, 0)]));
        assert_eq!(upi.format["umask"], "config:8-15");
        assert_eq!(found.links(), LinkCounters::NeedPrivilege(2));
        let domains = Domains::find(&tree("intel-2")).expect("a tree").domains;
        assert_eq!(domains.len(), 2);
        assert_eq!(domains[1].distances, [20, 10]);
        assert_eq!(domains[1].cpus.len(), 64);
        assert_eq!(domains[0].numastat["other_node"], 120_034);
    }

    #[test]
    fn finds_the_fabric_of_a_two_socket_amd_machine() {
        let found = LinkUnits::find(&tree("amd-2")).expect("a tree");
        let kinds: Vec<UnitKind> = found.units.iter().map(|unit| unit.kind).collect();
        assert_eq!(kinds, [UnitKind::AmdFabric, UnitKind::Memory]);
        assert_eq!(found.units[0].cpus, [0, 64]);
        assert_eq!(found.units[0].format["event"], "config:0-7,32-37");
        let processor = found.processor.expect("cpuinfo");
        assert_eq!((processor.family, processor.model), (0x19, 0x11));
        assert_eq!(found.links(), LinkCounters::Usable);
        let domains = Domains::find(&tree("amd-2")).expect("a tree");
        assert_eq!(domains.domains[0].distances, [10, 32]);
        assert!(domains.summary().contains("2 memory domains"));
    }

    #[test]
    fn machine_without_such_files_has_one_domain_and_no_counters() {
        let nowhere = tree("nowhere");
        let found = LinkUnits::find(&nowhere).expect("nothing to fail at");
        assert_eq!((found.links(), found.units.len()), (LinkCounters::Absent, 0));
        let domains = Domains::find(&nowhere).expect("nothing to fail at");
        assert!(domains.summary().contains("one memory domain"));
    }

    #[test]
    fn reads_this_machine() {
        LinkUnits::find(Path::new("/")).expect("this kernel's files");
        Domains::find(Path::new("/")).expect("this kernel's files");
        if let Ok(maps) = fs::read_to_string("/proc/self/numa_maps") {
            assert!(parse_numa_maps(&maps).is_some());
        }
    }

    #[test]
    fn numa_maps_are_summed_by_domain() {
        let maps = "00400000 default file=/bin/N1=x mapped=3 N0=3 kernelpagesize_kB=4\n\
            7f0000000000 default anon=2 dirty=2 N0=1 N1=1 kernelpagesize_kB=2048\n\
            7f1000000000 default\n";
        let sums = parse_numa_maps(maps).expect("three mappings");
        assert_eq!(sums[&0], 3 * 4096 + (2 << 20));
        assert_eq!(sums[&1], 2 << 20);
        assert_eq!(parse_numa_maps("0 default N0=many kernelpagesize_kB=4"), None);
    }

    #[test]
    fn numastat_needs_numbers() {
        let read = parse_numastat("numa_hit 5\nnuma_miss 0\n").expect("two lines");
        assert_eq!((read["numa_hit"], read["numa_miss"]), (5, 0));
        assert_eq!(parse_numastat("numa_hit\n"), None);
    }
}
