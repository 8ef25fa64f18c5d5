//! The program's advice on memory that is already migrated: the part of [`hooks`](super::hooks)
//! that knows where the memory lies.

use std::ops::Range;

use super::buffers::{
    Advised, ForkAdvice, InChild, MigratedBuffers, MigratedRange, SlotHint, meet,
};
use super::eligibility::SkipReason;
use super::extents::without;
use super::hooks::{AdviceKind, ChildAdvice, copy_elsewhere};
use super::raw;
use mica_node::procmap::MappedArea;

/// Number of such stretches that are remembered.
const REMEMBERED: usize = 64;

/// Number of attempts that are refused: the sixteenth comes after a million uses.
const REFUSALS: u32 = 16;

impl MigratedBuffers {
    /// Whether some of `pages` may be migrated, according to the last census.
    pub fn has_migrated(&self, pages: &Range<usize>) -> bool {
        let after = |address: usize| {
            let starts = |hint: &SlotHint| hint.addresses.start < address;
            self.hints.partition_point(starts)
        };
        let next = after(pages.end);
        !self.is_off && next > 0 && self.hints[next - 1].addresses.end > pages.start
    }

    /// The migrated areas in `pages`, clipped to `pages`.
    fn migrated(&self, pages: &Range<usize>) -> Result<Vec<(MappedArea, MigratedRange)>, i32> {
        let mut met = Vec::new();
        let complete = self.each_area_of(&self.maps, pages, |area| {
            let mut part = area.clone();
            part.addresses.start = area.addresses.start.max(pages.start);
            part.addresses.end = area.addresses.end.min(pages.end);
            part.offset += (part.addresses.start - area.addresses.start) as u64;
            met.extend(self.place(&part).map(|place| (part, place)));
        });
        complete.then_some(met).ok_or(libc::EAGAIN)
    }

    /// Carries out the program's advice on the migrated parts of `pages`, and returns these parts.
    ///
    /// Memory that is to be discarded is replaced by fresh private pages. In a slot in use (a
    /// window lies there, or a transfer is in progress) it stays in the file, where peers reach it,
    /// and a hole takes the place of its contents. Then it still counts as migrated.
    ///
    /// # Errors
    /// The error number for `madvise` to return.
    pub fn advised(
        &mut self,
        pages: &Range<usize>,
        wish: AdviceKind,
        advice: i32,
    ) -> Result<Vec<Range<usize>>, i32> {
        let met = self.migrated(pages)?;
        let mut has_renewed = false;
        for (area, place) in &met {
            match wish {
                AdviceKind::Plain | AdviceKind::Nothing => {}
                AdviceKind::Refused(errno) => return Err(errno),
                AdviceKind::Child(kind, advice) => self.advise_child(place.file(), kind, advice),
                AdviceKind::Fresh if !self.slots[place.slot as usize].is_idle() => {
                    self.empty(place, advice)?;
                }
                AdviceKind::Fresh => {
                    let at = area.addresses.start;
                    // SAFETY: the program does not need the content, by its advice.
                    unsafe { raw::renew(at, area.addresses.len(), raw::protection(area))? };
                    has_renewed = true;
                }
            }
        }
        if has_renewed {
            if self.taken_back.len() >= REMEMBERED {
                self.taken_back.remove(0);
            }
            self.taken_back.push(Advised { pages: pages.clone(), refusals: REFUSALS });
            self.have_lost(pages);
        }
        Ok(met.into_iter().map(|(area, _)| area.addresses).collect())
    }

    /// Discards the contents of a part that stays in the file.
    fn empty(&self, place: &MigratedRange, advice: i32) -> Result<(), i32> {
        let (at, bytes) = (place.addresses.start, place.addresses.len());
        // Memory of a file knows no MADV_FREE. The call changes no contents there, and refuses
        // what it would refuse for plain memory (locked pages).
        let advice = if advice == libc::MADV_FREE { libc::MADV_DONTNEED } else { advice };
        // SAFETY: the program does not need the content, by its advice.
        unsafe { raw::advise(at, bytes, advice)? };
        let punched = self.segment.punch(place.offset, bytes as u64);
        punched.map_err(|error| error.raw_os_error().unwrap_or(libc::EAGAIN))
    }

