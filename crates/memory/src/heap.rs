//! The heap that blocks come from.

/// Returns the empty pages of the heap to the system. Call it after much memory of small
/// allocations has been freed: C's allocator keeps these pages otherwise. Takes about as long as it
/// took to touch them.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes the allocator's own locks and touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
