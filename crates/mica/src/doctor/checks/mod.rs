//! The doctor's table of checks: from facts to findings.

use mica_node::topology::readable_bytes;

use super::facts::{DoctorFacts, ProcessLimit};
use super::{CheckFinding, Weight};

/// A check: its name, and a function that collects findings. If there are none, the report prints
/// `well`.
struct Check {
    name: &'static str,
    well: &'static str,
    detect: Detect,
}

type Detect = fn(&DoctorFacts, &mut CheckFindings);

const fn check(name: &'static str, well: &'static str, detect: Detect) -> Check {
    Check { name, well, detect }
}

/// The findings of a check so far.
struct CheckFindings {
    check: &'static str,
    findings: Vec<CheckFinding>,
}

impl CheckFindings {
    fn add(&mut self, weight: Weight, found: impl Into<String>, remedy: impl Into<String>) {
        let remedy = remedy.into();
        self.findings.push(CheckFinding {
            check: self.check,
            weight,
            found: found.into(),
            remedy: (!remedy.is_empty()).then_some(remedy),
        });
    }

    fn hinders(&mut self, found: impl Into<String>, remedy: impl Into<String>) {
        self.add(Weight::Hinders, found, remedy);
    }

    fn note(&mut self, found: impl Into<String>, remedy: impl Into<String>) {
        self.add(Weight::Note, found, remedy);
    }
}

/// The number of checks.
#[cfg(test)]
pub const COUNT: usize = CHECKS.len();

