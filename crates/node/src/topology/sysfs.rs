//! The place of a process from the kernel's own files, without hwloc: for ranks that another
//! launcher started.
//!
//! Here, a part of the machine is named by its lowest processor (packages and NUMA nodes by their
//! own numbers), not by hwloc's logical index: places of the two kinds must not be compared. Only a
//! few files are read, however many processors there are: those of the first processor that the
//! process may use, whose lists show whether the others are in the same part.

use std::fs;
use std::path::Path;

use super::{CorePlace, CpuSet, UNKNOWN};

/// The place of a process that may run on these processors; a part is [`UNKNOWN`] if it does not
/// contain all of them.
pub fn place_on(cpus: &CpuSet) -> CorePlace {
    place_below(Path::new("/"), cpus)
}

/// [`place_on`] with the kernel's files below `root`.
pub fn place_below(root: &Path, cpus: &CpuSet) -> CorePlace {
    let Some(first) = cpus.iter().next() else {
        return CorePlace::UNKNOWN;
    };
    let system = root.join("sys/devices/system");
    let cpu = system.join(format!("cpu/cpu{first}"));
    let text = |path: &Path| fs::read_to_string(path).ok();
    let list = |path: &Path| CpuSet::from_list(&text(path)?);
    let within = |part: &CpuSet| part.contains(first) && cpus.iter().all(|cpu| part.contains(cpu));
    let lowest = |part: Option<CpuSet>| {
        let part = part.filter(within);
        part.and_then(|part| part.iter().next()).unwrap_or(UNKNOWN)
    };
    let topology = cpu.join("topology");
    // Try the newer name first; kernels before 5.3 have only the older one.
    let either =
        |new: &str, old: &str| list(&topology.join(new)).or_else(|| list(&topology.join(old)));
    let package = either("package_cpus_list", "core_siblings_list");
    let package = package.filter(within).and_then(|_| {
        let id = text(&topology.join("physical_package_id"))?;
        id.trim().parse().ok()
    });
    let outermost = (0..16)
        .map(|index| cpu.join(format!("cache/index{index}")))
        .map_while(|cache| Some((text(&cache.join("level"))?, cache)))
        .filter(|(_, cache)| {
            text(&cache.join("type")).is_some_and(|kind| kind.trim() != "Instruction")
        })
        .filter_map(|(level, cache)| Some((level.trim().parse::<u32>().ok()?, cache)))
        .max_by_key(|(level, _)| *level);
    let cache = outermost.and_then(|(_, cache)| list(&cache.join("shared_cpu_list")));
    CorePlace {
        core: lowest(either("core_cpus_list", "thread_siblings_list")),
        shared_cache: lowest(cache),
        package: package.unwrap_or(UNKNOWN),
        numa: numa_node(&cpu, &system, within).unwrap_or(UNKNOWN),
        processing_unit: if cpus.len() == 1 { first } else { UNKNOWN },
    }
}

/// The NUMA node of the processor whose folder this is, if it contains all processors.
fn numa_node(cpu: &Path, system: &Path, within: impl Fn(&CpuSet) -> bool) -> Option<u32> {
    let entries = fs::read_dir(cpu).ok()?;
    let mut names = entries.flatten().map(|entry| entry.file_name());
    let number = names.find_map(|name| name.to_str()?.strip_prefix("node")?.parse().ok())?;
    let list = fs::read_to_string(system.join(format!("node/node{number}/cpulist"))).ok()?;
    CpuSet::from_list(&list).filter(within).map(|_| number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Level, level_between};
    use std::path::PathBuf;

    /// A synthetic tree, removed when dropped.
    struct SyntheticTree(PathBuf);

    impl SyntheticTree {
        /// Two packages, each a NUMA node of two cores with two threads; a cache for each package.
        /// Processors are numbered as usual: 0 to 3 are the cores' first threads, 4 to 7 the
        /// second.
        fn two_packages(name: &str) -> SyntheticTree {
            let tree = SyntheticTree(
                std::env::temp_dir().join(format!("mica-{name}-{}", std::process::id())),
            );
            for cpu in 0..8u32 {
                let (core, package) = (cpu % 4, cpu % 4 / 2);
                let of_package = ["0-1,4-5", "2-3,6-7"][package as usize];
                let siblings = format!("{core},{}\n", core + 4);
                let folder = format!("cpu/cpu{cpu}");
                tree.write(&format!("{folder}/topology/thread_siblings_list"), &siblings);
                tree.write(&format!("{folder}/topology/core_siblings_list"), of_package);
                tree.write(
                    &format!("{folder}/topology/physical_package_id"),
                    &format!("{package}\n"),
                );
                for (index, level, kind, list) in [
                    (0, "1", "Data", siblings.as_str()),
                    (1, "1", "Instruction", siblings.as_str()),
                    (2, "2", "Unified", siblings.as_str()),
                    (3, "3", "Unified", of_package),
                ] {
                    let cache = format!("{folder}/cache/index{index}");
                    tree.write(&format!("{cache}/level"), level);
                    tree.write(&format!("{cache}/type"), kind);
                    tree.write(&format!("{cache}/shared_cpu_list"), list);
                }
                tree.write(&format!("{folder}/node{package}/here"), "");
                tree.write(&format!("node/node{package}/cpulist"), of_package);
            }
            tree
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join("sys/devices/system").join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
            fs::write(path, text).expect("writable");
        }

        fn place(&self, cpus: &[u32]) -> CorePlace {
            place_below(&self.0, &CpuSet::from_cpus(cpus.iter().copied()))
        }
    }

    impl Drop for SyntheticTree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_bound_process_knows_all_of_its_place() {
        let tree = SyntheticTree::two_packages("bound");
        let expected =
            CorePlace { core: 3, shared_cache: 2, package: 1, numa: 1, processing_unit: 7 };
        assert_eq!(tree.place(&[7]), expected);
    }

    #[test]
    fn a_process_knows_what_all_its_processors_share() {
        let tree = SyntheticTree::two_packages("shared");
        let core = tree.place(&[1, 5]);
        assert_eq!((core.core, core.processing_unit), (1, UNKNOWN));
        let package = tree.place(&[0, 1, 5]);
        assert_eq!(
            (package.core, package.shared_cache, package.package, package.numa),
            (UNKNOWN, 0, 0, 0)
        );
        assert_eq!(tree.place(&[0, 2]), CorePlace::UNKNOWN);
        assert_eq!(tree.place(&[]), CorePlace::UNKNOWN);
    }

    #[test]
    fn levels_follow() {
        let tree = SyntheticTree::two_packages("levels");
        let level = |a, b| level_between(&tree.place(&[a]), &tree.place(&[b]));
        assert_eq!(level(0, 5), Level::SharedCache);
        assert_eq!(level(0, 2), Level::Node);
    }

    #[test]
    fn undescribed_machine_has_unknown_places() {
        let place = place_below(Path::new("/proc/self/fdinfo"), &CpuSet::from_cpus([0]));
        let only_unit = CorePlace { processing_unit: 0, ..CorePlace::UNKNOWN };
        assert_eq!(place, only_unit);
    }

    #[test]
    fn this_machine_has_places() {
        let cpus = crate::topology::affinity().expect("a mask");
        let one = CpuSet::from_cpus(cpus.iter().take(1));
        let place = place_on(&one);
        assert_eq!(Some(place.processing_unit), one.iter().next());
    }
}
