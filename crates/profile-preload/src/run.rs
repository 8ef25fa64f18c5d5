//! This process's use of MPI under the profiler: by `MPI_Init`, by sessions, or by both. It lasts
//! from the first of them to the end of the last one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::clock;
use crate::memory;
use crate::recording;
use crate::thread;

/// The process that started MPI; a child after `fork` has another number.
static PROCESS: OnceLock<u32> = OnceLock::new();
/// The world, if it was initialized, and sessions that were not finalized.
static OPEN: AtomicU32 = AtomicU32::new(0);
/// 0, or when recording was paused, in ticks.
static PAUSED: AtomicU64 = AtomicU64::new(0);

/// Whether the records have been begun, in this process.
pub fn is_begun() -> bool {
    PROCESS.get() == Some(&std::process::id())
}

/// The records are begun.
pub fn begin() {
    let _ = PROCESS.set(std::process::id());
}

/// Whether MPI is in use.
pub fn is_open() -> bool {
    OPEN.load(Ordering::Relaxed) > 0
}

/// The world or a session begins. Returns whether it is the only one.
pub fn open() -> bool {
    // Relaxed, as all here: a caller that uses several threads orders them.
    OPEN.fetch_add(1, Ordering::Relaxed) == 0
}

/// The world or a session ends. Returns whether it was the last one.
pub fn close() -> bool {
    let less = |open: u32| open.checked_sub(1);
    OPEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) == Ok(1)
}

/// Stops recording until [`resume`].
pub fn pause() {
    if is_open() && PAUSED.load(Ordering::Relaxed) == 0 {
        recording::set(false);
        let now = clock::ticks();
        PAUSED.store(now, Ordering::Relaxed);
        // The file says so, for a process that ends before it resumes.
        if let Some(head) = memory::head() {
            head.paused.store(now, Ordering::Relaxed);
        }
    }
}

/// Records again, and keeps the time since [`pause`] on the calling thread's time line.
pub fn resume() {
    let since = PAUSED.swap(0, Ordering::Relaxed);
    if !is_open() || since == 0 || !is_begun() {
        return;
    }
    if let Some(head) = memory::head() {
        head.paused.store(0, Ordering::Relaxed);
    }
    if let Some(thread) = thread::current() {
        thread.with(|tables| tables.keep_pause(since, clock::ticks()));
    }
    recording::set(true);
}
