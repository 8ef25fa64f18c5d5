//! Moving pages: to the job segment's file and, in the child of a fork, back to private memory. All
//! system calls that change what lies at a user's addresses are in this module.
//!
//! A piece is copied to a separate mapping, which `mremap` then puts in the place of the old one.
//! The kernel does that under its lock of the address space: another thread that reads meanwhile
//! sees the old page or the new one, which have the same content.

use std::ops::Range;
use std::ptr;

use super::eligibility::SkipReason;
use super::raw;

/// The size of a huge page: file offsets and addresses are congruent modulo this.
pub(super) const HUGE: usize = 2 << 20;

/// Bytes that are moved at a time, which need memory twice while they are copied.
const PIECE: usize = 64 << 20;

/// The memory that backs a stretch of addresses after the move.
#[derive(Debug, Clone, Copy)]
pub(super) enum Backing {
    /// The file `fd`, where address `a` is at offset `a + anchor` (wrapping).
    File { fd: i32, anchor: u64 },
    /// Private memory.
    Private,
}

/// Puts one mapping in the place of another: `mremap` with MREMAP_FIXED, or in tests a function
/// that fails as the kernel may.
type PutInPlace = unsafe fn(from: usize, len: usize, to: usize) -> Result<(), i32>;

/// Moves the pages at `pages`, with their contents, to new memory as `backing` says, on NUMA node
/// `node` if one is given. After an error some of the pages may have been moved, each as a whole.
///
/// Children that are created without fork handlers do not get pages of the file (MADV_DONTFORK):
/// see [`fork`](super::fork). Those listed in `apart` become areas of their own: the kernel then
/// refuses (EFAULT) to resize or move what begins with one and goes on behind it, such as a whole
/// block of malloc by the `mremap` of `realloc`.
///
/// # Safety
/// 1. `pages` are whole pages, mapped and readable, of data that no reference in Rust relies on
///    staying the same memory;
/// 2. no thread writes to them until this returns;
/// 3. the part of a file that will back them is mapped nowhere else for writing.
pub(super) unsafe fn move_pages(
    pages: Range<usize>,
    backing: Backing,
    node: Option<u32>,
    apart: &[Range<usize>],
) -> Result<(), SkipReason> {
    let mut at = pages.start;
    while at < pages.end {
        // Pieces end at a huge page, so that all but the ends can be huge.
        let mut end = ((at + PIECE) & !(HUGE - 1)).min(pages.end);
        let mut is_apart = false;
        for page in apart {
            if page.start == at {
                (end, is_apart) = (page.end.min(pages.end), true);
            } else if at < page.start && page.start < end {
                end = page.start;
            }
        }
        let piece = MigrationPiece { at, len: end - at, backing, node, is_apart };
        // SAFETY: the obligations for all pages hold for a part of them; `raw::move_to` is
        // `mremap`.
        unsafe { move_piece(&piece, raw::move_to)? };
        at = end;
    }
    Ok(())
}

/// What [`move_piece`] moves.
struct MigrationPiece {
    at: usize,
    len: usize,
    backing: Backing,
    node: Option<u32>,
    is_apart: bool,
}

