//! Tracks which memory is known to be present: the counterpart of the pinned-page cache of
//! chai-2009, 5.1.1.
//!
//! In the paper the kernel pinned the pages of a buffer before the device could use it, and kept
//! them pinned for the next use. With shared virtual memory nothing is pinned: the device walks
//! this process's page table. But a page that is not present ends an operation early, and resuming
//! it costs more than populating the page first. So a range is populated by one `madvise` before
//! its first use, and recorded.
//!
//! The record is a hint: pages may disappear again (swapped out, unmapped, another mapping at the
//! same address). Then the device reports a fault, the CPU continues, and the range is removed.
//! Only speed depends on it.

use std::ops::Range;

/// Ranges that are recorded; the least recently used one is evicted first.
const RANGES: usize = 16;

const PAGE: usize = 4096;

/// How the device accesses memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageAccess {
    Read,
    Write,
}

/// The ranges known to be present, most recently used last. A range that is present for writing is
/// also present for reading.
#[derive(Debug, Default)]
pub(super) struct Presence {
    ranges: Vec<(Range<usize>, PageAccess)>,
}

impl Presence {
    /// Populates the `len` bytes at `address` if they are not known to be present; best effort.
    pub(super) fn ensure(&mut self, address: usize, len: usize, access: PageAccess) {
        self.ensure_by(address, len, access, populate);
    }

    fn ensure_by(
        &mut self,
        address: usize,
        len: usize,
        access: PageAccess,
        populate: impl FnOnce(&Range<usize>, PageAccess),
    ) {
        let mut pages = address & !(PAGE - 1)..(address + len).next_multiple_of(PAGE);
        if let Some(at) = self.ranges.iter().position(|(known, may)| {
            known.start <= pages.start
                && pages.end <= known.end
                && (*may == access || access == PageAccess::Read)
        }) {
            let hit = self.ranges.remove(at);
            self.ranges.push(hit);
            return;
        }
        populate(&pages, access);
        // A buffer is presented chunk by chunk: adjacent ranges are merged.
        self.ranges.retain(|(known, may)| {
            let touches = known.start <= pages.end && pages.start <= known.end;
            if touches && *may == access {
                pages = known.start.min(pages.start)..known.end.max(pages.end);
            }
            !(touches && *may == access)
        });
        if self.ranges.len() == RANGES {
            self.ranges.remove(0);
        }
        self.ranges.push((pages, access));
    }

    /// Removes the ranges that overlap the `len` bytes at `address`.
    pub(super) fn forget(&mut self, address: usize, len: usize) {
        self.ranges.retain(|(known, _)| known.end <= address || address + len <= known.start);
    }
}

/// Faults pages in. If the kernel (before 5.14) or the mapping does not support it, the device will
/// report a fault.
fn populate(pages: &Range<usize>, access: PageAccess) {
    let advice = match access {
        PageAccess::Read => libc::MADV_POPULATE_READ,
        PageAccess::Write => libc::MADV_POPULATE_WRITE,
    };
    // SAFETY: populating changes no byte: it faults in pages as a read or a write would. The range
    // is that of a job's view, rounded to pages.
    unsafe { libc::madvise(std::ptr::without_provenance_mut(pages.start), pages.len(), advice) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the range had to be populated.
    fn is_new(presence: &mut Presence, address: usize, len: usize, access: PageAccess) -> bool {
        let mut called = false;
        presence.ensure_by(address, len, access, |_, _| called = true);
        called
    }

    #[test]
    fn a_known_range_is_not_populated_again() {
        let mut presence = Presence::default();
        assert!(is_new(&mut presence, 0x10_0010, 100, PageAccess::Read));
        assert!(!is_new(&mut presence, 0x10_0f00, 50, PageAccess::Read), "same page");
        assert!(is_new(&mut presence, 0x10_0f00, 50, PageAccess::Write), "only read so far");
        assert!(!is_new(&mut presence, 0x10_0f00, 50, PageAccess::Read));
        assert!(is_new(&mut presence, 0x10_1000, 4096, PageAccess::Write));
        assert!(!is_new(&mut presence, 0x10_0800, 4096, PageAccess::Write), "neighbours are one");
        presence.forget(0x10_1001, 1);
        assert!(is_new(&mut presence, 0x10_1000, 1, PageAccess::Write));
    }

    #[test]
    fn the_range_used_longest_ago_goes() {
        let mut presence = Presence::default();
        let address = |i: usize| (2 * i + 2) * PAGE;
        for i in 0..RANGES {
            assert!(is_new(&mut presence, address(i), 1, PageAccess::Read));
        }
        assert!(!is_new(&mut presence, address(0), 1, PageAccess::Read));
        assert!(is_new(&mut presence, address(RANGES), 1, PageAccess::Read));
        assert!(!is_new(&mut presence, address(0), 1, PageAccess::Read));
        assert!(is_new(&mut presence, address(1), 1, PageAccess::Read));
    }

    #[test]
    fn populated_pages_are_present() {
        let pages = 8;
        // SAFETY: a fresh anonymous mapping, unmapped below; mincore writes one byte a page.
        unsafe {
            let base = libc::mmap(
                std::ptr::null_mut(),
                pages * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(base, libc::MAP_FAILED);
            Presence::default().ensure(base.addr() + 100, 7 * PAGE, PageAccess::Write);
            let mut present = vec![0u8; pages];
            assert_eq!(libc::mincore(base, pages * PAGE, present.as_mut_ptr()), 0);
            libc::munmap(base, pages * PAGE);
            assert!(present.iter().all(|&p| p & 1 == 1), "{present:?}");
        }
    }
}
