//! The table of worlds as it lies in the segment, and a rank's line for its connections.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Worlds that there can be at a time; the first one counts.
pub const WORLDS: usize = 63;

pub(super) const FREE: u32 = 0;
/// Its processes are being started, or run.
pub(super) const LIVE: u32 = 1;
/// They have ended, or were lost.
pub(super) const ENDED: u32 = 2;

/// Bytes of the table.
pub(in crate::segment) const WORLD_TABLE_BYTES: usize = size_of::<WorldTable>();

#[repr(C)]
pub(in crate::segment) struct WorldTable {
    pub(super) head: TableHead,
    pub(super) entries: [WorldEntry; WORLDS],
}

#[repr(C, align(64))]
pub(super) struct TableHead {
    /// Of the world that was started last.
    pub generation: AtomicU32,
    /// 1: the table of services has memory.
    pub services: AtomicU32,
    /// The rank that changes the table of services plus one; 0: none does.
    pub service_lock: AtomicU32,
}

#[repr(C, align(64))]
pub(super) struct WorldEntry {
    pub state: AtomicU32,
    pub first: AtomicU32,
    pub count: AtomicU32,
    pub generation: AtomicU32,
    pub launcher: AtomicU32,
    /// The parent's rank plus one; 0 if the world was not spawned.
    pub parent: AtomicU32,
    /// The tag under which the parent expects the world's first rank.
    pub port: AtomicU32,
}

const _: () = assert!(WORLD_TABLE_BYTES == 4096);

/// Line of a rank's block for its connections.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(in crate::segment) struct ConnectionLine {
    /// By number of the world: whether the rank has a communicator with any of its processes.
    pub(super) worlds: AtomicU64,
    /// Tags of its open ports; 0: none.
    pub(super) ports: [AtomicU32; PORTS],
}

/// Ports that a rank can have open at a time.
const PORTS: usize = 14;
