//! A node's memory as its core and its adapter see it: caches, prefetcher, memory controller,
//! DRAM.
//!
//! [`NodeMemory`] says how many cycles the core stands still for each access
//! ([`NodeMemory::load`], [`store`](NodeMemory::store), [`fetch`](NodeMemory::fetch)), and when
//! transfers of the adapter end ([`adapter_read`](NodeMemory::adapter_read),
//! [`adapter_write`](NodeMemory::adapter_write)). It holds no data, only which lines are where.
//! Addresses are those of the program. Its caller is the emulator's plugin, at every access: a hit
//! of the L1 is one comparison of what is where the line is guessed to be (`l1`), and counts; all
//! else, also the mode and the device's registers, is asked after that has failed. So lines of the
//! device are never in a cache, and the L1s are empty outside accurate mode.
//!
//! Stalls: an L1 hit costs what the machine says beyond its cycles per instruction; a miss costs
//! the latency of the level that has the line, less the part that overlaps with other work. A
//! core whose requests fill the memory's queue stands still until there is room, in whatever mode
//! of overlap (`controller`). `hierarchy` has the rules of inclusion, `inject` those of the
//! adapter's writes (leon-2009 2.1, 2.2, 3.1).

mod cache;
mod controller;
mod counts;
mod hierarchy;
mod index;
mod inject;
mod l1;
mod prefetch;
#[cfg(test)]
mod tests;

use std::num::NonZeroU16;
use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use controller::MemoryTiming;
pub use counts::{AccessCounts, Injections, MemoryCounts, MemoryReads, MemoryWrites, Prefetches};
pub use l1::FetchLine;

use cache::{DIRTY, FLAGS, INJECTED, PREFETCHED, VALID};
use hierarchy::{Hierarchy, Origin};
use l1::UseOrder;

use crate::machine::{Processor, SimulatedMachine, WritePolicy};

/// Where the adapter's write goes (leon-2009 2.1, 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum InjectTarget {
    /// To memory; cached copies are invalidated.
    Memory,
    /// Into the L2 of a core; core 0 runs the program.
    L2 {
        /// The core.
        core: u32,
    },
    /// Into the L3.
    L3,
}

/// How much of the machine is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryMode {
    /// No caches: each access costs the same.
    Loose,
    /// All.
    Accurate,
    /// Accesses cost nothing.
    FastForward,
}

/// Cycles that the core stands still because of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall(u64);

impl Stall {
    const DEVICE: u64 = 1 << 63;

    /// The cycles.
    #[inline]
    pub fn cycles(self) -> u64 {
        self.0 & !Stall::DEVICE
    }

    /// Whether the access was to registers of the device.
    #[inline]
    pub fn is_device(self) -> bool {
        self.0 & Stall::DEVICE != 0
    }
}

/// What the core does at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccessKind {
    Load,
    Store,
    Fetch,
}

/// A load or store of up to 256 bytes, in the form that takes least work at each access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataAccess(NonZeroU16);

impl DataAccess {
    /// Above the size less one: [`DIRTY`] for a load, since the entry of an L1 need not have it.
    const SPARE: u32 = 8;
    /// Nothing else: is never 0, so that tables of `Option<DataAccess>` are small.
    const SET: NonZeroU16 = NonZeroU16::new(1 << 15).unwrap();

    /// A load of 1 to 256 bytes.
    pub fn load(size: u32) -> DataAccess {
        DataAccess(Self::SET | (size - 1) as u16 | (DIRTY << Self::SPARE) as u16)
    }

    /// A store of 1 to 256 bytes.
    pub fn store(size: u32) -> DataAccess {
        DataAccess(Self::SET | (size - 1) as u16)
    }

    /// Whether it is a store.
    #[inline]
    pub fn is_store(self) -> bool {
        self.spare() == 0
    }

    /// Number of bytes.
    #[inline]
    pub fn size(self) -> u32 {
        u32::from(self.0.get() & 0xff) + 1
    }

    #[inline(always)]
    fn spare(self) -> u64 {
        u64::from(self.0.get() >> Self::SPARE) & DIRTY
    }
}

/// Caches, prefetcher and memory of one node.
#[derive(Debug, Clone)]
pub struct NodeMemory {
    /// Bits of an address within its line.
    offset_mask: u64,
    l1d_hit: u64,
    l1i_hit: u64,
    levels: Hierarchy,
    /// Stores that hit by the fast path; `levels.counts` has no such hits.
    store_hits: u64,
    mode: MemoryMode,
    /// Key of the line of the last access beyond the fast path, if that was a store that went
    /// through the L1: more stores to it merge with it in the store queue. Else 0.
    merging: u64,
    /// The L1 has that line, which is the second one of a store to two lines; more stores hit it.
    merging_is_cached: bool,
    device: Range<u64>,
    device_load: u64,
    device_store: u64,
    loose_access: u64,
    /// Parts of latencies that nothing hides.
    load_exposed: f64,
    store_exposed: f64,
    processor: Processor,
}