/// Runs every check, in the order of the report.
pub fn all(facts: &DoctorFacts) -> Vec<CheckFinding> {
    let run = |check: &Check| {
        let mut found = CheckFindings { check: check.name, findings: Vec::new() };
        (check.detect)(facts, &mut found);
        if found.findings.is_empty() {
            found.add(Weight::Fine, check.well, "");
        }
        found.findings
    };
    CHECKS.iter().flat_map(run).collect()
}

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// The table of checks.
const CHECKS: &[Check] = &[
    check("installation", "libmpi_abi.so.1 lies beside this command", |facts, found| {
        if facts.library.is_none() {
            found.hinders(
                "libmpi_abi.so.1 is not in ../lib of this command",
                "make install PREFIX=DIR in Mica's source tree, and use DIR/bin/mica",
            );
        }
    }),
    check("path", "mpiexec and mpicc in PATH are this installation's", |facts, found| {
        for name in ["mpiexec", "mpicc"] {
            let own = facts.own_bin.as_ref().map(|bin| bin.join(name));
            let Some(own) = own.filter(|own| own.is_file()) else { continue };
            let bin = own.parent().unwrap_or(&own).display();
            match facts.in_path.get(name) {
                None => found.note(
                    format!("there is no {name} in PATH"),
                    format!("export PATH={bin}:$PATH"),
                ),
                Some(first) if same_file(first, &own) => {}
                Some(first) => found.hinders(
                    format!("{name} in PATH is {}, not this installation's", first.display()),
                    format!("export PATH={bin}:$PATH"),
                ),
            }
        }
    }),
    check("libraries", "LD_LIBRARY_PATH leads to no other MPI", |facts, found| {
        match (&facts.in_library_path, &facts.library) {
            (Some(first), Some(own)) if !same_file(first, own) => found.hinders(
                format!("LD_LIBRARY_PATH leads to another libmpi_abi.so.1: {}", first.display()),
                "take its folder out of LD_LIBRARY_PATH, or put Mica's before it",
            ),
            _ => {}
        }
        for library in &facts.foreign_libraries {
            found.note(
                format!("LD_LIBRARY_PATH leads to another MPI's library: {}", library.display()),
                "programs linked to that one do not use Mica: `ldd PROGRAM` shows which it is",
            );
        }
    }),
    check(
        "variables",
        "all variables whose names begin with MICA_ are understood",
        |facts, found| {
            for complaint in &facts.complaints {
                found.hinders(
                    complaint.clone(),
                    "correct it, or unset it (`mica info` lists the variables)",
                );
            }
            if !facts.rank_variables.is_empty() {
                found.hinders(
                    format!(
                        "{} set: a program started from here takes itself for a rank of another \
                        job",
                        facts.rank_variables.join(", ")
                    ),
                    format!("unset {}", facts.rank_variables.join(" ")),
                );
            }
        },
    ),
    check("proc", "/proc is this PID namespace's", |facts, found| {
        if !facts.proc_is_own {
            found.hinders(
                "/proc is missing, or another PID namespace's",
                "mount it: mount -t proc proc /proc (unshare --mount-proc does it in a new \
                    namespace)",
            );
        }
    }),
    check("shared memory", "anonymous shared memory (memfd) can be had", |facts, found| {
        if let Some(error) = &facts.memfd {
            found.hinders(
                format!("memfd_create: {error}; ranks cannot share memory"),
                "allow memfd_create in the container's seccomp profile, or use a kernel from \
                    3.17 on",
            );
        }
    }),
    check("processes", "processes can be held by descriptors (pidfd)", |facts, found| {
        if let Some(error) = &facts.pidfd {
            found.hinders(
                format!("pidfd_open: {error}; mpiexec cannot start ranks"),
                "allow pidfd_open in the container's seccomp profile, or use a kernel from \
                    5.4 on",
            );
        }
    }),
    check("single copy", "ranks can read and write each other's memory (CMA)", |facts, found| {
        if let Some((reason, remedy)) = &facts.cma {
            found.hinders(format!("{reason}; long messages are copied twice"), remedy.clone());
        }
    }),
    check(
        "mapped",
        "buffers in reuse can move to shared memory (PROCMAP_QUERY)",
        |facts, found| {
            if let Some(error) = &facts.procmap_query {
                found.note(
                    format!(
                        "PROCMAP_QUERY: {error}; buffers in reuse do not move to shared \
                        memory, which would be fastest"
                    ),
                    "Linux 6.11 or newer, with /proc mounted and ioctl allowed on it",
                );
            }
        },
    ),
    check(
        "membarrier",
        "waiting ranks can park at no cost to senders (membarrier)",
        |facts, found| {
            if !facts.membarrier {
                found.hinders(
                    "membarrier is refused: every send pays for a memory fence",
                    "allow membarrier in the container's seccomp profile",
                );
            }
        },
    ),
    check("file size", "the limit of file sizes leaves room for shared memory", |facts, found| {
        // The limit also applies to memfds: the job segment has the size for all pairs of
        // ranks, though unused pages take no memory.
        if let Some(limit) = tight(&facts.file_size, 64 * GIB) {
            found.hinders(
                format!(
                    "files may have {} at most, the ranks' shared memory is one",
                    readable_bytes(limit)
                ),
                "ulimit -f unlimited",
            );
        }
    }),
    check("address space", "the address space is not limited", |facts, found| {
        if let Some(limit) = tight(&facts.address_space, 64 * GIB) {
            let text = format!("a process may map {} at most", readable_bytes(limit));
            match limit < 4 * GIB {
                true => {
                    found.hinders(text + ": too little for shared memory", "ulimit -v unlimited")
                }
                false => found.note(text + ": jobs of many ranks need more", "ulimit -v unlimited"),
            }
        }
    }),
    check("descriptors", "there are enough descriptors", |facts, found| {
        // mpiexec raises the soft limit itself; only the hard limit matters.
        let hard = facts.descriptors.1;
        if let Some(hard) = hard.filter(|&hard| hard < 4096) {
            let text = format!("a process may have {hard} descriptors open");
            let remedy = "raise the hard limit (ulimit -Hn, /etc/security/limits.conf, docker \
                    run --ulimit nofile=65536)";
            match hard < 128 {
                true => found.hinders(text + ", mpiexec needs several for each rank", remedy),
                false => found.note(text + ": enough for some hundred ranks on a node", remedy),
            }
        }
    }),
    check(
        "locked memory",
        "the network that jobs would use does not depend on locked memory, or there is \
            enough",
        |facts, found| {
            let needs = |provider: &String| {
                ["verbs", "psm", "opx", "efa", "cxi"].iter().any(|p| provider.starts_with(p))
            };
            let needs = facts.provider.as_ref().is_some_and(needs);
            if let Some(limit) = tight(&facts.locked_memory, 64 * MIB).filter(|_| needs) {
                found.hinders(
                    format!(
                        "{} of memory may be locked, and the network registers buffers",
                        readable_bytes(limit)
                    ),
                    "ulimit -l unlimited (/etc/security/limits.conf: memlock)",
                );
            }
        },
    ),
    check("user processes", "the user may start enough processes", |facts, found| {
        if let Some(limit) = tight(&facts.processes, 256) {
            found.note(format!("a user may have {limit} processes and threads"), "ulimit -u 4096");
        }
    }),
    check("cores", "all cores of the affinity mask are this job's to use", |facts, found| {
        if let Some(error) = &facts.topology_error {
            found.hinders(error.clone(), "see that /sys is mounted");
            return;
        }
        if let Some(quota) = facts.cpu_quota.filter(|&quota| quota < facts.cores as f64) {
            found.note(
                format!(
                    "a cgroup gives {quota:.1} processors' worth of time on {} cores: more \
                         ranks than that stop in turns, and ranks are not bound",
                    facts.cores
                ),
                "give the container processors instead of a quota (docker run --cpuset-cpus, \
                    not --cpus), or start no more ranks",
            );
        }
        if facts.cores < facts.all_cores {
            found.note(
                format!("{} of the machine's {} cores may be used", facts.cores, facts.all_cores),
                "",
            );
        }
        if facts.cores == 1 {
            found.note("there is one core: ranks take turns", "");
        }
        if facts.units > facts.cores {
            found.note(
                format!(
                    "cores have {} hardware threads: ranks are bound to cores, -bind-to \
                        hwthread takes each thread",
                    facts.units.div_ceil(facts.cores.max(1))
                ),
                "",
            );
        }
    }),
    check("memory", "memory is not limited, and none is swapped out", |facts, found| {
        let memory = facts.memory.unwrap_or(u64::MAX);
        if let Some(limit) = facts.memory_limit.filter(|&limit| limit < memory) {
            let text = format!(
                "a cgroup limits memory to {}, the ranks' shared memory included",
                readable_bytes(limit)
            );
            match limit < 256 * MIB {
                true => found.hinders(text, "raise it (docker run --memory)"),
                false => found.note(text, ""),
            }
        }
        if let Some(used) = facts.swap_used.filter(|&used| used > 256 * MIB && used > memory / 20) {
            found.note(
                format!(
                    "{} are swapped out: memory is short, and ranks wait for the disk",
                    readable_bytes(used)
                ),
                "end what takes the memory, or start fewer ranks",
            );
        }
    }),
    check("huge pages", "transparent huge pages are not switched off", |facts, found| {
        if facts.huge_pages.as_deref() == Some("never") {
            found.note(
                "transparent huge pages are off: programs with much memory miss more in the \
                    TLB",
                "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
            );
        }
    }),
    check("host name", "the host's name has an address", |facts, found| {
        if let Some(error) = &facts.unresolved {
            found.note(
                format!(
                    "the name of this host, {:?}, has no address ({error}): other hosts do \
                        not find it by name",
                    facts.host
                ),
                "put it into /etc/hosts",
            );
        }
    }),
    check(
        "several hosts",
        "ssh and a network for jobs on several hosts are there",
        |facts, found| {
            if !facts.in_path.contains_key("ssh") {
                found.note(
                    "there is no ssh: mpiexec reaches other hosts only through Slurm or \
                    --launcher-exec",
                    "install an ssh client (Debian: openssh-client); jobs on one node need none",
                );
            }
            match (&facts.fabric, &facts.network_error) {
                (None, error) => found.note(
                    format!("there is no libfabric: {}", error.as_deref().unwrap_or_default()),
                    "install it (Debian: libfabric1); jobs on one node need none",
                ),
                (Some(version), Some(error)) => found.note(
                    format!("libfabric {version} offers no network that serves: {error}"),
                    "`mica info --all` lists its offers; MICA_NET_PROVIDER and MICA_NET_INTERFACE \
                    choose among them",
                ),
                (Some(version), None) if is_old(version) => found.note(
                    format!("libfabric {version} is old: 1.16 has mended much"),
                    "install libfabric 1.16 or newer, or name one by MICA_NET_LIBRARY",
                ),
                _ => {}
            }
        },
    ),
    check("tuning", "costs are this machine's, or the shipped ones", |facts, found| {
        if let Some(error) = &facts.tuning_error {
            found.hinders(error.clone(), "run `mica tune` on this machine, or set MICA_TUNING=off");
        }
        if let Some(file) = facts.foreign_tuning.first() {
            found.note(
                format!("there is a tuning file, of another machine or kernel: {}", file.display()),
                "run `mica tune` here; until then the shipped costs are used",
            );
        }
    }),
];

/// The soft limit, if it is below `least`.
fn tight(limit: &ProcessLimit, least: u64) -> Option<u64> {
    limit.0.filter(|&limit| limit < least)
}

/// Whether two paths lead to the same file.
fn same_file(a: &std::path::Path, b: &std::path::Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Whether a version of libfabric is below 1.16.
fn is_old(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < (1, 16)
}

#[cfg(test)]
mod tests;
