//! A rank's own buffers: counts their uses, migrates them, finds them again.
//! [`census`](super::census) finds out what lies where and gives memory back;
//! [`advice`](super::advice) handles the program's advice on migrated memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use super::advice::{Advised, ForkAdvice};
use super::census::{MigratedRange, extents};
use super::eligibility::{self, MappedFiles, ProcessStatus, SkipReason};
use super::migration::{self, Backing, HUGE, SignalsBlocked};
use super::origin::MallocBlocks;
use super::{Unavailable, Usage};
use crate::direct::{Backend, DirectOptions, Exposed, Exposure};
use mica_node::procmap::ProcMap;
use mica_node::segment::{JobSegment, SLOT_SPAN, SLOTS};

/// Entries of the table that counts uses.
const COUNTS: usize = 1024;

/// Bytes of migrated buffers that are moved a second time at most, to lie in one slot with another
/// buffer.
const UNION_MAX: usize = 256 << 20;

/// One slot of this rank.
#[derive(Debug, Default)]
pub(super) struct FileSlot {
    /// Cloned by every exposure.
    pin: Arc<()>,
    /// Parts of the file that the last census found mapped, in order; they may have memory.
    pub extents: Vec<Range<u64>>,
}

impl FileSlot {
    /// Whether no transfer is in progress.
    pub fn is_idle(&mut self) -> bool {
        // SYNC pin: synchronizes with the drops of all clones, so that what was done under them is
        // seen.
        Arc::get_mut(&mut self.pin).is_some()
    }
}

/// Contiguous addresses that belonged to a slot at the last census.
#[derive(Debug)]
pub(super) struct Hint {
    pub addresses: Range<usize>,
    pub slot: u32,
    pub anchor: u64,
}

/// Where a buffer lay at the last query of the kernel.
#[derive(Debug, Clone)]
struct Recalled {
    address: usize,
    len: usize,
    exposure: Exposure,
}

/// Entries of the table of [`Recalled`] buffers.
const RECALLED: usize = 64;

fn recalled_index(address: usize, len: usize) -> usize {
    let key = (address >> 6) as u64 ^ (len as u64) << 32;
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize % RECALLED
}

/// Uses of one buffer that is not migrated yet.
#[derive(Debug, Default, Clone)]
struct Count {
    pages: Range<usize>,
    uses: u32,
    /// Uses after which it is migrated; grows with each refusal.
    limit: u32,
}

/// Pages that peers may read or write by address.
#[derive(Debug)]
struct Lent {
    pages: Range<usize>,
    pin: Arc<()>,
}

/// Outcome of an exposure.
#[derive(Debug)]
pub(super) enum Answer {
    /// The buffer lies in a slot.
    Migrated(Exposed),
    /// The buffer does not lie in a slot.
    Plain,
    /// It does not, and has been used often enough to call [`MigratedBuffers::migrate`].
    Due,
}

/// Outcome of an attempt to migrate a buffer.
#[derive(Debug)]
pub(super) enum Attempt {
    /// The buffer lies in a slot, or cannot be migrated (`None`).
    Done(Option<Exposed>),
    /// The buffer can be migrated once the hooks are installed and the reclaim thread runs.
    Possible,
}

#[derive(Debug)]
pub(super) struct MigratedBuffers {
    pub segment: Arc<JobSegment>,
    pub me: u32,
    options: DirectOptions,
    pub page: usize,
    pub inode: u64,
    pub device: u64,
    pub maps: ProcMap,
    /// The slots that were ever used: the first ones of the file.
    pub slots: Vec<FileSlot>,
    /// Ordered by address.
    pub hints: Vec<Hint>,
    /// Empty before the first use.
    counts: Vec<Count>,
    recalled: Vec<Option<Recalled>>,
    lent: Vec<Lent>,
    /// Length of `lent` at which released entries are removed.
    lent_limit: usize,
    pub moves: u64,
    kept: BTreeMap<SkipReason, u64>,
    blocks: MallocBlocks,
    files: MappedFiles,
    /// First pages of migrated malloc blocks, which are areas of their own.
    pub heads: BTreeSet<usize>,
    /// What the program has advised for children.
    pub in_child: Vec<ForkAdvice>,
    /// Where the program has taken memory back.
    pub taken_back: Vec<Advised>,
    /// Set in a child of fork.
    pub is_off: bool,
}

