//! Jobs that another launcher has started (`srun`, the `mpiexec` of MPICH, Open MPI's `mpirun`),
//! and programs without a launcher: no process of Mica's serves their segments.
//!
//! Each rank keeps the memfd of its node's segment open, so the kernel offers it in `/proc/PID/fd`:
//! to open it there needs the right to read the process (`PTRACE_MODE_READ`: the same user, and no
//! program with more rights than that user), which is the rule for who may watch a job. The rank
//! takes no part in it, and the file is opened for reading alone, as the one that mpiexec hands
//! out.
//!
//! What a link says is not trusted: only a regular file in the kernel's own mount for memfds is
//! opened, as a segment of this version of Mica ([`SegmentReader::open`]).

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mica_node::attach::{JobDescription, VERSION, printable};
use mica_node::handover::FileIdentity;
use mica_node::process_stat::ProcessStat;
use mica_node::segment::{SegmentReader, layout};
use rustix::fs::{MemfdFlags, OFlags, memfd_create};

use super::part::{JobPart, end_of};

/// What the kernel says of a descriptor of a segment.
const LINK: &str = "/memfd:mica-job (deleted)";

/// A process that has a segment open.
struct SegmentHolder {
    pid: u32,
    /// Its number in the innermost PID namespace that it is in, by which it calls itself.
    own_pid: u32,
    uid: u32,
    descriptor: PathBuf,
}

/// The parts of jobs on this node whose segments are not among `known`.
pub fn parts(known: &[FileIdentity]) -> Vec<JobPart> {
    let Some(device) = memfd_device() else { return Vec::new() };
    let mut segments: BTreeMap<FileIdentity, Vec<SegmentHolder>> = BTreeMap::new();
    for pid in processes() {
        for (key, holder) in held_by(pid, device) {
            if !known.contains(&key) {
                segments.entry(key).or_default().push(holder);
            }
        }
    }
    segments.into_iter().filter_map(part).collect()
}

/// The file of a segment.
pub fn key_of(segment: &SegmentReader) -> Option<FileIdentity> {
    segment.file().metadata().ok().map(|file| FileIdentity::from(&file))
}

/// The device that all memfds are on.
fn memfd_device() -> Option<u64> {
    let own = memfd_create("mica-top", MemfdFlags::CLOEXEC).ok()?;
    File::from(own).metadata().ok().map(|file| file.dev())
}

fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// The segments that a process has open; none if this user may not read the process.
fn held_by(pid: u32, device: u64) -> Vec<(FileIdentity, SegmentHolder)> {
    let folder = format!("/proc/{pid}/fd");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_segment = |path: &PathBuf| fs::read_link(path).is_ok_and(|to| to == Path::new(LINK));
    let found = entries.map(|entry| entry.path()).filter(is_segment);
    let mut found: Vec<_> = found
        .filter_map(|descriptor| {
            let file = fs::metadata(&descriptor).ok()?;
            let holder = SegmentHolder {
                pid,
                own_pid: own_pid(pid).unwrap_or(pid),
                uid: fs::metadata(format!("/proc/{pid}")).ok()?.uid(),
                descriptor,
            };
            (file.is_file() && file.dev() == device).then(|| (FileIdentity::from(&file), holder))
        })
        .collect();
    found.dedup_by_key(|(key, _)| *key);
    found
}

fn own_pid(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}

