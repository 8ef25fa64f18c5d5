//! A part of a job on this node, as it was found.

use std::os::fd::OwnedFd;

use mica_node::attach::{JobDescription, SocketName};
use mica_node::segment::SegmentReader;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A part of a job: the ranks that share a segment.
pub struct JobPart {
    /// The process by which it is named; 0 if it is not in this PID namespace. The launcher's, or
    /// the rank's in a job of one.
    pub pid: u32,
    /// The user.
    pub uid: u32,
    /// Other processes by which a user may name it.
    pub names: Vec<u32>,
    /// Become readable when the part has ended; none if its processes are not visible.
    pub ends: Vec<OwnedFd>,
    /// The name of the launcher's socket, if it has one.
    pub socket: Option<SocketName>,
    /// What the launcher says of the job.
    pub description: JobDescription,
    /// The job segment.
    pub segment: SegmentReader,
}

/// Becomes readable when the process ends.
pub fn end_of(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(pid as i32)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}
