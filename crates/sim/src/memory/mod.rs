//! A node's memory as its core and its adapter see it: caches, prefetcher, memory controller, DRAM.

use serde::{Deserialize, Serialize};

/// Where the adapter's write goes (leon-2009 2.1, 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum InjectTarget {
    /// To memory; cached copies are invalidated.
    Memory,
    /// Into the L2 of a core; core 0 runs the program.
    L2 {
        /// The core.
        core: u32,
    },
    /// Into the L3.
    L3,
}
