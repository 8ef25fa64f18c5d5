//! The size of a page of memory: what may be mapped, allocated or given back by itself.

use std::sync::OnceLock;

use crate::tunables;

/// Bytes of a page of the kernel's.
pub fn kernel_page_size() -> usize {
    // SAFETY: no obligations.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Bytes of a page: 4 KiB on x86-64; a kernel for aarch64 may have 16 or 64 KiB. `MICA_PAGE_SIZE`
/// pretends that they are more. Offsets of a file that are mapped by themselves are multiples of
/// this.
pub fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        let size = kernel_page_size();
        let pretended = tunables::PAGE_SIZE.number().unwrap_or(0) as usize;
        if pretended.is_power_of_two() { size.max(pretended) } else { size }
    })
}
