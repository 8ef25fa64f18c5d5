//! The memory that this process may use: what the system has, and the limits of its cgroups.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use super::cpus::{cgroup_texts, group_directories};

/// The memory limit of this process's cgroup or of any cgroup above it, in bytes; `None` if there
/// is none.
pub fn memory_limit() -> Option<u64> {
    let (groups, mounts) = cgroup_texts()?;
    let budgets = budgets(&groups, &mounts, &read);
    budgets.into_iter().map(|budget| budget.limit).min()
}

/// Bytes that can still be had before the kernel ends processes to find more: the memory that the
/// system has available with its swap space, or what is left below a cgroup's limit. `None` if the
/// kernel does not say.
pub fn available_memory() -> Option<u64> {
    let of_system = system_available(&read(Path::new(MEMINFO))?)?;
    let Some((groups, mounts)) = cgroup_texts() else {
        return Some(of_system);
    };
    let budgets = budgets(&groups, &mounts, &read);
    let left = budgets.iter().map(Budget::left);
    left.chain([of_system]).min()
}

/// A number of the system's memory by its name in `/proc/meminfo`, in bytes.
pub fn system_memory(name: &str) -> Option<u64> {
    bytes_of(&read(Path::new(MEMINFO))?, name)
}

/// Whether the kernel promises more memory than it has. If it does not (`vm.overcommit_memory=2`),
/// it refuses a page that is touched for the first time as soon as it has promised all.
/// Asked once: a machine that is set otherwise meanwhile has promised what it has promised.
pub fn overcommits() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    let mode = || read(Path::new("/proc/sys/vm/overcommit_memory"));
    *ANSWER.get_or_init(|| mode().is_none_or(|mode| mode.trim() != "2"))
}

const MEMINFO: &str = "/proc/meminfo";

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The number with this name in the text of `/proc/meminfo`, in bytes.
fn bytes_of(meminfo: &str, name: &str) -> Option<u64> {
    let mut lines = meminfo.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Available memory and free swap space, by the text of `/proc/meminfo`.
fn system_available(meminfo: &str) -> Option<u64> {
    let swap = bytes_of(meminfo, "SwapFree").unwrap_or(0);
    Some(bytes_of(meminfo, "MemAvailable")? + swap)
}

/// A cgroup that has a limit; all in bytes.
#[derive(Debug)]
struct Budget {
    limit: u64,
    used: u64,
    /// Part of what is used that the kernel gives back when memory is short: pages of files.
    reclaimable: u64,
}

impl Budget {
    fn left(&self) -> u64 {
        let kept = self.used.saturating_sub(self.reclaimable);
        self.limit.saturating_sub(kept)
    }
}

/// The limits that apply to this process, by the texts that say in which cgroups it is and where
/// these are mounted.
fn budgets(groups: &str, mounts: &str, read: &dyn Fn(&Path) -> Option<String>) -> Vec<Budget> {
    let directories = group_directories("memory", groups, mounts);
    let budgets = directories.iter().filter_map(|(path, version)| {
        let (limit, used, files) = match version {
            2 => ("memory.max", "memory.current", "inactive_file "),
            _ => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
        };
        let number = |file: &str| read(&path.join(file))?.trim().parse::<u64>().ok();
        // Version 1 represents no limit by the largest number of whole pages.
        let limit = number(limit).filter(|&limit| limit < 1 << 60)?;
        let statistics = read(&path.join("memory.stat")).unwrap_or_default();
        let files = statistics.lines().find_map(|line| line.strip_prefix(files));
        Some(Budget {
            limit,
            used: number(used).unwrap_or(0),
            reclaimable: files.and_then(|bytes| bytes.parse().ok()).unwrap_or(0),
        })
    });
    budgets.collect()
}

#[cfg(test)]
mod tests {
    use super::super::cpus::tests::files;
    use super::*;

    const MOUNTS: &str = "30 20 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";

    /// Limit and rest of the group, by these files.
    fn limits(groups: &str, mounts: &str, texts: &[(&str, &str)]) -> Vec<(u64, u64)> {
        let budgets = budgets(groups, mounts, &files(texts));
        budgets.iter().map(|b| (b.limit, b.left())).collect()
    }

    #[test]
    fn limits_of_version_2_are_those_of_all_ancestors() {
        let files = [
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/memory.max", "1073741824\n"),
            ("/sys/fs/cgroup/a/memory.current", "73741824\n"),
            ("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 3741824\nactive_file 5\n"),
        ];
        let found = limits("0::/a/b\n", MOUNTS, &files);
        assert_eq!(found, [(1 << 30, (1 << 30) - 70_000_000)]);
        assert_eq!(limits("0::/c\n", MOUNTS, &files), []);
    }

    #[test]
    fn limits_of_version_1_are_found_in_a_container() {
        let groups = "4:memory:/docker/0a1b\n";
        let mounts = "32 20 0:28 /docker/0a1b /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let found = |limit| {
            let files = [
                ("/sys/fs/cgroup/memory/memory.limit_in_bytes", limit),
                ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "5000000\n"),
                (
                    "/sys/fs/cgroup/memory/memory.stat",
                    "inactive_file 7\ntotal_inactive_file 1000000\n",
                ),
            ];
            limits(groups, mounts, &files)
        };
        assert_eq!(found("4096000\n"), [(4_096_000, 96_000)]);
        assert_eq!(found("3096000\n"), [(3_096_000, 0)], "used beyond it");
        assert_eq!(found("9223372036854771712\n"), []);
    }

    #[test]
    fn the_system_has_what_is_available_and_its_swap_space() {
        let meminfo = "MemTotal: 9000 kB\nMemFree: 1 kB\nMemAvailable:    3000 kB\n";
        assert_eq!(system_available(meminfo), Some(3000 << 10));
        let swap = format!("{meminfo}SwapTotal: 900 kB\nSwapFree:  500 kB\n");
        assert_eq!(system_available(&swap), Some(3500 << 10));
        assert_eq!(system_available("MemTotal: 9000 kB\n"), None);
        assert!(available_memory().is_none_or(|bytes| bytes > 0));
    }
}
