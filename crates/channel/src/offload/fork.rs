//! Which process this is, counted in forks: cheaper to ask for than a process number.
//!
//! A child has the parent's engines and jobs in its memory but neither its helper thread nor its
//! device, and locks may be held by a thread that the child does not have. So engines and jobs
//! remember the generation they belong to, and a child leaves what is older alone.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);

extern "C" fn child() {
    // Relaxed: a child has one thread.
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// How many forks lie between the process that first asked and this one.
pub(super) fn generation() -> u32 {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: the handler is a function of this library that makes no call: it may run in any
        // child. It fails for lack of memory only; a child then takes the parent's jobs for its
        // own, as a program without handlers would.
        unsafe { libc::pthread_atfork(None, None, Some(child)) };
    });
    GENERATION.load(Ordering::Relaxed)
}
