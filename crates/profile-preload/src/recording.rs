//! Whether calls are recorded in this process.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_ON: AtomicBool = AtomicBool::new(false);
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Whether they are.
#[inline(always)]
pub fn is_on() -> bool {
    // Relaxed, as all below: calls at the same time are recorded or not.
    IS_ON.load(Ordering::Relaxed)
}

/// Starts or stops recording.
pub fn set(on: bool) {
    IS_ON.store(on && !IS_OVER.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Stops recording for good: there is no memory, or this is a child after `fork`.
pub fn stop() {
    IS_OVER.store(true, Ordering::Relaxed);
    set(false);
}
