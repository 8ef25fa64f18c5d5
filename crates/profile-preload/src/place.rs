//! Where this process runs: its job, and the cores to which it is bound.

use std::fs;

use mica_node::identity::boot_id;
use mica_node::process_stat::ProcessStat;
use mica_profile::rank_tables::JOB_VARIABLE;

/// The first processing unit of a bound process, and what it belongs to.
pub struct BoundPlace {
    pub cpu: usize,
    pub core: u32,
    pub cache: u32,
    pub package: u32,
}

/// Where the process runs, if all its processing units share a cache.
pub fn find() -> Option<BoundPlace> {
    let cpus = allowed();
    // A process that may use the whole machine is not bound, even where the machine is one cache.
    if cpus.len() >= online() {
        return None;
    }
    let mut places = cpus.into_iter().map(place);
    let first = places.next()??;
    let same = |place: &BoundPlace| (place.package, place.cache) == (first.package, first.cache);
    places.all(|place| place.as_ref().is_some_and(same)).then_some(first)
}

/// What the ranks of one job have in common, and no other job's: the launcher's name of the job, or
/// else the process that started the rank, which then holds for the ranks of one host.
pub fn job() -> String {
    for (name, kind) in [(JOB_VARIABLE, "mica"), ("PMIX_NAMESPACE", "pmix")] {
        if let Ok(value) = std::env::var(name) {
            return format!("{kind}:{value}");
        }
    }
    // SAFETY: asks for a number.
    let parent = unsafe { libc::getppid() };
    let start = ProcessStat::of(parent as u32).map_or(0, |stat| stat.started);
    format!("parent:{}:{parent}:{start}", boot_id())
}

/// The command line of this process.
pub fn command_line() -> String {
    let bytes = fs::read("/proc/self/cmdline").unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.split('\0').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Nanoseconds since the epoch.
pub fn unix_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |time| time.as_nanos() as u64)
}

fn online() -> usize {
    // SAFETY: asks for a number.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(online).unwrap_or(1)
}

fn allowed() -> Vec<usize> {
    // SAFETY: the set is plain data that the call fills, and the macros read within it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return Vec::new();
        }
        let all = 0..libc::CPU_SETSIZE as usize;
        all.filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    }
}

fn place(cpu: usize) -> Option<BoundPlace> {
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
    let number = |file: &str| -> Option<u32> {
        fs::read_to_string(format!("{folder}/{file}")).ok()?.trim().parse().ok()
    };
    let package = number("topology/physical_package_id")?;
    // The last level is the one that most share. Its first processing unit names it: `id` is not
    // everywhere.
    let last = (0..8)
        .filter(|index| number(&format!("cache/index{index}/level")).is_some_and(|l| l >= 2))
        .max_by_key(|index| number(&format!("cache/index{index}/level")));
    let shared = last.and_then(|index| {
        let file = format!("{folder}/cache/index{index}/shared_cpu_list");
        fs::read_to_string(file).ok()?.trim().split([',', '-']).next()?.parse().ok()
    });
    Some(BoundPlace {
        cpu,
        core: number("topology/core_id")?,
        cache: shared.unwrap_or(cpu as u32),
        package,
    })
}