impl NodeMemory {
    /// Empty caches, in accurate mode, without a device.
    pub fn new(machine: &SimulatedMachine) -> NodeMemory {
        let processor = &machine.processor;
        let cycles = |ns: f64| (ns * processor.mhz / 1e3).round() as u64;
        NodeMemory {
            offset_mask: u64::from(machine.caches.line) - 1,
            l1d_hit: machine.caches.l1d.latency.into(),
            l1i_hit: machine.caches.l1i.latency.into(),
            levels: Hierarchy::new(machine),
            store_hits: 0,
            mode: MemoryMode::Accurate,
            merging: 0,
            merging_is_cached: false,
            device: 0..0,
            device_load: cycles(machine.device.load_ns),
            device_store: cycles(machine.device.store_ns + machine.network.overhead_ns),
            loose_access: processor.loose_access_cycles.into(),
            load_exposed: 1.0 - processor.miss_overlap,
            store_exposed: 1.0 - processor.store_overlap,
            processor: processor.clone(),
        }
    }

    /// The program loads `size` bytes at `address` in cycle `now`.
    #[inline]
    pub fn load(&mut self, now: u64, address: u64, size: u32) -> Stall {
        match self.data_hit(address, size.into(), DIRTY) {
            true => Stall(self.l1d_hit),
            false => self.data_beyond(now, AccessKind::Load, address, size),
        }
    }

    /// The program stores `size` bytes at `address` in cycle `now`.
    #[inline]
    pub fn store(&mut self, now: u64, address: u64, size: u32) -> Stall {
        match self.data_hit(address, size.into(), 0) {
            true => Stall(self.l1d_hit),
            false => self.data_beyond(now, AccessKind::Store, address, size),
        }
    }

    /// The core fetches `size` bytes of instructions at `address` in cycle `now`.
    #[inline]
    pub fn fetch(&mut self, now: u64, address: u64, size: u32) -> Stall {
        self.levels.counts.fetches.accesses += 1;
        if self.is_inside(address, size) {
            let mut line = FetchLine::new(address & !self.offset_mask);
            return self.fetch_beyond(now, &mut line);
        }
        self.beyond(now, AccessKind::Fetch, address, size)
    }

    /// Whether an access hits the L1 by the fast path, in which case it is done, and costs
    /// [`l1d_hit`](Self::l1d_hit). Else nothing has happened: [`access`](Self::access) does it.
    #[inline(always)]
    pub fn is_hit(&mut self, access: DataAccess, address: u64) -> bool {
        self.data_hit(address, access.size().into(), access.spare())
    }

    /// An access that is no [hit](Self::is_hit) by the fast path.
    #[inline]
    pub fn access(&mut self, now: u64, access: DataAccess, address: u64) -> Stall {
        let kind = if access.is_store() { AccessKind::Store } else { AccessKind::Load };
        self.data_beyond(now, kind, address, access.size())
    }

    /// Cycles of a hit of the L1 of data.
    pub fn l1d_hit(&self) -> u64 {
        self.l1d_hit
    }

    /// Whether a fetch of a line of instructions, or of a part of it, hits the L1 by the fast path,
    /// in which case it is done. Else nothing has happened: [`fetch_line`](Self::fetch_line) does
    /// it.
    #[inline(always)]
    pub fn is_fetch_hit(&mut self, line: &FetchLine) -> bool {
        self.levels.l1i.hit_fetch(line)
    }

    /// Cycles of a hit of the L1 of instructions.
    pub fn l1i_hit(&self) -> u64 {
        self.l1i_hit
    }

    /// A fetch that is no [hit](Self::is_fetch_hit) by the fast path.
    pub fn fetch_line(&mut self, now: u64, line: &mut FetchLine) -> Stall {
        self.levels.counts.fetches.accesses += 1;
        self.fetch_beyond(now, line)
    }

    /// Makes these addresses registers of a device, which are in no cache.
    pub fn set_device(&mut self, addresses: Range<u64>) {
        let line = self.offset_mask + 1;
        let mut at = addresses.start & !self.offset_mask;
        while at < addresses.end {
            self.levels.take_everywhere(at);
            at += line;
        }
        self.device = addresses;
    }

