//! Finding out from the kernel which parts of the slots are mapped where, and giving memory back.
//!
//! A *census* walks all file areas of the process and finds the parts of slots that are mapped,
//! anywhere. A part that an earlier census found and this one does not has been unmapped: its
//! memory is punched out of the file. A part that was never seen mapped is never punched, so a
//! census that misses an area which has just grown loses no bytes of it.
//!
//! The walk would miss an area that moves meanwhile from ahead of it to behind it. Migrated memory
//! does not move: `realloc` cannot move it (`migration::move_pages`, `apart`), and `mremap` by the
//! program is watched (`hooks`). For a program that makes the system call directly, the walk is
//! repeated until two in a row agree.

use std::ops::Range;

use super::buffers::{FileSlot, MigratedBuffers, MigratedRange, SlotHint, extents};
use super::eligibility::{ProcessStatus, SkipReason};
use super::extents::{gone, union, without};
use mica_node::procmap::{MappedArea, ProcMap};
use mica_node::segment::{SLOT_SPAN, SLOTS};

impl MigratedBuffers {
    /// The area as a part of one of this rank's slots, if it is one.
    pub fn place(&self, area: &MappedArea) -> Option<MigratedRange> {
        if area.inode != self.inode || area.device != self.device || !area.shared {
            return None;
        }
        let first = self.segment.slot_offset(self.me, 0);
        let slot = area.offset.checked_sub(first)? / SLOT_SPAN;
        let last = (area.offset + area.addresses.len() as u64 - 1).checked_sub(first)? / SLOT_SPAN;
        (slot < u64::from(SLOTS) && slot == last).then(|| MigratedRange {
            addresses: area.addresses.clone(),
            slot: slot as u32,
            offset: area.offset,
        })
    }

    /// The part of this rank's slots at an address, if there is one that can be read and written.
    pub fn place_at(&self, address: usize) -> Option<MigratedRange> {
        let area = self.maps.at(address).ok()??;
        if !(area.readable && area.writable) {
            return None;
        }
        self.place(&area)
    }

    /// Calls `each` with every area of this process that is a part of this rank's slots; false if
    /// the kernel did not report all areas.
    pub fn each_area(&self, maps: &ProcMap, each: impl FnMut(&MappedArea)) -> bool {
        self.each_area_of(maps, &(0..usize::MAX), each)
    }

