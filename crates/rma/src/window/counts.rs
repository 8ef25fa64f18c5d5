//! Where a window counts its operations: a block of the rank's control data, which no other window
//! uses before this one is freed ([`mica_node::counters::WindowCounters`]).
//!
//! A window beyond the number of blocks counts where all such windows do, and has no counts of its
//! own to show. Used by windows, their remote sides, and the performance variables of MPI_T that
//! are bound to a window, which keep the block as long as they have a handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mica_node::counters::{WINDOW_SLOTS, WindowCounters, WindowCounts};
use mica_protocol::{CounterRef, Engine, WindowCounterRef};

/// The blocks in use, a bit each.
static TAKEN: AtomicU32 = AtomicU32::new(0);

const _: () = assert!(WINDOW_SLOTS <= 32);

/// The block of one window. The last reference gives it back.
#[derive(Debug)]
pub struct WindowCountsBlock {
    slot: Option<usize>,
    rank: CounterRef,
    words: WindowCounterRef,
}

impl WindowCountsBlock {
    /// A free block, or the one that windows without their own share.
    pub(crate) fn take(engine: &Engine) -> Arc<WindowCountsBlock> {
        let claim = |taken: u32| {
            let free = taken.trailing_ones() as usize;
            (free < WINDOW_SLOTS).then(|| taken | 1 << free)
        };
        // Acquire: pairs with the release in `drop`; the block's words are 0.
        let before = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, claim);
        let slot = before.ok().map(|taken| taken.trailing_ones() as usize);
        Arc::new(WindowCountsBlock {
            slot,
            rank: engine.live_counters(),
            words: engine.window_counters(slot),
        })
    }

    /// Where to count.
    pub(crate) fn words(&self) -> WindowCounterRef {
        self.words.clone()
    }

    /// Whether no other window counts here.
    pub(crate) fn is_own(&self) -> bool {
        self.slot.is_some()
    }

    /// What the window has counted.
    pub fn counts(&self) -> WindowCounts {
        WindowCounters::counts(&self.words)
    }
}

impl Drop for WindowCountsBlock {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.rank.retire_window(slot);
            // Release: pairs with the acquire in `take`.
            TAKEN.fetch_and(!(1 << slot), Ordering::Release);
        }
    }
}
