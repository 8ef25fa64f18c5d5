//! Decides which pages of a buffer are moved where, so that all of them lie in one slot.

use std::ops::Range;

use super::buffers::{FileSlot, MigratedBuffers, MigratedRange, meet};
use super::eligibility::{self, ProcessStatus, SkipReason};
use super::holders::AsyncReads;
use super::migration::HUGE;
use crate::direct::ExpectedUse;
use mica_node::segment::{SLOT_SPAN, SLOTS};

/// Bytes of migrated buffers that are moved a second time at most, to lie in one slot with another
/// buffer.
const UNION_MAX: usize = 256 << 20;

/// Who may write to a page that the buffer only touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageWriters {
    ThisThread,
    /// Another thread, or the kernel on behalf of an asynchronous read.
    Others,
}

/// Which pages to move, and where to.
#[derive(Debug)]
pub(super) struct MigrationPlan {
    pub target: MigrationTarget,
    pub moving: Vec<Range<usize>>,
    pub node: Option<u32>,
    /// The process has one thread, helpers aside.
    pub is_single: bool,
}

/// Where pages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MigrationTarget {
    pub slot: u32,
    pub anchor: u64,
}

impl MigratedBuffers {
    /// Determines which pages to move where, so that all of a buffer's pages lie in one slot.
    pub fn prepare(
        &mut self,
        (address, len, expected): (usize, usize, ExpectedUse),
        whole: &Range<usize>,
        data: &[Range<usize>],
    ) -> Result<MigrationPlan, SkipReason> {
        if self.is_lent(whole) {
            return Err(SkipReason::Busy);
        }
        let process = ProcessStatus::now()?;
        if process.has_pinned {
            return Err(SkipReason::Pinned);
        }
        // No rule of MPI keeps the program from storing to what only becomes a window.
        let becomes_window = expected == ExpectedUse::Often;
        if becomes_window && !process.is_single {
            return Err(SkipReason::OpenToStores);
        }
        let writers = match (self.holders.survey(&self.maps)?, process.is_single) {
            (AsyncReads::None, true) => PageWriters::ThisThread,
            _ if becomes_window => return Err(SkipReason::OpenToStores),
            _ => PageWriters::Others,
        };
        let mut pages = match writers {
            PageWriters::ThisThread => self.enclosing(address, len),
            PageWriters::Others if self.whole(address, len).is_none() => {
                return Err(SkipReason::Short);
            }
            PageWriters::Others => whole.clone(),
        };
        self.check_taken_back(&pages)?;
        let census = self.sweep(process.is_single)?;
        let mut planned = self.plan(&mut pages, writers, &census, data);
        if planned == Err(SkipReason::Kind) {
            // At its ends, static data shares a page with the file that it is loaded from.
            pages = whole.clone();
            planned = self.plan(&mut pages, writers, &census, data);
        }
        let (target, moving) = planned?;
        if eligibility::holds_own_memory(&pages) {
            return Err(SkipReason::Thread);
        }
        if self.is_lent(&pages) {
            return Err(SkipReason::Busy);
        }
        if self.blocks.in_arena(&self.maps, &pages) {
            return Err(SkipReason::Arena);
        }
        let taken: usize = census.iter().map(|place| place.addresses.len()).sum();
        let more: usize = moving.iter().map(|run| run.len()).sum();
        if taken + more > self.options.mapped_max {
            return Err(SkipReason::TooMuch);
        }
        let node = eligibility::common_node(&pages, self.page)?;
        Ok(MigrationPlan { target, moving, node, is_single: process.is_single })
    }

    /// The target of the pages, and which of them must be moved to it. `pages` grows by the areas
    /// of other slots that it overlaps, so that buffers there still lie in one slot each.
    fn plan(
        &mut self,
        pages: &mut Range<usize>,
        writers: PageWriters,
        census: &[MigratedRange],
        data: &[Range<usize>],
    ) -> Result<(MigrationTarget, Vec<Range<usize>>), SkipReason> {
        let foreign = self.survey(pages, data)?;
        let met = |pages: &Range<usize>| {
            let pages = pages.clone();
            census.iter().filter(move |place| meet(&place.addresses, &pages))
        };
        // The slot with the largest part keeps it; the other parts are moved to it.
        let target = met(pages)
            .filter(|place| self.can_hold(place.slot, place.anchor(), pages, census))
            .max_by_key(|place| place.addresses.len())
            .map(|place| MigrationTarget { slot: place.slot, anchor: place.anchor() });
        let target = match target {
            Some(target) => target,
            None => self.fresh(pages.start)?,
        };
        let donors: Vec<&MigratedRange> =
            met(pages).filter(|place| place.anchor() != target.anchor).collect();
        let is_alone = writers == PageWriters::ThisThread;
        // If there are other threads, a block's first page stays where it is: the bytes before the
        // buffer may be in use by another thread.
        let heads = donors.iter().filter_map(|donor| {
            let head = donor.addresses.start.checked_sub(self.page)?;
            let is_head = |place: &&MigratedRange| place.addresses.start == head;
            (is_alone && self.is_head_of(head, donor)).then(|| census.iter().find(is_head))?
        });
        let heads: Vec<&MigratedRange> = heads.collect();
        let donors: Vec<MigratedRange> = heads.into_iter().chain(donors).cloned().collect();
        for donor in &donors {
            let inside = pages.start <= donor.addresses.start && donor.addresses.end <= pages.end;
            let idle = self.slots[donor.slot as usize].is_idle();
            if !idle || !(is_alone || inside) {
                return Err(SkipReason::Overlap);
            }
            pages.start = pages.start.min(donor.addresses.start);
            pages.end = pages.end.max(donor.addresses.end);
        }
        let again: usize = donors.iter().map(|donor| donor.addresses.len()).sum();
        if again > UNION_MAX || !self.can_hold(target.slot, target.anchor, pages, census) {
            return Err(SkipReason::Overlap);
        }
        let donated = donors.into_iter().map(|donor| donor.addresses);
        let mut moving: Vec<Range<usize>> = foreign
            .into_iter()
            .chain(donated)
            .map(|run| run.start.max(pages.start)..run.end.min(pages.end))
            .filter(|run| !run.is_empty())
            .collect();
        moving.sort_by_key(|run| run.start);
        Ok((target, moving))
    }

