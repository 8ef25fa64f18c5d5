//! The fork generation of this process: cheaper to query than the process ID.
//!
//! A child has the parent's engines and jobs in its memory but neither its helper thread nor its
//! device, and locks may be held by a thread that the child does not have. So engines and jobs
//! record the generation to which they belong, and a child does not touch older ones.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);

extern "C" fn child() {
    // Relaxed: a child has one thread.
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The number of forks between the process that first called this and the current one.
pub(super) fn generation() -> u32 {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: the handler is a function of this library that makes no call, so it may run in
        // any child. Registration fails only if memory runs out; a child then treats the parent's
        // jobs as its own, as a program without handlers would.
        unsafe { libc::pthread_atfork(None, None, Some(child)) };
    });
    GENERATION.load(Ordering::Relaxed)
}
