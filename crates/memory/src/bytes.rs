//! Copies between raw addresses, tuned for the lengths of messages.

use std::ptr;

/// Bytes that are copied without a call.
pub const FEW_BYTES: usize = 16;

/// Copies `bytes` bytes, short ones without a call.
///
/// # Safety
/// As `ptr::copy`; for 0 bytes nothing is asked.
#[inline]
pub(super) unsafe fn copy_of_any_length(from: *const u8, to: *mut u8, bytes: usize) {
    match bytes {
        0 => {}
        // SAFETY: by the contract; so few bytes are all read before any is written.
        1..=FEW_BYTES => unsafe { copy_small(from, to, bytes) },
        // SAFETY: by the contract.
        _ => unsafe { copy_any(from, to, bytes) },
    }
}

/// `memcpy` for any number of bytes that has glibc use the right instructions.
///
/// glibc's `memcpy` uses `rep movsb` from 2 KiB on.
/// - On AMD's Zen cores that is thirty times slower than usual where the destination begins up to
///   63 bytes further into its page than the source: 16 KiB take 6 us instead of 0.2. A large
///   receive buffer from `malloc` (16 bytes into a page) has this offset when it is filled from
///   memory that starts at a page. Shorter copies do not use it, so long copies are split into
///   short pieces in this case.
/// - From the size of the second cache on, glibc prefers loops of vectors there, though `rep movsb`
///   need not read the lines that it overwrites: 1 MiB takes 18.7 us and in two halves 15.7, 2 MiB
///   41 and 34, 4 MiB the same. Far beyond, stores that bypass the caches are its choice, and
///   right.
///
/// # Safety
/// As `ptr::copy_nonoverlapping`.
#[inline(always)]
pub(super) unsafe fn copy_long(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: by the contract above.
    unsafe {
        if bytes > SHORT && piece_of(from, to, bytes) < bytes {
            copy_in_pieces(from, to, bytes);
        } else {
            ptr::copy_nonoverlapping(from, to, bytes);
        }
    }
}

/// As [`copy_long`], for ranges that may overlap.
///
/// # Safety
/// As `ptr::copy`.
#[inline]
pub(super) unsafe fn copy_any(from: *const u8, to: *mut u8, bytes: usize) {
    let overlap = from.addr().abs_diff(to.addr()) < bytes;
    // SAFETY: by the contract above; only ranges that do not overlap are copied in pieces.
    unsafe {
        if bytes > SHORT && !overlap && piece_of(from, to, bytes) < bytes {
            copy_in_pieces(from, to, bytes);
        } else {
            ptr::copy(from, to, bytes);
        }
    }
}

/// Bytes up to which glibc's `memcpy` does not use `rep movsb`.
const SHORT: usize = 2048;

/// Bytes up to which it does on AMD's cores: half of a second cache of 1 MiB.
const HALF_CACHE: usize = 512 << 10;

/// Bytes up to which halves of the cache are copied one by one.
const HALVED_MAX: usize = 4 << 20;

/// Bytes to copy at a time.
#[inline(always)]
fn piece_of(from: *const u8, to: *mut u8, bytes: usize) -> usize {
    if (1..64).contains(&(to.addr().wrapping_sub(from.addr()) & 4095)) {
        SHORT
    } else if bytes <= HALVED_MAX {
        HALF_CACHE
    } else {
        bytes
    }
}

/// # Safety
/// As `ptr::copy_nonoverlapping`.
#[inline(never)]
unsafe fn copy_in_pieces(from: *const u8, to: *mut u8, bytes: usize) {
    let piece = piece_of(from, to, bytes);
    for at in (0..bytes).step_by(piece) {
        let part = piece.min(bytes - at);
        // SAFETY: a part of the ranges of the contract.
        unsafe { ptr::copy_nonoverlapping(from.wrapping_add(at), to.wrapping_add(at), part) };
    }
}

/// `memcpy` that copies up to 16 bytes without a call.
///
/// # Safety
/// 1. `from` is readable and `to` writable for `bytes` bytes;
/// 2. the two ranges do not overlap.
#[inline(always)]
pub(super) unsafe fn copy_small(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: all loads and stores lie within the first `bytes` bytes: two words that overlap cover
    // 8 to 16 bytes, two half words 4 to 8; unaligned accesses are used throughout.
    unsafe {
        if bytes > FEW_BYTES {
            copy_long(from, to, bytes);
        } else if bytes >= 8 {
            let head = from.cast::<u64>().read_unaligned();
            let tail = from.add(bytes - 8).cast::<u64>().read_unaligned();
            to.cast::<u64>().write_unaligned(head);
            to.add(bytes - 8).cast::<u64>().write_unaligned(tail);
        } else if bytes >= 4 {
            let head = from.cast::<u32>().read_unaligned();
            let tail = from.add(bytes - 4).cast::<u32>().read_unaligned();
            to.cast::<u32>().write_unaligned(head);
            to.add(bytes - 4).cast::<u32>().write_unaligned(tail);
        } else if bytes > 0 {
            let (head, middle, tail) = (*from, *from.add(bytes / 2), *from.add(bytes - 1));
            *to = head;
            *to.add(bytes / 2) = middle;
            *to.add(bytes - 1) = tail;
        }
    }
}
