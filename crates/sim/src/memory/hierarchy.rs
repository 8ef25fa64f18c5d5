//! The caches of a node and what lies between them: how a line comes, is evicted, written down and
//! snooped.
//!
//! A line that misses the L1 is looked for in the L2, the L2s of other cores, the L3 and memory,
//! in this order, and then filled from below: the L3 if it takes lines that are read
//! ([`Inclusion`] inclusive or none), the L2 likewise, the L1. Each fill evicts first what must
//! make room. Rules:
//!
//! - Evicting from an inclusive cache takes the line out of the caches above; a dirty copy there
//!   makes the evicted line dirty.
//! - A line evicted above a victim or exclusive cache goes into it, clean or dirty. Above the
//!   others, only a dirty one has an effect: the copy below becomes dirty without being used, and
//!   if there is none the line goes on down.
//! - A line that is used above leaves an exclusive cache and takes its dirtiness along.
//! - [`INJECTED`] goes with the line to the level where it is, and ends when the program uses it.
//!
//! A line's state in a level: absent; clean or [`DIRTY`] (newer than what is below); each may be
//! [`INJECTED`] or [`PREFETCHED`] until its first use. Who moves it: reads and stores of the core
//! ([`Hierarchy::read`], `super::l1`), evictions by a fill, the prefetcher, and the adapter's
//! writes (`super::inject`); its reads change nothing.
//!
//! Order: one access is carried out whole, with its evictions, before the next, at
//! [`Hierarchy::now`]; only a prefetched line comes later ([`InFlight`]). Invariant: an inclusive
//! level has every line of those above it. A naive model that shares no code has the same contents,
//! stalls and counts (`tests/naive`).
//!
//! Cost: a level costs one search of a set; a miss of all adds memory's latency and queue
//! (`super::controller`).
//!
//! The caches hold no data. All lines have the same size. Functions name their level, since each
//! has rules of its own; [`super::NodeMemory`] is the only caller.

use super::cache::{Cache, DIRTY, FLAGS, INJECTED, PREFETCHED};
use super::controller::Controller;
use super::counts::MemoryCounts;
use super::l1::L1;
use super::prefetch::{InFlight, Prefetcher};
use crate::machine::{CacheParameters, Inclusion, L1Parameters, SimulatedMachine, WritePolicy};

/// An L2 or L3.
#[derive(Debug, Clone)]
pub(super) struct SharedLevel {
    pub(super) cache: Cache,
    pub(super) latency: u64,
    pub(super) inclusion: Inclusion,
    pub(super) write: WritePolicy,
}

impl SharedLevel {
    fn new(parameters: &CacheParameters, line: u32) -> SharedLevel {
        let size = parameters.size_kib * 1024;
        SharedLevel {
            cache: Cache::new(size, parameters.ways, line, parameters.replacement),
            latency: parameters.latency.into(),
            inclusion: parameters.inclusion,
            write: parameters.write,
        }
    }

    /// Whether it takes lines that are read from below.
    pub(super) fn takes_reads(&self) -> bool {
        matches!(self.inclusion, Inclusion::Inclusive | Inclusion::None)
    }
}

/// Where a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    L1,
    L2,
    OtherCore,
    L3,
    Memory,
}

/// A line that was looked for below the L1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) origin: Origin,
    /// Cycles until it is there.
    pub(super) latency: u64,
    /// [`DIRTY`] if it took that along and no L2 has it; else 0.
    pub(super) flags: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Hierarchy {
    pub(super) l1i: L1,
    pub(super) l1d: L1,
    pub(super) l1d_write: WritePolicy,
    pub(super) l2: SharedLevel,
    pub(super) l3: Option<SharedLevel>,
    /// L2s of the other cores, in order; those that never had a line do not exist.
    pub(super) others: Vec<Option<Cache>>,
    pub(super) l2_parameters: CacheParameters,
    pub(super) line: u32,
    pub(super) intervention: u64,
    /// Cycle of the access that is under way.
    pub(super) now: u64,
    pub(super) controller: Controller,
    pub(super) prefetcher: Prefetcher,
    pub(super) in_flight: InFlight,
    pub(super) counts: MemoryCounts,
}

