//! The adapter's reads and writes of a node's memory.
//!
//! A write is done line by line. A whole line takes the place of every cached copy, whose changes
//! are lost with it, and goes to its target: memory, or a cache that allocates it as any other
//! line, clean (memory is written, too) or dirty. A part of a line is written "with flush"
//! whatever the target (leon-2009 3.1): cached copies are written back and invalidated, then
//! memory is written. A target that the machine does not have is memory, and so is every target
//! outside accurate mode.
//!
//! A read takes a line from a cache that has it, else from memory, and changes no cache.
//!
//! When a transfer ends follows from the adapter's bandwidth ([`AdapterParameters::dma_gb_s`],
//! which is part of what these functions return) and its share of the memory's (`controller`).
//!
//! [`AdapterParameters::dma_gb_s`]: crate::machine::AdapterParameters::dma_gb_s

use super::cache::{DIRTY, INJECTED};
use super::controller::AdapterPath;
use super::hierarchy::Hierarchy;
use super::{InjectTarget, MemoryMode, NodeMemory};
use crate::machine::{WriteMode, WritePolicy};
use crate::time::SimTime;

impl NodeMemory {
    /// The adapter writes `length` bytes to `address` from `at` on. Returns when the last is
    /// written.
    pub fn adapter_write(
        &mut self,
        at: SimTime,
        address: u64,
        length: u64,
        target: InjectTarget,
        mode: WriteMode,
    ) -> SimTime {
        self.stop_merging();
        let target = match self.mode {
            MemoryMode::Accurate => target,
            _ => InjectTarget::Memory,
        };
        let mut in_memory = 0;
        for (line, is_whole) in self.pieces(address, length) {
            if is_whole {
                in_memory += u64::from(self.levels.write_line(line, target, mode));
            } else {
                self.levels.write_with_flush(line);
                in_memory += 1;
            }
        }
        self.transfer(at, length, in_memory, AdapterPath::Write)
    }

    /// The adapter reads `length` bytes at `address` from `at` on. Returns when the last is there.
    pub fn adapter_read(&mut self, at: SimTime, address: u64, length: u64) -> SimTime {
        let mut in_memory = 0;
        for (line, _) in self.pieces(address, length) {
            match self.levels.is_cached(line) {
                true => self.levels.counts.adapter_reads_cached += 1,
                false => in_memory += 1,
            }
        }
        self.levels.counts.memory_reads.adapter += in_memory;
        self.transfer(at, length, in_memory, AdapterPath::Read)
    }

    /// Whether the cache of this target has the line of `address`.
    pub fn holds(&self, address: u64, target: InjectTarget) -> bool {
        let line = address & !self.offset_mask;
        let levels = &self.levels;
        match target {
            InjectTarget::Memory => false,
            InjectTarget::L2 { core: 0 } => levels.l2.cache.holds(line),
            InjectTarget::L2 { core } => {
                let other = levels.others.get(core as usize - 1);
                other.and_then(Option::as_ref).is_some_and(|l2| l2.holds(line))
            }
            InjectTarget::L3 => levels.l3.as_ref().is_some_and(|l3| l3.cache.holds(line)),
        }
    }

    /// Lines of a range, and whether all bytes of each are in it.
    fn pieces(&self, address: u64, length: u64) -> impl Iterator<Item = (u64, bool)> + use<> {
        let line = self.offset_mask + 1;
        let end = address.saturating_add(length);
        let first = address & !self.offset_mask;
        let lines = (end - first).div_ceil(line) * u64::from(length > 0);
        (0..lines).map(move |n| {
            let start = first + n * line;
            (start, start >= address && end - start >= line)
        })
    }

    fn transfer(&mut self, at: SimTime, bytes: u64, in_memory: u64, by: AdapterPath) -> SimTime {
        let cycles_per_ps = self.processor.mhz / 1e6;
        let start = at.0 as f64 * cycles_per_ps;
        let controller = &mut self.levels.controller;
        let end = controller.transfer(start, bytes, in_memory, by);
        SimTime((end / cycles_per_ps).round() as u64).max(at)
    }
}

impl Hierarchy {
    fn is_cached(&self, line: u64) -> bool {
        let others = self.others.iter().flatten();
        self.l1d.holds(line)
            || self.l1i.holds(line)
            || self.l2.cache.holds(line)
            || self.l3.as_ref().is_some_and(|l3| l3.cache.holds(line))
            || others.into_iter().any(|l2| l2.holds(line))
    }

    /// Takes a line out of all caches. Returns the flags of its copies.
    pub(super) fn take_everywhere(&mut self, line: u64) -> u64 {
        let mut flags = self.take_from_l1s(line) | self.l2.cache.remove(line);
        if let Some(l3) = &mut self.l3 {
            flags |= l3.cache.remove(line);
        }
        for l2 in self.others.iter_mut().flatten() {
            flags |= l2.remove(line);
        }
        self.counts.injected.overwritten += u64::from(flags & INJECTED != 0);
        flags
    }

    fn write_with_flush(&mut self, line: u64) {
        if self.take_everywhere(line) & DIRTY != 0 {
            self.write_memory();
        }
        self.counts.memory_writes.adapter += 1;
    }

    /// Writes a whole line. Returns whether memory was written.
    fn write_line(&mut self, line: u64, target: InjectTarget, mode: WriteMode) -> bool {
        self.take_everywhere(line);
        let flags = INJECTED
            | match mode {
                WriteMode::Clean => 0,
                WriteMode::Dirty => DIRTY,
            };
        let injected = match target {
            InjectTarget::Memory => false,
            InjectTarget::L2 { core: 0 } => {
                self.counts.injected.l2 += 1;
                self.fill_l3(line);
                self.insert_l2(line, flags);
                true
            }
            InjectTarget::L2 { core } => self.inject_other(core, line, flags),
            InjectTarget::L3 => self.inject_l3(line, flags),
        };
        if !injected {
            self.counts.injected.memory += 1;
        }
        let written = !injected || mode == WriteMode::Clean;
        self.counts.memory_writes.adapter += u64::from(written);
        written
    }

    /// Puts a line into the L2 of another core. False if there is no such core.
    fn inject_other(&mut self, core: u32, line: u64, flags: u64) -> bool {
        let place = core as usize - 1;
        if place >= self.others.len() {
            return false;
        }
        self.counts.injected.other_core += 1;
        self.fill_l3(line);
        let mut l2 = self.others[place].take().unwrap_or_else(|| self.new_other());
        let evicted = l2.insert(line, flags);
        self.others[place] = Some(l2);
        if evicted != 0 {
            self.leave_l2(evicted);
        }
        true
    }

    /// Puts a line into the L3. False if there is none.
    fn inject_l3(&mut self, line: u64, mut flags: u64) -> bool {
        let Some(l3) = &mut self.l3 else { return false };
        self.counts.injected.l3 += 1;
        if l3.write == WritePolicy::Through && flags & DIRTY != 0 {
            flags &= !DIRTY;
            self.counts.memory_writes.adapter += 1;
        }
        let evicted = l3.cache.insert(line, flags);
        self.evicted_from_l3(evicted);
        true
    }
}
