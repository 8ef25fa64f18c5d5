//! Other ranks' slots, mapped here. The same part of the file is the same memory, whatever buffer lies in it: so a mapping is
//! good for every buffer that its owner ever puts there, and is kept.

use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;

use crate::direct::window::Mapping;
use crate::direct::{Exposure, Window};
use mica_node::segment::{JobSegment, SLOT_SPAN, SLOTS};

/// Mappings reach so far around what is asked for (addresses cost nothing), that neighbours find it mapped, too.
const GRAIN: u64 = 64 << 20;

/// Mappings kept; beyond, all are forgotten and made anew as they are needed. The kernel's limit is 65,530 for all of a process.
const KEPT: usize = 4096;

/// A part of a slot, mapped.
#[derive(Debug)]
struct SlotMapping {
    base: usize,
    /// Offsets in the slot.
    offsets: Range<u64>,
}

impl Mapping for SlotMapping {
    fn addresses(&self) -> Range<usize> {
        self.base..self.base + (self.offsets.end - self.offsets.start) as usize
    }
}

impl Drop for SlotMapping {
    fn drop(&mut self) {
        let addresses = self.addresses();
        let at = ptr::with_exposed_provenance_mut(addresses.start);
        // SAFETY: mapped by `map` with this length; every window on it holds the mapping alive.
        unsafe { libc::munmap(at, addresses.len()) };
    }
}

#[derive(Debug, Default)]
pub(in crate::direct) struct PeerSlots {
    mappings: HashMap<(u32, u32), Arc<SlotMapping>>,
}

impl PeerSlots {
    pub fn window(
        &mut self,
        segment: &JobSegment,
        peer: u32,
        exposure: &Exposure,
        len: usize,
    ) -> Option<Window> {
        let reachable = exposure.reachable(len);
        let first = exposure.place;
        let last = first.checked_add(reachable.len() as u64)?;
        if exposure.slot >= SLOTS || last > SLOT_SPAN || !segment.is_member(peer) {
            return None;
        }
        let mapping = self.mapping(segment, (peer, exposure.slot), first..last)?;
        let start = mapping.base + (first - mapping.offsets.start) as usize;
        Some(Window {
            origin: start.wrapping_sub(reachable.start),
            reachable,
            mapping,
        })
    }

    fn mapping(
        &mut self,
        segment: &JobSegment,
        slot: (u32, u32),
        wanted: Range<u64>,
    ) -> Option<Arc<SlotMapping>> {
        let mut offsets = wanted.start / GRAIN * GRAIN..wanted.end.next_multiple_of(GRAIN);
        if let Some(known) = self.mappings.get(&slot) {
            if known.offsets.start <= wanted.start && wanted.end <= known.offsets.end {
                return Some(Arc::clone(known));
            }
            offsets.start = offsets.start.min(known.offsets.start);
            offsets.end = offsets.end.max(known.offsets.end);
        }
        let mapping = Arc::new(map(segment, slot, offsets, &wanted)?);
        if self.mappings.len() >= KEPT {
            self.mappings.clear();
        }
        self.mappings.insert(slot, Arc::clone(&mapping));
        Some(mapping)
    }
}

/// Maps `offsets` of a slot, with all pages of `wanted` present.
fn map(
    segment: &JobSegment,
    (peer, slot): (u32, u32),
    offsets: Range<u64>,
    wanted: &Range<u64>,
) -> Option<SlotMapping> {
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
    let mapping = SlotMapping {
        base: base.expose_provenance(),
        offsets,
    };
    // The owner has given these pages memory: this only enters them in our tables, and fails where a limit is in force.
    // SAFETY: sysconf has no obligations.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let first = wanted.start / page * page;
    let last = wanted.end.next_multiple_of(page);
    let from = base.wrapping_byte_add((first - mapping.offsets.start) as usize);
    // SAFETY: a part of the mapping just made.
    let result = unsafe { libc::madvise(from, (last - first) as usize, libc::MADV_POPULATE_WRITE) };
    (result == 0).then_some(mapping)
}
