//! A rank's own buffers: counts their uses, migrates them as [planned](super::planning), finds them
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use super::buffers::{
    Count, Lent, MigratedBuffers, MigratedRange, Recalled, SlotHint, extents, meet,
};
use super::eligibility::{self, SkipReason};
use super::holders::PageHolders;
use super::migration::{self, Backing};
use super::origin::MallocBlocks;
use super::planning::MigrationPlan;
use super::usage::Usage;
use crate::direct::{Backend, DirectOptions, ExpectedUse, Exposed, Exposure};
use mica_node::page::kernel_page_size;
use mica_node::procmap::ProcMap;
use mica_node::segment::{JobSegment, Limit};
use mica_node::signals::SignalsBlocked;

/// Entries of the table that counts uses.
const COUNTS: usize = 1024;

/// Entries of the table of [`Recalled`] buffers.
const RECALLED: usize = 64;

fn recalled_index(address: usize, len: usize) -> usize {
    let key = (address >> 6) as u64 ^ (len as u64) << 32;
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize % RECALLED
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

/// Whether the hooks are installed and the reclaim thread runs: else no buffer is migrated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BufferWatch {
    On,
    Off,
}

/// Outcome of an attempt to migrate a buffer.
#[derive(Debug)]
pub(super) enum Attempt {
    /// The buffer lies in a slot, or is not migrated for this reason.
    Done(Result<Exposed, SkipReason>),
    /// The buffer can be migrated once the hooks are installed and the reclaim thread runs.
    Possible,
}

