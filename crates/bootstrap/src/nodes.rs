//! Which rank is on which node.

use crate::ProcessManager;
use mica_node::segment::JobSegment;

/// A process that has joined its job.
#[derive(Debug)]
pub struct Joined {
    /// What the ranks of this node share.
    pub segment: JobSegment,
    /// Rank of this process in the job.
    pub rank: u32,
    /// Number of processes of the job.
    pub size: u32,
    /// False for a process that was started alone.
    pub launched: bool,
    /// Where all ranks are.
    pub nodes: Nodes,
    /// The launcher's process manager; `None` when the node's segment is all there is.
    pub manager: Option<Box<dyn ProcessManager>>,
}

/// Which rank is on which node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    /// Number of the node by job rank; nodes are numbered in the order of their lowest rank.
    pub of: Vec<u32>,
    /// Host name by node; of virtual nodes on one host, with a suffix that tells them apart.
    pub names: Vec<String>,
    /// Whether all nodes are one machine (virtual nodes).
    pub all_on_one_machine: bool,
}
