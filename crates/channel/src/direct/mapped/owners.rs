//! All owners of migrated buffers in this process.

use std::ops::Range;

use super::buffers::{InChild, MigratedBuffers};
use mica_node::fork_lock::ForkLock;

/// State shared by the handlers of one fork, behind the lock that they hold.
#[derive(Debug)]
pub(super) struct Forking {
    /// Read and write end of the pipe by whose end of file the parent learns that the child has its
    /// copies. `None`: nothing was migrated, or no pipe could be created.
    pub pipe: Option<[i32; 2]>,
    /// What the program has advised for its child.
    pub advised: Vec<(Range<usize>, InChild)>,
}

impl Forking {
    pub const NONE: Forking = Forking { pipe: None, advised: Vec::new() };
}

/// All owners of this process (one, except in tests), and the state of the fork handlers.
#[derive(Debug)]
pub(super) struct Owners {
    pub list: Vec<MigratedBuffers>,
    pub forking: Forking,
}

pub(super) static OWNERS: ForkLock<Owners> =
    ForkLock::new(Owners { list: Vec::new(), forking: Forking::NONE });