    /// As [`each_area`](Self::each_area), for the areas that overlap `addresses`.
    pub fn each_area_of(
        &self,
        maps: &ProcMap,
        addresses: &Range<usize>,
        mut each: impl FnMut(&MappedArea),
    ) -> bool {
        let mut at = addresses.start;
        while at < addresses.end {
            match maps.next_of_a_file(at) {
                Ok(Some(area)) if area.addresses.start < addresses.end => {
                    if self.place(&area).is_some() {
                        each(&area);
                    }
                    at = area.addresses.end;
                }
                Ok(_) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    pub fn sweep_in_process(&mut self) -> Result<Vec<MigratedRange>, SkipReason> {
        let is_single = ProcessStatus::now()?.is_single;
        self.sweep(is_single)
    }

    /// Takes a census of this rank's slots, renews the hints, and gives back memory that is no
    /// longer mapped.
    pub fn sweep(&mut self, is_single: bool) -> Result<Vec<MigratedRange>, SkipReason> {
        let mut census = self.census()?;
        if !is_single {
            let mut rounds = 8;
            loop {
                let again = self.census()?;
                if again == census {
                    break;
                }
                census = again;
                rounds -= 1;
                if rounds == 0 {
                    return Err(SkipReason::Busy);
                }
            }
        }
        self.settle(&census);
        Ok(census)
    }

    /// Accepts a census as the current state.
    fn settle(&mut self, census: &[MigratedRange]) {
        self.renew_hints(census);
        let used = census.iter().map(|place| place.slot as usize + 1).max();
        if let Some(used) = used.filter(|&used| used > self.slots.len()) {
            // An earlier channel of this rank in this process has left migrated memory.
            self.slots.resize_with(used, FileSlot::default);
        }
        for slot in 0..self.slots.len() as u32 {
            let now = extents(census, slot);
            let known = &mut self.slots[slot as usize];
            if known.extents == now {
                continue;
            }
            let lost = gone(&known.extents, &now);
            if !lost.is_empty() && !known.is_idle() {
                // A peer may still access the slot: the next census gives memory back.
                known.extents = union(&known.extents, &now);
                continue;
            }
            known.extents = now;
            for part in &lost {
                self.punch(part, &[]);
            }
        }
        self.forget_advice(census);
    }

    fn renew_hints(&mut self, census: &[MigratedRange]) {
        self.hints.clear();
        for place in census {
            match self.hints.last_mut() {
                Some(last)
                    if last.slot == place.slot
                        && last.anchor == place.anchor()
                        && last.addresses.end == place.addresses.start =>
                {
                    last.addresses.end = place.addresses.end;
                }
                _ => self.hints.push(SlotHint {
                    addresses: place.addresses.clone(),
                    slot: place.slot,
                    anchor: place.anchor(),
                }),
            }
        }
        let hints = &self.hints;
        self.heads.retain(|head| {
            let next = hints.partition_point(|hint| hint.addresses.start <= *head);
            next > 0 && hints[next - 1].addresses.contains(head)
        });
    }

    pub fn census(&self) -> Result<Vec<MigratedRange>, SkipReason> {
        let mut census = Vec::new();
        let complete = self.each_area(&self.maps, |area| census.extend(self.place(area)));
        complete.then_some(census).ok_or(SkipReason::Kernel)
    }

    /// Whether some of what the last census found is no longer there, or could not be given back
    /// yet. Costs one query for each migrated area, however many other areas there are.
    pub fn has_lost_some(&self) -> bool {
        let is_gone = |hint: &SlotHint| {
            let mut at = hint.addresses.start;
            while at < hint.addresses.end {
                let area = self.maps.at(at).ok().flatten();
                match area.and_then(|area| self.place(&area)) {
                    Some(place) if place.slot == hint.slot => at = place.addresses.end,
                    _ => return true,
                }
            }
            false
        };
        let mapped: usize = self.hints.iter().map(|hint| hint.addresses.len()).sum();
        self.bytes() != mapped || self.hints.iter().any(is_gone)
    }

    /// Bytes of memory that lie in slots.
    pub fn bytes(&self) -> usize {
        let extents = self.slots.iter().flat_map(|slot| &slot.extents);
        extents.map(|part| (part.end - part.start) as usize).sum()
    }

    /// Gives the memory of a part of the file back, except `extents`, which are in order. The
    /// kernel only visits pages that exist, however long the part.
    pub fn punch(&self, part: &Range<u64>, extents: &[Range<u64>]) {
        for hole in without(part, extents) {
            // If the kernel refuses, the memory stays until the process ends.
            let _ = self.segment.punch(hole.start, hole.end - hole.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::raw;
    use super::*;
    use crate::direct::DirectOptions;
    use mica_node::segment::{JobSegment, JobSpec};
    use mica_node::topology;
    use std::sync::Arc;

    const PAGE: usize = 4096;

    fn owner() -> Option<MigratedBuffers> {
        if let Err(why) = ProcMap::open() {
            eprintln!("skipped: PROCMAP_QUERY: {why}");
            return None;
        }
        let spec = JobSpec::on_one_node(&[topology::CorePlace::UNKNOWN], 2, &[]);
        let segment = Arc::new(JobSegment::create(&spec).expect("segment"));
        let options = DirectOptions { mapped: true, mapped_max: 1 << 30, ..DirectOptions::CMA };
        Some(MigratedBuffers::new(&segment, 0, &options).expect("available"))
    }

    /// Maps pages of slot 0, at an address of the kernel's choice.
    fn map(owner: &MigratedBuffers, pages: usize) -> usize {
        use std::os::fd::AsRawFd;
        let offset = owner.segment.slot_offset(0, 0) + SLOT_SPAN / 2;
        // SAFETY: a fresh mapping.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                pages * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                owner.segment.as_fd().as_raw_fd(),
                offset as libc::off_t,
            )
        };
        assert_ne!(at, libc::MAP_FAILED);
        at.expose_provenance()
    }

    fn byte<'a>(at: usize) -> &'a mut u8 {
        // SAFETY: the tests' own memory, one reference at a time.
        unsafe { &mut *std::ptr::with_exposed_provenance_mut(at) }
    }

    /// A thread enlarges migrated memory, by an unobserved call, after a census that finds
    /// something else gone, and before memory is given back.
    #[test]
    fn growth_after_the_census_loses_no_bytes() {
        let Some(mut owner) = owner() else { return };
        let unmap = |from: usize, pages: usize| {
            let from = std::ptr::without_provenance_mut(from);
            // SAFETY: the test's own memory.
            assert_eq!(unsafe { libc::munmap(from, pages * PAGE) }, 0);
        };
        let first = map(&owner, 5);
        owner.sweep(false).expect("a census");
        unmap(first, 1);
        let at = first + PAGE;
        let census = owner.census().expect("a census");
        // SAFETY: the test's own memory, used at its new place only.
        let moved = unsafe {
            raw::call(
                libc::SYS_mremap,
                [at, 4 * PAGE, 64 * PAGE, libc::MREMAP_MAYMOVE as usize, 0, 0],
            )
        };
        let moved = raw::check(moved).expect("one area can grow");
        for page in 0..64 {
            *byte(moved + page * PAGE) = page as u8 + 1;
        }
        owner.settle(&census);
        let lost = (0..64).find(|page| *byte(moved + page * PAGE) != *page as u8 + 1);
        assert_eq!(lost, None, "bytes of a page are gone");
        owner.sweep(false).expect("a census");
        assert_eq!(owner.bytes(), 64 * PAGE);
        assert!(!owner.has_lost_some());
        // What is unmapped then is given back, the rest is not.
        unmap(moved + 32 * PAGE, 32);
        assert!(owner.has_lost_some());
        owner.sweep(false).expect("a census");
        assert_eq!(owner.bytes(), 32 * PAGE);
        let again = map(&owner, 65);
        for page in 0..65 {
            // The page before the part that moved.
            let expected = if (1..33).contains(&page) { page as u8 } else { 0 };
            assert_eq!(*byte(again + page * PAGE), expected, "page {page}");
        }
    }
}
