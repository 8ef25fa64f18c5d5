//! The processors this job may use: the affinity mask and the cgroup's CPU quota.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A set of processors by the numbers that the operating system gives them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuSet {
    words: Vec<u64>,
}

impl CpuSet {
    /// The set that contains these processors.
    pub fn from_cpus(cpus: impl IntoIterator<Item = u32>) -> CpuSet {
        let mut set = CpuSet::default();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }

    /// The set that a list in the kernel's format names (`0-3,8`). `None` if it is not such a list,
    /// or names a processor number that no kernel has.
    pub fn from_list(list: &str) -> Option<CpuSet> {
        let mut set = CpuSet::default();
        for run in list.trim().split(',').filter(|run| !run.is_empty()) {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= 1 << 20 {
                return None;
            }
            (first..=last).for_each(|cpu| set.insert(cpu));
        }
        Some(set)
    }

    /// Adds a processor.
    pub fn insert(&mut self, cpu: u32) {
        let word = cpu as usize / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % 64);
    }

    /// Whether the processor is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.words.get(cpu as usize / 64).is_some_and(|word| word & (1 << (cpu % 64)) != 0)
    }

    /// Number of processors in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&w| w == 0)
    }

    /// The processors that are not in `other`.
    pub fn without(&self, other: &CpuSet) -> CpuSet {
        CpuSet::from_cpus(self.iter().filter(|&cpu| !other.contains(cpu)))
    }

    /// The processors in rising order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.words.len() as u32 * 64).filter(|&cpu| self.contains(cpu))
    }

    /// The mask in the kernel's format: an array of 64-bit words.
    #[cfg(feature = "launcher")]
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }
}

