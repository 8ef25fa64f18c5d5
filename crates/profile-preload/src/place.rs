//! Where this process runs: its host, and the cores to which it is bound.

use std::ffi::CStr;
use std::fs;

/// The first processing unit of a bound process, and what it belongs to.
pub struct BoundPlace {
    pub cpu: usize,
    pub core: u32,
    pub cache: u32,
    pub package: u32,
}

/// Name of the host.
pub fn host() -> String {
    let mut name = [0u8; 256];
    // SAFETY: writes at most the length given; the last byte stays 0.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Names the running kernel: processes with equal names share a clock.
pub fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// Where the process runs, if all its processing units share a cache.
pub fn find() -> Option<BoundPlace> {
    let cpus = allowed();
    let places: Option<Vec<BoundPlace>> = cpus.into_iter().map(place).collect();
    let mut places = places?.into_iter();
    let first = places.next()?;
    // A process that may use the whole machine is not bound, even where the machine is one cache.
    let bound = allowed().len() < online();
    let same = |place: BoundPlace| (place.package, place.cache) == (first.package, first.cache);
    (bound && places.all(same)).then_some(first)
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
        let list = fs::read_to_string(file).ok()?;
        list.trim().split([',', '-']).next()?.parse().ok()
    });
    Some(BoundPlace {
        cpu,
        core: number("topology/core_id")?,
        cache: shared.unwrap_or(cpu as u32),
        package,
    })
}
