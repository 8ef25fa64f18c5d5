//! Hints to the processor.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Prefetches the lines of `bytes` bytes at `address` for writing, so that a store soon after need
/// not wait for the invalidation of other processors' copies. It neither reads nor writes, and any
/// address is allowed.
#[inline(always)]
pub fn fetch_for_writing(address: *const u8, bytes: usize) {
    for at in (0..bytes).step_by(LINE) {
        let line = address.wrapping_add(at);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the instruction changes nothing and faults on no address. (`_mm_prefetch` is no
        // replacement: where the target's features do not include this instruction, which older
        // processors ignore, it becomes a hint for reading.)
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) line,
                options(nostack, preserves_flags, readonly));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            std::arch::asm!("prfm pstl1keep, [{}]", in(reg) line,
                options(nostack, preserves_flags, readonly));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = line;
    }
}
