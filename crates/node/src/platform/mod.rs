//! What the operating system and the processor say and do for the layers above: processes, clocks,
//! pages, files, signals, mappings, counters of events, the stack walk; and libpmix, which is
//! loaded at run time.

pub mod file;
pub mod identity;
pub mod own_file;
pub mod page;
#[cfg(feature = "perf")]
pub mod perf;
pub mod pmix;
pub mod proc_mount;
#[cfg(feature = "launcher")]
pub mod process;
pub mod process_stat;
pub mod procmap;
pub mod sealed_file;
pub mod signals;
pub mod ticks;
pub mod unwind;
pub mod uring;
