//! The memory that the windows of one node may come to use: their pages come when they are touched.

use crate::sync::{AtomicU64, Ordering};

/// The node's count of bytes of windows, whether they have been touched or not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowBudget<'a>(&'a AtomicU64);

impl<'a> WindowBudget<'a> {
    pub fn new(promised: &'a AtomicU64) -> WindowBudget<'a> {
        WindowBudget(promised)
    }

    /// Counts a window's bytes; returns those of all windows.
    pub fn promise(&self, bytes: usize) -> u64 {
        // Relaxed, here and below: only the number matters; the kernel orders the memory.
        self.0.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64
    }

    /// A window of that many bytes is given back.
    pub fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}