pub(super) fn meet(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

impl MigratedBuffers {
    pub fn new(
        segment: &Arc<JobSegment>,
        me: u32,
        options: &DirectOptions,
    ) -> Result<MigratedBuffers, Unavailable> {
        if !segment.has_slots() {
            return Err(Unavailable::NoSlots);
        }
        if !eligibility::allocator_is_known() {
            return Err(Unavailable::Allocator);
        }
        let no_query = |error: std::io::Error| Unavailable::NoQuery {
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        };
        let maps = ProcMap::open().map_err(no_query)?;
        // SAFETY: fstat writes to `stat`; sysconf has no obligations.
        let (stat, page) = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            if libc::fstat(segment.as_fd().as_raw_fd(), &mut stat) < 0 {
                return Err(no_query(std::io::Error::last_os_error()));
            }
            (stat, libc::sysconf(libc::_SC_PAGESIZE) as usize)
        };
        let mut owner = MigratedBuffers {
            segment: Arc::clone(segment),
            me,
            options: *options,
            page,
            inode: stat.st_ino,
            device: stat.st_dev,
            maps,
            slots: Vec::new(),
            hints: Vec::new(),
            counts: Vec::new(),
            recalled: vec![None; RECALLED],
            lent: Vec::new(),
            lent_limit: 64,
            moves: 0,
            kept: BTreeMap::new(),
            blocks: MallocBlocks::default(),
            files: MappedFiles::default(),
            heads: BTreeSet::new(),
            in_child: Vec::new(),
            taken_back: Vec::new(),
            is_off: false,
        };
        // An earlier channel of this rank in this process may have left migrated memory.
        let _ = owner.sweep(false);
        Ok(owner)
    }

    pub fn has_migrated_any(&self) -> bool {
        !self.is_off && self.slots.iter().any(|slot| !slot.extents.is_empty())
    }

    pub fn usage(&self) -> Usage {
        Usage {
            bytes: self.bytes(),
            slots: self.slots.iter().filter(|s| !s.extents.is_empty()).count(),
            moves: self.moves,
            kept: self.kept.iter().map(|(&why, &n)| (why, n)).collect(),
        }
    }

    /// Exposes a buffer for CMA: its pages are not migrated as long as the exposure lives.
    pub fn lend(&mut self, address: usize, len: usize) -> Exposed {
        Exposed {
            exposure: Exposure::by_address(Backend::Cma, address),
            _pins: [None, Some(self.lend_pages(address, len))],
        }
    }

    /// Pins the pages of a buffer as long as the result lives.
    fn lend_pages(&mut self, address: usize, len: usize) -> Arc<()> {
        let pin = Arc::new(());
        if self.lent.len() >= self.lent_limit {
            // SYNC pin: as in `FileSlot::is_idle`.
            self.lent
                .retain_mut(|lent| Arc::get_mut(&mut lent.pin).is_none());
            self.lent_limit = (2 * self.lent.len()).max(64);
        }
        self.lent.push(Lent {
            pages: self.enclosing(address, len),
            pin: Arc::clone(&pin),
        });
        pin
    }

    /// Exposes a buffer that lies in a slot; otherwise counts its use.
    pub fn expose(&mut self, address: usize, len: usize) -> Answer {
        let Some(whole) = self.whole(address, len).filter(|_| !self.is_off) else {
            return Answer::Plain;
        };
        if self.is_hinted(whole.start) {
            if let Some(exposed) = self.reach(address, len, &whole) {
                return Answer::Migrated(exposed);
            }
            // The program has given the memory back, or replaced it, or the buffer extends beyond
            // it.
            if self.place_at(whole.start).is_none() {
                let _ = self.sweep_in_process();
            }
        }
        if len < self.options.mapped_min || !self.is_due(&whole) {
            return Answer::Plain;
        }
        Answer::Due
    }

    /// Migrates a buffer that is [due](Answer::Due), and exposes it. `ready` are the stretches of
    /// static data, or the reason to skip; `is_watched` is true if the hooks are installed and the
    /// reclaim thread runs.
    pub fn migrate(
        &mut self,
        address: usize,
        len: usize,
        ready: Result<&[Range<usize>], SkipReason>,
        is_watched: bool,
    ) -> Attempt {
        let Some(whole) = self.whole(address, len) else {
            return Attempt::Done(None);
        };
        // The program may have moved it (mremap) since the last query, or another thread may have
        // migrated it.
        if let Some(exposed) = self.reach(address, len, &whole) {
            let _ = self.sweep_in_process();
            return Attempt::Done(Some(exposed));
        }
        let possible = ready.and_then(|data| self.prepare(address, len, &whole, data));
        let result = match possible {
            Ok(_) if !is_watched => return Attempt::Possible,
            Ok(plan) => self.put(&plan),
            Err(why) => Err(why),
        };
        self.note(&whole, result);
        Attempt::Done(result.ok().and_then(|()| self.reach(address, len, &whole)))
    }

    /// Counts a reason for which a buffer was not migrated.
    pub fn keep(&mut self, address: usize, len: usize, why: SkipReason) {
        if let Some(whole) = self.whole(address, len) {
            self.note(&whole, Err(why));
        }
    }

    /// The exposure of a buffer as it was last, without a check that it still lies there: its bytes
    /// may be read only after [`confirm`](Self::confirm) has returned true. `None` if the last
    /// exposure is not known, or a part of the buffer is out of a window's reach.
    pub fn recall(&mut self, address: usize, len: usize) -> Option<Exposed> {
        let recalled = self.recalled[recalled_index(address, len)].as_ref()?;
        if self.is_off || recalled.address != address || recalled.len != len {
            return None;
        }
        let exposure = recalled.exposure;
        Some(Exposed {
            exposure,
            _pins: [
                Some(Arc::clone(&self.slots[exposure.slot as usize].pin)),
                None,
            ],
        })
    }

    /// Whether a buffer that was recalled still lies where it was.
    pub fn confirm(&mut self, address: usize, len: usize, exposure: &Exposure) -> bool {
        let found = self
            .whole(address, len)
            .and_then(|whole| self.reach(address, len, &whole));
        let is_right = found.is_some_and(|found| found.exposure == *exposure);
        if !is_right {
            self.recalled[recalled_index(address, len)] = None;
        }
        is_right
    }

    /// The pages that lie wholly in the buffer, if any.
    fn whole(&self, address: usize, len: usize) -> Option<Range<usize>> {
        let first = address.checked_next_multiple_of(self.page)?;
        let last = address.checked_add(len)? & !(self.page - 1);
        (first < last).then_some(first..last)
    }

    /// The pages that the buffer touches.
    fn enclosing(&self, address: usize, len: usize) -> Range<usize> {
        let last = address.saturating_add(len);
        address & !(self.page - 1)
            ..last
                .checked_next_multiple_of(self.page)
                .unwrap_or(usize::MAX)
    }

    fn is_hinted(&self, address: usize) -> bool {
        self.hint(address).is_some()
    }

    fn hint(&self, address: usize) -> Option<&Hint> {
        let next = self.hints.partition_point(|h| h.addresses.start <= address);
        let last = self.hints.get(next.checked_sub(1)?)?;
        last.addresses.contains(&address).then_some(last)
    }

    /// The exposure of a buffer whose whole pages all lie in one slot, in one piece.
    fn reach(&mut self, address: usize, len: usize, whole: &Range<usize>) -> Option<Exposed> {
        let place = self.place_at(whole.start)?;
        let mut end = place.addresses.end;
        while end < whole.end {
            // Parts of a slot that the kernel keeps as separate areas because their advice differs.
            let next = self.place_at(end)?;
            if next.anchor() != place.anchor() || next.slot != place.slot {
                return None;
            }
            end = next.addresses.end;
        }
        let start = address.max(self.first_of(&place));
        let end = (address + len).min(end);
        let slot = self.segment.slot_offset(self.me, place.slot);
        // The bytes that no window reaches are accessed by address.
        let is_whole = start == address && end == address + len;
        let lent = (!is_whole).then(|| self.lend_pages(address, len));
        let exposure = Exposure {
            backend: Backend::Mapped,
            head: (start - address) as u16,
            tail: (address + len - end) as u16,
            slot: place.slot,
            place: (start as u64).wrapping_add(place.anchor()) - slot,
        };
        if is_whole {
            self.recalled[recalled_index(address, len)] = Some(Recalled {
                address,
                len,
                exposure,
            });
        }
        Some(Exposed {
            exposure,
            _pins: [Some(Arc::clone(&self.slots[place.slot as usize].pin)), lent],
        })
    }

    /// Where a part of a slot begins. The first page of a malloc block is an area of its own, which
    /// is mapped and unmapped together with the next one, so it is not queried. It may lie in
    /// another slot if the rest was moved without it.
    fn first_of(&self, place: &MigratedRange) -> usize {
        let first = place.addresses.start;
        match first.checked_sub(self.page) {
            Some(head) if self.is_head_of(head, place) => head,
            _ => first,
        }
    }

    /// Whether the page at `head` is the first one of a block, and lies before `place` in the slot
    /// as well.
    fn is_head_of(&self, head: usize, place: &MigratedRange) -> bool {
        let is_beside = |hint: &Hint| hint.slot == place.slot && hint.anchor == place.anchor();
        self.heads.contains(&head) && self.hint(head).is_some_and(is_beside)
    }

    fn count(&mut self, whole: &Range<usize>) -> &mut Count {
        let key = (whole.start / self.page) as u64 ^ ((whole.len() / self.page) as u64) << 20;
        let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54;
        if self.counts.is_empty() {
            self.counts.resize(COUNTS, Count::default());
        }
        &mut self.counts[hash as usize % COUNTS]
    }

    /// Counts a use; true once the buffer has been used often enough.
    fn is_due(&mut self, whole: &Range<usize>) -> bool {
        let limit = self.options.mapped_after;
        let count = self.count(whole);
        if count.pages != *whole {
            *count = Count {
                pages: whole.clone(),
                uses: 0,
                limit,
            };
        }
        count.uses = count.uses.saturating_add(1);
        count.uses > count.limit
    }

    fn note(&mut self, whole: &Range<usize>, result: Result<(), SkipReason>) {
        let count = self.count(whole);
        match result {
            Ok(()) => {
                *count = Count::default();
                self.moves += 1;
            }
            // Retry soon, but not at each use.
            Err(SkipReason::Busy) => count.uses = count.limit.saturating_sub(4),
            Err(_) => {
                count.uses = 0;
                count.limit = count.limit.clamp(8, 1 << 20) * 2;
            }
        }
        if let Err(why) = result {
            *self.kept.entry(why).or_default() += 1;
        }
    }

    fn is_lent(&mut self, pages: &Range<usize>) -> bool {
        self.lent.iter_mut().any(|lent| {
            // SYNC pin: as in `FileSlot::is_idle`.
            meet(&lent.pages, pages) && Arc::get_mut(&mut lent.pin).is_none()
        })
    }

    /// Determines which pages to move where, so that all of a buffer's pages lie in one slot.
    fn prepare(
        &mut self,
        address: usize,
        len: usize,
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
        // Another thread, or the kernel on behalf of an asynchronous read, may write to the rest of
        // a page that the buffer only touches.
        let alone = process.is_single && !self.files.has_async_reads(&self.maps)?;
        let mut pages = if alone {
            self.enclosing(address, len)
        } else {
            whole.clone()
        };
        self.check_taken_back(&pages)?;
        let census = self.sweep(process.is_single)?;
        let mut planned = self.plan(&mut pages, alone, &census, data);
        if planned == Err(SkipReason::Kind) {
            // At its ends, static data shares a page with the file that it is loaded from.
            pages = whole.clone();
            planned = self.plan(&mut pages, alone, &census, data);
        }
        let (target, moving) = planned?;
        if eligibility::holds_own_memory(&pages) {
            return Err(SkipReason::Thread);
        }
        if self.is_lent(&pages) {
            return Err(SkipReason::Busy);
        }
        if eligibility::in_arena(&self.maps, &pages) {
            return Err(SkipReason::Arena);
        }
        let taken: usize = census.iter().map(|place| place.addresses.len()).sum();
        let more: usize = moving.iter().map(|run| run.len()).sum();
        if taken + more > self.options.mapped_max {
            return Err(SkipReason::TooMuch);
        }
        let node = eligibility::common_node(&pages, self.page)?;
        Ok(MigrationPlan {
            target,
            moving,
            node,
            is_single: process.is_single,
        })
    }

    /// Moves pages as planned.
    fn put(&mut self, plan: &MigrationPlan) -> Result<(), SkipReason> {
        let MigrationPlan { target, moving, .. } = plan;
        let fd = self.segment.as_fd().as_raw_fd();
        let backing = Backing::File {
            fd,
            anchor: target.anchor,
        };
        let page = self.page;
        let apart: Vec<Range<usize>> = self.heads.iter().map(|&at| at..at + page).collect();
        let blocked = plan.is_single.then(SignalsBlocked::new);
        let result = moving.iter().cloned().try_for_each(|run| {
            // SAFETY: 1. `plan` has found the pages to be readable data, of a buffer in use by the
            // library, or around one; Rust code reaches them by raw addresses only, and their
            // contents stay; 2. by MPI's rules no thread writes to a buffer in use, and pages
            // beyond one are moved only if there is no other thread, with signals blocked, and no
            // transfer by a peer in progress (`lent`, and pins); 3. `plan` has checked for other
            // mappings of the same part.
            unsafe { migration::move_pages(run, backing, plan.node, &apart) }
        });
        drop(blocked);
        // The census now includes all pages that have been moved.
        let census = self.sweep(plan.is_single)?;
        if result.is_err() {
            // Give back memory that was allocated for pages which then could not be moved.
            let extents = extents(&census, target.slot);
            for run in moving {
                let file = |address: usize| (address as u64).wrapping_add(target.anchor);
                self.punch(&(file(run.start)..file(run.end)), &extents);
            }
        }
        result
    }

    /// The target of the pages, and which of them must be moved to it. `pages` grows by the areas
    /// of other slots that it overlaps, so that buffers there still lie in one slot each.
    fn plan(
        &mut self,
        pages: &mut Range<usize>,
        alone: bool,
        census: &[MigratedRange],
        data: &[Range<usize>],
    ) -> Result<(MigrationTarget, Vec<Range<usize>>), SkipReason> {
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
        let met = |pages: &Range<usize>| {
            let pages = pages.clone();
            census
                .iter()
                .filter(move |place| meet(&place.addresses, &pages))
        };
        // The slot with the largest part keeps it; the other parts are moved to it.
        let target = met(pages)
            .filter(|place| self.can_hold(place.slot, place.anchor(), pages, census))
            .max_by_key(|place| place.addresses.len())
            .map(|place| MigrationTarget {
                slot: place.slot,
                anchor: place.anchor(),
            });
        let target = match target {
            Some(target) => target,
            None => self.fresh(pages.start)?,
        };
        let donors: Vec<&MigratedRange> = met(pages)
            .filter(|place| place.anchor() != target.anchor)
            .collect();
        // If there are other threads, a block's first page stays where it is: the bytes before the
        // buffer may be in use by another thread.
        let heads = donors.iter().filter_map(|donor| {
            let head = donor.addresses.start.checked_sub(self.page)?;
            let is_head = |place: &&MigratedRange| place.addresses.start == head;
            (alone && self.is_head_of(head, donor)).then(|| census.iter().find(is_head))?
        });
        let heads: Vec<&MigratedRange> = heads.collect();
        let donors: Vec<MigratedRange> = heads.into_iter().chain(donors).cloned().collect();
        for donor in &donors {
            let inside = pages.start <= donor.addresses.start && donor.addresses.end <= pages.end;
            let idle = self.slots[donor.slot as usize].is_idle();
            if !idle || !(alone || inside) {
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
        Ok(MigrationTarget {
            slot,
            anchor: offset.wrapping_sub(start as u64),
        })
    }
}

/// Which pages to move, and where to.
#[derive(Debug)]
struct MigrationPlan {
    target: MigrationTarget,
    moving: Vec<Range<usize>>,
    node: Option<u32>,
    /// The process has one thread, helpers aside.
    is_single: bool,
}

/// Where pages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MigrationTarget {
    slot: u32,
    anchor: u64,
}