/// The part of a job that these processes are, if any of them is a rank of it.
fn part((key, holders): (FileIdentity, Vec<SegmentHolder>)) -> Option<JobPart> {
    let (descriptor, uid) = holders.first().map(|h| (&h.descriptor, h.uid))?;
    let segment = open(descriptor)?;
    let process_of = |own_pid: u32| holders.iter().find(|holder| holder.own_pid == own_pid);
    let processes: Vec<Option<&SegmentHolder>> =
        claimed(&segment).into_iter().map(process_of).collect();
    let ranks: Vec<u32> = processes.iter().flatten().map(|holder| holder.pid).collect();
    let first = *ranks.first()?;
    let started_by = launcher(&segment, first);
    let elsewhere = segment.job_size() as usize > segment.ranks().len();
    // Parts of one job on this machine have the launcher in common.
    let name = match elsewhere {
        true => format!("direct_here_{}_0", started_by.unwrap_or(first)),
        false => format!("direct_{}_{first}_{}", key.device, key.inode),
    };
    let pid = match segment.job_size() {
        1 => first,
        _ => started_by.unwrap_or(first),
    };
    let description = JobDescription {
        version: VERSION.to_owned(),
        layout: layout(),
        name,
        host: mica_node::identity::host_name(),
        command: command(first),
        job_size: segment.job_size(),
        nodes: u32::from(!elsewhere),
        started_ms: started_ms(first),
        pids: processes[..segment.ranks().len()]
            .iter()
            .map(|found| found.map_or(0, |h| h.pid))
            .collect(),
    };
    let ends: Vec<OwnedFd> = ranks.iter().filter_map(|&pid| end_of(pid)).collect();
    // Who has the segment open is a rank, or the launcher of a spawned job.
    let names = holders.iter().map(|holder| holder.pid).chain(ancestors(first)).collect();
    Some(JobPart { pid, uid, names, ends, socket: None, description, segment })
}

/// The processes that say that they are ranks of a segment, 0 where none does: those of the job's
/// start, and those of spawned worlds.
fn claimed(segment: &SegmentReader) -> Vec<u32> {
    let spawned = segment.spawned_worlds().into_iter().flat_map(|world| world.ranks());
    let indices = (0..segment.ranks().len()).chain(spawned.map(|number| number as usize));
    indices.map(|index| segment.read(index).map_or(0, |view| view.pid)).collect()
}

fn open(descriptor: &Path) -> Option<SegmentReader> {
    let flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file =
        OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(descriptor).ok()?;
    SegmentReader::open(file.into()).ok()
}

/// The process that has started the ranks, as the segment says it, if it is the parent of `first`.
fn launcher(segment: &SegmentReader, first: u32) -> Option<u32> {
    ancestors(first).next().filter(|&parent| parent == segment.launcher_pid())
}

/// The parent of a process, its parent and so on, without the first process of all.
pub fn ancestors(pid: u32) -> impl Iterator<Item = u32> {
    let parent =
        |pid: &u32| ProcessStat::of(*pid).map(|stat| stat.parent).filter(|&parent| parent > 1);
    std::iter::successors(parent(&pid), move |pid| parent(pid))
}

/// The command line of a process.
pub fn command(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    let words: Vec<&[u8]> = words.collect();
    printable(&words.join(&b' '))
}

/// When a process was started: milliseconds since 1970.
fn started_ms(pid: u32) -> u64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let uptime: f64 = uptime.split(' ').next().and_then(|s| s.parse().ok()).unwrap_or(0.0);
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    let started = ProcessStat::of(pid).map_or(uptime, |p| p.started as f64 / per_second);
    let age = (uptime - started).max(0.0);
    (now.as_secs_f64() * 1e3 - age * 1e3).max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_its_ancestors_are_found() {
        let own = std::process::id();
        assert!(processes().contains(&own));
        assert_eq!(ancestors(own).next(), Some(std::os::unix::process::parent_id()));
        assert!(!command(own).is_empty());
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
        assert!((now - 86_400_000..=now + 1000).contains(&started_ms(own)));
    }

    #[test]
    fn other_files_of_that_name_are_not_opened() {
        let device = memfd_device().expect("memfds can be had");
        // No segment, though the name and the device are right.
        let own = memfd_create("mica-job", MemfdFlags::CLOEXEC).expect("a memfd");
        let held = held_by(std::process::id(), device);
        assert!(!held.is_empty());
        assert!(held.iter().all(|(_, holder)| open(&holder.descriptor).is_none()));
        assert!(held_by(std::process::id(), device + 1).is_empty());
        drop(own);
    }
}
