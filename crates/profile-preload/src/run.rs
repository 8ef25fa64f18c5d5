//! This process's run of MPI under the profiler: what is known at its start, and when it ended.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is known when MPI has started.
pub struct StartFacts {
    /// Process; a child after `fork` has another.
    pub pid: u32,
    /// `CLOCK_MONOTONIC` at the return of `MPI_Init`.
    pub ns: u64,
    /// First line of `MPI_Get_library_version`.
    pub library: String,
    /// `MPI_Get_processor_name`.
    pub processor: String,
    /// Directory of the records.
    pub directory: String,
}

static START: OnceLock<StartFacts> = OnceLock::new();
/// `CLOCK_MONOTONIC` at the call of `MPI_Finalize`; 0 before.
static END_NS: AtomicU64 = AtomicU64::new(0);

/// What is known, if MPI has started under the profiler.
pub fn start() -> Option<&'static StartFacts> {
    START.get()
}

/// When `MPI_Finalize` was called.
pub fn finalized_ns() -> Option<u64> {
    match END_NS.load(Ordering::Relaxed) {
        0 => None,
        ns => Some(ns),
    }
}

/// MPI has started.
pub fn set_start(start: StartFacts) {
    let _ = START.set(start);
}

/// `MPI_Finalize` was called.
pub fn set_finalized(ns: u64) {
    // Relaxed: the thread that finalizes reads it again.
    END_NS.store(ns, Ordering::Relaxed);
}
