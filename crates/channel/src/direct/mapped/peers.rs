//! Other ranks' slots, mapped here. A part of the file is the same memory whichever buffer lies in
//! it, so a mapping is valid for every buffer that its owner ever puts there, and is kept.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;

use crate::direct::{Exposure, MappedWindow};
use mica_memory::Block;
use mica_node::page::kernel_page_size;
use mica_node::segment::{JobSegment, SLOT_SPAN, SLOTS};

/// Alignment of mappings in bytes: they extend beyond the requested part (address space costs
/// nothing), so that neighbouring buffers are mapped, too.
const GRAIN: u64 = 64 << 20;

/// Mappings kept; beyond that, all are dropped and mapped again on demand. The kernel's limit is
/// 65,530 mappings per process.
const KEPT: usize = 4096;

/// A part of a slot, mapped.
#[derive(Debug, Clone)]
struct MappedSlotPart {
    /// Offsets in the slot.
    offsets: Range<u64>,
    mapping: Arc<Block>,
}

/// Unmaps a part of a slot.
#[derive(Debug)]
struct Unmap {
    addresses: Range<usize>,
}

impl Drop for Unmap {
    fn drop(&mut self) {
        let at = ptr::with_exposed_provenance_mut(self.addresses.start);
        // SAFETY: mapped by `map` with this length; every window and region on it holds the
        // mapping.
        unsafe { libc::munmap(at, self.addresses.len()) };
    }
}

#[derive(Debug, Default)]
pub(in crate::direct) struct PeerSlots {
    /// By owner and slot. An ordered map: there are few entries, looked up for every copy, and
    /// hashing takes longer.
    parts: BTreeMap<(u32, u32), MappedSlotPart>,
}

impl PeerSlots {
    /// Forgets the slots of `peer`. Windows on them stay as long as they are used.
    pub fn forget(&mut self, peer: u32) {
        self.parts.retain(|&(owner, _), _| owner != peer);
    }

    pub fn window(
        &mut self,
        segment: &JobSegment,
        peer: u32,
        exposure: &Exposure,
        len: usize,
    ) -> Option<MappedWindow> {
        let reachable = exposure.reachable(len);
        let first = exposure.place;
        let last = first.checked_add(reachable.len() as u64)?;
        if exposure.slot >= SLOTS || last > SLOT_SPAN || !segment.is_member(peer) {
            return None;
        }
        let part = self.part(segment, (peer, exposure.slot), first..last)?;
        let start = part.mapping.addresses().start + (first - part.offsets.start) as usize;
        Some(MappedWindow {
            origin: start.wrapping_sub(reachable.start),
            reachable,
            mapping: part.mapping,
        })
    }

    fn part(
        &mut self,
        segment: &JobSegment,
        slot: (u32, u32),
        wanted: Range<u64>,
    ) -> Option<MappedSlotPart> {
        let mut offsets = wanted.start / GRAIN * GRAIN..wanted.end.next_multiple_of(GRAIN);
        if let Some(known) = self.parts.get(&slot) {
            if known.offsets.start <= wanted.start && wanted.end <= known.offsets.end {
                return Some(known.clone());
            }
            offsets.start = offsets.start.min(known.offsets.start);
            offsets.end = offsets.end.max(known.offsets.end);
        }
        let part = MappedSlotPart { mapping: map(segment, slot, &offsets, &wanted)?, offsets };
        if self.parts.len() >= KEPT {
            self.parts.clear();
        }
        self.parts.insert(slot, part.clone());
        Some(part)
    }
}

/// Maps `offsets` of a slot, with all pages of `wanted` present.
fn map(
    segment: &JobSegment,
    (peer, slot): (u32, u32),
    offsets: &Range<u64>,
    wanted: &Range<u64>,
) -> Option<Arc<Block>> {
    let len = usize::try_from(offsets.end - offsets.start).ok()?;
    let at = segment.slot_offset(peer, slot) + offsets.start;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let base = unsafe {
        libc::mmap(
            ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            segment.as_fd().as_raw_fd(),
            at as libc::off_t,
        )
    };
    if base == libc::MAP_FAILED {
        return None;
    }
    let start = base.expose_provenance();
    let addresses = start..start + len;
    let unmap = Unmap { addresses: addresses.clone() };
    // The owner has allocated these pages: the call only enters them in this process's page tables,
    // and fails where a limit is in force. To be read: the kernel enters 16 pages a fault then, and
    // lets stores through to shared memory all the same.
    let page = kernel_page_size() as u64;
    let first = wanted.start / page * page;
    let last = wanted.end.next_multiple_of(page);
    let from = base.wrapping_byte_add((first - offsets.start) as usize);
    // SAFETY: a part of the mapping just made.
    let result = unsafe { libc::madvise(from, (last - first) as usize, libc::MADV_POPULATE_READ) };
    // SAFETY: 1. mapped so until `unmap` is dropped, and at an address of the kernel's choice; 2.
    // what a window reaches of it is a buffer that the peer has exposed: the window's contract.
    (result == 0).then(|| unsafe { Block::mapped(addresses, unmap) })
}
