//! Moving pages: to the job segment's file, and, in the child of a fork, to private memory again. All system calls that change
//! what lies at a user's addresses are here.
//!
//! A piece is copied to a mapping beside it, which `mremap` then puts in the old one's place. The kernel does that under
//! its lock of the address space: another thread that reads meanwhile sees the old page or the new one, which hold the same.

use std::ops::Range;
use std::ptr;

use super::checks::Kept;

/// The size of a huge page: file offsets and addresses are congruent modulo this.
pub(super) const HUGE: usize = 2 << 20;

/// Bytes that are moved at a time: so much memory is needed twice for a moment.
const PIECE: usize = 64 << 20;

/// What a stretch of addresses shall be backed by.
#[derive(Debug, Clone, Copy)]
pub(super) enum Backing {
    /// The file `fd`, where address `a` is at offset `a + anchor` (wrapping).
    File { fd: i32, anchor: u64 },
    /// Private memory.
    Private,
}

/// Blocks all signals for as long as it lives: a handler must not write to a page that is being moved.
pub(super) struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    pub fn new() -> SignalsBlocked {
        // SAFETY: the calls write to these sets only, which are initialised before they are read.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut before = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            SignalsBlocked(before)
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set is what `new` was given.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, ptr::null_mut()) };
    }
}

/// Moves the pages at `pages` to new memory as `backing` says, contents kept, on NUMA node `node` if one is given. After an error
/// part of them may have been moved, each page wholly or not at all.
///
/// # Safety
/// 1. `pages` are whole pages, mapped and readable, of data that no reference in Rust relies on staying the same memory;
/// 2. nobody writes to them until this returns;
/// 3. the part of a file that is to be behind them is mapped nowhere else for writing.
pub(super) unsafe fn move_pages(
    pages: Range<usize>,
    backing: Backing,
    node: Option<u32>,
) -> Result<(), Kept> {
    let mut at = pages.start;
    while at < pages.end {
        // Pieces end at a huge page, so that all but the ends can be huge.
        let end = (at + PIECE) & !(HUGE - 1);
        let end = end.min(pages.end);
        // SAFETY: the obligations for all pages hold for a part of them.
        unsafe { move_piece(at, end - at, backing, node)? };
        at = end;
    }
    Ok(())
}

/// # Safety
/// As [`move_pages`].
unsafe fn move_piece(
    at: usize,
    len: usize,
    backing: Backing,
    node: Option<u32>,
) -> Result<(), Kept> {
    let room = len + HUGE;
    // SAFETY: a fresh reservation at an address of the kernel's choice.
    let reserved = unsafe {
        libc::mmap(
            ptr::null_mut(),
            room,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if reserved == libc::MAP_FAILED {
        return Err(Kept::NoMemory);
    }
    // Congruent with `at` modulo a huge page, so that huge pages can be moved as such.
    let skip = at.wrapping_sub(reserved.addr()) & (HUGE - 1);
    let beside = reserved.wrapping_byte_add(skip);
    let (flags, fd, offset) = match backing {
        Backing::File { fd, anchor } => {
            let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
            (flags, fd, (at as u64).wrapping_add(anchor))
        }
        Backing::Private => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
    };
    // SAFETY: the new mapping lies in the reservation, which nobody else knows of; copying reads `len` bytes that are
    // readable (obligation 1) and nobody writes (2) to memory just made. `mremap` then replaces exactly the pages that were
    // copied; their contents stay as they were.
    let result = unsafe {
        (|| {
            let mapped = libc::mmap(
                beside,
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | libc::MAP_FIXED,
                fd,
                offset as libc::off_t,
            );
            if mapped == libc::MAP_FAILED {
                return Err(Kept::Kernel);
            }
            if len >= HUGE {
                // Only advice: fails where the kernel has no huge pages.
                libc::madvise(beside, len, libc::MADV_HUGEPAGE);
            }
            if let Some(node) = node {
                prefer_node(beside, len, node);
            }
            // An error here, where touching the pages would be a signal.
            if libc::madvise(beside, len, libc::MADV_POPULATE_WRITE) < 0 {
                return Err(Kept::NoMemory);
            }
            let from = ptr::with_exposed_provenance::<u8>(at);
            ptr::copy_nonoverlapping(from, beside.cast::<u8>(), len);
            let to = ptr::with_exposed_provenance_mut::<libc::c_void>(at);
            let moved = libc::mremap(
                beside,
                len,
                len,
                libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
                to,
            );
            if moved == libc::MAP_FAILED {
                return Err(Kept::Kernel);
            }
            Ok(())
        })()
    };
    // The moved part may be somebody else's by now: give back only what is left.
    let unmap = |from: usize, to: usize| {
        if from < to {
            // SAFETY: this part of the reservation is still ours alone.
            unsafe { libc::munmap(reserved.wrapping_byte_add(from), to - from) };
        }
    };
    unmap(0, skip);
    unmap(skip + len, room);
    if result.is_err() {
        unmap(skip, skip + len);
    }
    result
}

/// Asks for memory of a NUMA node; without it, that of the calling thread's node is taken.
///
/// # Safety
/// `len` bytes at `at` are a mapping of the caller's.
unsafe fn prefer_node(at: *mut libc::c_void, len: usize, node: u32) {
    const MPOL_PREFERRED: usize = 1;
    let mut mask = [0u64; 16];
    if let Some(word) = mask.get_mut(node as usize / 64) {
        *word = 1 << (node % 64);
        // SAFETY: the mask has the 1,024 bits that the call is told of (it takes one off).
        unsafe {
            libc::syscall(
                libc::SYS_mbind,
                at,
                len,
                MPOL_PREFERRED,
                mask.as_ptr(),
                64 * mask.len() + 1,
                0,
            );
        }
    }
}

/// Makes an area of the file private in the child of a fork, with the protection it has. Where that fails, the area is
/// unmapped: better a fault in the child than writes to its parent's memory.
///
/// # Safety
/// 1. The calling process has one thread;
/// 2. `area` is mapped there.
pub(super) unsafe fn make_private(area: &mica_node::maps::Area) {
    let Range { start, end } = area.addresses.clone();
    let at = ptr::with_exposed_provenance_mut::<libc::c_void>(start);
    let len = end - start;
    // SAFETY: plain system calls on an area that exists (2); the copy's source is made readable first, and with one
    // thread (1) nobody in this process writes to it. That the parent's threads may, is a race that they have with `fork`
    // itself: the bytes are copied while `fork` has not returned there.
    unsafe {
        if !area.readable {
            libc::mprotect(at, len, libc::PROT_READ);
        }
        if move_pages(start..end, Backing::Private, None).is_err() {
            libc::munmap(at, len);
            return;
        }
        if !(area.readable && area.writable && !area.executable) {
            let flag = |on: bool, flag: i32| if on { flag } else { 0 };
            let protection = flag(area.readable, libc::PROT_READ)
                | flag(area.writable, libc::PROT_WRITE)
                | flag(area.executable, libc::PROT_EXEC);
            libc::mprotect(at, len, protection);
        }
    }
}