impl MigrationPiece {
    /// Maps fresh memory with the piece's backing at `to`, in place of what is mapped there.
    ///
    /// # Safety
    /// `len` bytes at `to` are the caller's to replace.
    unsafe fn map(&self, to: usize) -> Result<(), SkipReason> {
        let (flags, fd, offset) = match self.backing {
            Backing::File { fd, anchor } => {
                let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
                (flags, fd, (self.at as u64).wrapping_add(anchor))
            }
            Backing::Private => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
        };
        // SAFETY: the obligation.
        let mapped = unsafe {
            libc::mmap(
                ptr::without_provenance_mut(to),
                self.len,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | libc::MAP_FIXED,
                fd,
                offset as libc::off_t,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(SkipReason::Kernel);
        }
        // SAFETY: advice on the mapping just made.
        unsafe {
            if self.len >= HUGE {
                // Only advice: ignore failure, as on a kernel without huge pages.
                let _ = raw::advise(to, self.len, libc::MADV_HUGEPAGE);
            }
            if let Backing::File { .. } = self.backing {
                raw::advise(to, self.len, libc::MADV_DONTFORK).map_err(|_| SkipReason::Kernel)?;
                if self.is_apart {
                    // No effect on memory, but the kernel merges only areas with the same advice.
                    raw::advise(to, self.len, libc::MADV_RANDOM).map_err(|_| SkipReason::Kernel)?;
                }
            }
        }
        Ok(())
    }

    /// Copies the piece to `to`, where [`map`](Self::map) has mapped fresh memory.
    ///
    /// Out of memory is an error here, but would raise a signal when the pages are touched. A file
    /// is written by the kernel, which need not clear its pages first, and maps 16 pages a fault
    /// when they are there already: 16 MiB took 6.9 ms of processor time this way, and 10.3 by
    /// clearing, mapping and copying page by page (a virtual machine with nested page tables).
    ///
    /// # Safety
    /// As [`move_pages`]; `len` bytes at `to` are the caller's.
    unsafe fn copy_to(&self, to: usize) -> Result<(), SkipReason> {
        // SAFETY: readable memory that no other thread writes to.
        let is_written = unsafe { self.write_to_file() };
        let advice = match is_written {
            true => libc::MADV_POPULATE_READ,
            false => libc::MADV_POPULATE_WRITE,
        };
        // SAFETY: the obligation; the advice changes no content.
        unsafe { raw::advise(to, self.len, advice) }.map_err(|_| SkipReason::NoMemory)?;
        if !is_written {
            let from = ptr::with_exposed_provenance::<u8>(self.at);
            let to = ptr::with_exposed_provenance_mut::<u8>(to);
            // SAFETY: the obligation.
            unsafe { ptr::copy_nonoverlapping(from, to, self.len) };
        }
        Ok(())
    }

    /// Writes the piece to its place in the file. False if it is to be copied by other means: it
    /// has no file; the file gets huge pages only where they are touched; a limit on the length of
    /// files has come into force, where a write raises a signal; or the kernel refuses.
    ///
    /// # Safety
    /// The piece is readable.
    unsafe fn write_to_file(&self) -> bool {
        let Backing::File { fd, anchor } = self.backing else {
            return false;
        };
        if self.len >= HUGE && raw::shares_huge_pages_on_advice() || raw::limits_files() {
            return false;
        }
        let mut done = 0;
        while done < self.len {
            let from = ptr::with_exposed_provenance(self.at + done);
            let offset = ((self.at + done) as u64).wrapping_add(anchor) as libc::off_t;
            // SAFETY: reads the rest of the piece.
            let written = unsafe { libc::pwrite(fd, from, self.len - done, offset) };
            match usize::try_from(written) {
                Ok(written) if written > 0 => done += written,
                _ => return false,
            }
        }
        true
    }
}

/// # Safety
/// As [`move_pages`]; `put` does nothing but what `mremap` does.
unsafe fn move_piece(piece: &MigrationPiece, put: PutInPlace) -> Result<(), SkipReason> {
    let (at, len) = (piece.at, piece.len);
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
        return Err(SkipReason::NoMemory);
    }
    let reserved = reserved.expose_provenance();
    // Congruent with `at` modulo a huge page, so that huge pages can be moved as such.
    let skip = at.wrapping_sub(reserved) & (HUGE - 1);
    let beside = reserved + skip;
    // SAFETY: the new mapping lies in the reservation, which no other code knows of; copying reads
    // `len` bytes that are readable (obligation 1) and not written by others (2), and writes to
    // memory just mapped. `put` then replaces exactly the pages that were copied; their contents
    // stay as they were.
    let result = unsafe {
        (|| {
            piece.map(beside)?;
            if let Some(node) = piece.node {
                prefer_node(beside, len, node);
            }
            piece.copy_to(beside)?;
            match put(beside, len, at) {
                Ok(()) => Ok(CopyPlacement::Moved),
                Err(_) => recover(piece, beside),
            }
        })()
    };
    let unmap = |from: usize, to: usize| {
        if from < to {
            // SAFETY: this part of the reservation is still used by this function only.
            unsafe { libc::munmap(ptr::without_provenance_mut(from), to - from) };
        }
    };
    unmap(reserved, beside);
    unmap(beside + len, reserved + room);
    if !matches!(result, Ok(CopyPlacement::Moved)) {
        unmap(beside, beside + len);
    }
    result.map(|_| ())
}