impl Hierarchy {
    pub(super) fn new(machine: &SimulatedMachine) -> Hierarchy {
        let caches = &machine.caches;
        let line = caches.line;
        let l1 = |l1: &L1Parameters| L1::new(l1.size_kib * 1024, l1.ways, line, l1.replacement);
        Hierarchy {
            l1i: l1(&caches.l1i),
            l1d: l1(&caches.l1d),
            l1d_write: caches.l1d.write,
            l2: SharedLevel::new(&caches.l2, line),
            l3: caches.l3.as_ref().map(|l3| SharedLevel::new(l3, line)),
            others: vec![None; machine.processor.cores as usize - 1],
            l2_parameters: caches.l2.clone(),
            line,
            intervention: machine.processor.intervention_cycles.into(),
            now: 0,
            controller: Controller::new(machine),
            prefetcher: Prefetcher::new(&machine.prefetch, line),
            in_flight: InFlight::default(),
            counts: MemoryCounts::default(),
        }
    }

    pub(super) fn new_other(&self) -> Cache {
        let l2 = &self.l2_parameters;
        Cache::new(l2.size_kib * 1024, l2.ways, self.line, l2.replacement)
    }

    // Reading.

    /// The program reads a line that is not in its L1: finds it, and fills the L2 and L3. The
    /// caller fills the L1.
    pub(super) fn read(&mut self, line: u64) -> Found {
        if let Some(found) = self.read_l2(line) {
            return found;
        }
        if let Some(dirty) = self.take_from_other(line) {
            return Found {
                origin: Origin::OtherCore,
                latency: self.intervention,
                flags: self.fill(line, dirty),
            };
        }
        if let Some(found) = self.read_l3(line) {
            return found;
        }
        self.counts.memory_reads.demand += 1;
        let latency = self.controller.read(self.now);
        Found { origin: Origin::Memory, latency, flags: self.fill(line, 0) }
    }

    fn read_l2(&mut self, line: u64) -> Option<Found> {
        let entry = self.l2.cache.access(line, 0, INJECTED | PREFETCHED)?;
        let mut found = Found {
            origin: Origin::L2,
            latency: self.l2.latency.max(self.first_use(entry)),
            flags: 0,
        };
        if self.l2.inclusion == Inclusion::Exclusive {
            self.l2.cache.remove(line);
            found.flags = entry & DIRTY;
        }
        Some(found)
    }

    fn read_l3(&mut self, line: u64) -> Option<Found> {
        let l3 = self.l3.as_mut()?;
        let entry = l3.cache.access(line, 0, INJECTED | PREFETCHED)?;
        let latency = l3.latency;
        let mut dirty = 0;
        if l3.inclusion == Inclusion::Exclusive {
            l3.cache.remove(line);
            dirty = entry & DIRTY;
        }
        Some(Found {
            origin: Origin::L3,
            latency: latency.max(self.first_use(entry)),
            flags: self.fill_l2(line, dirty),
        })
    }

    /// Counts the first use of a line that was injected or prefetched. Returns the cycles until it
    /// is there.
    #[inline]
    pub(super) fn first_use(&mut self, entry: u64) -> u64 {
        if entry & (INJECTED | PREFETCHED) == 0 {
            return 0;
        }
        if entry & INJECTED != 0 {
            self.counts.injected.used += 1;
        }
        if entry & PREFETCHED == 0 {
            return 0;
        }
        self.counts.prefetched.used += 1;
        self.in_flight.take(entry & !FLAGS, self.now)
    }

    /// The program uses a line in its L1 that the prefetcher has brought there: the copies below
    /// are used, too.
    pub(super) fn used_in_l1(&mut self, line: u64) {
        let levels = [Some(&mut self.l2), self.l3.as_mut()];
        for level in levels.into_iter().flatten() {
            if let Some(slot) = level.cache.find(line) {
                let entry = level.cache.entry(slot);
                level.cache.clear(slot, INJECTED | PREFETCHED);
                self.counts.injected.used += u64::from(entry & INJECTED != 0);
                self.counts.prefetched.used += u64::from(entry & PREFETCHED != 0);
            }
        }
    }

    /// Takes a line that is used out of the L2 of another core: its [`DIRTY`].
    pub(super) fn take_from_other(&mut self, line: u64) -> Option<u64> {
        let mut others = self.others.iter_mut().flatten();
        let entry = others.find_map(|other| match other.remove(line) {
            0 => None,
            entry => Some(entry),
        })?;
        self.counts.injected.used += u64::from(entry & INJECTED != 0);
        Some(entry & DIRTY)
    }