    fn advise_child(&mut self, file: Range<u64>, kind: InChild, advice: ChildAdvice) {
        let others = std::mem::take(&mut self.in_child);
        for other in others {
            if other.kind != kind {
                self.in_child.push(other);
                continue;
            }
            let rest = without(&other.file, std::slice::from_ref(&file));
            let rest = rest.into_iter().map(|file| ForkAdvice { file, kind });
            self.in_child.extend(rest);
        }
        if advice == ChildAdvice::Given {
            self.in_child.push(ForkAdvice { file, kind });
        }
    }

    /// Forgets advice on parts of the file that are no longer mapped.
    pub fn forget_advice(&mut self, census: &[MigratedRange]) {
        if self.in_child.is_empty() {
            return;
        }
        for advice in std::mem::take(&mut self.in_child) {
            for place in census {
                let file = place.file();
                let both = advice.file.start.max(file.start)..advice.file.end.min(file.end);
                if !both.is_empty() {
                    self.in_child.push(ForkAdvice { file: both, kind: advice.kind });
                }
            }
        }
    }

    /// The memory that a child does not get as a copy, and what it gets: first the parts to be
    /// wiped, then those to be absent.
    pub fn for_child(&self) -> Vec<(Range<usize>, InChild)> {
        let mut parts = Vec::new();
        if self.in_child.is_empty() {
            return parts;
        }
        for place in self.census().unwrap_or_default() {
            let file = place.file();
            let address = |offset: u64| place.addresses.start + (offset - file.start) as usize;
            for advice in &self.in_child {
                let both = advice.file.start.max(file.start)..advice.file.end.min(file.end);
                if !both.is_empty() {
                    parts.push((address(both.start)..address(both.end), advice.kind));
                }
            }
        }
        parts.sort_by_key(|(_, kind)| *kind == InChild::Absent);
        parts
    }

    /// Refuses pages that the program has taken back before.
    pub fn check_taken_back(&mut self, pages: &Range<usize>) -> Result<(), SkipReason> {
        let Some(at) = self.taken_back.iter().position(|a| meet(&a.pages, pages)) else {
            return Ok(());
        };
        self.taken_back[at].refusals -= 1;
        if self.taken_back[at].refusals == 0 {
            self.taken_back.remove(at);
        }
        Err(SkipReason::Advised)
    }

    /// `mremap` of pages of which some are migrated: a private copy with room for `new` bytes
    /// elsewhere.
    ///
    /// # Errors
    /// The error number for `mremap` to return.
    pub fn relocate(
        &self,
        pages: &Range<usize>,
        new: usize,
        flags: i32,
        to: usize,
    ) -> Result<usize, i32> {
        let mut at = pages.start;
        let mut protection = None;
        while at < pages.end {
            let area = self.maps.at(at).map_err(|_| libc::EAGAIN)?;
            let area = area.ok_or(libc::EFAULT)?;
            let is_data = area.inode == 0 && !area.shared || self.place(&area).is_some();
            let same = *protection.get_or_insert(raw::protection(&area));
            if !is_data || same != raw::protection(&area) {
                return Err(libc::EFAULT);
            }
            at = area.addresses.end;
        }
        // SAFETY: mapped with this protection throughout; the program gives the addresses away by
        // its call.
        unsafe { copy_elsewhere(pages, new, flags, to, protection.unwrap_or(libc::PROT_NONE)) }
    }

    /// Notes that the program has given `pages` away, and gives their memory back at once.
    pub fn have_lost(&mut self, pages: &Range<usize>) {
        if self.has_migrated(pages) {
            self.heads.retain(|head| !pages.contains(head));
            // If this fails, the reclaim thread repeats it soon.
            let _ = self.sweep(false);
        }
    }
}