    /// Changes the mode. On leaving accurate mode the L1s are emptied; L2 and L3 keep their lines
    /// until accurate mode comes back, but for those that the adapter writes.
    pub fn set_mode(&mut self, mode: MemoryMode) {
        if self.mode == MemoryMode::Accurate && mode != self.mode {
            self.stop_merging();
            self.levels.empty_l1s();
        }
        self.mode = mode;
    }

    /// The mode.
    pub fn mode(&self) -> MemoryMode {
        self.mode
    }

    /// What was counted so far.
    pub fn counts(&self) -> MemoryCounts {
        let mut counts = self.levels.counts;
        counts.stores.accesses += self.store_hits;
        counts.loads.accesses += self.levels.l1d.hits() - self.store_hits;
        counts.fetches.accesses += self.levels.l1i.hits();
        counts
    }

    #[inline(always)]
    fn key(&self, address: u64) -> u64 {
        address & !self.offset_mask | VALID
    }

    #[inline(always)]
    fn is_inside(&self, address: u64, size: u32) -> bool {
        (address & self.offset_mask) + u64::from(size) <= self.offset_mask + 1
    }

    /// A hit of the L1 of data by the fast path; `spare` is [`DIRTY`] for a load and 0 for a store.
    #[inline(always)]
    fn data_hit(&mut self, address: u64, size: u64, spare: u64) -> bool {
        let last = address.wrapping_add(size).wrapping_sub(1);
        let [first, last] = [address, last].map(|at| self.key(at) | DIRTY);
        // Not 0 if the access ends in another line.
        let hit = self.levels.l1d.hit(first, spare, first ^ last);
        if hit {
            self.store_hits += u64::from(spare != DIRTY);
        }
        hit
    }

    /// A load or store that the fast path does not do.
    #[inline(never)]
    fn data_beyond(&mut self, now: u64, kind: AccessKind, address: u64, size: u32) -> Stall {
        let spare = if kind == AccessKind::Store { 0 } else { DIRTY };
        self.counts_of(kind).accesses += 1;
        if self.merging != 0 && self.is_inside(address, size) {
            let key = self.key(address);
            if kind == AccessKind::Store && self.merging == key && !self.merging_is_cached {
                self.levels.counts.stores.merged += 1;
                return Stall(0);
            }
            let (line, key) = (address & !self.offset_mask, key | DIRTY);
            if let Some(order) = self.levels.l1d.hit_and_order(line, spare, key) {
                self.keep_merging_if(order);
                return Stall(self.l1d_hit);
            }
        }
        self.beyond(now, kind, address, size)
    }

    /// A fetch that the fast path does not do.
    #[inline(never)]
    fn fetch_beyond(&mut self, now: u64, line: &mut FetchLine) -> Stall {
        let address = line.address();
        if self.merging != 0
            && let Some(order) = self.levels.l1i.hit_and_order(address, DIRTY, line.key())
        {
            self.keep_merging_if(order);
            return Stall(self.l1i_hit);
        }
        let stall = self.beyond(now, AccessKind::Fetch, address, 1);
        self.levels.l1i.point(line);
        stall
    }

    /// The store queue is kept by hits of the line that its set used last, as if the core had not
    /// looked at the L1 again.
    fn keep_merging_if(&mut self, order: UseOrder) {
        if order == UseOrder::Earlier {
            self.stop_merging();
        }
    }

    /// Stores to this line, which have gone through the L1, merge from now on. A hit of another
    /// line than its set used last ends that, so the L1s watch for one.
    fn start_merging(&mut self, line: u64) {
        self.merging = line | VALID;
        self.merging_is_cached = self.levels.l1d.holds(line);
        self.levels.l1d.watch_order();
        self.levels.l1i.watch_order();
    }

    #[inline]
    fn stop_merging(&mut self) {
        self.merging = 0;
        self.levels.l1d.stop_watching();
        self.levels.l1i.stop_watching();
    }

    /// An access that may do more than use the line that its set used last.
    fn beyond(&mut self, now: u64, kind: AccessKind, address: u64, size: u32) -> Stall {
        self.stop_merging();
        if self.device.contains(&address) {
            self.counts_of(kind).device += 1;
            return Stall(Stall::DEVICE | self.device_cycles(kind));
        }
        match self.mode {
            MemoryMode::Accurate => Stall(self.lines(now, kind, address, size)),
            MemoryMode::Loose => {
                self.counts_of(kind).unmodelled += 1;
                Stall(self.loose_access)
            }
            MemoryMode::FastForward => {
                self.counts_of(kind).unmodelled += 1;
                Stall(0)
            }
        }
    }

    fn writes_through(&self) -> bool {
        self.levels.l1d_write == WritePolicy::Through
    }

    fn device_cycles(&self, kind: AccessKind) -> u64 {
        match kind {
            AccessKind::Load | AccessKind::Fetch => self.device_load,
            AccessKind::Store => self.device_store,
        }
    }