    // Filling and evicting.

    /// A line comes from outside of L2 and L3. Returns what the L1 has to take of `flags`.
    fn fill(&mut self, line: u64, flags: u64) -> u64 {
        self.fill_l3(line);
        self.fill_l2(line, flags)
    }

    pub(super) fn fill_l3(&mut self, line: u64) {
        if let Some(l3) = &mut self.l3
            && l3.takes_reads()
            && !l3.cache.holds(line)
        {
            let evicted = l3.cache.insert(line, 0);
            self.evicted_from_l3(evicted);
        }
    }

    /// Fills the L2, if it takes lines that are read. Returns what the L1 has to take of `flags`.
    pub(super) fn fill_l2(&mut self, line: u64, flags: u64) -> u64 {
        if !self.l2.takes_reads() {
            return flags;
        }
        self.insert_l2(line, flags);
        0
    }

    pub(super) fn insert_l2(&mut self, line: u64, flags: u64) {
        let evicted = match (flags & DIRTY, self.l2.write) {
            (DIRTY, WritePolicy::Through) => {
                self.write_l3(line);
                self.l2.cache.insert(line, flags & !DIRTY)
            }
            _ => self.l2.cache.insert(line, flags),
        };
        self.evicted_from_l2(evicted);
    }

    /// A line has made room in an L1.
    pub(super) fn evicted_from_l1(&mut self, entry: u64) {
        if entry == 0 {
            return;
        }
        let line = entry & !FLAGS;
        let kept = self.kept_of_l1(entry);
        if !self.l2.takes_reads() {
            if self.l2.cache.access(line, kept, 0).is_none() {
                self.insert_l2(line, kept);
            }
        } else if kept & DIRTY != 0 {
            self.write_l2(line);
        }
    }

    pub(super) fn evicted_from_l2(&mut self, mut entry: u64) {
        if entry == 0 {
            return;
        }
        let line = entry & !FLAGS;
        if self.l2.inclusion == Inclusion::Inclusive {
            entry |= self.take_from_l1s(line);
        } else if self.l1d_write == WritePolicy::Through {
            self.l1d.clean(line);
        }
        self.leave_l2(entry);
    }

    /// A line leaves the L2 of any core towards the L3.
    pub(super) fn leave_l2(&mut self, entry: u64) {
        let line = entry & !FLAGS;
        let mut kept = entry & (DIRTY | INJECTED);
        let Some(l3) = &mut self.l3 else {
            self.leave_caches(kept);
            return;
        };
        if l3.takes_reads() {
            match l3.cache.find(line) {
                Some(slot) => {
                    l3.cache.raise(slot, kept & INJECTED);
                    self.counts.injected.demoted += u64::from(kept & INJECTED != 0);
                    if kept & DIRTY != 0 {
                        self.write_l3(line);
                    }
                }
                None => self.leave_caches(kept),
            }
            return;
        }
        self.counts.injected.demoted += u64::from(kept & INJECTED != 0);
        let through = l3.write == WritePolicy::Through && kept & DIRTY != 0;
        kept &= if through { !DIRTY } else { !0 };
        if l3.cache.access(line, kept, 0).is_none() {
            let evicted = l3.cache.insert(line, kept);
            self.evicted_from_l3(evicted);
        }
        if through {
            self.write_memory();
        }
    }

    pub(super) fn evicted_from_l3(&mut self, mut entry: u64) {
        if entry == 0 {
            return;
        }
        let line = entry & !FLAGS;
        if self.l3.as_ref().is_some_and(|l3: &SharedLevel| l3.inclusion == Inclusion::Inclusive) {
            entry |= self.take_from_l1s(line);
            entry |= self.l2.cache.remove(line);
            for other in self.others.iter_mut().flatten() {
                entry |= other.remove(line);
            }
        }
        self.leave_caches(entry);
    }

    /// A line leaves the last cache.
    fn leave_caches(&mut self, entry: u64) {
        self.counts.injected.evicted += u64::from(entry & INJECTED != 0);
        if entry & DIRTY != 0 {
            self.write_memory();
        }
    }