impl MigratedBuffers {
    pub fn new(
        segment: &Arc<JobSegment>,
        me: u32,
        options: &DirectOptions,
    ) -> Result<MigratedBuffers, Limit> {
        if !segment.has_slots() {
            return Err(Limit::NoSlots);
        }
        if !eligibility::allocator_is_known() {
            return Err(Limit::Allocator);
        }
        let no_query = |error: std::io::Error| Limit::NoQuery {
            errno: error.raw_os_error().unwrap_or(libc::EIO).unsigned_abs(),
        };
        let maps = ProcMap::open().map_err(no_query)?;
        // SAFETY: fstat writes to `stat`.
        let stat = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            if libc::fstat(segment.as_fd().as_raw_fd(), &mut stat) < 0 {
                return Err(no_query(std::io::Error::last_os_error()));
            }
            stat
        };
        let mut owner = MigratedBuffers {
            segment: Arc::clone(segment),
            me,
            options: *options,
            page: kernel_page_size(),
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
            holders: PageHolders::default(),
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
            skipped: None,
        }
    }

    /// Pins the pages of a buffer as long as the result lives.
    fn lend_pages(&mut self, address: usize, len: usize) -> Arc<()> {
        let pin = Arc::new(());
        if self.lent.len() >= self.lent_limit {
            // SYNC pin: as in `FileSlot::is_idle`.
            self.lent.retain_mut(|lent| Arc::get_mut(&mut lent.pin).is_none());
            self.lent_limit = (2 * self.lent.len()).max(64);
        }
        self.lent.push(Lent { pages: self.enclosing(address, len), pin: Arc::clone(&pin) });
        pin
    }

    /// Exposes a buffer that lies in a slot; otherwise it is due if it is expected to be used for
    /// long, or has been used often enough.
    pub fn expose(&mut self, address: usize, len: usize, expected: ExpectedUse) -> Answer {
        let Some(whole) = self.pages_of(address, len, expected).filter(|_| !self.is_off) else {
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
        let is_worthwhile = match expected {
            ExpectedUse::Once => len >= self.options.mapped_min && self.is_due(&whole),
            ExpectedUse::Often => true,
            ExpectedUse::Later | ExpectedUse::Never => false,
        };
        if !is_worthwhile {
            return Answer::Plain;
        }
        Answer::Due
    }

    /// Migrates a buffer that is [due](Answer::Due), and exposes it. `ready` are the stretches of
    /// static data, or the reason to skip.
    pub fn migrate(
        &mut self,
        (address, len, expected): (usize, usize, ExpectedUse),
        ready: Result<&[Range<usize>], SkipReason>,
        watch: BufferWatch,
    ) -> Attempt {
        let Some(whole) = self.pages_of(address, len, expected) else {
            return Attempt::Done(Err(SkipReason::Short));
        };
        // The program may have moved it (mremap) since the last query, or another thread may have
        // migrated it.
        if let Some(exposed) = self.reach(address, len, &whole) {
            let _ = self.sweep_in_process();
            return Attempt::Done(Ok(exposed));
        }
        // A handler may start a thread or an asynchronous read, or store to the pages.
        let blocked = SignalsBlocked::new();
        let possible = ready.and_then(|data| self.prepare((address, len, expected), &whole, data));
        let result = match possible {
            Ok(_) if watch == BufferWatch::Off => return Attempt::Possible,
            Ok(plan) => self.put(&plan),
            Err(why) => Err(why),
        };
        drop(blocked);
        self.note(&whole, result);
        // What was moved just now is found, unless another thread has unmapped it since.
        Attempt::Done(
            result.and_then(|()| self.reach(address, len, &whole).ok_or(SkipReason::Kind)),
        )
    }

    /// Counts a reason for which a buffer was not migrated.
    pub fn keep(&mut self, address: usize, len: usize, why: SkipReason) {
        let whole = self.pages_of(address, len, ExpectedUse::Often);
        self.note(&whole.expect("it touches a page"), Err(why));
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
            _pins: [Some(Arc::clone(&self.slots[exposure.slot as usize].pin)), None],
            skipped: None,
        })
    }

    /// Whether a buffer that was recalled still lies where it was.
    pub fn confirm(&mut self, address: usize, len: usize, exposure: &Exposure) -> bool {
        let found = self.whole(address, len).and_then(|whole| self.reach(address, len, &whole));
        let is_right = found.is_some_and(|found| found.exposure == *exposure);
        if !is_right {
            self.recalled[recalled_index(address, len)] = None;
        }
        is_right
    }

    /// The pages that lie wholly in the buffer, if any.
    pub fn whole(&self, address: usize, len: usize) -> Option<Range<usize>> {
        let first = address.checked_next_multiple_of(self.page)?;
        let last = address.checked_add(len)? & !(self.page - 1);
        (first < last).then_some(first..last)
    }

    /// The pages by which a buffer is known: those that lie wholly in it. A shorter one that is
    /// expected to be used for long is known by those that it touches.
    fn pages_of(&self, address: usize, len: usize, expected: ExpectedUse) -> Option<Range<usize>> {
        let whole = self.whole(address, len);
        match expected {
            ExpectedUse::Often | ExpectedUse::Later if len > 0 => {
                Some(whole.unwrap_or_else(|| self.enclosing(address, len)))
            }
            _ => whole,
        }
    }

    /// The pages that the buffer touches.
    pub fn enclosing(&self, address: usize, len: usize) -> Range<usize> {
        let last = address.saturating_add(len);
        address & !(self.page - 1)..last.checked_next_multiple_of(self.page).unwrap_or(usize::MAX)
    }

    fn is_hinted(&self, address: usize) -> bool {
        self.hint(address).is_some()
    }

    fn hint(&self, address: usize) -> Option<&SlotHint> {
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
            may_move: false,
        };
        if is_whole {
            self.recalled[recalled_index(address, len)] = Some(Recalled { address, len, exposure });
        }
        Some(Exposed {
            exposure,
            _pins: [Some(Arc::clone(&self.slots[place.slot as usize].pin)), lent],
            skipped: None,
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
    pub fn is_head_of(&self, head: usize, place: &MigratedRange) -> bool {
        let is_beside = |hint: &SlotHint| hint.slot == place.slot && hint.anchor == place.anchor();
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
            *count = Count { pages: whole.clone(), uses: 0, limit };
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

    pub fn is_lent(&mut self, pages: &Range<usize>) -> bool {
        self.lent.iter_mut().any(|lent| {
            // SYNC pin: as in `FileSlot::is_idle`.
            meet(&lent.pages, pages) && Arc::get_mut(&mut lent.pin).is_none()
        })
    }

    /// Moves pages as planned.
    fn put(&mut self, plan: &MigrationPlan) -> Result<(), SkipReason> {
        let MigrationPlan { target, moving, .. } = plan;
        let segment = Arc::clone(&self.segment);
        let closed = segment.block(self.me).migration.try_close().ok_or(SkipReason::Busy)?;
        let fd = self.segment.as_fd().as_raw_fd();
        let backing = Backing::File { fd, anchor: target.anchor };
        let page = self.page;
        let apart: Vec<Range<usize>> = self.heads.iter().map(|&at| at..at + page).collect();
        let result = moving.iter().cloned().try_for_each(|run| {
            // SAFETY: 1. `plan` has found the pages to be readable data, of a buffer in use by the
            // library, or around one; Rust code reaches them by raw addresses only, and their
            // contents stay; 2. by MPI's rules no thread writes to a buffer in use; pages beyond
            // one, and memory that becomes a window, are moved only if there is no other thread and
            // no asynchronous read, with signals blocked; no transfer by a peer or a device is in
            // progress (`lent`, pins, `closed`, and `holders`); 3. `plan` has checked for other
            // mappings of the same part.
            unsafe { migration::move_pages(run, backing, plan.node, &apart) }
        });
        drop(closed);
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
}
