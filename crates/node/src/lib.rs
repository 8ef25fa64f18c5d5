//! What the processes of one node share: the job segment with its rings, cells and doorbells,
//! parking, topology.
//!
//! The lowest layer: all other crates move messages by means of these parts (docs/design/house.md,
//! section 1). One folder for each concept; shared structures hold offsets and never pointers, and
//! every atomic access states what it pairs with.

pub mod adapter;
pub mod area;
#[cfg(feature = "launcher")]
pub mod attach;
pub mod cells;
pub mod chunk_queue;
pub mod cooperative;
pub mod counters;
pub mod doorbell;
pub mod fifo;
pub mod fork_lock;
pub mod futex;
pub mod handover;
pub mod helper_slots;
mod hint;
pub mod identity;
pub mod late;
pub mod launcher_socket;
pub mod lock;
pub mod migration_gate;
pub mod page;
pub mod park;
pub mod peer_table;
#[cfg(feature = "perf")]
pub mod perf;
pub mod pmix;
pub mod proc_mount;
#[cfg(feature = "launcher")]
pub mod process;
pub mod process_stat;
pub mod procmap;
pub mod ranges;
pub mod ring;
pub mod sealed_file;
pub mod segment;
pub mod signals;
pub mod sync;
pub mod ticks;
pub mod topology;
pub mod tunables;
pub mod unwind;
pub mod window;
