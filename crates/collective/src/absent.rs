//! How a rank takes part in a collective that it has no memory for.
//!
//! The others count on its messages, so it goes through its rounds nevertheless: it receives into
//! no memory, sends messages of no bytes, and leaves out all work of its own
//! ([`execute`](super::execute), [`mica_protocol::ScheduleFailure::Missing`]). Who gets no bytes
//! where some were due has lost the operands too, and does likewise with the rest of its rounds. So
//! the call ends at all ranks: with its result where nothing is missing, with an error elsewhere.
//!
//! What a rank does in its rounds follows from the call alone. So its plan is made as ever, with
//! [absent](Region::absent) memory where none is to be had; a plan with such memory is carried out
//! in this way.

use std::sync::atomic::{AtomicBool, Ordering};

use mica_memory::{Block, Region, View};

/// Set for good when memory could not be had: only then are plans searched.
static IS_POSSIBLE: AtomicBool = AtomicBool::new(false);

/// New memory of `bytes` bytes for a plan; absent if there is none.
pub(super) fn temporary(bytes: usize) -> Region {
    Block::allocate(bytes).unwrap_or_else(|_| {
        // Relaxed: the plan is carried out by the thread that makes it.
        IS_POSSIBLE.store(true, Ordering::Relaxed);
        Region::absent(bytes)
    })
}

/// Whether a plan may have absent memory.
#[inline]
pub(super) fn is_possible() -> bool {
    IS_POSSIBLE.load(Ordering::Relaxed)
}

/// Copies a message, if there is memory for the copy.
pub(super) fn copy_to_present(to: &View, from: &View) {
    if !to.is_absent() {
        to.copy_from(from);
    }
}

/// Bytes of the first that is absent.
pub(super) fn absent_view<'a>(views: impl IntoIterator<Item = &'a View>) -> Option<usize> {
    views.into_iter().find(|view| view.is_absent()).map(View::len)
}

/// As [`absent_view`], of regions.
pub(super) fn absent_region<'a>(regions: impl IntoIterator<Item = &'a Region>) -> Option<usize> {
    regions.into_iter().find(|region| region.is_absent()).map(Region::bytes)
}