    /// The parts of `pages` that lie in no slot, if they may be migrated.
    fn survey(
        &mut self,
        pages: &Range<usize>,
        data: &[Range<usize>],
    ) -> Result<Vec<Range<usize>>, SkipReason> {
        let mut foreign = Vec::new();
        let mut areas = Vec::new();
        let mut unknown: Option<Range<usize>> = None;
        let mut name = [0u8; 256];
        let mut at = pages.start;
        while at < pages.end {
            let area = match self.maps.named(at, &mut name) {
                Ok(Some(area)) => area,
                // A name that does not fit is a path.
                Ok(None) | Err(_) => return Err(SkipReason::Kind),
            };
            at = area.addresses.end;
            if self.place(&area).is_none() {
                eligibility::check_area(&area, &name, self.page)?;
                let part = area.addresses.start.max(pages.start)..at.min(pages.end);
                if !name.starts_with(b"[heap]") {
                    let from = unknown.map_or(part.start, |unknown| unknown.start);
                    unknown = Some(from..part.end);
                }
                foreign.push(part);
                areas.push(area);
            } else if !(area.readable && area.writable) {
                return Err(SkipReason::Kind);
            }
        }
        if let Some(unknown) = unknown {
            self.check_origin(&unknown, data)?;
        }
        for area in &areas {
            eligibility::check_advice(&self.maps, area, self.page)?;
        }
        Ok(foreign)
    }

    /// Checks that the origin of these pages, which are not of the main heap, is known.
    fn check_origin(
        &mut self,
        pages: &Range<usize>,
        data: &[Range<usize>],
    ) -> Result<(), SkipReason> {
        let page = self.page;
        let holds = |part: &Range<usize>| {
            part.start & !(page - 1) <= pages.start && pages.end <= part.end.next_multiple_of(page)
        };
        if data.iter().any(holds) {
            return Ok(());
        }
        // Taken out, so that `place` can be called meanwhile.
        let mut blocks = std::mem::take(&mut self.blocks);
        let block = blocks.find(&self.maps, pages, |area| self.place(area).is_some());
        self.blocks = blocks;
        match block {
            // A block of one page could not be kept from being resized.
            Some(block) if block.len() >= 2 * page => {
                self.heads.insert(block.start);
                Ok(())
            }
            _ if self.options.mapped_all => Ok(()),
            _ => Err(SkipReason::Foreign),
        }
    }

    /// Whether a slot has room for `pages` at their offset, and nothing else of the process lies
    /// there.
    fn can_hold(
        &self,
        slot: u32,
        anchor: u64,
        pages: &Range<usize>,
        census: &[MigratedRange],
    ) -> bool {
        let base = self.segment.slot_offset(self.me, slot);
        let first = (pages.start as u64).wrapping_add(anchor);
        let last = (pages.end as u64).wrapping_add(anchor);
        base <= first
            && first < last
            && last <= base + SLOT_SPAN
            && census.iter().all(|place| {
                let file = place.file();
                place.anchor() == anchor || file.end <= first || last <= file.start
            })
    }

    /// An empty slot, with room on both sides of the first pages.
    fn fresh(&mut self, start: usize) -> Result<MigrationTarget, SkipReason> {
        let free = |slot: &mut FileSlot| slot.extents.is_empty() && slot.is_idle();
        let slot = match self.slots.iter_mut().position(free) {
            Some(slot) => slot as u32,
            None if self.slots.len() < SLOTS as usize => {
                self.slots.push(FileSlot::default());
                self.slots.len() as u32 - 1
            }
            None => return Err(SkipReason::NoSlot),
        };
        let base = self.segment.slot_offset(self.me, slot);
        let offset = base + SLOT_SPAN / 2 + (start & (HUGE - 1)) as u64;
        Ok(MigrationTarget { slot, anchor: offset.wrapping_sub(start as u64) })
    }
}
