//! The heap that blocks come from.

/// Gives the pages of the heap that hold nothing back to the system, after much has been freed that
/// was allocated in small parts: C's allocator keeps them otherwise. Takes about as long as it took
/// to touch them.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes the allocator's own locks and touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
