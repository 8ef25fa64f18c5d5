//! What the processes of one node share: the job segment with its rings, cells and doorbells,
//! parking, topology.
//!
//! All other crates but `memory` stand on it and move messages by means of these parts
//! (docs/design/house.md, section 1). Shared structures hold offsets and never pointers, and every
//! atomic access states what it pairs with.
//!
//! | room | what is in it |
//! |---|---|
//! | `primitives` | rings, FIFOs, cells, doorbells, parking, locks: each with its model |
//! | [`segment`] | the job segment: its layout, opening, what ranks announce in it, budgets |
//! | [`area`], [`window`] | memory in the segment for collectives, and for windows |
//! | [`counters`], [`late`] | what a rank counts, and who was late, for tools |
//! | `join` | how a process comes by the segment |
//! | `platform` | processes, clocks, pages, signals, mappings: the system underneath |
//! | [`topology`] | processors, caches, memory; where ranks are placed |
//! | [`tunables`] | every `MICA_*` variable, declared once |
//!
//! The three rooms without a link are folders only: what is in them is named without them.

pub mod adapter;
pub mod area;
pub mod byte_reader;
pub mod counters;
mod join;
pub mod late;
pub mod peer_table;
mod platform;
mod primitives;
pub mod ranges;
pub mod segment;
pub mod sip_hash;
pub mod topology;
pub mod tunables;
pub mod window;

#[cfg(feature = "launcher")]
pub use join::attach;
pub use join::{handover, launcher_socket};
#[cfg(feature = "perf")]
pub use platform::perf;
#[cfg(feature = "launcher")]
pub use platform::process;
pub use platform::{
    file, identity, own_file, page, pmix, proc_mount, process_stat, procmap, sealed_file, signals,
    ticks, unwind, uring,
};
pub use primitives::baselines::fifo;
pub(crate) use primitives::hint;
pub use primitives::{
    cells, chunk_queue, cooperative, doorbell, fork_lock, futex, helper_slots, lock,
    migration_gate, park, ring, sync,
};
