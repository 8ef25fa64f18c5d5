//! Whether a rank of the job started this process: by fork and exec, with the rank's environment,
//! and so with all that says who the rank is. Python's `multiprocessing` starts such processes, by
//! "spawn" or "forkserver", and imports the program's modules in them, MPI among them.
//!
//! Such a process cannot be the rank, which the process above it is. It is a job of its own: a
//! refusal would end a worker of a pool, which the pool would start again, for ever. A program
//! behind a wrapper is not concerned: the wrapper has not claimed the rank.

use std::io::Write;

use mica_node::proc_mount::proc_is_ours;
use mica_node::process_stat::ProcessStat;
use mica_node::segment::JobSegment;

/// Generations that are looked at.
const GENERATIONS_MAX: usize = 1000;

/// Whether the process that is rank `rank` of the segment started this one, or what started it.
pub(crate) fn descends_from_rank(segment: &JobSegment, rank: u32) -> bool {
    // 0: no process is the rank yet.
    segment.is_member(rank) && descends_from(segment.block(rank).pid())
}

/// Says on standard error that this process is a job of its own. To be called by the first of a
/// node.
pub(crate) fn note(rank: u32) {
    let line = format!(
        "mica: process {} was started by rank {rank}, which it cannot be as well: it is a job of \
         its own, with one rank (said once; further ones do the same)\n",
        std::process::id()
    );
    // One write, so that lines do not mix. If it fails, the program continues.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Whether process `pid` is an ancestor of this one that still runs.
pub(crate) fn descends_from(pid: u32) -> bool {
    let mut ancestor = std::os::unix::process::parent_id();
    if pid <= 1 || ancestor == pid {
        return pid > 1;
    }
    if !proc_is_ours() {
        return false;
    }
    for _ in 0..GENERATIONS_MAX {
        match parent_of(ancestor) {
            Some(parent) if parent == pid => return true,
            Some(parent) if parent > 1 => ancestor = parent,
            _ => return false,
        }
    }
    false
}

fn parent_of(pid: u32) -> Option<u32> {
    ProcessStat::of(pid).map(|stat| stat.parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_are_found_and_others_are_not() {
        let parent = std::os::unix::process::parent_id();
        assert!(descends_from(parent));
        if let Some(above) = parent_of(parent).filter(|&above| above > 1) {
            assert!(descends_from(above));
        }
        assert_eq!(parent_of(std::process::id()), Some(parent));
        assert!(!descends_from(std::process::id()) && !descends_from(0) && !descends_from(1));
    }
}