impl std::fmt::Display for CpuSet {
    /// Ranges as in the kernel's own lists: `0-3,8`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cpus: Vec<u32> = self.iter().collect();
        for (i, run) in cpus.chunk_by(|a, b| a + 1 == *b).enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match run {
                [one] => write!(f, "{comma}{one}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

/// The affinity mask of the calling thread.
pub fn affinity() -> io::Result<CpuSet> {
    affinity_of(0)
}

/// The affinity mask of the main thread of process `pid`; if `pid` is 0, of the calling thread.
pub fn affinity_of(pid: u32) -> io::Result<CpuSet> {
    // The kernel refuses (EINVAL) a buffer smaller than its own mask: grow until it fits.
    let mut words = vec![0u64; 16];
    loop {
        let bytes = size_of_val(words.as_slice());
        // SAFETY: `words` is valid for writes of `bytes` bytes; the system call writes at most
        // that many. The raw call is used because it returns how many bytes it wrote.
        let written =
            unsafe { libc::syscall(libc::SYS_sched_getaffinity, pid, bytes, words.as_mut_ptr()) };
        if written >= 0 {
            words.truncate((written as usize).div_ceil(8));
            return Ok(CpuSet { words });
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) || words.len() >= 1 << 14 {
            return Err(error);
        }
        words.resize(words.len() * 2, 0);
    }
}

/// Binds the calling thread to `cpus`; the kernel ignores those outside the process's cpuset.
///
/// # Errors
/// When none of them may be used.
pub fn bind_thread(cpus: &CpuSet) -> io::Result<()> {
    let words = cpus.words.as_slice();
    // SAFETY: the system call reads `size_of_val(words)` bytes of `words`.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(words), words.as_ptr())
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// How many ranks can make progress at the same time: the number of processing units in the
/// affinity mask, or fewer if the cgroup's CPU quota is lower. At least one.
pub fn available_cores() -> usize {
    let units = affinity().map_or_else(|_| online(), |set| set.len());
    let quota = cpu_quota().map_or(usize::MAX, |quota| quota.ceil() as usize);
    units.min(quota).max(1)
}

/// Number of online processors of the machine, used where the kernel does not report which of them
/// this process may use.
fn online() -> usize {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    CpuSet::from_list(&list).map_or(1, |set| set.len())
}

/// Whether the kernel lets this process bind threads. The call may be refused (a seccomp filter),
/// or fail for the mask in force.
///
/// # Errors
/// The kernel's error.
pub fn can_bind() -> io::Result<()> {
    bind_thread(&affinity()?)
}

/// What the kernel says of this process's cgroups, and of where they are mounted.
pub(super) fn cgroup_texts() -> Option<(String, String)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    Some((groups, mounts))
}

/// The CPU quota of this process's cgroup or of any cgroup above it, in processors; `None` if there
/// is none.
pub fn cpu_quota() -> Option<f64> {
    let (groups, mounts) = cgroup_texts()?;
    quota_from(&groups, &mounts, &|path| fs::read_to_string(path).ok())
}

/// The directory of this process's cgroup of version 2; `None` if that is not mounted.
#[cfg(feature = "launcher")]
pub(crate) fn unified_cgroup() -> Option<PathBuf> {
    let (groups, mounts) = cgroup_texts()?;
    unified_cgroup_from(&groups, &mounts)
}

/// [`unified_cgroup`] from the texts that it depends on.
#[cfg(any(test, feature = "launcher"))]
fn unified_cgroup_from(groups: &str, mounts: &str) -> Option<PathBuf> {
    let mut found = controller_groups("", groups, mounts).into_iter();
    let (mount, group, _) = found.find(|(.., version)| *version == 2)?;
    // It lies outside of what this process sees of the cgroups.
    if group.components().any(|part| part.as_os_str() == "..") {
        return None;
    }
    Some(mount.join(group.strip_prefix("/").unwrap_or(&group)))
}

/// [`cpu_quota`] from the texts that it depends on.
fn quota_from(groups: &str, mounts: &str, read: &dyn Fn(&Path) -> Option<String>) -> Option<f64> {
    let directories = group_directories("cpu", groups, mounts);
    let quotas = directories.iter().filter_map(|(path, version)| match version {
        2 => quota_v2(path, read),
        _ => quota_v1(path, read),
    });
    quotas.reduce(f64::min)
}

/// The directories whose limits of a controller apply to this process: that of its group and those
/// of all ancestors, since the limit of any ancestor applies as well. Each with its cgroup version.
pub(super) fn group_directories(
    controller: &str,
    groups: &str,
    mounts: &str,
) -> Vec<(PathBuf, u8)> {
    let mut all = Vec::new();
    for (mount, group, version) in controller_groups(controller, groups, mounts) {
        let above = group.ancestors();
        all.extend(above.map(|directory| {
            let below = directory.strip_prefix("/").unwrap_or(directory);
            (mount.join(below), version)
        }));
    }
    all
}

/// A controller's directories: (mount point, group below it, cgroup version).
fn controller_groups(controller: &str, groups: &str, mounts: &str) -> Vec<(PathBuf, PathBuf, u8)> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let version = if controllers.is_empty() { 2 } else { 1 };
        if version == 1 && !controllers.split(',').any(|c| c == controller) {
            continue;
        }
        // mountinfo: id parent device root mount-point options... - type source super-options
        for mount in mounts.lines() {
            let Some((left, right)) = mount.split_once(" - ") else {
                continue;
            };
            let left: Vec<&str> = left.split(' ').collect();
            let right: Vec<&str> = right.split(' ').collect();
            let (Some(root), Some(point)) = (left.get(3), left.get(4)) else {
                continue;
            };
            let wanted = match version {
                2 => right.first() == Some(&"cgroup2"),
                _ => {
                    right.first() == Some(&"cgroup")
                        && right
                            .get(2)
                            .is_some_and(|options| options.split(',').any(|o| o == controller))
                }
            };
            if wanted {
                // Inside a container the mount's root is often the group itself.
                let below = group.strip_prefix(root).unwrap_or(group);
                let below = Path::new("/").join(below.trim_start_matches('/'));
                found.push((PathBuf::from(point), below, version));
            }
        }
    }
    found
}

/// `cpu.max` holds "quota period" or "max period".
fn quota_v2(directory: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Option<f64> {
    let text = read(&directory.join("cpu.max"))?;
    let (quota, period) = text.trim().split_once(' ')?;
    ratio(quota, period)
}

/// `cpu.cfs_quota_us` is -1 without a limit.
fn quota_v1(directory: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Option<f64> {
    let quota = read(&directory.join("cpu.cfs_quota_us"))?;
    let period = read(&directory.join("cpu.cfs_period_us"))?;
    ratio(quota.trim(), period.trim())
}

fn ratio(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn the_cgroup_of_version_2_is_found_beside_version_1() {
        let groups = "5:memory:/other\n0::/user.slice/job\n";
        let mounts = "30 20 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let found = |groups| unified_cgroup_from(groups, mounts);
        let expected = PathBuf::from("/sys/fs/cgroup/unified/user.slice/job");
        assert_eq!(found(groups), Some(expected));
        assert_eq!(found("0::/\n"), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(found("5:memory:/other\n"), None);
        assert_eq!(found("0::/../beside\n"), None, "outside of this namespace");
        assert_eq!(unified_cgroup_from(groups, ""), None);
    }

    #[test]
    fn sets_print_as_ranges() {
        let set = CpuSet::from_cpus([0, 1, 2, 3, 8, 66, 67]);
        assert_eq!(set.to_string(), "0-3,8,66-67");
        assert_eq!(set.len(), 7);
        assert!(set.contains(66) && !set.contains(65) && !set.contains(1000));
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8, 66, 67]);
        assert!(CpuSet::default().is_empty());
        let rest = set.without(&CpuSet::from_cpus([1, 8, 100]));
        assert_eq!(rest.to_string(), "0,2-3,66-67");
    }

    #[test]
    fn lists_are_read_as_they_print() {
        for list in ["", "0", "0-3,8", "1,3,5-7,64-127"] {
            let set = CpuSet::from_list(list).expect("a list");
            assert_eq!(set.to_string(), list);
        }
        assert_eq!(CpuSet::from_list("0-1\n"), Some(CpuSet::from_cpus([0, 1])));
        for bad in ["x", "3-1", "0-", "-1", "0-4294967295"] {
            assert_eq!(CpuSet::from_list(bad), None, "{bad}");
        }
    }

    #[test]
    fn this_process_may_run_somewhere() {
        assert!(!affinity().unwrap().is_empty());
        let cores = available_cores();
        assert!(cores >= 1 && cores <= affinity().unwrap().len());
    }

    #[test]
    fn a_thread_is_bound_apart_from_its_process() {
        let all = affinity().unwrap();
        let last = all.iter().last().unwrap();
        let bound = std::thread::spawn(move || {
            bind_thread(&CpuSet::from_cpus([last])).unwrap();
            affinity().unwrap()
        });
        assert_eq!(bound.join().unwrap().iter().collect::<Vec<_>>(), [last]);
        assert_eq!(affinity().unwrap(), all);
        assert!(!affinity_of(std::process::id()).unwrap().is_empty());
        assert!(bind_thread(&CpuSet::default()).is_err());
    }

    /// Reads files of which there are these, by name and text.
    pub(in crate::topology) fn files<'a>(
        files: &'a [(&'a str, &'a str)],
    ) -> impl Fn(&Path) -> Option<String> + 'a {
        move |path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| text.to_string())
        }
    }

    #[test]
    fn quota_of_version_2_is_the_least_of_all_ancestors() {
        let mounts = "30 20 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
        let read = files(&[
            ("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/a/cpu.max", "250000 100000\n"),
        ]);
        assert_eq!(quota_from("0::/a/b\n", mounts, &read), Some(2.5));
        assert_eq!(quota_from("0::/c\n", mounts, &read), None);
    }

    #[test]
    fn quota_of_version_1_inside_a_container() {
        let groups = "5:cpu,cpuacct:/docker/0a1b\n4:memory:/docker/0a1b\n0::/\n";
        let mounts = "31 20 0:27 /docker/0a1b /sys/fs/cgroup/cpu ro - cgroup cgroup \
                      rw,cpu,cpuacct\n\
                      32 20 0:28 /docker/0a1b /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let read = files(&[
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(quota_from(groups, mounts, &read), Some(1.5));
        let unlimited = files(&[
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(quota_from(groups, mounts, &unlimited), None);
    }
}