/// How a piece's copy was put in place.
#[derive(Debug, PartialEq, Eq)]
enum CopyPlacement {
    /// The mapping that holds the copy was moved there.
    Moved,
    /// The same memory, or a second copy, was mapped there.
    Mapped,
}

/// Attempts to map a vanished piece again before the process aborts.
const ATTEMPTS: u32 = 1000;

/// Recovers from a refused `mremap`: the kernel unmaps what lies at the destination first, and may
/// fail after that. Then the copy at `beside` is the only copy of the program's data, and is put in
/// place by other means.
///
/// # Safety
/// As [`move_pages`]; `beside` holds the copy.
unsafe fn recover(piece: &MigrationPiece, beside: usize) -> Result<CopyPlacement, SkipReason> {
    let hole = ptr::without_provenance_mut(piece.at);
    // SAFETY: changes nothing; fails if some of it is not mapped.
    if unsafe { libc::msync(hole, piece.len, libc::MS_ASYNC) } == 0 {
        return Err(SkipReason::Kernel);
    }
    for _ in 0..ATTEMPTS {
        // SAFETY: the addresses are the program's own piece, which is gone; file pages hold the
        // copy already, and private ones get it before any other thread can read them: a process
        // that moves to private memory has one thread.
        unsafe {
            if piece.map(piece.at).is_ok() {
                if let Backing::Private = piece.backing {
                    let from = ptr::with_exposed_provenance::<u8>(beside);
                    let to = ptr::with_exposed_provenance_mut::<u8>(piece.at);
                    ptr::copy_nonoverlapping(from, to, piece.len);
                }
                return Ok(CopyPlacement::Mapped);
            }
        }
        if let Backing::Private = piece.backing {
            return Err(SkipReason::Kernel);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // The process cannot continue without the program's data.
    eprintln!(
        "mica: the kernel has unmapped {} bytes of this program at {:#x} and refuses to map them \
         again (out of memory, or vm.max_map_count reached); MICA_MAPPED=off avoids this",
        piece.len, piece.at
    );
    std::process::abort();
}

/// Requests memory of a NUMA node; without this, memory of the calling thread's node is taken.
///
/// # Safety
/// `len` bytes at `at` are a mapping of the caller's.
unsafe fn prefer_node(at: usize, len: usize, node: u32) {
    const MPOL_PREFERRED: usize = 1;
    let mut mask = [0u64; 16];
    if let Some(word) = mask.get_mut(node as usize / 64) {
        *word = 1 << (node % 64);
        // SAFETY: the mask has the 1,024 bits that the call reads (the kernel subtracts one from
        // the number passed).
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

/// Makes an area of the file private in the child of a fork, with the protection it has. Where that
/// fails, the area is unmapped: a fault in the child is better than writes to its parent's memory.
///
/// # Safety
/// 1. The calling process has one thread;
/// 2. `area` is mapped there.
pub(super) unsafe fn make_private(area: &mica_node::procmap::MappedArea) {
    let Range { start, end } = area.addresses.clone();
    let at = ptr::with_exposed_provenance_mut::<libc::c_void>(start);
    let len = end - start;
    // SAFETY: plain system calls on an area that exists (2); the copy's source is made readable
    // first, and with one thread (1) no other thread of this process writes to it. The parent's
    // threads may write to it, but that race exists with `fork` itself: the bytes are copied before
    // `fork` returns in the parent.
    unsafe {
        if !area.readable {
            libc::mprotect(at, len, libc::PROT_READ);
        }
        if move_pages(start..end, Backing::Private, None, &[]).is_err() {
            libc::munmap(at, len);
            return;
        }
        if !(area.readable && area.writable && !area.executable) {
            let protection = raw::protection(area);
            libc::mprotect(at, len, protection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;
    const LEN: usize = 8 * PAGE;

    /// Fails as the kernel does when it fails late: the destination is already unmapped.
    unsafe fn fails_late(_: usize, len: usize, to: usize) -> Result<(), i32> {
        // SAFETY: the test's own memory.
        let result = unsafe { libc::munmap(ptr::without_provenance_mut(to), len) };
        assert_eq!(result, 0);
        Err(libc::ENOMEM)
    }

    /// Fails as the kernel does when it fails early: nothing has changed.
    unsafe fn fails_early(_: usize, _: usize, _: usize) -> Result<(), i32> {
        Err(libc::EPERM)
    }

    fn memory() -> usize {
        // SAFETY: a fresh mapping.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                LEN,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(at, libc::MAP_FAILED);
        let at = at.expose_provenance();
        for i in 0..LEN {
            // SAFETY: in the mapping just made.
            unsafe {
                ptr::with_exposed_provenance_mut::<u8>(at + i).write(i as u8 ^ (i >> 8) as u8)
            };
        }
        at
    }

    fn check(at: usize) {
        for i in 0..LEN {
            // SAFETY: the test's own memory; a fault fails the test.
            let byte = unsafe { ptr::with_exposed_provenance::<u8>(at + i).read_volatile() };
            assert_eq!(byte, i as u8 ^ (i >> 8) as u8, "byte {i}");
        }
    }

    fn file() -> i32 {
        // SAFETY: makes a descriptor.
        unsafe {
            let fd = libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC);
            assert!(fd >= 0 && libc::ftruncate(fd, 1 << 30) == 0);
            fd
        }
    }

    fn piece(at: usize, backing: Backing) -> MigrationPiece {
        MigrationPiece { at, len: LEN, backing, node: None, is_apart: false }
    }

    #[test]
    fn keeps_the_bytes_when_mremap_has_unmapped_the_destination() {
        let fd = file();
        let at = memory();
        let anchor = (64u64 << 20).wrapping_sub(at as u64);
        let to_file = piece(at, Backing::File { fd, anchor });
        // SAFETY: the test's own memory, in one thread.
        unsafe { move_piece(&to_file, fails_late) }.expect("mapped another way");
        check(at);
        // The pages are the file's memory: what is written to the file is seen here.
        let byte = [77u8];
        // SAFETY: one byte from a variable.
        let written = unsafe { libc::pwrite(fd, byte.as_ptr().cast(), 1, 64 << 20) };
        assert_eq!(written, 1);
        // SAFETY: the test's own memory.
        let seen = unsafe { ptr::with_exposed_provenance::<u8>(at).read_volatile() };
        assert_eq!(seen, 77);
        let at = memory();
        // SAFETY: as above.
        unsafe { move_piece(&piece(at, Backing::Private), fails_late) }.expect("copied again");
        check(at);
    }

    #[test]
    fn leaves_memory_where_it_is_when_mremap_refuses() {
        let fd = file();
        let at = memory();
        let anchor = (64u64 << 20).wrapping_sub(at as u64);
        let to_file = piece(at, Backing::File { fd, anchor });
        // SAFETY: the test's own memory, in one thread.
        let result = unsafe { move_piece(&to_file, fails_early) };
        assert_eq!(result, Err(SkipReason::Kernel));
        check(at);
    }

    #[test]
    fn a_page_apart_keeps_mremap_from_resizing() {
        let fd = file();
        let at = memory();
        let backing = Backing::File { fd, anchor: (64u64 << 20).wrapping_sub(at as u64) };
        let apart = std::slice::from_ref(&(at..at + PAGE)).to_vec();
        // SAFETY: the test's own memory, in one thread.
        unsafe { move_pages(at..at + LEN, backing, None, &apart) }.expect("moved");
        check(at);
        // SAFETY: the test's own memory.
        let result = unsafe {
            raw::call(libc::SYS_mremap, [at, LEN, 2 * LEN, libc::MREMAP_MAYMOVE as usize, 0, 0])
        };
        assert_eq!(raw::check(result), Err(libc::EFAULT));
        check(at);
    }
}