    fn counts_of(&mut self, kind: AccessKind) -> &mut AccessCounts {
        let counts = &mut self.levels.counts;
        match kind {
            AccessKind::Load => &mut counts.loads,
            AccessKind::Store => &mut counts.stores,
            AccessKind::Fetch => &mut counts.fetches,
        }
    }

    /// All lines of an access, one after another.
    fn lines(&mut self, now: u64, kind: AccessKind, address: u64, size: u32) -> u64 {
        let mut line = address & !self.offset_mask;
        let last = address.saturating_add(u64::from(size.max(1) - 1)) & !self.offset_mask;
        let mut farthest = Origin::L1;
        let mut stall = 0;
        loop {
            self.levels.now = now + stall;
            let (origin, cycles) = self.line(kind, line);
            farthest = farthest.max(origin);
            stall += cycles;
            if line == last {
                break;
            }
            line += self.offset_mask + 1;
        }
        let counts = self.counts_of(kind);
        match farthest {
            Origin::L1 => {}
            Origin::L2 => counts.from_l2 += 1,
            Origin::OtherCore => counts.from_other_core += 1,
            Origin::L3 => counts.from_l3 += 1,
            Origin::Memory => counts.from_memory += 1,
        }
        if kind == AccessKind::Store && farthest != Origin::L1 && self.writes_through() {
            self.start_merging(last);
        }
        stall + self.levels.controller.excess(now + stall)
    }

    /// One line of an access: where it came from, and the stall.
    fn line(&mut self, kind: AccessKind, line: u64) -> (Origin, u64) {
        match kind {
            AccessKind::Load => {
                let (origin, latency) = self.levels.use_data(line, 0);
                (origin, exposed(latency, self.load_exposed) + self.hit(origin))
            }
            AccessKind::Store => {
                let (origin, latency) = self.levels.store_data(line);
                (origin, exposed(latency, self.store_exposed) + self.hit(origin))
            }
            AccessKind::Fetch => {
                let (origin, latency) = self.levels.use_instruction(line);
                let hit = if origin == Origin::L1 { self.l1i_hit } else { 0 };
                (origin, exposed(latency, self.load_exposed) + hit)
            }
        }
    }

    fn hit(&self, origin: Origin) -> u64 {
        match origin {
            Origin::L1 => self.l1d_hit,
            _ => 0,
        }
    }
}

/// Cycles of a latency that are not hidden, rounded. (`f64::round` is a call without SSE 4.1, and
/// took 8 % of a simulation.)
fn exposed(latency: u64, part: f64) -> u64 {
    (latency as f64 * part + 0.5) as u64
}

/// What the core does with its L1s. Each function returns where the line was and the latency
/// beyond that of an L1 hit.
impl Hierarchy {
    /// Brings a line into the L1 of data, if it is not there, and uses it; raises `flags` there.
    fn use_data(&mut self, line: u64, flags: u64) -> (Origin, u64) {
        let Some(entry) = self.l1d.access(line, flags) else {
            let found = self.read(line);
            let evicted = self.l1d.insert(line, flags | found.flags);
            self.evicted_from_l1(evicted);
            if !self.prefetcher.is_off() {
                self.follow(line);
            }
            return (found.origin, found.latency);
        };
        (Origin::L1, self.first_use_in_l1(entry))
    }

    /// The wait for an entry of the L1 of data that is used; 0 unless it is the first time.
    fn first_use_in_l1(&mut self, entry: u64) -> u64 {
        if entry & (INJECTED | PREFETCHED) == 0 {
            return 0;
        }
        let wait = self.first_use(entry);
        self.used_in_l1(entry & !FLAGS);
        self.follow(entry & !FLAGS);
        wait
    }

    fn use_instruction(&mut self, line: u64) -> (Origin, u64) {
        if self.l1i.access(line, 0).is_some() {
            return (Origin::L1, 0);
        }
        let found = self.read(line);
        let evicted = self.l1i.insert(line, found.flags);
        self.evicted_from_l1(evicted);
        (found.origin, found.latency)
    }

    fn store_data(&mut self, line: u64) -> (Origin, u64) {
        match self.l1d_write {
            WritePolicy::Back => self.use_data(line, DIRTY),
            WritePolicy::Through => {
                let Some(entry) = self.l1d.access(line, DIRTY) else {
                    let found = self.read(line);
                    self.write_l2(line);
                    return (found.origin, found.latency);
                };
                let wait = self.first_use_in_l1(entry);
                if entry & DIRTY == 0 {
                    self.write_l2(line);
                }
                (Origin::L1, wait)
            }
        }
    }
}