    /// Takes a line out of both L1s. Returns its flags that matter below.
    pub(super) fn take_from_l1s(&mut self, line: u64) -> u64 {
        let entries = self.l1i.remove(line) | self.l1d.remove(line);
        self.kept_of_l1(entries)
    }

    /// The flags of an L1's entry that matter below.
    fn kept_of_l1(&self, entry: u64) -> u64 {
        match self.l1d_write {
            WritePolicy::Back => entry & (DIRTY | INJECTED),
            WritePolicy::Through => entry & INJECTED,
        }
    }

    // Writing down.

    /// A store or a dirty line reaches the L2.
    pub(super) fn write_l2(&mut self, line: u64) {
        match self.l2.cache.find(line) {
            Some(slot) if self.l2.write == WritePolicy::Back => {
                self.l2.cache.raise(slot, DIRTY);
            }
            _ => self.write_l3(line),
        }
    }

    fn write_l3(&mut self, line: u64) {
        if let Some(l3) = &mut self.l3
            && l3.write == WritePolicy::Back
            && let Some(slot) = l3.cache.find(line)
        {
            l3.cache.raise(slot, DIRTY);
            return;
        }
        self.write_memory();
    }

    pub(super) fn write_memory(&mut self) {
        self.counts.memory_writes.write_backs += 1;
        self.controller.write(self.now);
    }

    // Prefetching.

    /// The program has used a line that may be part of a stream; moves the stream on.
    pub(super) fn follow(&mut self, line: u64) {
        let Some(step) = self.prefetcher.used(line) else { return };
        if let Some(next) = step.l1 {
            self.prefetch_l1(next);
        }
        let mut taken = 0;
        while let Some(next) = self.prefetcher.l2_line(step.stream, taken) {
            if !self.prefetch_l2(next) {
                break;
            }
            self.prefetcher.asked(step.stream);
            taken += 1;
        }
    }

    fn prefetch_l1(&mut self, line: u64) {
        if self.l1d.holds(line) || !self.prefetch_l2(line) {
            return;
        }
        let wait = self.in_flight.wait(line, self.now).max(self.l2.latency);
        let mut flags = PREFETCHED;
        if self.l2.inclusion == Inclusion::Exclusive {
            flags |= self.l2.cache.remove(line) & (DIRTY | INJECTED);
        }
        self.in_flight.add(line, self.now + wait, self.now);
        let evicted = self.l1d.insert(line, flags);
        self.evicted_from_l1(evicted);
        self.counts.prefetched.lines += 1;
    }

    /// Brings a line into the L2. False if the memory's queue has no room for it.
    fn prefetch_l2(&mut self, line: u64) -> bool {
        if self.l2.cache.holds(line) || self.l1d.holds(line) {
            return true;
        }
        let (ready, flags) = match self.take_l3_for_prefetch(line) {
            Some((latency, flags)) => (self.now + latency, flags),
            None if self.controller.is_full(self.now) => {
                self.counts.prefetched.dropped += 1;
                return false;
            }
            None => {
                let dirty = self.take_from_other(line).unwrap_or(0);
                self.counts.memory_reads.prefetch += 1;
                self.fill_l3(line);
                (self.now + self.controller.read(self.now), dirty)
            }
        };
        self.insert_l2(line, flags | PREFETCHED);
        self.in_flight.add(line, ready, self.now);
        self.counts.prefetched.lines += 1;
        true
    }

    /// Latency of a line in the L3, and the flags that go with it.
    fn take_l3_for_prefetch(&mut self, line: u64) -> Option<(u64, u64)> {
        let l3 = self.l3.as_mut()?;
        let entry = l3.cache.access(line, 0, INJECTED)?;
        let mut flags = entry & INJECTED;
        if l3.inclusion == Inclusion::Exclusive {
            l3.cache.remove(line);
            flags = entry & (DIRTY | INJECTED);
        }
        Some((l3.latency, flags))
    }

    /// Evicts all lines of the L1s, and forgets the streams.
    pub(super) fn empty_l1s(&mut self) {
        let lines: Vec<u64> = [&self.l1i, &self.l1d].into_iter().flat_map(L1::lines).collect();
        self.l1i.empty();
        self.l1d.empty();
        for entry in lines {
            self.evicted_from_l1(entry);
        }
        self.prefetcher.empty();
        self.in_flight.empty();
    }
}
